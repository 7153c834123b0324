"""What is to be forgotten, and what stands in its place?"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple

from siltstone.errors import ConfigError, EntryNotFoundError, InvalidMessageError
from siltstone.memory.base import Store
from siltstone.memory.convert import MAX_INTEGER, datetime_from, milliseconds, range_of
from siltstone.memory.database_log import request_among
from siltstone.memory.entry import ForgetReport, Page, StoredEntry
from siltstone.memory.log import Derived, LogRow, SessionLog
from siltstone.memory.renaming import new_names, with_partners
from siltstone.messages import (
    FORGOTTEN,
    SummaryMessage,
    canonical_digest,
    decode,
    encode,
    holds,
    identifiers,
    indexable_text,
    read_message,
    renamed,
    tombstone,
)
from siltstone.messages.escapes import DEEPEST
from siltstone.values import dataclass, replace

__all__ = ["REPLACEMENT", "Criteria", "Plan", "Target", "plan"]

REPLACEMENT = (
    "[Context compacted] A summary of earlier messages stood here. "
    "It was removed, because something that it covered was forgotten."
)  #: what a model reads in the place of a summary that was forgotten

_PAGE = 1_000  #: rows that are held at once


class Target(NamedTuple):
    """What is to be forgotten of one session, as the core takes it.

    Attributes:
        session_id: The session.
        messages: Sequence numbers, and the tombstone of each as JSON text.
        entries: Ids of entries.
        staged: Ids of entries that wait.
        derived: Ids of summaries and substitutes that are meant themselves, and what takes the place of each.
        facts: Ids of facts.
        digests: Sequence numbers of messages, and minus the ids of summaries, each with the digest by which
            it is known when it is sent again.
        title: Where messages are forgotten: the first request that is left; empty for none.
    """

    session_id: str
    messages: Sequence[tuple[int, str]] = ()
    entries: Sequence[int] = ()
    staged: Sequence[int] = ()
    derived: Sequence[tuple[int, str]] = ()
    facts: Sequence[int] = ()
    digests: Sequence[tuple[int, bytes]] = ()
    title: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be forgotten of each session, and what that comes to.

    Attributes:
        targets: Where there is anything, a session each.
        expected: The report, if it were done now.
    """

    targets: list[Target]
    expected: ForgetReport

    def report(
        self, sessions: int, messages: int, entries: int, summaries: int, erased: bool
    ) -> ForgetReport:
        """The report of what was done; *erased* tells whether the files could be rewritten."""
        files: tuple[Literal["files"], ...] = () if erased else ("files",)
        return replace(
            self.expected,
            sessions=sessions,
            messages=messages,
            entries=entries,
            summaries=summaries,
            erased=erased and not self.expected.remaining,
            remaining=(*self.expected.remaining, *files),
            dry_run=False,
        )


@dataclass(frozen=True, slots=True)
class Criteria:
    """What ``forget`` was asked for. All that are given must hold; see ``MemoryStore.forget``."""

    entry_ids: frozenset[int] | None = None
    session_id: str | None = None
    span: tuple[int, int] | None = None
    name: str | None = None
    before: int | None = None
    text: str | None = None
    identifiers: bool = False

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
        identifiers: bool = False,
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
            identifiers,
        )

    def entry(self, entry: StoredEntry) -> bool:
        """Whether *entry* is meant."""
        start, end = entry.source_range
        return (
            (self.entry_ids is None or entry.entry_id in self.entry_ids)
            and (self.span is None or max(start, self.span[0]) < min(end, self.span[1]))
            and (self.name is None or entry.name == self.name)
            and (self.before is None or entry.created_at < datetime_from(self.before))
            and (self.text is None or holds(entry.content, self.text) or self.text in (entry.name or ""))
        )

    def message(self, row: LogRow) -> bool:
        """Whether the message itself is meant. One that an entry came from goes with the entry."""
        return (
            self.entry_ids is None
            and (self.span is None or self.span[0] <= row.seq < self.span[1])
            and (self.before is None or row.created_at < self.before)
            and (self.name is None or self.name in _names(row))
            and (self.text is None or _says(row, self.text))
        )

    def summary(self, row: Derived) -> bool:
        """Whether a derived text is meant by what it says; one of a forgotten message goes anyway."""
        depth = DEEPEST if row.kind == "summary" else DEEPEST + 1  # a substitute is the JSON of a message
        said = self.text is not None and holds(row.raw, self.text, depth)
        return said and self.entry_ids is None and self.span is None and self.name is None and self._old(row)

    def _old(self, row: Derived) -> bool:
        return self.before is None or row.created_at < self.before


