"""The chat middleware: memory and compaction for an ``Agent``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from siltstone.adapters.agent_framework.messages import AgentFrameworkDialect
from siltstone.adapters.base import acalled_tool, requires
from siltstone.adapters.pool import MOST_OPEN, Pool, Source, named_by_host
from siltstone.errors import ConfigError
from siltstone.events import UsageRecord
from siltstone.tools import Tool, memory_get, memory_search

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

_ATTRIBUTION = "_attribution"  # the framework's key for the provider that added a message to a request


class SiltstoneMiddleware(ChatMiddleware):
    """Keeps each request within the window, recalls earlier messages, and gives the model ``memory_search``.

    ::

        memory = SiltstoneMiddleware(session)
        agent = Agent(client, middleware=[memory], tools=memory.tools)

    The history of an ``AgentSession`` keeps every message, and the model sees the session's view. Recalled
    text is only in the request. The cost of siltstone's own model calls is in the usage of the run. If the
    provider refuses a request as too large, a smaller one is sent, at most twice. A streamed request is not
    sent again, because the user may have read a part of the answer.

    Args:
        session: The session of the agent's only conversation; or a store, or a function that opens the
            session of a conversation. The name of a conversation is the ``session_id`` of the
            ``AgentSession``. Its sessions are closed by :meth:`close`.
        context_from: The ``source_id`` of context providers whose messages are only in one request, and are
            not stored.
        most_open: The maximum number of sessions that stay open without a run, if *session* is no session.
        options: The options of the sessions of a store, as of ``Session.open``.

    Raises:
        ConfigError: *session* is neither a session, nor a store, nor a function; *most_open* is below 1; or
            there are options, and no store.
    """

    def __init__(
        self,
        session: Source,
        *,
        context_from: Iterable[str] = (),
        most_open: int = MOST_OPEN,
        **options: Any,
    ) -> None:
        self._pool = Pool(session, AgentFrameworkDialect(), most_open=most_open, options=options)
        self._context_from = frozenset(context_from)

    @property
    def tools(self) -> list[FunctionTool]:
        """The tools for the agent: ``memory_search`` and ``memory_get``."""
        session = self._pool.session
        if session is not None:
            return [self._tool(session.memory_search), self._tool(session.memory_get)]
        # These only describe the tools. A call goes to the session of its conversation.
        return [
            self._tool(memory_search(lambda _query, _limit, **_: [])),
            self._tool(memory_get(lambda _handle: None)),
        ]

    async def process(self, context: ChatContext, call_next: Callable[[], Awaitable[None]]) -> None:
        """Sends the session's view, and gives the answer to the session.

        Raises:
            ConfigError: the service keeps the conversation, so a request has only the new messages.
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
            if not _calls_tools(response):  # the framework gives a call its id later, for the next request
                async with self._pool.adoor(name, named_by_host(name)) as door:
                    await door.aobserve([*stored, *response.messages])
            for each in used:
                response.usage_details = add_usage_details(response.usage_details, _counted(each))
            return response

        async with self._pool.adoor(name, named_by_host(name)) as door:
            ready = await door.aprepare(stored, request)
            while True:
                used += ready.usage
                context.messages = ready.messages
                try:
                    await call_next()
                except Exception as error:
                    ready = await door.arecover(error, ready)  # raises the error itself if it cannot help
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
            async with self._pool.adoor(name, named_by_host(name)) as door:
                return await acalled_tool(getattr(door.session, tool.name), arguments)

        schema = tool.definition()["function"]["parameters"]
        return FunctionTool(name=tool.name, description=tool.description, func=call, input_model=schema)


def _source(message: Message) -> Any:
    return (message.additional_properties.get(_ATTRIBUTION) or {}).get("source_id")


def _calls_tools(response: ChatResponse[Any]) -> bool:
    return any(each.type == "function_call" for message in response.messages for each in message.contents)


def _counted(record: UsageRecord) -> UsageDetails:
    return UsageDetails(
        input_token_count=record.input_tokens,
        output_token_count=record.output_tokens,
        total_token_count=record.input_tokens + record.output_tokens,
    )
