"""Models of the providers' SDKs: what they are asked, and how their answers are read."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("openai", reason="openai is not installed; it comes with the extra openai")
pytest.importorskip("anthropic", reason="anthropic is not installed; it comes with the extra anthropic")

import anthropic
import httpx2
import openai

from siltstone import ConfigError, ModelError, models
from siltstone.llm import CompletionRequest, ToolCall, call

pytestmark = pytest.mark.anyio

MESSAGES = [{"role": "system", "content": "Sum up."}, {"role": "user", "content": "We sailed."}]
TOOL_CALL = {"name": "memory_save", "arguments": '{"content": "x"}'}


class Recorder:
    """Answers each request with the same JSON, and keeps what was asked."""

    def __init__(self, answer: dict[str, Any]) -> None:
        self.answer, self.asked = answer, {}

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.asked = json.loads(request.content)
        return httpx2.Response(200, json=self.answer)

    async def answer_async(self, request: httpx2.Request) -> httpx2.Response:
        return self(request)


def chat(message: dict[str, Any], usage: Any = None) -> dict[str, Any]:
    head = {"id": "c", "object": "chat.completion", "created": 0, "model": "m"}
    return {**head, "choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": usage}


def sync_openai(recorder: Recorder) -> openai.OpenAI:
    http = httpx2.Client(transport=httpx2.MockTransport(recorder))
    return openai.OpenAI(api_key="none", max_retries=0, http_client=http)


def sync_anthropic(recorder: Recorder) -> anthropic.Anthropic:
    http = httpx2.Client(transport=httpx2.MockTransport(recorder))
    return anthropic.Anthropic(api_key="none", max_retries=0, http_client=http)


def test_chat_completions_are_asked_with_all_that_a_request_says() -> None:
    usage = {
        "prompt_tokens": 70,
        "completion_tokens": 5,
        "total_tokens": 75,
        "prompt_tokens_details": {"cached_tokens": 64},
    }
    recorder = Recorder(chat({"role": "assistant", "content": "They sailed."}, usage))
    model = models.openai("small", sync_openai(recorder), reasoning_effort="low")
    request = CompletionRequest(MESSAGES, 50, "merge", stop=("END",), temperature=0.2)
    answer = call(model, request)
    assert recorder.asked == {
        "model": "small",
        "messages": MESSAGES,
        "max_completion_tokens": 50,
        "stop": ["END"],
        "temperature": 0.2,
        "reasoning_effort": "low",
    }
    assert (answer.text, answer.stop_reason) == ("They sailed.", "stop")
    record = answer.usage
    assert record is not None
    assert (record.model, record.purpose) == ("small", "merge")
    assert (record.input_tokens, record.output_tokens, record.cached_tokens) == (70, 5, 64)


def test_tools_are_offered_and_their_calls_come_back() -> None:
    function = {"id": "call_1", "type": "function", "function": TOOL_CALL}
    recorder = Recorder(chat({"role": "assistant", "content": None, "tool_calls": [function]}))
    tool = {"type": "function", "function": {"name": "memory_save", "parameters": {"type": "object"}}}
    answer = call(
        models.openai("small", sync_openai(recorder)), CompletionRequest(MESSAGES, 50, tools=(tool,))
    )
    assert recorder.asked["tools"] == [tool]
    assert answer.tool_calls == (ToolCall("memory_save", {"content": "x"}, "call_1"),)
    assert answer.usage is None


@pytest.mark.parametrize("arguments", ["{", "[1]"])
def test_a_call_whose_arguments_are_no_object_is_an_error_of_the_model(arguments: str) -> None:
    function = {"id": "call_1", "type": "function", "function": {**TOOL_CALL, "arguments": arguments}}
    recorder = Recorder(chat({"role": "assistant", "content": None, "tool_calls": [function]}))
    with pytest.raises(ModelError, match="called a tool with"):
        call(models.openai("small", sync_openai(recorder)), CompletionRequest(MESSAGES, 50))


def test_responses_are_asked_and_read() -> None:
    text = {"type": "output_text", "text": "They sailed.", "annotations": []}
    details = {"cached_tokens": 3, "cache_write_tokens": 0}
    usage = {
        "input_tokens": 9,
        "input_tokens_details": details,
        "output_tokens": 2,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 11,
    }
    message = {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [text]}
    called = {"type": "function_call", "id": "f", "call_id": "call_1", **TOOL_CALL}
    head = {"id": "r", "object": "response", "created_at": 0, "model": "m", "status": "completed"}
    rest = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    recorder = Recorder({**head, **rest, "output": [message, called], "usage": usage})
    model = models.openai("small", sync_openai(recorder), api="responses")
    answer = call(model, CompletionRequest(MESSAGES, 50))
    assert recorder.asked == {"model": "small", "input": MESSAGES, "max_output_tokens": 50, "store": False}
    assert (answer.text, answer.stop_reason) == ("They sailed.", "completed")
    assert answer.tool_calls[0].arguments == {"content": "x"}
    assert answer.usage is not None
    assert (answer.usage.input_tokens, answer.usage.cached_tokens) == (9, 3)


def test_anthropic_is_asked_and_read() -> None:
    blocks = [
        {"type": "text", "text": "They sailed."},
        {"type": "tool_use", "id": "toolu_1", "name": "memory_save", "input": {"content": "x"}},
    ]
    usage = {
        "input_tokens": 5,
        "output_tokens": 2,
        "cache_read_input_tokens": 60,
        "cache_creation_input_tokens": 7,
    }
    head = {"id": "m", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn"}
    recorder = Recorder({**head, "content": blocks, "usage": usage})
    model = models.anthropic("small", sync_anthropic(recorder), system="The live prompt.")
    answer = call(model, CompletionRequest(MESSAGES, 50, stop=("END",)))
    assert recorder.asked["system"] == "Sum up."
    assert recorder.asked["messages"] == MESSAGES[1:]
    assert (recorder.asked["max_tokens"], recorder.asked["stop_sequences"]) == (50, ["END"])
    assert answer.text == "They sailed."
    assert answer.tool_calls == (ToolCall("memory_save", {"content": "x"}, "toolu_1"),)
    assert answer.usage is not None
    assert (answer.usage.input_tokens, answer.usage.cached_tokens) == (72, 60)
    call(model, CompletionRequest(MESSAGES[1:], 50, prefix_preserving=True))
    assert recorder.asked["system"] == "The live prompt."


async def test_the_async_forms_are_awaited() -> None:
    recorder = Recorder(chat({"role": "assistant", "content": "They sailed."}))
    http = httpx2.AsyncClient(transport=httpx2.MockTransport(recorder.answer_async))
    async with openai.AsyncOpenAI(api_key="none", http_client=http) as client:
        answer = await models.async_openai("small", client)(CompletionRequest(MESSAGES, 50))
    assert answer.text == "They sailed."
    head = {"id": "m", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn"}
    usage = {"input_tokens": 5, "output_tokens": 2}
    recorder = Recorder({**head, "content": [{"type": "text", "text": "Aye."}], "usage": usage})
    http = httpx2.AsyncClient(transport=httpx2.MockTransport(recorder.answer_async))
    async with anthropic.AsyncAnthropic(api_key="none", http_client=http) as other:
        answer = await models.async_anthropic("small", other)(CompletionRequest(MESSAGES, 50))
    assert answer.text == "Aye."


def test_an_unknown_api_is_refused() -> None:
    with pytest.raises(ConfigError, match="'chat' or 'responses'"):
        models.openai("small", object(), api="completions")  # type: ignore[arg-type]


@pytest.mark.parametrize(("make", "extra"), [(models.openai, "openai"), (models.anthropic, "anthropic")])
def test_the_error_of_an_absent_sdk_names_its_extra(
    make: Callable[..., Any], extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    class Hidden:
        def find_spec(self, name: str, path: object = None, target: object = None) -> None:
            if name == extra:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.delitem(sys.modules, extra)
    monkeypatch.setattr(sys, "meta_path", [Hidden(), *sys.meta_path])
    with pytest.raises(ImportError, match=rf"needs {extra}.*pip install 'siltstone\[{extra}\]'"):
        make("small")
