"""What is to be forgotten, and what stands in its place?"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from siltstone.errors import ConfigError, EntryNotFoundError, InvalidMessageError
from siltstone.memory.base import Store
from siltstone.memory.convert import MAX_INTEGER, datetime_from, milliseconds, range_of
from siltstone.memory.entry import Page, StoredEntry
from siltstone.memory.log import CompactionRow, LogRow, SessionLog
from siltstone.messages import FORGOTTEN, decode, encode, indexable_text, read_message, texts_of, tombstone

__all__ = ["REPLACEMENT", "Criteria", "Target", "targets"]

REPLACEMENT = (
    "[Context compacted] A summary of earlier messages stood here. "
    "It was removed, because something that it covered was forgotten."
)  #: what a model reads in the place of a summary that was forgotten

_PAGE = 1_000  #: rows that are held at once


class Target(NamedTuple):
    """What is to be forgotten of one session: messages with their tombstones, and the rest by id."""

    session_id: str
    messages: list[tuple[int, str]]
    entries: list[int]
    summaries: list[int]
    staged: list[int]


@dataclass(frozen=True, slots=True)
class Criteria:
    """What ``forget`` was asked for. All that are given must hold; see ``MemoryStore.forget``."""

    entry_ids: frozenset[int] | None = None
    session_id: str | None = None
    span: tuple[int, int] | None = None
    name: str | None = None
    before: int | None = None
    text: str | None = None

    @classmethod
    def of(
        cls,
        *,
        entry_ids: Collection[int] | None,
        session_id: str | None,
        start: int | None,
        end: int | None,
        name: str | None,
        before: datetime | float | None,
        text: str | None,
    ) -> Criteria:
        """Checked criteria.

        Raises:
            ConfigError: none at all, an empty one, or a range without a session.
            InvalidEntryError: a range that is not ``0 <= start <= end``.
        """
        if all(each is None for each in (entry_ids, session_id, name, before, text)):
            raise ConfigError(
                "forget needs entry_ids, session_id, name, before or text; to forget everything, delete the "
                "directory of the closed store",
                field="session_id",
                value=None,
            )
        for field, value in (("name", name), ("text", text)):
            if value == "":
                raise ConfigError(f"{field} must not be empty, got ''", field=field, value=value)
        ranged = start is not None or end is not None
        if ranged and session_id is None:
            raise ConfigError("start and end need a session_id", field="session_id", value=None)
        return cls(
            None if entry_ids is None else frozenset(entry_ids),
            session_id,
            range_of((start or 0, MAX_INTEGER if end is None else end), "start, end") if ranged else None,
            name,
            None if before is None else milliseconds(before),
            text,
        )

    def entry(self, entry: StoredEntry) -> bool:
        """Whether *entry* is meant."""
        start, end = entry.source_range
        return (
            (self.entry_ids is None or entry.entry_id in self.entry_ids)
            and (self.span is None or max(start, self.span[0]) < min(end, self.span[1]))
            and (self.name is None or entry.name == self.name)
            and (self.before is None or entry.created_at < datetime_from(self.before))
            and (self.text is None or self.text in entry.content)
        )

    def message(self, row: LogRow) -> bool:
        """Whether the message itself is meant. One that an entry came from goes with the entry."""
        return (
            self.entry_ids is None
            and (self.span is None or self.span[0] <= row.seq < self.span[1])
            and (self.before is None or row.created_at < self.before)
            and (self.name is None or self.name in _names(row))
            and (self.text is None or any(self.text in text for text in _texts(row)))
        )

    def summary(self, row: CompactionRow) -> bool:
        """Whether a summary is meant by what it says; one that covers a forgotten message goes anyway."""
        said = self.text is not None and self.text in row.compaction.summary
        return said and self.entry_ids is None and self.span is None and self.name is None and self._old(row)

    def _old(self, row: CompactionRow) -> bool:
        return self.before is None or row.compaction.created_at < self.before


def targets(
    store: Store,
    sessions: Sequence[str],
    criteria: Criteria,
    staged: Callable[[str], Sequence[StoredEntry]],
) -> list[Target]:
    """What is meant of each of *sessions*, or of the one that *criteria* name.

    *staged* gives the entries of a session that wait, each under the id it has there.
    """
    if criteria.session_id is not None:
        sessions = [criteria.session_id]
    elif criteria.entry_ids is not None:
        sessions = sorted(set(_owners(store, criteria.entry_ids)))
    found = [_target(store, session_id, criteria, staged(session_id)) for session_id in sessions]
    return [target for target in found if any(target[1:])]


def _owners(store: Store, entry_ids: Collection[int]) -> Iterator[str]:
    for entry_id in entry_ids:
        try:
            yield store.get(entry_id).session_id
        except EntryNotFoundError:
            continue  # it is forgotten already


def _target(store: Store, session_id: str, criteria: Criteria, staged: Sequence[StoredEntry]) -> Target:
    log = store.open_log(session_id)
    length = log.state().next_seq
    pages = list(_pages(store, session_id))
    entries = [entry for page in pages for entry in page.entries if criteria.entry(entry)]
    waiting = [entry for entry in staged if criteria.entry_ids is None and criteria.entry(entry)]
    sources: set[int] = set()
    for entry in entries + waiting:
        start, end = entry.source_range
        sources.update(range(start, min(end, length)))
    messages = [
        (row.seq, _tombstone(row))
        for row in _rows(log, length)
        if row.seq in sources or criteria.message(row)
    ]
    summaries = [row.compaction_id for row in log.compactions() if criteria.summary(row)]
    ids = [[entry.entry_id for entry in each] for each in (entries, waiting)]
    # What a damaged entry says cannot be believed, so it may be what is meant.
    damaged = {*store.quarantined(session_id), *(each for page in pages for each in page.damaged)}
    ids[0] += sorted(damaged if criteria.entry_ids is None else damaged & criteria.entry_ids)
    return Target(session_id, messages, ids[0], summaries, ids[1])


def _pages(store: Store, session_id: str) -> Iterator[Page]:
    offset: int | None = 0
    while offset is not None:
        page = store.entries(session_id, offset=offset, limit=_PAGE)
        yield page
        offset = page.next_offset


def _rows(log: SessionLog, length: int) -> Iterator[LogRow]:
    for start in range(0, length, _PAGE):
        yield from log.read(start, min(start + _PAGE, length))


def _tombstone(row: LogRow) -> str:
    try:
        return encode(tombstone(decode(row.raw)))
    except InvalidMessageError:
        return encode({"role": row.role, "content": FORGOTTEN})


def _texts(row: LogRow) -> Iterator[str]:
    yield row.raw
    try:
        raw = decode(row.raw)
        yield from texts_of(raw)
        yield indexable_text(read_message(raw, row.seq, dialect=row.dialect))
    except InvalidMessageError:
        return  # a caller's own log need not hold messages that we read


def _names(row: LogRow) -> set[str | None]:
    try:
        raw = decode(row.raw)
        parts = read_message(raw, row.seq, dialect=row.dialect).parts
    except InvalidMessageError:
        return set()
    return {raw.get("name"), *(part.name for part in parts)} - {None}
