"""The plugin: memory and compaction for an ``Agent``."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

from siltstone.adapters.base import Door, Ready, RequestRefusedError, memory_tools, requires
from siltstone.adapters.pool import MOST_OPEN, Pool, Source
from siltstone.adapters.strands.messages import Message, StrandsDialect, alternating
from siltstone.errors import ToolError
from siltstone.events import UsageRecord
from siltstone.tools import Tool, memory_get, memory_search

with requires("strands"):
    from strands.hooks import AfterInvocationEvent
    from strands.middleware import InvokeModelContext, InvokeModelStage
    from strands.plugins import Plugin
    from strands.tools import PythonAgentTool
    from strands.types.event_loop import Usage
    from strands.types.exceptions import ContextWindowOverflowException

__all__ = ["SiltstonePlugin"]

DEFAULT_AGENT = "default"  #: the ``agent_id`` of an agent that was given none


class SiltstonePlugin(Plugin):
    """Sends the session's view instead of an agent's messages, and gives the model ``memory_search``.

    ::

        agent = Agent(plugins=[SiltstonePlugin(session)], conversation_manager=NullConversationManager())

    The agent's own list keeps every message, and so does the log of the session. Without a
    ``conversation_manager`` Strands drops the oldest messages from its own list; the session keeps them.
    Recalled text is only in the request. The cost of siltstone's own model calls is in the agent's metrics.
    If the provider refuses a request as too large, a smaller one is sent, at most twice.

    Args:
        session: The session of the agent's conversation, which you close yourself; or a store, or a function
            that opens the session of a conversation, for a plugin of many agents. The name of a conversation
            is the id of the agent's session manager, and its ``agent_id`` if that is not the default. These
            sessions are closed by :meth:`close`. An agent that is called as a function runs in a thread with
            its own loop, so it needs a ``Session``. ``invoke_async`` and ``stream_async`` also take an
            ``AsyncSession``.
        tools: Whether the model gets the tools ``memory_search`` and ``memory_get``.
        most_open: The maximum number of sessions that stay open without a run, if *session* is no session.
        options: The options of the sessions of a store, as of ``Session.open``.

    Raises:
        ConfigError: *session* is neither a session, nor a store, nor a function; *most_open* is below 1; or
            there are options, and no store.
    """

    name = "siltstone"

    def __init__(
        self, session: Source, *, tools: bool = True, most_open: int = MOST_OPEN, **options: Any
    ) -> None:
        super().__init__()
        self._pool = Pool(session, StrandsDialect(), most_open=most_open, options=options)
        self._has_tools = tools

    def init_agent(self, agent: Any) -> None:
        """Registers the middleware, the hook and the tools with *agent*. Strands calls it."""
        agent.add_middleware(InvokeModelStage, self._invoke)
        agent.add_hook(self._ended, AfterInvocationEvent)
        session = self._pool.session
        # Without a session these only describe the tools. A call goes to the session of its conversation.
        described = [memory_search(lambda _query, _limit, **_: []), memory_get(lambda _handle: None)]
        tools = described if session is None else memory_tools(session)
        for tool in tools if self._has_tools else ():
            agent.tool_registry.register_tool(self._tool(tool, _conversation(agent)))

    def close(self) -> None:
        """Closes the sessions that were opened for conversations."""
        self._pool.close()

    async def aclose(self) -> None:
        """:meth:`close`, for async sessions too."""
        await self._pool.aclose()

    async def _invoke(
        self, context: InvokeModelContext, next_fn: Callable[[InvokeModelContext], AsyncIterator[Any]]
    ) -> AsyncIterator[Any]:
        """Runs a model call with the session's view."""
        stored: list[Any] = list(context.agent.messages)
        name = _conversation(context.agent)
        async with self._pool.adoor(name, name) as door:
            async for event in self._called(door, stored, context, next_fn):
                yield event

    async def _called(
        self,
        door: Door[Message],
        stored: list[Message],
        context: InvokeModelContext,
        next_fn: Callable[[InvokeModelContext], AsyncIterator[Any]],
    ) -> AsyncIterator[Any]:
        ready = await door.aprepare(stored, list(context.messages))
        while True:
            self._charge(context.agent, ready.usage)
            began = False
            try:
                request: Any = alternating(ready.messages)
                async for event in next_fn(context.replace(messages=request)):
                    began = True
                    yield event
            except Exception as error:
                if began:  # the user may have read a part of the answer
                    raise
                ready = await _recovered(door, error, ready)
            else:
                return

    async def _ended(self, event: AfterInvocationEvent) -> None:
        """Gives the final answer to the session."""
        name = _conversation(event.agent)
        async with self._pool.adoor(name, name) as door:
            await door.aobserve(list(event.agent.messages))

    def _charge(self, agent: Any, records: Iterable[UsageRecord]) -> None:
        for record in records:
            used = Usage(
                inputTokens=record.input_tokens,
                outputTokens=record.output_tokens,
                totalTokens=record.input_tokens + record.output_tokens,
                cacheReadInputTokens=record.cached_tokens,
            )
            agent.event_loop_metrics.update_usage(used)

    def _tool(self, tool: Tool, name: str | None) -> PythonAgentTool:
        async def call(tool_use: Any, **_kwargs: Any) -> Any:
            status = "success"
            async with self._pool.adoor(name, name) as door:
                own = getattr(door.session, tool.name)
                try:
                    text = await asyncio.to_thread(lambda: own.run(own.read(tool_use["input"])))
                except ToolError as error:
                    status, text = "error", str(error)
            return {"toolUseId": tool_use["toolUseId"], "status": status, "content": [{"text": text}]}

        schema: Any = tool.definition()["function"]["parameters"]
        spec: Any = {"name": tool.name, "description": tool.description, "inputSchema": {"json": schema}}
        return PythonAgentTool(tool.name, spec, call)


async def _recovered(door: Door[Message], error: Exception, refused: Ready[Message]) -> Ready[Message]:
    """A smaller request; raises *error* if it is not an overflow, or after the last retry."""
    if not isinstance(error, ContextWindowOverflowException):
        return await door.arecover(error, refused)
    known = RequestRefusedError(f"context_length_exceeded: {error}")
    try:
        return await door.arecover(known, refused)
    except RequestRefusedError:
        raise error from None


def _conversation(agent: Any) -> str | None:
    """The name of the agent's conversation in the host; None if it has none."""
    manager = getattr(agent, "_session_manager", None)
    session_id, agent_id = getattr(manager, "session_id", None), getattr(agent, "agent_id", None)
    named = [str(each) for each in (session_id, agent_id) if each and each != DEFAULT_AGENT]
    return "/".join(named) or None
