"""OpenAI's SDK: the laws, with the loop that users write, and what is its own."""

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

pytest.importorskip("openai", reason="openai is not installed; it comes with the extra openai")

import httpx2
import openai
from openai.types.chat import ChatCompletionMessageParam
from pydantic import TypeAdapter

import siltstone
import siltstone.models
from adapters.contract import SYSTEM, AdapterContract, Call, Case, Reply, Run, Say, look_up, opened
from adapters.scripted_server import scripted
from servers.provider import Provider
from siltstone.adapters.openai import async_prepared, prepared
from siltstone.tools.base import dispatch

pytestmark = pytest.mark.anyio
QUIET: dict[str, Any] = {"api_key": "none", "max_retries": 0}


def noted(run: Run) -> Callable[[Any], None]:
    """Puts into the run what a request holds."""

    def note(body: Any) -> None:
        system, *rest = body["messages"]
        run.systems.append(system["content"])
        run.sent.append(rest)
        run.tools.append({tool["function"]["name"] for tool in body["tools"]})

    return note


def client(server: Provider) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{server.url}/v1", **QUIET)


def asked(create: Any, messages: list[Any]) -> dict[str, Any]:
    look = {"type": "function", "function": {"name": "look_up", "parameters": {"type": "object"}}}
    return {"model": "scripted", "messages": messages, "tools": [look, *create.tools()]}


def answered(
    session: Any, completion: Any, messages: list[Any], asks: Callable[..., str] = look_up
) -> str | None:
    """Appends the model's answer, and the results of its calls; the text where it called nothing."""
    message = completion.choices[0].message
    messages.append(message.model_dump(exclude_none=True))
    for call in message.tool_calls or ():
        name, arguments = call.function.name, call.function.arguments
        own = name != "look_up"
        text = dispatch(session.tools, name, arguments) if own else asks(**json.loads(arguments))
        messages.append({"role": "tool", "tool_call_id": call.id, "content": text})
    return None if message.tool_calls else message.content


class OpenAICase(Case):
    """A loop over ``chat.completions.create`` with a list of its own, as users write it."""

    #: Requests are JSON.
    is_identical = False
    prompts = 1
    #: Nobody adds up what a loop has used; the session has its own.
    may_change = ()
    knows_beginnings = False
    counts_usage = False

    def play(
        self, session: Any, script: Sequence[Reply], inputs: list[str], *, is_async: bool, state: Any = None
    ) -> Run:
        run, messages = Run(), _begun(state)
        if is_async:
            asyncio.run(self._loop_async(session, script, inputs, messages, run))
        else:
            with scripted(script, noted(run), _turns(messages)) as server, client(server) as sdk:
                create = prepared(session, sdk.chat.completions.create)
                for text in inputs:
                    messages.append({"role": "user", "content": text})
                    said = None
                    while said is None:
                        messages[0] = {"role": "system", "content": self.told}
                        said = answered(session, create(**asked(create, messages)), messages, self.tool)
                    run.answers.append(said)
            session.observe(messages)
        run.stored, run.state = messages[1:], messages
        return run

    async def _loop_async(
        self, session: Any, script: Sequence[Reply], inputs: Sequence[str], messages: list[Any], run: Run
    ) -> None:
        with scripted(script, noted(run), _turns(messages)) as server:
            async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", **QUIET) as sdk:
                create = async_prepared(session, sdk.chat.completions.create)
                for text in inputs:
                    messages.append({"role": "user", "content": text})
                    said = None
                    while said is None:
                        messages[0] = {"role": "system", "content": self.told}
                        answer = await create(**asked(create, messages))
                        said = answered(session, answer, messages, self.tool)
                    run.answers.append(said)
        observed = session.observe(messages)
        if asyncio.iscoroutine(observed):
            await observed

    async def start(self, session: Any, script: Sequence[Reply], text: str, state: Any, run: Run) -> None:
        messages = run.state = _begun(state)
        await self._loop_async(session, script, [text], messages, run)

    def neutral(self, messages: Sequence[Any]) -> list[dict[str, Any]]:
        return [json.loads(json.dumps(each)) for each in messages]

    def check(self, messages: Sequence[Any]) -> None:
        TypeAdapter(list[ChatCompletionMessageParam]).validate_python(list(messages))

    def opaque(self, messages: Sequence[Any]) -> list[str]:
        """Chat Completions carry no signed reasoning."""
        return []

    def reload(self, state: Any) -> Any:
        return json.loads(json.dumps(state))


def _begun(state: Any) -> list[Any]:
    return [{"role": "system", "content": SYSTEM}] if state is None else list(state)


def _turns(messages: Sequence[Any]) -> int:
    return sum(each["role"] == "user" for each in messages)


