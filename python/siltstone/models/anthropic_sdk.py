"""A model of Anthropic's API that writes summaries and reads for facts."""

from __future__ import annotations

from typing import Any

from siltstone.errors import requires
from siltstone.events import UsageRecord
from siltstone.llm import Completion, CompletionRequest, ToolCall

__all__ = ["AnthropicModel", "AsyncAnthropicModel", "anthropic", "async_anthropic"]


def anthropic(model: str, client: Any = None, **settings: Any) -> AnthropicModel:
    """*model* as the ``model`` of a ``Session``, asked through the anthropic SDK.

    Args:
        model: The model's name.
        client: An ``anthropic.Anthropic``; None makes one, which takes its key from the environment. Not the
            one that has the middleware of the same session: its calls are the conversation's.
        settings: Parameters of every call. ``system`` is for requests that begin like the live one: give
            the system prompt of the conversation, so that its cache is used.

    Raises:
        ImportError: the extra ``anthropic`` is not installed.
    """
    if client is None:
        with requires("anthropic", "siltstone.models.anthropic"):
            from anthropic import Anthropic
        client = Anthropic()
    return AnthropicModel(model, client, settings)


def async_anthropic(model: str, client: Any = None, **settings: Any) -> AsyncAnthropicModel:
    """:func:`anthropic` for an ``AsyncSession``, with an ``anthropic.AsyncAnthropic``."""
    if client is None:
        with requires("anthropic", "siltstone.models.async_anthropic"):
            from anthropic import AsyncAnthropic
        client = AsyncAnthropic()
    return AsyncAnthropicModel(model, client, settings)


class _Named:
    """A model by its name, and how it is asked."""

    provider = "anthropic"  #: for traces

    def __init__(self, model: str, client: Any, settings: dict[str, Any]) -> None:
        self.model, self._client, self._settings = model, client, settings

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.model!r}>"

    def _create(self, request: CompletionRequest) -> Any:
        """The answer of the SDK to *request*, or an awaitable of it."""
        return self._client.messages.create(**_asked(self.model, request, self._settings))


class AnthropicModel(_Named):
    """Made by :func:`anthropic`."""

    def __call__(self, request: CompletionRequest) -> Completion:
        """The model's answer; raises what the SDK raises."""
        return _read(self._create(request), self.model, request)


class AsyncAnthropicModel(_Named):
    """Made by :func:`async_anthropic`."""

    async def __call__(self, request: CompletionRequest) -> Completion:
        """The model's answer; raises what the SDK raises."""
        return _read(await self._create(request), self.model, request)


def _asked(model: str, request: CompletionRequest, settings: dict[str, Any]) -> dict[str, Any]:
    """The parameters of the call. A system prompt among the messages is a parameter here."""
    systems = [each["content"] for each in request.messages if each.get("role") == "system"]
    asked: dict[str, Any] = {
        "model": model,
        "messages": [each for each in request.messages if each.get("role") != "system"],
        "max_tokens": request.max_tokens,
    }
    if request.stop:
        asked["stop_sequences"] = list(request.stop)
    if request.temperature is not None:
        asked["temperature"] = request.temperature
    if request.tools:
        asked["tools"] = list(request.tools)
    asked |= settings
    if not request.prefix_preserving:
        asked.pop("system", None)
        if systems:
            asked["system"] = "\n\n".join(systems)
    return asked


def _read(answer: Any, model: str, request: CompletionRequest) -> Completion:
    counted = answer.usage
    read, written = counted.cache_read_input_tokens or 0, counted.cache_creation_input_tokens or 0
    sent = counted.input_tokens + read + written
    record = UsageRecord(model, sent, counted.output_tokens, read, request.purpose)
    text = "".join(block.text for block in answer.content if block.type == "text")
    calls = tuple(
        ToolCall(block.name, dict(block.input), block.id)
        for block in answer.content
        if block.type == "tool_use"
    )
    return Completion(text, record, answer.stop_reason, calls)
