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
from siltstone.usage import UsageRecord

__all__ = ["AsyncLineage", "CompactionRecord", "Lineage"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CompactionRecord:
    """A compaction as the log remembers it.

    Attributes:
        id: Its id, never reused: what ``expand`` takes.
        parent: The compaction whose view it rewrote; None for one that rewrote the bare log.
        policy: The policy's name.
        reason: Why it was due.
        covers: The half-open ranges of sequence numbers that the summary stands for.
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
    found = [_record(row, row.compaction_id not in current) for row in rows]
    return [record for record in found if undone or not record.undone]


def view_at(core: Core, n: int) -> list[RawMessage]:
    """The view that the *n*-th compaction left; for 0 the history that the first one read."""
    rows, current = core.lineage()
    led = [row for row in rows if row.compaction_id in current]
    if type(n) is not int or not 0 <= n <= len(led):
        raise ConfigError(
            f"n must be 0 to {len(led)}, the compactions of session {core.session_id!r}, got {n!r}",
            field="n",
            value=n,
        )
    if n > 0:
        return core.view_left_by(led[n - 1].compaction)
    return list(core.read(0, led[0].compaction.next_seq if led else core.next_seq))


def undo(core: Core) -> CompactionRecord | None:
    """Takes the last compaction back; None where there is none."""
    row = core.undo()
    return None if row is None else _record(row, True)


def expand(core: Core, summary_id: int) -> list[dict[str, Any]]:
    """The messages that a summary stands for, in order, those of the summaries it replaced included."""
    rows, _ = core.lineage()
    for row in rows:
        if row.compaction_id == summary_id:
            return [raw for covered in row.compaction.covers for raw in core.read(*covered)]
    raise CompactionNotFoundError(
        f"session {core.session_id!r} has no compaction {summary_id!r}", compaction_id=summary_id
    )


def _record(row: CompactionRow, undone: bool) -> CompactionRecord:
    compaction = row.compaction
    return CompactionRecord(
        id=row.compaction_id,
        parent=row.parent,
        policy=compaction.policy,
        reason=compaction.reason,
        covers=compaction.covers,
        level=compaction.level,
        summary=compaction.summary,
        tokens_before=compaction.tokens_before,
        tokens_after=compaction.tokens_after,
        messages_before=compaction.messages_before,
        messages_after=compaction.messages_after,
        usage=tuple(UsageRecord(**record) for record in json.loads(compaction.usage)),
        created_at=datetime_from(compaction.created_at),
        degraded=compaction.degraded,
        undone=undone,
        redacted=row.redacted,
    )


class Lineage:
    """The way back, for :class:`siltstone.Session`."""

    _core: Core
    _last: Any

    def compactions(self, *, undone: bool = False) -> list[CompactionRecord]:
        """The compactions that led to the current view, oldest first.

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
        """Takes the last compaction back, in one transaction. The compaction; None where there is none.

        The view is then what it was before, and after it whatever was appended since. What is in context
        again is not found by a search any more: the entries that this compaction brought are deleted;
        those that were indexed by a caller stay. The next compaction brings entries anew. When the next
        one is due does not change.

        Raises:
            StoreConflictError: a compaction is in flight, or another writer moved on. Nothing was changed.
        """
        self._last = None
        return undo(self._core)

    def expand(self, summary_id: int) -> list[dict[str, Any]]:
        """The original messages that a summary stands for, through summaries of summaries.

        Args:
            summary_id: The id of a compaction of this session, undone or not.

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
