"""Results of tools on their way into an async session: the twin of ``sync_results``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from siltstone.llm import Steps
from siltstone.messages import RawMessage
from siltstone.session.calls import SessionCalls
from siltstone.session.sync_results import OFFLOAD_TOKENS

__all__ = ["AsyncSessionResults"]

T = TypeVar("T")


class AsyncSessionResults:
    """The calls of an ``AsyncSession`` that are about results of tools; see ``Session``."""

    _calls: SessionCalls

    if TYPE_CHECKING:

        async def _run(self, flow: Steps[T], *, now: bool = False) -> T: ...

    async def offload(self, result: RawMessage, tokens: int = OFFLOAD_TOKENS, *, usage: Any = None) -> range:
        """Appends a message with a large result of a tool, of which the context is never sent all."""
        return await self._run(self._calls.offload(result, tokens, usage))
