"""The chat middleware: memory and compaction for an ``Agent``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

from siltstone.adapters.agent_framework.messages import AgentFrameworkDialect
from siltstone.adapters.base import AnySession, Ready, called_tool, merged, requires
from siltstone.adapters.pool import MOST_OPEN, OpenSession, Pool
from siltstone.errors import ConfigError
from siltstone.tools import Tool, memory_get, memory_search
from siltstone.usage import UsageRecord

with requires("agent-framework"):
    from agent_framework import (
        ChatContext,
        ChatMiddleware,
        ChatResponse,
        FunctionInvocationContext,
        FunctionTool,
        Message,
        UsageDetails,
        add_usage_details,
    )

__all__ = ["SiltstoneMiddleware"]

_ATTRIBUTION = "_attribution"  # how the framework says who has put a message into a request


class SiltstoneMiddleware(ChatMiddleware):
    """Keeps each request within the window, recalls what left it, and gives the model ``memory_search``.

    ::

        memory = SiltstoneMiddleware(session)
        agent = Agent(client, middleware=[memory], tools=memory.tools)

    The history of an ``AgentSession`` keeps every message, and the model sees the session's view. What is
    recalled is a part of the request alone. What our own model calls cost is in the usage of the run. A
    request that is refused as too large is sent again smaller, twice at most; not so one that is streamed,
    of which the user may have read.

    Args:
        session: A session for every run of the agent; or a function that opens the session of a
            conversation, which is told the ``session_id`` of its ``AgentSession``. Sessions that it opens are
            closed by :meth:`close`.
        context_from: The ``source_id`` of context providers whose messages belong to one request alone, and
            were said by nobody.
        most_open: Sessions that stay open while no run uses them, where *session* is a function.

    Raises:
        ConfigError: *session* is neither, or *most_open* is below 1.
    """

    def __init__(
        self,
        session: AnySession | OpenSession,
        *,
        context_from: Iterable[str] = (),
        most_open: int = MOST_OPEN,
    ) -> None:
        self._pool = Pool(session, AgentFrameworkDialect(), most_open=most_open)
        self._context_from = frozenset(context_from)

    @property
    def tools(self) -> list[FunctionTool]:
        """The tools for the agent: ``memory_search`` and ``memory_get``."""
        session = self._pool.session
        if session is not None:
            return [self._tool(session.memory_search), self._tool(session.memory_get)]
        # Of each conversation's own session when they are called; before that they describe themselves.
        return [
            self._tool(memory_search(lambda _query, _limit, **_: [])),
            self._tool(memory_get(lambda _handle: None)),
        ]

    async def process(self, context: ChatContext, call_next: Callable[[], Awaitable[None]]) -> None:
        """Sends the session's view, and tells the session of the answer.

        Raises:
            ConfigError: the service keeps the conversation, so that a request has only what is new.
        """
        if (kept := (context.options or {}).get("conversation_id")) is not None:
            raise ConfigError(
                f"the service keeps conversation {kept!r}, and is sent only what is new, so siltstone cannot "
                'compact it; run the agent with default_options={"store": False}',
                field="conversation_id",
                value=kept,
            )
        request: list[Any] = list(context.messages)
        stored = [each for each in request if _source(each) not in self._context_from]
        name = None if context.session is None else context.session.session_id
        used = list[UsageRecord]()

        async def ended(response: ChatResponse[Any]) -> ChatResponse[Any]:
            async with self._pool.adoor(name) as door:
                await door.aobserve([*stored, *response.messages])
            for each in used:
                response.usage_details = add_usage_details(response.usage_details, _counted(each))
            return response

        async with self._pool.adoor(name) as door:
            ready = await door.aprepare(stored)
            while True:
                used += ready.usage
                context.messages = _sent(stored, request, ready)
                try:
                    await call_next()
                except Exception as error:
                    ready = await door.arecover(error)  # raises the error itself where nothing can be done
                else:
                    break
        if context.stream:
            context.stream_result_hooks.append(ended)
        elif isinstance(context.result, ChatResponse):
            context.result = await ended(context.result)

    async def close(self) -> None:
        """Closes the sessions that were opened for conversations."""
        await self._pool.aclose()

    def _tool(self, tool: Tool) -> FunctionTool:
        async def call(ctx: FunctionInvocationContext, **arguments: Any) -> str:
            name = None if ctx.session is None else ctx.session.session_id
            async with self._pool.adoor(name) as door:
                return called_tool(getattr(door.session, tool.name), arguments)

        schema = tool.definition()["function"]["parameters"]
        return FunctionTool(name=tool.name, description=tool.description, func=call, input_model=schema)


def _source(message: Message) -> Any:
    return (message.additional_properties.get(_ATTRIBUTION) or {}).get("source_id")


def _sent(stored: Sequence[Message], request: Sequence[Message], ready: Ready[Message]) -> list[Message]:
    return merged(stored, request, ready.messages, id)


def _counted(record: UsageRecord) -> UsageDetails:
    return UsageDetails(
        input_token_count=record.input_tokens,
        output_token_count=record.output_tokens,
        total_token_count=record.input_tokens + record.output_tokens,
    )
