"""How do times, ranges and rows look on either side of the wall?"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

from siltstone.errors import InvalidEntryError
from siltstone.memory.entry import Entry, SearchHit, SourceRange, StoredEntry
from siltstone.memory.log import CompactionRow, LogRow, NewCompaction, NewMessage, ViewItem

__all__ = [
    "MAX_INTEGER",
    "EntryRow",
    "compaction_from_row",
    "compaction_to_row",
    "datetime_from",
    "entry_from_row",
    "entry_to_row",
    "hit_from_row",
    "message_from_row",
    "message_to_row",
    "milliseconds",
    "range_of",
]

MAX_INTEGER = 2**63 - 1  #: what SQLite keeps

EntryRow: TypeAlias = tuple[str, int, int, str, str | None, str, int]
"""text, start, end, role, name, kind, created_at."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_FIRST = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // _MILLISECOND
_LAST = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MILLISECOND
_EXACT = 2**33 * 1000  # up to which seconds as a float are right to half a microsecond; in the year 2242

# A frozen class sets its fields by name, in a loop of its own; a search makes ten hits, and these are
# a third of the time.
_SET_CONTENT, _SET_SCORE, _SET_RANGE, _SET_ID, _SET_ROLE, _SET_TIME, _SET_EXPLAIN = (
    vars(SearchHit)[field].__set__
    for field in ("content", "score", "source_range", "entry_id", "role", "created_at", "explain")
)


def milliseconds(when: datetime | float | None) -> int:
    """Milliseconds since 1970, UTC, rounded down; of now for None. A datetime without a zone is UTC.

    Raises:
        InvalidEntryError: a number of seconds that no datetime can hold.
    """
    if when is None:
        return time.time_ns() // 1_000_000
    if isinstance(when, datetime):
        aware = when if when.tzinfo is not None else when.replace(tzinfo=UTC)
        return (aware - _EPOCH) // _MILLISECOND
    if math.isfinite(when) and _FIRST <= (stamp := math.floor(when * 1000)) <= _LAST:
        return stamp
    raise InvalidEntryError(f"a time must be seconds between the years 1 and 9999, got {when!r}", value=when)


def datetime_from(stamp: int) -> datetime:
    """The moment that many milliseconds after 1970, in UTC."""
    if 0 <= stamp < _EXACT:
        return datetime.fromtimestamp(stamp / 1000, UTC)  # rounds to microseconds
    return _EPOCH + stamp * _MILLISECOND


def range_of(value: Iterable[int], name: str) -> tuple[int, int]:
    """*value* as a half-open range.

    Raises:
        InvalidEntryError: not two integers with ``0 <= start <= end``, in 63 bits.
    """
    start, end = value
    if 0 <= start <= end <= MAX_INTEGER:
        return start, end
    raise InvalidEntryError(
        f"{name} must be 0 <= start <= end < 2**63, got {(start, end)!r}", value=(start, end)
    )


def entry_to_row(entry: Entry) -> EntryRow:
    """*entry* as the core takes it."""
    start, end = range_of(entry.source_range, "source_range")
    return entry.content, start, end, entry.role, entry.name, entry.kind, milliseconds(entry.created_at)


def entry_from_row(row: tuple[Any, ...]) -> StoredEntry:
    """What the core holds of an entry: id, session, text, start, end, role, name, kind, time, repaired."""
    entry_id, session_id, text, start, end, role, name, kind, created_at, repaired = row
    return StoredEntry(
        entry_id=entry_id,
        session_id=session_id,
        content=text,
        source_range=SourceRange(start, end),
        role=role,
        name=name,
        kind=kind,
        created_at=datetime_from(created_at),
        repaired=repaired,
    )


def hit_from_row(row: tuple[Any, ...]) -> SearchHit:
    """What the core found: id, text, start, end, role, name, kind, time, repaired, score, explanation."""
    entry_id, text, start, end, role, _name, _kind, created_at, _repaired, score, explain = row
    hit = object.__new__(SearchHit)
    _SET_CONTENT(hit, text)
    _SET_SCORE(hit, score)
    _SET_RANGE(hit, tuple.__new__(SourceRange, (start, end)))
    _SET_ID(hit, entry_id)
    _SET_ROLE(hit, role)
    _SET_TIME(hit, datetime_from(created_at))
    _SET_EXPLAIN(hit, explain)
    return hit


def message_to_row(message: NewMessage) -> tuple[str, str, str, str, int, int]:
    """*message* as the core takes it."""
    return (
        message.raw,
        message.role,
        message.dialect,
        message.provenance,
        message.tokens,
        message.created_at,
    )


def message_from_row(row: tuple[Any, ...]) -> LogRow:
    """What the core holds of a message: seq, and then as it came in."""
    return LogRow(*row)


def compaction_to_row(compaction: NewCompaction) -> tuple[Any, ...]:
    """*compaction* as the core takes it: its ranges as JSON."""
    return (
        compaction.policy,
        compaction.reason,
        compaction.level,
        compaction.degraded,
        compaction.summary,
        json.dumps(compaction.covers),
        json.dumps(compaction.view),
        compaction.next_seq,
        compaction.model,
        compaction.usage,
        compaction.tokens_before,
        compaction.tokens_after,
        compaction.messages_before,
        compaction.messages_after,
        compaction.created_at,
    )


def compaction_from_row(row: tuple[Any, ...]) -> CompactionRow:
    """What the core holds of a compaction: id, parent, and then as it came in, and if it was redacted."""
    compaction_id, parent, policy, reason, level, degraded, summary, covers, view, *rest, redacted = row
    compaction = NewCompaction(
        policy,
        reason,
        level,
        degraded,
        summary,
        tuple((start, end) for start, end in json.loads(covers)),
        tuple(_view_item(item) for item in json.loads(view)),
        *rest,
    )
    return CompactionRow(compaction_id, parent, compaction, redacted)


def _view_item(item: list[int] | None) -> ViewItem:
    return None if item is None else (item[0], item[1])
