"""Anthropic's SDK: the laws, with the loop that users write, and what is the middleware's own."""

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

pytest.importorskip("anthropic", reason="anthropic is not installed; it comes with the extra anthropic")

import anthropic
import httpx2
from anthropic.types import MessageParam
from pydantic import TypeAdapter

import siltstone
import siltstone.models
from adapters.contract import (
    INPUT_TOKENS,
    OUTPUT_TOKENS,
    SUMMARY,
    SYSTEM,
    AdapterContract,
    Call,
    Case,
    Refuse,
    Reply,
    Run,
    Say,
    conversation,
    look_up,
    opened,
)
from adapters.scripted_server import scripted
from servers.provider import Provider, Refusal
from siltstone.adapters.anthropic import SiltstoneMiddleware
from siltstone.tools.base import dispatch

pytestmark = pytest.mark.anyio
QUIET: dict[str, Any] = {"api_key": "none", "max_retries": 0}


def noted(run: Run) -> Callable[[Any], None]:
    """Puts into the run what a request holds."""

    def note(body: Any) -> None:
        run.sent.append(body["messages"])
        run.systems.append(body["system"])
        run.tools.append({tool["name"] for tool in body["tools"]})

    return note


def client(session: Any, server: Provider, **options: Any) -> anthropic.Anthropic:
    chosen: dict[str, Any] = {**QUIET, "base_url": server.url, **options}
    return anthropic.Anthropic(middleware=[SiltstoneMiddleware(session)], **chosen)


def asked(session: Any, messages: list[Any], system: str = SYSTEM) -> dict[str, Any]:
    look = {"name": "look_up", "description": "Looks up.", "input_schema": {"type": "object"}}
    tools = [look, *SiltstoneMiddleware(session).tools]
    common: dict[str, Any] = {"model": "scripted", "max_tokens": 100, "system": system}
    return {**common, "messages": messages, "tools": tools}


def answered(
    session: Any, message: Any, messages: list[Any], asks: Callable[..., str] = look_up
) -> str | None:
    """Appends the model's answer, and the results of its calls; the text where it called nothing."""
    content = [block.model_dump(mode="json", exclude_none=True) for block in message.content]
    messages.append({"role": "assistant", "content": content})
    calls = [block for block in message.content if block.type == "tool_use"]
    if not calls:
        return "".join(block.text for block in message.content if block.type == "text")
    results = []
    for call in calls:
        own = call.name != "look_up"
        text = dispatch(session.tools, call.name, call.input) if own else asks(**call.input)
        results.append({"type": "tool_result", "tool_use_id": call.id, "content": text})
    messages.append({"role": "user", "content": results})
    return None


