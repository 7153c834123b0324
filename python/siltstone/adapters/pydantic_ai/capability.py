"""The capability: memory and compaction for an ``Agent``."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from siltstone.adapters.base import Ready, acalled_tool, requires
from siltstone.adapters.edits import is_same
from siltstone.adapters.pool import MOST_OPEN, Pool, Source, named_by_host
from siltstone.adapters.pydantic_ai.messages import PydanticAIDialect
from siltstone.tools import Tool, memory_get, memory_search

with requires("pydantic-ai"):
    from pydantic_ai import RunContext
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.messages import ModelMessage, ModelResponse
    from pydantic_ai.models import ModelRequestContext
    from pydantic_ai.run import AgentRunResult
    from pydantic_ai.tools import Tool as PydanticTool
    from pydantic_ai.toolsets import FunctionToolset
    from pydantic_ai.usage import RequestUsage

try:
    from pydantic_ai.exceptions import RetryModelRequest as _Retry
except ImportError:  # before 2.64 a hook cannot ask for a second attempt
    _Retry = None

__all__ = ["SiltstoneCapability"]

DepsT = TypeVar("DepsT")

MOST_RUNS = 1_000  #: the number of runs whose newest request is remembered


@dataclass(init=False)
class SiltstoneCapability(AbstractCapability[DepsT], Generic[DepsT]):
    """Keeps each request within the window, recalls earlier messages, and gives the model ``memory_search``.

    By default the history of a run keeps every message, and the model sees the session's view. A summary is a
    ``CompactionPart`` in a request of its own. Recalled text is only in the request. The cost of siltstone's
    own model calls is in the run's usage.

    Args:
        session: The session of the agent's only conversation; or a store, or a function that opens the
            session of a conversation. The name of a conversation is the ``conversation_id``. Its sessions are
            closed by :meth:`close`.
        rewrite_history: Whether a compaction also shortens the history that the run returns.
        tools: Whether the model gets the tools ``memory_search`` and ``memory_get``.
        most_open: The maximum number of sessions that stay open without a run, if *session* is no session.
        options: The options of the sessions of a store, as of ``Session.open``.

    Raises:
        ConfigError: *session* is neither a session, nor a store, nor a function; *most_open* is below 1; or
            there are options, and no store.
    """

    session: Source
    rewrite_history: bool
    tools: bool

    def __init__(
        self,
        session: Source,
        *,
        rewrite_history: bool = False,
        tools: bool = True,
        most_open: int = MOST_OPEN,
        **options: Any,
    ) -> None:
        super().__init__()
        self.session, self.rewrite_history, self.tools = session, rewrite_history, tools
        self._pool = Pool(session, PydanticAIDialect(), most_open=most_open, options=options)
        self._sent: OrderedDict[str, Ready[ModelMessage]] = OrderedDict()  # by run: the newest request
        self._smaller: dict[str, list[ModelMessage]] = {}  # by run: what replaces a refused request

    async def before_model_request(
        self, ctx: RunContext[DepsT], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Replaces the history by the session's view in this request."""
        stored = list(ctx.messages)
        async with self._pool.adoor(ctx.conversation_id, named_by_host(ctx.conversation_id)) as door:
            ready = await door.aprepare(stored, request_context.messages)
        self._account(ctx, ready)
        request_context.messages = ready.messages
        self._sent[_run(ctx)] = ready
        while len(self._sent) > MOST_RUNS:  # of runs that were cancelled
            self._sent.popitem(last=False)
        if self.rewrite_history and not is_same(history := ready.history, stored):
            ctx.messages[:] = history
        return request_context

    async def prepare_model_request(
        self, ctx: RunContext[DepsT], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Sends a smaller request, if the provider refused the last one as too large."""
        smaller = self._smaller.pop(_run(ctx), None)
        if smaller is not None:
            request_context.messages = smaller
        return request_context

    async def on_model_request_error(
        self,
        ctx: RunContext[DepsT],
        *,
        request_context: ModelRequestContext,  # noqa: ARG002
        error: Exception,
    ) -> ModelResponse:
        """Asks for another attempt with a smaller request, if the provider refused this one as too large.

        Before pydantic-ai 2.64 there is no second attempt, and the error goes to the caller.
        """
        if _Retry is None:
            raise error
        async with self._pool.adoor(ctx.conversation_id, named_by_host(ctx.conversation_id)) as door:
            ready = await door.arecover(error, self._sent[_run(ctx)])  # raises *error* if it cannot help
        self._account(ctx, ready)
        self._smaller[_run(ctx)] = ready.messages
        if self.rewrite_history:
            ctx.messages[:] = ready.history
        raise _Retry

    async def after_run(self, ctx: RunContext[DepsT], *, result: AgentRunResult[Any]) -> AgentRunResult[Any]:
        """Gives the final answer to the session."""
        self._sent.pop(_run(ctx), None)
        async with self._pool.adoor(ctx.conversation_id, named_by_host(ctx.conversation_id)) as door:
            await door.aobserve(result.all_messages())
        return result

    def get_toolset(self) -> FunctionToolset[DepsT] | None:
        """The tools ``memory_search`` and ``memory_get``."""
        if not self.tools:
            return None
        session = self._pool.session
        found = [memory_search(lambda _query, _limit, **_: []), memory_get(lambda _handle: None)]
        if session is not None:
            found = [session.memory_search, session.memory_get]
        return FunctionToolset([self._tool(each) for each in found])

    async def close(self) -> None:
        """Closes the sessions that were opened for conversations."""
        await self._pool.aclose()

    def _tool(self, tool: Tool) -> PydanticTool[DepsT]:
        made: PydanticTool[DepsT] = PydanticTool.from_schema(
            self._caller(tool.name),
            name=tool.name,
            description=tool.description,
            json_schema=tool.definition()["function"]["parameters"],
            takes_ctx=True,
        )
        return made

    def _caller(self, name: str) -> Callable[..., Any]:
        async def call(ctx: RunContext[DepsT], **arguments: Any) -> str:
            async with self._pool.adoor(ctx.conversation_id, named_by_host(ctx.conversation_id)) as door:
                return await acalled_tool(getattr(door.session, name), arguments)

        return call

    def _account(self, ctx: RunContext[DepsT], ready: Ready[ModelMessage]) -> None:
        """Adds the cost of siltstone's own model calls to the usage of the run."""
        for each in ready.usage:
            ctx.usage.incr(
                RequestUsage(
                    input_tokens=each.input_tokens,
                    output_tokens=each.output_tokens,
                    cache_read_tokens=each.cached_tokens,
                )
            )


def _run(ctx: RunContext[Any]) -> str:
    return str(ctx.run_id)
