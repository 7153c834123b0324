"""What happened to a history: its compactions, the views they left, and the way back."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from siltstone.errors import CompactionNotFoundError, ConfigError
from siltstone.memory.convert import datetime_from
from siltstone.memory.log import CompactionRow
from siltstone.messages import RawMessage
from siltstone.session.core import Core
from siltstone.session.past import BRANCH, UNDO
from siltstone.usage import UsageRecord

__all__ = ["AsyncLineage", "CompactionRecord", "Lineage"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CompactionRecord:
    """A compaction as the log remembers it, or a branch: a past that the host's list has rewritten.

    A branch has the reason ``"branch"``, no policy and no summary, and level 0; it covers what has left.

    Attributes:
        id: Its id, never reused: what ``expand`` takes.
        parent: The compaction whose view it rewrote; None for one that rewrote the bare log. After the undo
            of a branch it may be an id that no record has.
        policy: The policy's name.
        reason: Why it was due.
        covers: The half-open ranges of sequence numbers that the summary stands for; of a branch, those of
            the messages that left.
        level: 1 for a summary of messages, one more than the highest it replaced otherwise.
        summary: The summary as the model reads it, with its frame.
        tokens_before: The view before, by the policy's rule.
        tokens_after: And after.
        messages_before: Messages in the view before.
        messages_after: And after.
        usage: Every model call it cost.
        created_at: When it was committed, in UTC.
        degraded: The summary was made without the intended model.
        undone: It is not part of what led to the current view.
        redacted: Something that it covered was forgotten, and ``summary`` says so and nothing else.
    """

    id: int
    parent: int | None
    policy: str
    reason: str
    covers: tuple[tuple[int, int], ...]
    level: int
    summary: str
    tokens_before: int
    tokens_after: int
    messages_before: int
    messages_after: int
    usage: tuple[UsageRecord, ...]
    created_at: datetime
    degraded: bool
    undone: bool
    redacted: bool


def records(core: Core, *, undone: bool) -> list[CompactionRecord]:
    """The compactions that led to the current view, oldest first; with *undone* the others as well."""
    rows, current = core.lineage()
    found = [_record(core, row, row.compaction_id not in current) for row in rows if _is_shown(row)]
    return [record for record in found if undone or not record.undone]


def view_at(core: Core, n: int) -> list[RawMessage]:
    """The view that the *n*-th compaction left; for 0 the history that the first one read."""
    rows, current = core.lineage()
    led = [row for row in rows if row.compaction_id in current and _is_shown(row)]
    if type(n) is not int or not 0 <= n <= len(led):
        raise ConfigError(
            f"n must be 0 to {len(led)}, the compactions of session {core.session_id!r}, got {n!r}",
            field="n",
            value=n,
        )
    if n > 0:
        return core.view_left_by(led[n - 1].compaction)
    return [item.message.raw for item in core.view_before(led[0] if led else None)]


def undo(core: Core) -> CompactionRecord | None:
    """Takes the last compaction back; None where there is none."""
    row = core.undo()
    return None if row is None else _record(core, row, True)


def expand(core: Core, summary_id: int) -> list[dict[str, Any]]:
    """The messages that a summary stands for, in order, those of the summaries it replaced included."""
    rows, _ = core.lineage()
    for row in rows:
        if row.compaction_id == summary_id and _is_shown(row):
            return [raw for covered in _covers(core, row) for raw in core.read(*covered)]
    raise CompactionNotFoundError(
        f"session {core.session_id!r} has no compaction {summary_id!r}", compaction_id=summary_id
    )


def _is_shown(row: CompactionRow) -> bool:
    """Whether somebody did it: what an undo had to write is no step of its own."""
    return row.compaction.reason != UNDO


def _covers(core: Core, row: CompactionRow) -> tuple[tuple[int, int], ...]:
    return core.left_by(row) if row.compaction.reason == BRANCH else row.compaction.covers


def _record(core: Core, row: CompactionRow, undone: bool) -> CompactionRecord:
    compaction = row.compaction
    has_summary = compaction.reason != BRANCH  # a branch repeats the one that its view has
    return CompactionRecord(
        id=row.compaction_id,
        parent=row.parent,
        policy=compaction.policy,
        reason=compaction.reason,
        covers=_covers(core, row),
        level=compaction.level if has_summary else 0,
        summary=compaction.summary if has_summary else "",
        tokens_before=compaction.tokens_before,
        tokens_after=compaction.tokens_after,
        messages_before=compaction.messages_before,
        messages_after=compaction.messages_after,
        usage=tuple(UsageRecord(**record) for record in json.loads(compaction.usage)),
        created_at=datetime_from(compaction.created_at),
        degraded=compaction.degraded,
        undone=undone,
        redacted=row.redacted and has_summary,
    )


class Lineage:
    """The way back, for :class:`siltstone.Session`."""

    _core: Core
    _last: Any

    def compactions(self, *, undone: bool = False) -> list[CompactionRecord]:
        """The compactions and branches that led to the current view, oldest first.

        Args:
            undone: Whether to list those that were undone as well. Nothing is ever deleted of them.
        """
        return records(self._core, undone=undone)

    def view_at(self, n: int) -> list[RawMessage]:
        """The view that the *n*-th of :meth:`compactions` left, without what was appended later.

        Args:
            n: 0 for the history before any: what the first compaction read.

        Raises:
            ConfigError: there are fewer compactions than *n*.
        """
        return view_at(self._core, n)

    def undo_compaction(self) -> CompactionRecord | None:
        """Takes the last compaction or branch back, in one transaction. None where there is none.

        Of a branch, the view is then exactly what it was before: what was said on the branch leaves it, and
        what had left can be found again as before. A host that hands in the list of the branch once more
        branches once more.

        Of a compaction, the view is then what it was before, and after it whatever was appended since. What
        is in context again is not found by a search any more: the entries that this compaction brought are
        deleted; those that were indexed by a caller stay. The next compaction brings entries anew. When the
        next one is due does not change.

        Raises:
            StoreConflictError: a compaction is in flight, or another writer moved on. Nothing was changed.
        """
        self._last = None
        return undo(self._core)

    def expand(self, summary_id: int) -> list[dict[str, Any]]:
        """The original messages that a summary stands for, through summaries of summaries.

        Args:
            summary_id: The id of a compaction of this session, undone or not; or of a branch, for the
                messages that left with it.

        Raises:
            CompactionNotFoundError: this session has no such compaction.
        """
        return expand(self._core, summary_id)


class AsyncLineage:
    """The same for :class:`siltstone.AsyncSession`; see :class:`siltstone.Session` for what each does."""

    _core: Core
    _last: Any

    async def compactions(self, *, undone: bool = False) -> list[CompactionRecord]:
        """The compactions that led to the current view, oldest first."""
        return await _in_thread(lambda: records(self._core, undone=undone))

    async def view_at(self, n: int) -> list[RawMessage]:
        """The view that the *n*-th of :meth:`compactions` left, without what was appended later."""
        return await _in_thread(lambda: view_at(self._core, n))

    async def undo_compaction(self) -> CompactionRecord | None:
        """Takes the last compaction back, in one transaction. The compaction; None where there is none."""
        self._last = None
        return await _in_thread(lambda: undo(self._core))

    async def expand(self, summary_id: int) -> list[dict[str, Any]]:
        """The original messages that a summary stands for, through summaries of summaries."""
        return await _in_thread(lambda: expand(self._core, summary_id))


async def _in_thread(step: Callable[[], T]) -> T:
    from siltstone.session.threads import in_thread  # asyncio takes longer to import than all of siltstone

    return await in_thread(step)