class TestTheLaws(AdapterContract):
    """The loop's list keeps every message, and the model sees the view."""

    case = OpenAICase()


def test_the_estimate_is_held_against_what_the_provider_counted() -> None:
    session = opened(policy=None, model=None)
    OpenAICase().play(session, [Call(("salt",)), Say("There.")], ["Where?"], is_async=False)
    assert session.estimate_error is not None


def test_responses_are_prepared_by_their_input() -> None:
    session, sent = opened(), []

    def create(**options: Any) -> Any:
        sent.append(options)
        return None

    call = prepared(session, create)
    call(model="m", input="Hello")
    assert sent == [{"model": "m", "input": [{"role": "user", "content": "Hello"}]}]
    assert {each["name"] for each in call.tools("openai.responses")} == {"memory_search", "memory_get"}
    for options in ({}, {"messages": [], "input": "x"}):
        with pytest.raises(siltstone.ConfigError, match="either messages= or input="):
            call(**options)


OVERFLOW = {
    "code": "context_length_exceeded",
    "message": "Your input exceeds the context window of this model. Please adjust your input and try again.",
}
THROTTLED = {"code": "rate_limit_exceeded", "message": "Rate limit reached for gpt-5"}


class Streaming:
    """The Responses API, streamed: what it refuses, it refuses in the stream, after HTTP 200."""

    def __init__(self, how: str, error: dict[str, str], *, late: bool = False) -> None:
        self.how, self.error, self.late = how, error, late
        self.sent: list[int] = []

    def events(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        self.sent.append(len(body["input"]))
        whole: dict[str, Any] = {"id": "r", "object": "response", "created_at": 0, "model": "m", "output": []}
        begun = [{"type": "response.created", "response": {**whole, "status": "in_progress"}}]
        place = {"item_id": "i", "output_index": 0, "content_index": 0, "logprobs": []}
        said = [{"type": "response.output_text.delta", **place, "delta": "Noted."}]
        if len(self.sent) > 1:
            return [
                *begun,
                *said,
                {"type": "response.completed", "response": {**whole, "status": "completed"}},
            ]
        failed = {"type": "response.failed", "response": {**whole, "status": "failed", "error": self.error}}
        return [
            *begun,
            *(said if self.late else []),
            failed if self.how == "failed" else {"type": "error", **self.error},
        ]

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        numbered = enumerate(self.events(json.loads(request.content)))
        lines = [json.dumps({**event, "sequence_number": at}) for at, event in numbered]
        kinds = [json.loads(line)["type"] for line in lines]
        text = "".join(f"event: {kind}\ndata: {line}\n\n" for kind, line in zip(kinds, lines, strict=True))
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=text.encode())

    async def answer(self, request: httpx2.Request) -> httpx2.Response:
        return self(request)


def streamed(server: Streaming, *, is_async: bool) -> list[str]:
    """The types of the events that the reader of a stream gets."""
    session = opened(model=None)
    items: list[Any] = [
        item
        for number in range(12)
        for item in (
            {"role": "user", "content": f"Boat {number}. " + "The harbour is calm. " * 20},
            {"role": "assistant", "content": "Noted."},
        )
    ]
    options: dict[str, Any] = {
        "model": "m",
        "input": [*items, {"role": "user", "content": "Go on."}],
        "stream": True,
    }
    if not is_async:
        http = httpx2.Client(transport=httpx2.MockTransport(server))
        create = prepared(session, openai.OpenAI(http_client=http, **QUIET).responses.create)
        with create(**options) as stream:
            return [event.type for event in stream]

    async def read() -> list[str]:
        http = httpx2.AsyncClient(transport=httpx2.MockTransport(server.answer))
        create = async_prepared(session, openai.AsyncOpenAI(http_client=http, **QUIET).responses.create)
        async with await create(**options) as stream:
            return [event.type async for event in stream]

    return asyncio.run(read())


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("how", ["failed", "error"])
def test_a_refusal_inside_a_stream_is_answered_by_a_smaller_request(how: str, is_async: bool) -> None:
    server = Streaming(how, OVERFLOW)
    assert streamed(server, is_async=is_async) == [
        "response.created", "response.output_text.delta", "response.completed",
    ]  # fmt: skip
    assert server.sent[1] < server.sent[0]


@pytest.mark.parametrize("is_async", [False, True])
def test_after_content_and_for_another_error_the_stream_goes_on_as_it_came(is_async: bool) -> None:
    server = Streaming("failed", OVERFLOW, late=True)
    kinds = ["response.created", "response.output_text.delta", "response.failed"]
    assert streamed(server, is_async=is_async) == kinds
    throttled = Streaming("failed", THROTTLED)
    assert streamed(throttled, is_async=is_async) == ["response.created", "response.failed"]
    assert len(server.sent) == len(throttled.sent) == 1
