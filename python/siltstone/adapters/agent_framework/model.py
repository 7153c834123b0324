"""A chat client of Agent Framework as the model that writes summaries."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from siltstone.adapters.base import requires
from siltstone.events import UsageRecord
from siltstone.llm import Completion, CompletionRequest

with requires("agent-framework"):
    from agent_framework import Message, SupportsChatGetResponse

__all__ = ["summariser"]


def summariser(client: SupportsChatGetResponse) -> Callable[[CompletionRequest], Awaitable[Completion]]:
    """*client* as the ``model`` of an ``AsyncSession``: it writes summaries, outside the agent's run.

    Chat clients need an event loop, so the session must be async. The client must not have the middleware of
    the same session: each summary would ask for another, and no check prevents it. Give the middleware to the
    agent, not to its client.
    """

    async def ask(request: CompletionRequest) -> Completion:
        options: dict[str, Any] = {"max_tokens": request.max_tokens}
        if request.temperature is not None:
            options["temperature"] = request.temperature
        if request.stop:
            options["stop"] = list(request.stop)
        messages = [Message(each["role"], [str(each["content"])]) for each in request.messages]
        answer = await client.get_response(messages, options=options)
        counted: dict[str, Any] = dict(answer.usage_details or {})
        usage = UsageRecord(
            model=answer.model or "",
            input_tokens=counted.get("input_token_count") or 0,
            output_tokens=counted.get("output_token_count") or 0,
            cached_tokens=counted.get("cache_read_input_token_count") or 0,
            purpose=request.purpose,
        )
        reason = answer.finish_reason
        return Completion(answer.text, usage if counted else None, None if reason is None else str(reason))

    return ask
