"""A model of pydantic-ai as the model that writes summaries."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from siltstone.adapters.base import requires
from siltstone.events import UsageRecord
from siltstone.llm import Completion, CompletionRequest

with requires("pydantic-ai"):
    from pydantic_ai.direct import model_request
    from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, SystemPromptPart, TextPart
    from pydantic_ai.models import KnownModelName, Model
    from pydantic_ai.settings import ModelSettings

__all__ = ["summariser"]


def summariser(model: Model | KnownModelName | str) -> Callable[[CompletionRequest], Awaitable[Completion]]:
    """*model* as the ``model`` of an ``AsyncSession``: it writes summaries, outside the user's run.

    Models of pydantic-ai need an event loop, so the session must be async.
    """

    async def ask(request: CompletionRequest) -> Completion:
        settings = ModelSettings(max_tokens=request.max_tokens)
        if request.temperature is not None:
            settings["temperature"] = request.temperature
        if request.stop:
            settings["stop_sequences"] = list(request.stop)
        messages = [_message(each) for each in request.messages]
        answer = await model_request(model, messages, model_settings=settings)
        usage = UsageRecord(
            model=answer.model_name or "",
            input_tokens=answer.usage.input_tokens,
            output_tokens=answer.usage.output_tokens,
            cached_tokens=answer.usage.cache_read_tokens,
            purpose=request.purpose,
        )
        return Completion(answer.text or "", usage, answer.finish_reason)

    return ask


def _message(said: Mapping[str, Any]) -> ModelMessage:
    text = str(said["content"])
    match said["role"]:
        case "assistant":
            return ModelResponse(parts=[TextPart(text)])
        case "system":
            return ModelRequest(parts=[SystemPromptPart(text)])
    return ModelRequest.user_text_prompt(text)
