"""The plugin: memory and compaction for an ``Agent``."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

from siltstone.adapters.base import AnySession, Door, Ready, RequestRefusedError, memory_tools, requires
from siltstone.adapters.strands.messages import Message, StrandsDialect, alternating
from siltstone.errors import ToolError
from siltstone.events import UsageRecord
from siltstone.tools import Tool

with requires("strands"):
    from strands.hooks import AfterInvocationEvent
    from strands.middleware import InvokeModelContext, InvokeModelStage
    from strands.plugins import Plugin
    from strands.tools import PythonAgentTool
    from strands.types.event_loop import Usage
    from strands.types.exceptions import ContextWindowOverflowException

__all__ = ["SiltstonePlugin"]


class SiltstonePlugin(Plugin):
    """Sends the session's view instead of an agent's messages, and gives the model ``memory_search``.

    ::

        agent = Agent(plugins=[SiltstonePlugin(session)], conversation_manager=NullConversationManager())

    The agent's own list keeps every message, and so does the log of the session. Without a
    ``conversation_manager`` Strands drops the oldest messages from its own list; the session keeps them.
    Recalled text is only in the request. The cost of siltstone's own model calls is in the agent's metrics.
    If the provider refuses a request as too large, a smaller one is sent, at most twice.

    Args:
        session: The session of the agent's conversation, which you close yourself. An agent that is called as
            a function runs in a thread with its own loop, so it needs a ``Session``. ``invoke_async`` and
            ``stream_async`` also take an ``AsyncSession``.
        tools: Whether the model gets the tools ``memory_search`` and ``memory_get``.
    """

    name = "siltstone"

    def __init__(self, session: AnySession, *, tools: bool = True) -> None:
        super().__init__()
        self.session, self._has_tools = session, tools
        self._door = Door(session, StrandsDialect())

    def init_agent(self, agent: Any) -> None:
        """Registers the middleware, the hook and the tools with *agent*. Strands calls it."""
        agent.add_middleware(InvokeModelStage, self._invoke)
        agent.add_hook(self._ended, AfterInvocationEvent)
        for tool in memory_tools(self.session) if self._has_tools else ():
            agent.tool_registry.register_tool(_tool(tool))

    async def _invoke(
        self, context: InvokeModelContext, next_fn: Callable[[InvokeModelContext], AsyncIterator[Any]]
    ) -> AsyncIterator[Any]:
        """Runs a model call with the session's view."""
        stored: list[Any] = list(context.agent.messages)
        ready = await self._door.aprepare(stored, list(context.messages))
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
                ready = await self._recovered(error, ready)
            else:
                return

    async def _recovered(self, error: Exception, refused: Ready[Message]) -> Ready[Message]:
        """A smaller request; raises *error* if it is not an overflow, or after the last retry."""
        if not isinstance(error, ContextWindowOverflowException):
            return await self._door.arecover(error, refused)
        known = RequestRefusedError(f"context_length_exceeded: {error}")
        try:
            return await self._door.arecover(known, refused)
        except RequestRefusedError:
            raise error from None

    async def _ended(self, event: AfterInvocationEvent) -> None:
        """Gives the final answer to the session."""
        await self._door.aobserve(list(event.agent.messages))

    def _charge(self, agent: Any, records: Iterable[UsageRecord]) -> None:
        for record in records:
            used = Usage(
                inputTokens=record.input_tokens,
                outputTokens=record.output_tokens,
                totalTokens=record.input_tokens + record.output_tokens,
                cacheReadInputTokens=record.cached_tokens,
            )
            agent.event_loop_metrics.update_usage(used)


def _tool(tool: Tool) -> PythonAgentTool:
    def call(tool_use: Any, **_kwargs: Any) -> Any:
        status = "success"
        try:
            text = tool.run(tool.read(tool_use["input"]))
        except ToolError as error:
            status, text = "error", str(error)
        return {"toolUseId": tool_use["toolUseId"], "status": status, "content": [{"text": text}]}

    schema: Any = tool.definition()["function"]["parameters"]
    spec: Any = {"name": tool.name, "description": tool.description, "inputSchema": {"json": schema}}
    return PythonAgentTool(tool.name, spec, call)
