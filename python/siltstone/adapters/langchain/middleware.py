"""The agent middleware: memory and compaction for ``create_agent``."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any
from uuid import uuid4

from siltstone.adapters.base import Ready, requires
from siltstone.adapters.edits import is_same
from siltstone.adapters.langchain.messages import LangChainDialect
from siltstone.adapters.pool import MOST_OPEN, Pool, Source
from siltstone.errors import ToolError
from siltstone.tools import Tool, memory_get, memory_search

with requires("langchain"):
    from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
    from langchain_core.messages import AIMessage, AnyMessage, RemoveMessage
    from langchain_core.tools import BaseTool, StructuredTool, ToolException
    from langgraph.config import get_config
    from langgraph.graph.message import REMOVE_ALL_MESSAGES
    from langgraph.runtime import Runtime

__all__ = ["SiltstoneMiddleware"]

NS_SEPARATOR = "|"  # separates the graphs in LangGraph's checkpoint_ns
CHECKPOINTER = "__pregel_checkpointer"  # LangGraph's key for the checkpointer of a running graph
NS_END = ":"  # separates a node's name from the id of its run
_ID = attrgetter("id")
MOST_NESTED = 1_000  # the maximum number of remembered threads, and of runs inside other graphs


class SiltstoneMiddleware(AgentMiddleware[Any, Any, Any]):
    """Keeps each request within the window, recalls earlier messages, and gives the model ``memory_search``.

    By default the graph's state keeps every message, and the model sees the session's view. Summaries are
    ``HumanMessage`` with LangChain's own mark, ``additional_kwargs["lc_source"] == "summarization"``.
    Recalled text is only in the request.

    Args:
        session: The session of the agent's only thread; or a store, or a function that opens the session of
            a conversation. The name of a conversation is LangGraph's ``thread_id``; for an agent inside
            another graph, with the place of the agent in that graph. Its sessions are closed by
            :meth:`close`.
        rewrite_state: Whether a compaction also shortens the messages in the graph's state.
        tools: Whether the model gets the tools ``memory_search`` and ``memory_get``.
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
        rewrite_state: bool = False,
        tools: bool = True,
        most_open: int = MOST_OPEN,
        **options: Any,
    ) -> None:
        super().__init__()
        self._pool = Pool(session, LangChainDialect(), most_open=most_open, options=options)
        self._savers: OrderedDict[str, Any] = OrderedDict()  # by thread: the checkpointer that has an answer
        self.rewrite_state = rewrite_state
        self._nested: OrderedDict[tuple[str, str], str] = OrderedDict()  # runs inside other graphs
        self.tools = self._memory_tools() if tools else []

    def before_model(self, state: Any, runtime: Runtime[Any]) -> dict[str, Any] | None:  # noqa: ARG002
        """With ``rewrite_state``: compacts if a compaction is due, and shortens the state."""
        if not self.rewrite_state or not state["messages"]:
            return None
        stored = _identified(state["messages"])
        with self._pool.door(self._conversation(stored), _place()[0]) as door:
            return _rewritten(door.prepare(stored, goes_back=self._goes_back(stored)), stored)

    async def abefore_model(self, state: Any, runtime: Runtime[Any]) -> dict[str, Any] | None:  # noqa: ARG002
        """:meth:`before_model`, awaited."""
        if not self.rewrite_state or not state["messages"]:
            return None
        stored = _identified(state["messages"])
        async with self._pool.adoor(self._conversation(stored), _place()[0]) as door:
            return _rewritten(await door.aprepare(stored, goes_back=self._goes_back(stored)), stored)

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Sends the session's view, or a smaller view after the provider refused it as too large."""
        stored = _identified(request.state["messages"]) or request.messages
        with self._pool.door(self._conversation(stored), _place()[0]) as door:
            ready = door.prepare(stored, request.messages, goes_back=self._goes_back(stored))
            while True:
                try:
                    return handler(request.override(messages=ready.messages))
                except Exception as error:
                    ready = door.recover(error, ready)  # raises the error itself if it cannot help

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        """:meth:`wrap_model_call`, awaited."""
        stored = _identified(request.state["messages"]) or request.messages
        async with self._pool.adoor(self._conversation(stored), _place()[0]) as door:
            ready = await door.aprepare(stored, request.messages, goes_back=self._goes_back(stored))
            while True:
                try:
                    return await handler(request.override(messages=ready.messages))
                except Exception as error:
                    ready = await door.arecover(error, ready)

    def after_agent(self, state: Any, runtime: Runtime[Any]) -> None:  # noqa: ARG002
        """Gives the final answer to the session."""
        stored = _identified(state["messages"])
        self._goes_back(stored)
        with self._pool.door(self._conversation(stored), _place()[0]) as door:
            door.observe(stored)

    async def aafter_agent(self, state: Any, runtime: Runtime[Any]) -> None:  # noqa: ARG002
        """:meth:`after_agent`, awaited."""
        stored = _identified(state["messages"])
        self._goes_back(stored)
        async with self._pool.adoor(self._conversation(stored), _place()[0]) as door:
            await door.aobserve(stored)

    def close(self) -> None:
        """Closes the sessions that were opened for conversations."""
        self._pool.close()

    async def aclose(self) -> None:
        """:meth:`close`, for async sessions too."""
        await self._pool.aclose()

    def _goes_back(self, messages: Sequence[AnyMessage]) -> bool:
        """Whether a list without answers is an earlier checkpoint of a thread that has answers already.

        Without a checkpointer, or with a new one, it is the list of a host that begins anew.
        """
        thread, saver = _place()[0], (get_config().get("configurable") or {}).get(CHECKPOINTER)
        if thread is None or saver is None:
            return False
        known = self._savers.get(thread)
        if any(isinstance(each, AIMessage) for each in messages):
            self._savers[thread] = saver
            if len(self._savers) > MOST_NESTED:
                self._savers.popitem(last=False)
        return known is saver

    def _conversation(self, messages: Sequence[AnyMessage] = ()) -> str | None:
        """The id of the running conversation; None without a thread.

        An agent inside another graph has its own list of messages. It is identified by its place and its
        first message, because an agent that is called as a tool begins anew each time, and may run several
        times at once.
        """
        thread, outer = _place()
        if thread is None or not outer:
            return thread
        if messages and (thread, outer) not in self._nested:
            names = "/".join(part.partition(NS_END)[0] for part in outer.split(NS_SEPARATOR))
            first = "" if self.rewrite_state else f"/{messages[0].id}"  # a summary may replace it
            self._nested[thread, outer] = f"{thread}/{names}{first}"
            if len(self._nested) > MOST_NESTED:
                self._nested.popitem(last=False)
        return self._nested.get((thread, outer), f"{thread}/{outer}")

    def _memory_tools(self) -> list[BaseTool]:
        session = self._pool.session
        if session is not None:
            return [self._tool(session.memory_search), self._tool(session.memory_get)]
        # These only describe the tools. A call goes to the session of its conversation.
        return [
            self._tool(memory_search(lambda _query, _limit, **_: [])),
            self._tool(memory_get(lambda _handle: None)),
        ]

    def _tool(self, tool: Tool) -> BaseTool:
        def call(**arguments: Any) -> str:
            with self._pool.door(self._conversation(), _place()[0]) as door:
                return _called(getattr(door.session, tool.name), arguments)

        async def acall(**arguments: Any) -> str:
            async with self._pool.adoor(self._conversation(), _place()[0]) as door:
                return await asyncio.to_thread(_called, getattr(door.session, tool.name), arguments)

        return StructuredTool.from_function(
            func=call,
            coroutine=acall,
            name=tool.name,
            description=tool.description,
            args_schema=tool.definition()["function"]["parameters"],
            infer_schema=False,
            handle_tool_error=True,
        )


def _called(tool: Tool, arguments: Mapping[str, Any]) -> str:
    """The answer of *tool*. An error becomes a ``ToolException``, whose text the model reads."""
    try:
        return tool.run(tool.read(arguments))
    except ToolError as error:
        raise ToolException(str(error)) from error


def _place() -> tuple[str | None, str]:
    """The id of the running thread, and the namespace of the outer graphs; empty for the outermost graph."""
    configurable = get_config().get("configurable") or {}
    thread = configurable.get("thread_id")
    outer = str(configurable.get("checkpoint_ns") or "").rpartition(NS_SEPARATOR)[0]
    return None if thread is None else str(thread), outer


def _identified(messages: list[AnyMessage]) -> list[AnyMessage]:
    """*messages*, each with an id, by which LangGraph identifies them."""
    if None in map(_ID, messages):
        for message in messages:
            if message.id is None:
                message.id = str(uuid4())
    return messages


def _rewritten(ready: Ready[AnyMessage], stored: list[AnyMessage]) -> dict[str, Any] | None:
    """The update that turns the state into the view; None if the state is already the view."""
    history = ready.history
    if is_same(history, stored):
        return None
    return {"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES), *history]}
