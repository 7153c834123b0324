"""A chat model of LangChain as the model that writes summaries."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from siltstone.adapters.base import requires
from siltstone.events import UsageRecord
from siltstone.llm import Completion, CompletionRequest

with requires("langchain"):
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage, BaseMessage, convert_to_messages
    from langchain_core.runnables import RunnableConfig
    from langgraph.constants import TAG_NOSTREAM

__all__ = ["async_summariser", "summariser"]


def summariser(model: BaseChatModel) -> Callable[[CompletionRequest], Completion]:
    """*model* as the ``model`` of a session: it writes summaries, which do not appear in the user's stream.

    The call inherits the callbacks of its run, so callbacks that count usage count it too
    (``get_usage_metadata_callback``, tracers). It has the tag that keeps its tokens out of LangGraph's
    streams, and the metadata of LangChain's own summaries.
    """

    def ask(request: CompletionRequest) -> Completion:
        return _completion(_bound(model, request).invoke(_messages(request), config=_config()), request)

    return ask


def async_summariser(model: BaseChatModel) -> Callable[[CompletionRequest], Awaitable[Completion]]:
    """:func:`summariser`, for an ``AsyncSession``. The cancellation of the task ends the call."""

    async def ask(request: CompletionRequest) -> Completion:
        answer = await _bound(model, request).ainvoke(_messages(request), config=_config())
        return _completion(answer, request)

    return ask


def _bound(model: BaseChatModel, request: CompletionRequest) -> Any:
    return model.bind(stop=list(request.stop)) if request.stop else model


def _messages(request: CompletionRequest) -> Sequence[BaseMessage]:
    messages: Sequence[BaseMessage] = convert_to_messages(list(request.messages))
    return messages


def _config() -> RunnableConfig:
    return {"tags": [TAG_NOSTREAM], "metadata": {"lc_source": "summarization"}, "run_name": "siltstone"}


def _completion(answer: AIMessage, request: CompletionRequest) -> Completion:
    counted = answer.usage_metadata
    details = answer.response_metadata
    usage = None
    if counted is not None:
        cached = (counted.get("input_token_details") or {}).get("cache_read") or 0
        usage = UsageRecord(
            model=str(details.get("model_name") or details.get("model") or ""),
            input_tokens=counted["input_tokens"],
            output_tokens=counted["output_tokens"],
            cached_tokens=cached,
            purpose=request.purpose,
        )
    stopped = details.get("stop_reason") or details.get("finish_reason")
    return Completion(answer.text, usage, None if stopped is None else str(stopped))