class AnthropicCase(Case):
    """A loop over ``messages.create`` with a list of its own, as users write it."""

    #: The SDK copies what it is given.
    is_identical = False
    messages_of_a_turn = 4
    #: Nobody adds up what a loop has used; the session has its own.
    may_change = ()
    knows_beginnings = False
    counts_usage = False

    def play(
        self, session: Any, script: Sequence[Reply], inputs: list[str], *, is_async: bool, state: Any = None
    ) -> Run:
        run, messages = Run(), [] if state is None else list(state)
        if is_async:
            asyncio.run(self._loop_async(session, script, inputs, messages, run))
        else:
            with scripted(script, noted(run), _turns(messages)) as server, client(session, server) as sdk:
                for text in inputs:
                    messages.append({"role": "user", "content": text})
                    said = None
                    while said is None:
                        answer = sdk.messages.create(**asked(session, messages, self.told))
                        said = answered(session, answer, messages, self.tool)
                    run.answers.append(said)
            session.observe(messages)
        run.stored, run.state = messages, messages
        return run

    async def _loop_async(
        self, session: Any, script: Sequence[Reply], inputs: Sequence[str], messages: list[Any], run: Run
    ) -> None:
        middleware = [SiltstoneMiddleware(session)]
        with scripted(script, noted(run), _turns(messages)) as server:
            async with anthropic.AsyncAnthropic(base_url=server.url, middleware=middleware, **QUIET) as sdk:
                for text in inputs:
                    messages.append({"role": "user", "content": text})
                    said = None
                    while said is None:
                        answer = await sdk.messages.create(**asked(session, messages, self.told))
                        said = answered(session, answer, messages, self.tool)
                    run.answers.append(said)
        observed = session.observe(messages)
        if asyncio.iscoroutine(observed):
            await observed

    async def start(self, session: Any, script: Sequence[Reply], text: str, state: Any, run: Run) -> None:
        messages = run.state = [] if state is None else list(state)
        await self._loop_async(session, script, [text], messages, run)

    def neutral(self, messages: Sequence[Any]) -> list[dict[str, Any]]:
        return [json.loads(json.dumps(each)) for each in messages]

    def check(self, messages: Sequence[Any]) -> None:
        TypeAdapter(list[MessageParam]).validate_python(list(messages))

    def opaque(self, messages: Sequence[Any]) -> list[str]:
        return [
            json.dumps(block, sort_keys=True)
            for each in messages
            if isinstance(each["content"], list)
            for block in each["content"]
            if block["type"] == "thinking"
        ]

    def reload(self, state: Any) -> Any:
        return json.loads(json.dumps(state))

    def stream(self, session: Any, script: Sequence[Reply], text: str, state: Any) -> tuple[str, Any]:
        messages, told = [] if state is None else list(state), ""
        with scripted(script, noted(Run()), _turns(messages)) as server, client(session, server) as sdk:
            messages.append({"role": "user", "content": text})
            said = None
            while said is None:
                with sdk.messages.stream(**asked(session, messages)) as events:
                    told += "".join(events.text_stream)
                    said = answered(session, events.get_final_message(), messages)
        return told, messages


def _turns(messages: Sequence[Any]) -> int:
    return sum(isinstance(each["content"], str) for each in messages)


class TestTheLaws(AdapterContract):
    """The loop's list keeps every message, and the model sees the view."""

    case = AnthropicCase()


def test_the_estimate_is_held_against_what_the_api_counted() -> None:
    session = opened(policy=None, model=None)
    AnthropicCase().play(session, [Call(("salt",)), Say("There.")], ["Where?"], is_async=False)
    assert session.estimate_error is not None


def test_other_calls_pass_unchanged() -> None:
    session = opened()
    seen: list[str] = []

    def serve(request: httpx2.Request) -> httpx2.Response:
        seen.append(request.url.path)
        return httpx2.Response(200, json={"input_tokens": 12})

    http = httpx2.Client(transport=httpx2.MockTransport(serve))
    sdk = anthropic.Anthropic(api_key="none", http_client=http, middleware=[SiltstoneMiddleware(session)])
    counted = sdk.messages.count_tokens(model="m", messages=[{"role": "user", "content": "Hello"}])
    assert (counted.input_tokens, seen) == (12, ["/v1/messages/count_tokens"])
    assert session.log() == []


def test_an_error_that_is_no_overflow_reaches_the_caller_as_the_sdks_own() -> None:
    session, run = opened(), Run()
    refusal = Refuse("tools.0.name: String should match pattern")
    with (
        scripted([refusal], noted(run)) as server,
        client(session, server) as sdk,
        pytest.raises(anthropic.BadRequestError, match="should match pattern"),
    ):
        sdk.messages.create(**asked(session, [{"role": "user", "content": "Hello"}]))
    assert len(run.sent) == 1


