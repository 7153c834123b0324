"""The rows that a store writes, in the form of the core. A process that only reads does not need them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import timedelta

from siltstone.errors import InvalidEntryError
from siltstone.memory.convert import LAST_TIME, MILLISECOND, milliseconds, range_of
from siltstone.memory.entry import Entry
from siltstone.memory.log import NewCompaction, NewDerived, NewRef

__all__ = ["CompactionIn", "DerivedIn", "NewEntry", "compaction_to_row", "derived_to_row", "new_entry"]


@dataclass(slots=True)
class NewEntry:
    """An entry as the core takes it."""

    content: str
    start: int
    end: int
    role: str
    name: str | None
    kind: str
    created_at: int
    expires_at: int | None = None


@dataclass(slots=True)
class DerivedIn:
    """A derived text as the core takes it: its ranges as JSON."""

    kind: str
    raw: str
    covers: str
    seq: int | None
    level: int
    degraded: bool
    dialect: str


@dataclass(slots=True)
class CompactionIn:
    """A compaction as the core takes it: its ranges and its view as JSON."""

    policy: str
    reason: str
    state: str
    covers: str
    view: str
    next_seq: int
    model: str
    usage: str
    tokens_before: int
    tokens_after: int
    messages_before: int
    messages_after: int
    created_at: int
    notes: str
    derived: list[DerivedIn]


def new_entry(entry: Entry) -> NewEntry:
    """*entry* as the core takes it.

    Raises:
        InvalidEntryError: its range, its time or its ttl is invalid.
    """
    start, end = range_of(entry.source_range, "source_range")
    stamp, ttl = milliseconds(entry.created_at), entry.ttl
    ends = None if ttl is None else stamp + _ttl(ttl, LAST_TIME - stamp)
    return NewEntry(entry.content, start, end, entry.role, entry.name, entry.kind, stamp, ends)


def _ttl(ttl: timedelta, most: int) -> int:
    """*ttl* in milliseconds, rounded up: 1 to *most*, the time to the end of the year 9999."""
    if isinstance(ttl, timedelta) and timedelta(0) < ttl <= most * MILLISECOND:
        return -(-ttl // MILLISECOND)
    raise InvalidEntryError(
        f"ttl must be None, or a timedelta > 0 that ends before the year 10000, got {ttl!r}", value=ttl
    )


def compaction_to_row(compaction: NewCompaction) -> CompactionIn:
    """*compaction* as the core takes it: ranges as JSON; new derived texts are -1, -2, ... in the view."""
    view = [-1 - item.place if isinstance(item, NewRef) else item for item in compaction.view]
    return CompactionIn(
        compaction.policy,
        compaction.reason,
        compaction.state,
        json.dumps(compaction.covers),
        json.dumps(view),
        compaction.next_seq,
        compaction.model,
        compaction.usage,
        compaction.tokens_before,
        compaction.tokens_after,
        compaction.messages_before,
        compaction.messages_after,
        compaction.created_at,
        compaction.notes,
        [derived_to_row(text) for text in compaction.derived],
    )


def derived_to_row(text: NewDerived) -> DerivedIn:
    """*text* as the core takes it."""
    covers = json.dumps(text.covers)
    return DerivedIn(text.kind, text.raw, covers, text.seq, text.level, text.degraded, text.dialect)