def plan(
    store: Store,
    sessions: Sequence[str],
    criteria: Criteria,
    staged: Callable[[str], Sequence[StoredEntry]],
) -> Plan:
    """What is meant of each of *sessions*, or of the one that *criteria* name.

    *staged* gives the entries of a session that wait, each under the id it has there.
    """
    if criteria.session_id is not None:
        sessions = [criteria.session_id]
    elif criteria.entry_ids is not None:
        sessions = sorted(set(_owners(store, criteria.entry_ids)))
    targets, counts, kept = [], [(0, 0, 0)], set[str]()
    for session_id in sessions:
        target, expected, has = _of_session(store, session_id, criteria, staged(session_id))
        kept |= has
        if criteria.text is not None and criteria.text in session_id:
            kept.add(session_id)
        if any(target[1:]):
            targets.append(target)
            counts += [expected] if any(expected) else []
    messages, entries, summaries = (sum(each) for each in zip(*counts, strict=True))
    return Plan(
        targets,
        ForgetReport(
            len(counts) - 1,
            messages,
            entries,
            summaries,
            erased=False,
            kept=tuple(sorted(kept)),
            remaining=("identifiers",) if kept and criteria.text is not None else (),
            dry_run=True,
        ),
    )


def _owners(store: Store, entry_ids: Collection[int]) -> Iterator[str]:
    for entry_id in entry_ids:
        try:
            yield store.get(entry_id, expired=True).session_id
        except EntryNotFoundError:
            continue  # it is forgotten already


def _of_session(
    store: Store, session_id: str, criteria: Criteria, staged: Sequence[StoredEntry]
) -> tuple[Target, tuple[int, int, int], set[str]]:
    """What is meant of a session; how many messages, entries and summaries; what the tombstones have."""
    log = store.open_log(session_id)
    length = log.state().next_seq
    pages = list(_pages(store, session_id))
    entries = [entry for page in pages for entry in page.entries if criteria.entry(entry)]
    waiting = [entry for entry in staged if criteria.entry_ids is None and criteria.entry(entry)]
    sources: set[int] = set()
    for entry in entries + waiting:
        start, end = entry.source_range
        sources.update(range(start, min(end, length)))
    messages, digests, kept = _messages(log, length, sources, criteria)
    derived = log.derived([each for row in log.compactions() for each in row.derived_ids])
    tombstones = dict(messages)
    meant = {row.derived_id: _replacement(row, tombstones) for row in derived if criteria.summary(row)}
    ids = [[entry.entry_id for entry in each] for each in (entries, waiting)]
    # What a damaged entry says cannot be believed, so it may be what is meant.
    damaged = {*store.quarantined(session_id), *(each for page in pages for each in page.damaged)}
    ids[0] += sorted(damaged if criteria.entry_ids is None else damaged & criteria.entry_ids)
    seqs = [seq for seq, _ in messages]
    leaving = {*ids[0]}
    if seqs:
        leaving.update(e.entry_id for page in pages for e in page.entries if _has(e.source_range, seqs))
    dropped = {*ids[1], *(entry.entry_id for entry in staged if _has(entry.source_range, seqs))}
    replaced = [
        row
        for row in derived
        if not row.redacted and (row.derived_id in meant or any(_has(span, seqs) for span in _spans(row)))
    ]
    expected = (len(digests), len(leaving) + len(dropped), len(replaced))
    known = [(seq, digest) for seq, digest in digests if digest]
    salt = log.salt() if replaced else b""
    known += [_digest_of(row, salt) for row in replaced]
    kept_rows = (row for row in _rows(log, length if seqs else 0) if not _has((row.seq, row.seq + 1), seqs))
    title = request_among(kept_rows)
    target = Target(session_id, messages, ids[0], ids[1], list(meant.items()), digests=known, title=title)
    return target, expected, kept


def _replacement(row: Derived, tombstones: Mapping[int, str]) -> str:
    """What takes the place of a derived text: of a substitute what its message becomes, or would become."""
    if row.seq is None:
        return REPLACEMENT
    return tombstones.get(row.seq) or encode(tombstone(decode(row.raw), row.dialect))