@pytest.mark.parametrize(
    "body",
    [
        {
            "type": "error",
            "error": {"type": "request_too_large", "message": "Request exceeds the maximum size"},
        },
        "<html><head><title>413 Request Entity Too Large</title></head></html>",
    ],
)
def test_too_many_bytes_make_the_largest_bodies_leave_and_no_window_smaller(body: Any) -> None:
    run = Run()
    said = {"id": "m", "type": "message", "role": "assistant", "model": "scripted", "stop_reason": "end_turn"}
    usage = {"input_tokens": 9, "output_tokens": 1}

    def answer(request: httpx2.Request) -> httpx2.Response:
        noted(run)(json.loads(request.content))
        if len(request.content) < 500_000:
            text = {"type": "text", "text": "Seen."}
            told = {**said, "content": [text], "stop_sequence": None, "usage": usage}
            return httpx2.Response(200, json=told)
        return httpx2.Response(413, **({"text": body} if isinstance(body, str) else {"json": body}))

    session = opened(policy=siltstone.ThresholdCompactor(), context_window=100_000)
    http = httpx2.Client(transport=httpx2.MockTransport(answer))
    sdk = anthropic.Anthropic(middleware=[SiltstoneMiddleware(session)], http_client=http, **QUIET)
    messages: list[Any] = []
    for number, size in enumerate([400_000, 150_000, 90_000, 90_000]):
        source = {"type": "base64", "media_type": "image/png", "data": "A" * size}
        messages += [
            {
                "role": "user",
                "content": [{"type": "text", "text": f"Page {number}."}, {"type": "image", "source": source}],
            },
            {"role": "assistant", "content": "Seen."},
        ]
    messages.append({"role": "user", "content": "Which pages did we see?"})
    assert sdk.messages.create(**asked(session, messages)).content[0].text == "Seen."
    refused, sent = run.sent
    kept = [len(str(message)) > 80_000 for message in sent if message["role"] == "user"]
    assert kept == [False, True, True, True, False], "the largest left"
    assert len(sent) == len(refused)
    assert (session.context_window, session.limits, session.agent_model) == (100_000, (), "scripted")


def test_an_attempt_that_the_sdk_makes_again_is_prepared_once() -> None:
    session, tries = opened(), list[Any]()

    def busy_at_first(body: Any) -> None:
        tries.append(body)
        if len(tries) == 1:
            raise Refusal("Overloaded", kind="overloaded_error", status=529)

    messages: list[Any] = [{"role": "user", "content": "Hello"}]
    replies = [Say("Hello."), Say("Hello.")]
    with scripted(replies, busy_at_first) as server, client(session, server, max_retries=1) as sdk:
        sdk._sleep_for_retry = lambda **_: None  # type: ignore[method-assign]
        sdk.messages.create(**asked(session, messages))
    assert len(tries) == 2
    assert session.log() == messages


def test_the_beta_calls_are_prepared_too() -> None:
    session, run = opened(recall=True), Run()
    script, inputs = conversation(8)
    done = AnthropicCase().play(session, script, inputs, is_async=False)
    messages = [*done.state, {"role": "user", "content": "Where did salt-0 stand?"}]
    with scripted([Say("On quay 0.")], noted(run), 8) as server, client(session, server) as sdk:
        sdk.beta.messages.create(**asked(session, messages))
    assert len(run.sent[0]) < len(messages)
    assert SUMMARY in json.dumps(run.sent[0])


def test_clients_of_other_clouds_are_prepared_alike() -> None:
    """The SDK writes the path of Bedrock and of Vertex AI behind all middleware."""
    paths: list[str] = []
    sent: list[int] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        paths.append(request.url.path)
        sent.append(len(json.loads(request.read())["messages"]))
        message = {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "scripted",
            "content": [{"type": "text", "text": "Yes."}],
            "stop_reason": "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": INPUT_TOKENS, "output_tokens": OUTPUT_TOKENS},
        }
        return httpx2.Response(200, json=message)

    asked: list[MessageParam] = [
        {"role": ("user", "assistant")[number % 2], "content": f"Part {number}. " + "words " * 120}  # type: ignore[misc]
        for number in range(21)
    ]
    for cloud, path in (("bedrock", "/invoke"), ("vertex", ":rawPredict")):
        http = httpx2.Client(transport=httpx2.MockTransport(answer))
        hook: Any = {"http_client": http, "middleware": [SiltstoneMiddleware(opened(lambda _: SUMMARY))]}
        made: Any = (
            anthropic.AnthropicBedrock(api_key="none", aws_region="us-east-1", **hook)
            if cloud == "bedrock"
            else anthropic.AnthropicVertex(region="us-east5", project_id="p", access_token="none", **hook)
        )
        made.messages.create(model="scripted", max_tokens=10, messages=asked[:1])
        made.messages.create(model="scripted", max_tokens=10, messages=asked)
        assert paths[-1].endswith(path)
        assert sent[-2] == 1
        assert sent[-1] < len(asked), "the view is sent, not the whole list"
