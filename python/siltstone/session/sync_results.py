"""Results of tools on their way into a session."""

from __future__ import annotations

from types import EllipsisType
from typing import TYPE_CHECKING, Any, TypeVar

from siltstone.llm import Steps
from siltstone.messages import RawMessage
from siltstone.session.calls import SessionCalls

__all__ = ["OFFLOAD_TOKENS", "SessionResults"]

T = TypeVar("T")

OFFLOAD_TOKENS = 1_000  #: of a result that is offloaded, so many stay in view where nobody says otherwise


class SessionResults:
    """The calls of a ``Session`` that are about results of tools."""

    _calls: SessionCalls

    if TYPE_CHECKING:

        def _run(self, flow: Steps[T], timeout: float | EllipsisType | None = ...) -> T: ...

    def offload(self, result: RawMessage, tokens: int = OFFLOAD_TOKENS, *, usage: Any = None) -> range:
        """Appends a message with a large result of a tool, of which the context is never sent all.

        The log has it whole before anything else happens. The view has its head and its tail, and between
        them how much was cut and the handle by which ``memory_get`` reads it, by lines or by a pattern; a
        search finds it. A result that is small enough, or words, are appended as by :meth:`append`.

        Args:
            result: A message in any dialect with the result of a tool.
            tokens: The most tokens of it in view, 64 or more.
            usage: As for :meth:`append`.

        Returns:
            Its sequence number, as a range of one.

        Raises:
            ConfigError: *tokens* is too small.
            InvalidMessageError: not a message. Nothing was written.
            StoreError: the store could not write: nothing was, or the message was and is not cut yet, which
                the session's policy does at the next boundary that needs it.
            SessionBusyError: another thread's compaction took longer than ``compaction_timeout``.
        """
        return self._run(self._calls.offload(result, tokens, usage))