def _digest_of(row: Derived, salt: bytes) -> tuple[int, bytes]:
    """What a host may have taken over in the place of messages, and by what it is known then."""
    if row.seq is not None:
        return row.seq, canonical_digest(decode(row.raw), salt)
    return -row.derived_id, canonical_digest(SummaryMessage(row.raw, row.covers, row.level), salt)


def _spans(row: Derived) -> tuple[tuple[int, int], ...]:
    """The messages that a derived text stands for."""
    return row.covers if row.seq is None else ((row.seq, row.seq + 1),)


def _messages(
    log: SessionLog, length: int, sources: Collection[int], criteria: Criteria
) -> tuple[list[tuple[int, str]], list[tuple[int, bytes]], set[str]]:
    """The tombstones of what is meant, the digests of what they replace, and the ids and names they have.

    A message that is its tombstone already has no digest; one that cannot be read has an empty one.
    """
    held: dict[int, dict[str, Any]] = {}  # with identifiers: of all messages, since one names another
    chosen, names = set[int](), dict[str, str]()
    for row in _rows(log, length):
        is_meant = row.seq in sources or criteria.message(row)
        if is_meant or criteria.identifiers:
            held[row.seq] = _tombstone(row)
        if is_meant:
            chosen.add(row.seq)
    if criteria.identifiers:
        chosen = with_partners(held, chosen, criteria.text)
        names = new_names(held, chosen, criteria.text)
        held = {seq: renamed(held[seq], names) for seq in chosen}
    messages = [(seq, encode(held[seq])) for seq in sorted(chosen)]
    kept = {value for seq in chosen for _, value in identifiers(held[seq])} - set(names.values())
    salt, digests = log.salt(), list[tuple[int, bytes]]()
    for row, (seq, raw) in zip(_read(log, sorted(chosen)), messages, strict=True):
        if row.provenance != "placeholder" or row.raw != raw:
            digests.append((seq, _digest(row, salt)))
    return messages, digests, {each for each in kept if criteria.text is None or criteria.text in each}


def _digest(row: LogRow, salt: bytes) -> bytes:
    """What a message is known by when it is sent again; empty where the log has something else."""
    try:
        return canonical_digest(decode(row.raw), salt)
    except InvalidMessageError:
        return b""


def _has(span: tuple[int, int], seqs: Sequence[int]) -> bool:
    """Whether one of *seqs*, which ascend, is in *span*."""
    at = bisect_left(seqs, span[0])
    return at < len(seqs) and seqs[at] < span[1]


def _pages(store: Store, session_id: str) -> Iterator[Page]:
    offset: int | None = 0
    while offset is not None:
        page = store.entries(session_id, offset=offset, limit=_PAGE, expired=True)
        yield page
        offset = page.next_offset


def _read(log: SessionLog, seqs: Sequence[int]) -> Iterator[LogRow]:
    """The messages *seqs*, which ascend: those that stand side by side in one read."""
    start = 0
    for at in range(1, len(seqs) + 1):
        if at == len(seqs) or seqs[at] != seqs[at - 1] + 1 or at - start == _PAGE:
            yield from log.read(seqs[start], seqs[at - 1] + 1)
            start = at


def _rows(log: SessionLog, length: int) -> Iterator[LogRow]:
    for start in range(0, length, _PAGE):
        yield from log.read(start, min(start + _PAGE, length))


def _tombstone(row: LogRow) -> dict[str, Any]:
    try:
        return tombstone(decode(row.raw), row.dialect)
    except InvalidMessageError:
        return {"role": row.role, "content": FORGOTTEN}


def _says(row: LogRow, text: str) -> bool:
    if holds(row.raw, text, DEEPEST + 1):  # the row is JSON itself
        return True
    try:  # what stands in two parts may be found as one text
        message = read_message(decode(row.raw), row.seq, dialect=row.dialect)
        return text in indexable_text(message, own=())
    except InvalidMessageError:
        return False  # a caller's own log need not hold messages that we read


def _names(row: LogRow) -> set[str | None]:
    try:
        raw = decode(row.raw)
        parts = read_message(raw, row.seq, dialect=row.dialect).parts
    except InvalidMessageError:
        return set()
    return {raw.get("name"), *(part.name for part in parts)} - {None}
