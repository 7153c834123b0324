"""Tells which messages of a session are in context, so that a search need not return them."""

from __future__ import annotations

from dataclasses import dataclass

from siltstone.memory.convert import MAX_INTEGER
from siltstone.memory.entry import SourceRange
from siltstone.session.core import SessionCore
from siltstone.session.loading import content_of, line_of
from siltstone.session.range_set import RangeSet, has, minus

__all__ = ["InContext", "Outside"]


@dataclass(frozen=True, slots=True, eq=False)
class Outside:
    """The messages that are not in context verbatim, and can be found.

    Attributes:
        left: Ranges of messages that are not shown.
        substituted: Messages of which the context shows a shorter text.
    """

    left: RangeSet
    substituted: frozenset[int]


class InContext:
    """The context of a session: its view, or the last request if the policy shapes requests."""

    def __init__(self, core: SessionCore) -> None:
        self._core = core
        self._known: tuple[object, Outside] | None = None

    def outside(self) -> Outside:
        """The messages that are not in context. The same object is returned until they change."""
        core = self._core
        state, request = core.state, core.requests.last
        head = None if state.head is None else state.head.compaction_id
        at = head, state.version.redactions, request
        if self._known is None or self._known[0] != at:
            if request is not None:
                line = line_of(core.rows, content_of(state.head), MAX_INTEGER)
                outside = Outside(minus(line, request.shown), frozenset())
            else:
                view = () if state.head is None else state.view
                cut = frozenset(item.message.seq for item in view if item.message.provenance == "substitute")
                outside = Outside(() if state.head is None else state.head.compaction.covers, cut)
            self._known = at, outside
        return self._known[1]

    def shows(self, session_id: str, source_range: SourceRange) -> bool:
        """Whether the context has one of the messages of *source_range* verbatim."""
        if session_id != self._core.session_id:
            return False
        start, end = source_range
        outside = self.outside()
        if end - start == 1 and start in outside.substituted:
            return False
        end = min(end, self._core.state.end)
        return not has(outside.left, start, end)
