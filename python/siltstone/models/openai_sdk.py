"""A model of OpenAI's API, or of a server that speaks like it, that writes summaries and reads for facts."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from siltstone.errors import ConfigError, requires
from siltstone.events import UsageRecord
from siltstone.llm import Completion, CompletionRequest, ToolCall
from siltstone.models.calls import arguments_of

__all__ = ["AsyncOpenAIModel", "OpenAIApi", "OpenAIModel", "async_openai", "openai"]

OpenAIApi: TypeAlias = Literal["chat", "responses"]


def openai(model: str, client: Any = None, *, api: OpenAIApi = "chat", **settings: Any) -> OpenAIModel:
    """*model* as the ``model`` of a ``Session``, asked through the openai SDK.

    Args:
        model: The model's name.
        client: An ``openai.OpenAI``; None makes one, which takes its key from the environment. Servers that
            speak like OpenAI's are reached by their ``base_url``.
        api: ``"chat"`` for Chat Completions, ``"responses"`` for Responses: that of the conversation, where
            a policy sends requests that begin like the live one.
        settings: Parameters of every call, such as ``reasoning_effort="low"``.

    Raises:
        ConfigError: an unknown *api*.
        ImportError: the extra ``openai`` is not installed.
    """
    if client is None:
        with requires("openai", "siltstone.models.openai"):
            from openai import OpenAI
        client = OpenAI()
    return OpenAIModel(model, client, _checked(api), settings)


def async_openai(
    model: str, client: Any = None, *, api: OpenAIApi = "chat", **settings: Any
) -> AsyncOpenAIModel:
    """:func:`openai` for an ``AsyncSession``, with an ``openai.AsyncOpenAI``."""
    if client is None:
        with requires("openai", "siltstone.models.async_openai"):
            from openai import AsyncOpenAI
        client = AsyncOpenAI()
    return AsyncOpenAIModel(model, client, _checked(api), settings)


class _Named:
    """A model by its name, and how it is asked."""

    provider = "openai"  #: for traces

    def __init__(self, model: str, client: Any, api: OpenAIApi, settings: dict[str, Any]) -> None:
        self.model, self._client, self._api, self._settings = model, client, api, settings

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.model!r}>"

    def _create(self, request: CompletionRequest) -> Any:
        """The answer of the SDK to *request*, or an awaitable of it."""
        if self._api == "chat":
            return self._client.chat.completions.create(**_chat(self.model, request), **self._settings)
        return self._client.responses.create(**_responses(self.model, request), **self._settings)

    def _read(self, answer: Any, request: CompletionRequest) -> Completion:
        read = _read_chat if self._api == "chat" else _read_response
        return read(answer, self.model, request)


class OpenAIModel(_Named):
    """Made by :func:`openai`."""

    def __call__(self, request: CompletionRequest) -> Completion:
        """The model's answer; raises what the SDK raises."""
        return self._read(self._create(request), request)


class AsyncOpenAIModel(_Named):
    """Made by :func:`async_openai`."""

    async def __call__(self, request: CompletionRequest) -> Completion:
        """The model's answer; raises what the SDK raises."""
        return self._read(await self._create(request), request)


def _chat(model: str, request: CompletionRequest) -> dict[str, Any]:
    asked: dict[str, Any] = {
        "model": model,
        "messages": list(request.messages),
        "max_completion_tokens": request.max_tokens,
    }
    if request.stop:
        asked["stop"] = list(request.stop)
    return {**asked, **_common(request)}


def _responses(model: str, request: CompletionRequest) -> dict[str, Any]:
    asked = {"model": model, "input": list(request.messages), "max_output_tokens": request.max_tokens}
    return {**asked, "store": False, **_common(request)}  # this API cannot end at a text


def _common(request: CompletionRequest) -> dict[str, Any]:
    asked: dict[str, Any] = {}
    if request.temperature is not None:
        asked["temperature"] = request.temperature
    if request.tools:
        asked["tools"] = list(request.tools)
    return asked


def _read_chat(answer: Any, model: str, request: CompletionRequest) -> Completion:
    choice, usage = answer.choices[0], answer.usage
    record = None
    if usage is not None:
        details = usage.prompt_tokens_details
        cached = (details.cached_tokens if details is not None else None) or 0
        record = UsageRecord(model, usage.prompt_tokens, usage.completion_tokens, cached, request.purpose)
    calls = tuple(
        ToolCall(call.function.name, arguments_of(call.function.arguments), call.id)
        for call in choice.message.tool_calls or ()
        if call.type == "function"
    )
    said = choice.message
    return Completion(said.content or said.refusal or "", record, choice.finish_reason, calls)


def _read_response(answer: Any, model: str, request: CompletionRequest) -> Completion:
    usage, record = answer.usage, None
    if usage is not None:
        cached = usage.input_tokens_details.cached_tokens or 0
        record = UsageRecord(model, usage.input_tokens, usage.output_tokens, cached, request.purpose)
    calls = tuple(
        ToolCall(item.name, arguments_of(item.arguments), item.call_id)
        for item in answer.output
        if item.type == "function_call"
    )
    parts = (part for item in answer.output if item.type == "message" for part in item.content)
    text = "".join(part.text if part.type == "output_text" else part.refusal for part in parts)
    return Completion(text, record, answer.status, calls)


def _checked(api: OpenAIApi) -> OpenAIApi:
    if api not in ("chat", "responses"):
        raise ConfigError(f"api must be 'chat' or 'responses', got {api!r}", field="api", value=api)
    return api
