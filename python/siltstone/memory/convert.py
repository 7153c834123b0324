"""Converts times, ranges and rows from their Python form to the form of the Rust core, and back."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeAlias

from siltstone import _native
from siltstone.errors import InvalidEntryError, refuse
from siltstone.memory.entry import Entry, SearchHit, SearchOptions, SessionInfo, SourceRange, StoredEntry
from siltstone.memory.log import CompactionRow, Derived, LogRow, NewCompaction, NewRef, ViewItem
from siltstone.messages import Message, Role, decode, read_message

_Repeated: TypeAlias = "tuple[int, int, int] | None"
HitRow: TypeAlias = (
    "tuple[str, float, tuple[int, int], int, str, int, dict[str, Any] | None, str | None, _Repeated]"
)
"""Content, score, messages, id, role, time, explanation, the session where several were searched, and how
often, from when and until when it was said."""

ShownMessage: TypeAlias = "tuple[int, Role, str, dict[str, Any], int]"
"""Number, role, text, message and time of a message that is a role and a text."""

MAX_INTEGER = 2**63 - 1  #: the largest integer of SQLite

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)
_FIRST = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // MILLISECOND
LAST_TIME = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // MILLISECOND  #: milliseconds to the end of 9999
_ONCE = 1, None, None
_EXACT = 2**33 * 1000  # milliseconds up to the year 2242: until then float seconds are exact to 0.5 µs

# A frozen class sets its fields by name, in a loop of its own; a search makes ten hits, and these are
# a third of the time.
_HIT: Final = (
    "content", "score", "source_range", "entry_id", "role", "created_at", "explain", "session_id", "times",
    "first_at", "last_at", "_asked",
)  # fmt: skip
_SETTERS: Final = [getattr(SearchHit, field).__set__ for field in _HIT]


# All fields of a row in one step: a long log is read at every opening of its session.
_message_fields = attrgetter(*LogRow.__annotations__)

#: Fields of a compaction that a row of the core has in the same form.
_SAME_IN_ROWS: Final = set(NewCompaction._fields) - {"covers", "view", "derived"}


def milliseconds(when: datetime | float | None) -> int:
    """Milliseconds since 1970, UTC, rounded down; of now for None. A datetime without a zone is UTC.

    Raises:
        InvalidEntryError: no time, or a number of seconds that no datetime can hold.
    """
    if when is None:
        return time.time_ns() // 1_000_000
    if isinstance(when, datetime):
        aware = when if when.tzinfo is not None else when.replace(tzinfo=UTC)
        return (aware - _EPOCH) // MILLISECOND
    if not isinstance(when, int | float):
        raise InvalidEntryError(
            f"a time must be a datetime, or seconds since 1970, got {when!r}: words are for the model's tool",
            value=when,
        )
    if math.isfinite(when) and _FIRST <= (stamp := math.floor(when * 1000)) <= LAST_TIME:
        return stamp
    raise InvalidEntryError(f"a time must be seconds between the years 1 and 9999, got {when!r}", value=when)


def datetime_from(stamp: int) -> datetime:
    """The time *stamp* milliseconds after 1970, in UTC."""
    if 0 <= stamp < _EXACT:
        return datetime.fromtimestamp(stamp / 1000, UTC)  # rounds to microseconds
    return _EPOCH + stamp * MILLISECOND


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


def is_across(options: SearchOptions) -> bool:
    """Whether a search is in the whole namespace.

    Raises:
        ConfigError: no such scope.
    """
    scope = options.get("scope", "session")
    if scope not in ("session", "namespace"):
        refuse("scope", "'session' or 'namespace'", scope)
    return scope == "namespace"


def conditions_in(given: SearchOptions, known: type) -> dict[str, Any]:
    """The filters of *given* as the core takes them, without ``topic`` and ``entity``.

    Raises:
        TypeError: an option that *known*, the options of the store, does not have.
        InvalidEntryError: *until* is not after *since*, or one of them is no time.
    """
    unknown = given.keys() - known.__annotations__.keys()
    if unknown:
        raise TypeError(f"search() got an unexpected keyword argument {min(unknown)!r}")
    times = (given.get("since"), given.get("until"))
    since, until = (None if each is None else milliseconds(each) for each in times)
    if since is not None and until is not None and since >= until:
        raise InvalidEntryError(
            f"since must be before until, got {times[0]!r} and {times[1]!r}", since=since, until=until
        )
    named = {"role": given.get("role"), "kind": given.get("kind"), "name": given.get("name")}
    conditions = {"since": since, "until": until, **named}
    return {name: value for name, value in conditions.items() if value is not None}


def session_info(row: _native.SessionRow) -> SessionInfo:
    """A session in a list."""
    begun, active = (None if at is None else datetime_from(at) for at in (row.first_at, row.last_at))
    counts = row.messages, row.entries, row.compactions, row.tokens
    return SessionInfo(row.name, row.namespace, row.title, *counts, begun, active)


def stored_entry(entry: _native.StoredEntry) -> StoredEntry:
    """*entry* as users see it."""
    return StoredEntry(
        entry.entry_id,
        entry.session_id,
        entry.content,
        SourceRange(entry.start, entry.end),
        entry.role,
        entry.name,
        entry.kind,
        datetime_from(entry.created_at),
        entry.repaired,
        None if entry.expires_at is None else datetime_from(entry.expires_at),
        entry.compaction,
    )


def search_hit(found: HitRow, session_id: str, asked: _native.Asked) -> SearchHit:
    """*found* as users see it: a hit of a search in *session_id*, with the query *asked*."""
    content, score, place, entry_id, role, created_at, explain, session, repeated = found
    times, first, last = repeated or _ONCE
    values = (
        content, score, tuple.__new__(SourceRange, place), entry_id, role, datetime_from(created_at), explain,
        session or session_id, times, None if first is None else datetime_from(first),
        None if last is None else datetime_from(last), asked,
    )  # fmt: skip
    hit = object.__new__(SearchHit)
    for put, value in zip(_SETTERS, values, strict=True):
        put(hit, value)
    return hit


def asked_for(hit: SearchHit, query: str) -> SearchHit:
    """*hit* with its *query*, for its passage and snippet."""
    _SETTERS[-1](hit, _native.Asked.of(query))
    return hit


def with_filters(hits: list[SearchHit], wanted: dict[str, Any], given: SearchOptions) -> list[SearchHit]:
    """*hits* with the filters in their explanations: times in milliseconds since 1970."""
    tags = {"topic": given.get("topic"), "entity": given.get("entity")}
    asked = {**wanted, **{name: value for name, value in tags.items() if value is not None}}
    for hit in hits if asked else ():
        if hit.explain is not None:
            hit.explain["filters"] = asked
    return hits


def message_from_row(row: _native.LogRow) -> LogRow:
    """A message from its row in the core."""
    return LogRow(*_message_fields(row))


def message_of(row: LogRow) -> Message:
    """A message read back from the log."""
    raw = decode(row.raw)
    return read_message(raw, row.seq, dialect=row.dialect, provenance=row.provenance, is_stored=True)


def shown_message(row: ShownMessage | _native.LogRow) -> tuple[Message, int]:
    """A message of the log, and its time."""
    if isinstance(row, tuple):
        seq, role, said, raw, created_at = row
        return Message.of_text(seq, role, said, raw), created_at
    return message_of(message_from_row(row)), row.created_at


def compaction_from_row(row: _native.Compaction) -> CompactionRow:
    """A compaction from its row in the core."""
    view = tuple(_view_item(item) for item in json.loads(row.view))
    same = {name: getattr(row, name) for name in _SAME_IN_ROWS}
    compaction = NewCompaction(**same, covers=_ranges(row.covers), view=view, derived=())
    return CompactionRow(row.compaction_id, row.parent, compaction, tuple(row.derived_ids))


def derived_from_row(row: _native.Derived) -> Derived:
    """A derived text from its row in the core."""
    fields: dict[str, Any] = {name: getattr(row, name) for name in Derived._fields}
    return Derived(**{**fields, "covers": _ranges(row.covers)})


def _ranges(text: str) -> tuple[tuple[int, int], ...]:
    return tuple((start, end) for start, end in json.loads(text))


def _view_item(item: list[int] | int) -> ViewItem:
    return item if isinstance(item, int) else (item[0], item[1])


# The rows that a store writes, in the form of the core. A process that only reads does not need them.


class NewEntry(NamedTuple):
    """An entry as the core takes it."""

    content: str
    start: int
    end: int
    role: str
    name: str | None
    kind: str
    created_at: int
    expires_at: int | None = None


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


def compaction_to_row(compaction: NewCompaction) -> Any:
    """*compaction* as the core takes it: ranges as JSON; new derived texts are -1, -2, ... in the view."""
    view = [-1 - item.place if isinstance(item, NewRef) else item for item in compaction.view]
    row: Any = compaction  # whose fields have other types in the core
    derived = [text._replace(covers=json.dumps(text.covers)) for text in row.derived]
    return row._replace(covers=json.dumps(compaction.covers), view=json.dumps(view), derived=derived)
