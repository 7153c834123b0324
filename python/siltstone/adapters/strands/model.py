"""A model of Strands as the model that writes summaries."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from siltstone.adapters.base import requires
from siltstone.adapters.strands.messages import alternating
from siltstone.events import UsageRecord
from siltstone.llm import Completion, CompletionRequest

with requires("strands"):
    from strands.models import Model

__all__ = ["summariser"]


def summariser(model: Model) -> Callable[[CompletionRequest], Awaitable[Completion]]:
    """*model* as the ``model`` of an ``AsyncSession``: it writes summaries, outside the agent's run.

    Models of Strands need an event loop, so the session must be async.
    """

    async def ask(request: CompletionRequest) -> Completion:
        system = "\n\n".join(str(each["content"]) for each in request.messages if each["role"] == "system")
        messages: Any = alternating(
            {"role": each["role"], "content": [{"text": str(each["content"])}]}
            for each in request.messages
            if each["role"] != "system"
        )
        text, used, reason = "", dict[str, Any](), None
        async for event in model.stream(messages, None, system or None):
            text += event.get("contentBlockDelta", {}).get("delta", {}).get("text") or ""
            reason = event.get("messageStop", {}).get("stopReason") or reason
            used = dict(event.get("metadata", {}).get("usage") or used)
        record = UsageRecord(
            model=str(dict(model.get_config() or {}).get("model_id") or ""),
            input_tokens=used.get("inputTokens", 0),
            output_tokens=used.get("outputTokens", 0),
            cached_tokens=used.get("cacheReadInputTokens", 0),
            purpose=request.purpose,
        )
        return Completion(text, record if used else None, reason)

    return ask
