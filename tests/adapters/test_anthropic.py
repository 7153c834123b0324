"""Anthropic's SDK: the laws, with the loop that users write, and what is the middleware's own."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
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
    SUMMARY_USAGE,
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
    signature,
)
from adapters.scripted_server import ScriptedServer
from siltstone.adapters.anthropic import SiltstoneMiddleware
from siltstone.tools.base import dispatch

pytestmark = pytest.mark.anyio


class Server(ScriptedServer):
    """The Messages API."""

    def note(self, body: dict[str, Any]) -> None:
        self.run.sent.append(body["messages"])
        self.run.systems.append(body["system"])
        self.run.tools.append({tool["name"] for tool in body["tools"]})

    def answer(self, reply: Reply, body: dict[str, Any]) -> httpx2.Response:
        if isinstance(reply, Refuse):
            error = {"type": "invalid_request_error", "message": reply.text}
            return httpx2.Response(400, json={"type": "error", "error": error})
        message = self._message(reply)
        if not body.get("stream", False):
            return httpx2.Response(200, json=message)
        text = "".join(f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in _events(message))
        return httpx2.Response(200, text=text, headers={"content-type": "text/event-stream"})

    def _message(self, reply: Reply) -> dict[str, Any]:
        blocks: list[dict[str, Any]] = []
        thought = getattr(reply, "thought", "")
        if thought:
            blocks.append({"type": "thinking", "thinking": thought, "signature": signature(thought)})
        if isinstance(reply, Say):
            blocks.append({"type": "text", "text": reply.text})
        elif isinstance(reply, Call):
            blocks += [
                {
                    "type": "tool_use",
                    "id": self.call_id("toolu", topic),
                    "name": "look_up",
                    "input": {"topic": topic},
                }
                for topic in reply.topics
            ]
        return {
            "id": f"msg_{self.place}",
            "type": "message",
            "role": "assistant",
            "model": "scripted",
            "content": blocks,
            "stop_reason": "tool_use" if isinstance(reply, Call) else "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": INPUT_TOKENS, "output_tokens": OUTPUT_TOKENS},
        }


def _events(message: dict[str, Any]) -> Any:
    yield {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}}
    for index, block in enumerate(message["content"]):
        empty = {**block, "text": ""} if block["type"] == "text" else block
        yield {"type": "content_block_start", "index": index, "content_block": empty}
        if block["type"] == "text":
            delta = {"type": "text_delta", "text": block["text"]}
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    stop = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": stop, "usage": {"output_tokens": OUTPUT_TOKENS}}
    yield {"type": "message_stop"}


def client(session: Any, server: Server, **options: Any) -> anthropic.Anthropic:
    http = httpx2.Client(transport=httpx2.MockTransport(server))
    middleware = [SiltstoneMiddleware(session)]
    chosen: dict[str, Any] = {"api_key": "none", "max_retries": 0, **options}
    return anthropic.Anthropic(http_client=http, middleware=middleware, **chosen)


def async_client(session: Any, server: Server) -> anthropic.AsyncAnthropic:
    http = httpx2.AsyncClient(transport=httpx2.MockTransport(server.answer_async))
    middleware = [SiltstoneMiddleware(session)]
    return anthropic.AsyncAnthropic(api_key="none", max_retries=0, http_client=http, middleware=middleware)


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
        self,
        session: Any,
        script: Sequence[Reply],
        inputs: Sequence[str],
        *,
        is_async: bool,
        state: Any = None,
    ) -> Run:
        run, messages = Run(), [] if state is None else list(state)
        server = Server(script, run, _turns(messages))
        if is_async:
            asyncio.run(self._loop_async(session, server, inputs, messages, run))
        else:
            sdk = client(session, server)
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
        self, session: Any, server: Server, inputs: Sequence[str], messages: list[Any], run: Run
    ) -> None:
        async with async_client(session, server) as sdk:
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
        server = Server(script, run, _turns(messages))
        await self._loop_async(session, server, [text], messages, run)

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
        sdk = client(session, Server(script, Run(), _turns(messages)))
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
    session = opened()
    server = Server([Refuse("tools.0.name: String should match pattern")], Run())
    with pytest.raises(anthropic.BadRequestError, match="should match pattern"):
        client(session, server).messages.create(**asked(session, [{"role": "user", "content": "Hello"}]))
    assert len(server.run.sent) == 1


def test_an_attempt_that_the_sdk_makes_again_is_prepared_once() -> None:
    session, run = opened(), Run()
    tries: list[int] = []

    class Flaky(Server):
        def __call__(self, request: httpx2.Request) -> httpx2.Response:
            tries.append(1)
            if len(tries) == 1:
                return httpx2.Response(529, json={"type": "error", "error": {"type": "overloaded_error"}})
            return super().__call__(request)

    sdk = client(session, Flaky([Say("Hello.")], run), max_retries=1)
    sdk._sleep_for_retry = lambda **_: None  # type: ignore[method-assign]
    messages: list[Any] = [{"role": "user", "content": "Hello"}]
    sdk.messages.create(**asked(session, messages))
    assert len(tries) == 2
    assert session.log() == messages


def test_the_beta_calls_are_prepared_too() -> None:
    session, run = opened(recall=True), Run()
    script, inputs = conversation(8)
    done = AnthropicCase().play(session, script, inputs, is_async=False)
    server = Server([Say("On quay 0.")], run, 8)
    messages = [*done.state, {"role": "user", "content": "Where did salt-0 stand?"}]
    client(session, server).beta.messages.create(**asked(session, messages))
    assert len(run.sent[0]) < len(messages)
    assert SUMMARY in json.dumps(run.sent[0])


def test_a_summariser_of_the_same_api_counts_its_usage() -> None:
    def serve(request: httpx2.Request) -> httpx2.Response:
        body = json.loads(request.content)
        assert body["max_tokens"] == 200
        usage = {"input_tokens": SUMMARY_USAGE.input_tokens, "output_tokens": SUMMARY_USAGE.output_tokens}
        content = [{"type": "text", "text": SUMMARY}]
        message = {"id": "m", "type": "message", "role": "assistant", "model": "small", "content": content}
        return httpx2.Response(200, json={**message, "stop_reason": "end_turn", "usage": usage})

    http = httpx2.Client(transport=httpx2.MockTransport(serve))
    small = siltstone.models.anthropic("small", anthropic.Anthropic(api_key="none", http_client=http))
    session = opened(small)
    script, inputs = conversation(6)
    AnthropicCase().play(session, script, inputs, is_async=False)
    made = len(session.compactions())
    assert made > 0
    assert session.usage.input_tokens == made * SUMMARY_USAGE.input_tokens
    assert {each.usage[0].model for each in session.compactions()} == {"small"}


def test_the_example_remembers() -> None:
    example = Path(__file__).parents[2] / "examples" / "anthropic_loop.py"
    told = subprocess.run([sys.executable, str(example)], capture_output=True, text=True, check=True).stdout
    assert "The crate of the port of Antwerp" in told


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
