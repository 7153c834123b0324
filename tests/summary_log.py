"""A log in which every compaction has one summary: a short form of the log for the tests of stores.

It fills in the versions and ids of writes, so that a test only names the values that matter to it.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeAlias, TypeVar

from siltstone.errors import StoreConflictError
from siltstone.memory import log as store_log
from siltstone.memory.base import Store
from siltstone.memory.entry import Entry
from siltstone.memory.log import LogRow, NewMessage, SessionVersion

__all__ = [
    "CommitReceipt",
    "CompactionRow",
    "LogRow",
    "LogState",
    "NewCompaction",
    "NewMessage",
    "SummaryLog",
    "UndoReceipt",
    "ViewItem",
]

_T = TypeVar("_T")

ViewItem: TypeAlias = tuple[int, int] | None
"""A piece of a view: a half-open range of sequence numbers that are retained, or None: the summary."""


@dataclass(frozen=True, slots=True)
class NewCompaction:
    """A compaction as a store takes it, with its summary in its own row.

    ``view`` has None where the summary stands. The other fields are those of
    :class:`siltstone.memory.log.NewCompaction`.
    """

    policy: str
    reason: str
    level: int
    degraded: bool
    summary: str
    covers: tuple[tuple[int, int], ...]
    view: tuple[ViewItem, ...]
    next_seq: int
    model: str
    usage: str
    tokens_before: int
    tokens_after: int
    messages_before: int
    messages_after: int
    created_at: int


@dataclass(frozen=True, slots=True)
class CompactionRow:
    """A compaction as the log holds it, with its id and the one whose view it rewrote."""

    compaction_id: int
    parent: int | None
    compaction: NewCompaction
    redacted: bool = False  #: its summary was forgotten, and another text stands in its place


@dataclass(frozen=True, slots=True)
class UndoReceipt:
    """The result of an undo: the compaction that is current now, and the number of deleted entries."""

    head: int | None
    withdrawn: int


@dataclass(frozen=True, slots=True)
class LogState:
    """Where a log stands.

    Attributes:
        next_seq: The sequence number that the next message gets.
        head: The compaction whose view is current; None before the first.
        clock: The clock of the session as of its last write, as JSON text; empty at first.
        redactions: How often messages were forgotten, or a past was rewritten.
        dropped: The session was dropped: what is written to it is accepted as nothing.
    """

    next_seq: int
    head: CompactionRow | None
    clock: str
    redactions: int = 0
    dropped: bool = False


@dataclass(frozen=True, slots=True)
class CommitReceipt:
    """What a commit wrote: the compaction's id, and an entry's id for each entry handed over."""

    compaction_id: int
    entry_ids: tuple[int | None, ...]


_NEW = SessionVersion(0, None, 0, 0)
_OWN = ("summary", "level", "degraded", "view")


def new_write_id() -> int:
    """An id for a write: 63 random bits, so that no two writes of anybody have the same one."""
    return secrets.randbits(63)


class SummaryLog:
    """The log of one session: what is expected of it is a number, and each compaction has one summary."""

    def __init__(self, log: store_log.SessionLog, session_id: str) -> None:
        self._log = log
        self._session_id = session_id

    def state(self) -> LogState:
        """Where the log stands."""
        state = self._log.state()
        head = None if state.head is None else self._rows([state.head])[0]
        return LogState(state.next_seq, head, state.clock, state.redactions, state.deleted)

    def redactions(self) -> int | None:
        """How often something was forgotten or rewritten; None for a session that was dropped."""
        version = self._log.version()
        return None if version is None else version.redactions

    def renew(self, compaction_id: int, summary: str, *, expected_redactions: int) -> bool:
        """Gives a compaction whose summary was forgotten a new one. Whether it is such a one."""
        row = self._log.compaction(compaction_id)
        derived_id = None if row is None else _shown(row)

        def write(expected: SessionVersion) -> bool:
            if expected.redactions != expected_redactions:
                raise StoreConflictError(
                    f"something of session {self._session_id!r} was forgotten meanwhile: its summaries are "
                    "to be made again"
                )
            if derived_id is None:
                return False
            renewed = self._log.renew(derived_id, summary, expected=expected, write_id=new_write_id())
            return renewed is not None

        return self._write(write)

    def append(self, messages: Sequence[NewMessage], *, expected_next: int, clock: str) -> None:
        """Writes *messages* as ``expected_next`` and onward: durable, and all of them, when it returns."""

        def write(expected: SessionVersion) -> None:
            if self._log.version() is not None:
                self._ends_at(expected, expected_next)
            self._log.append(messages, expected=expected, clock=clock, write_id=new_write_id())

        self._write(write)

    def read(self, start: int, end: int) -> list[LogRow]:
        """The messages of a half-open range of sequence numbers, in order."""
        return self._log.read(start, end)

    def commit(
        self,
        compaction: NewCompaction,
        entries: Sequence[Entry],
        *,
        expected_head: int | None,
        clock: str,
        expected_redactions: int | None = None,
    ) -> CommitReceipt:
        """Indexes *entries* and writes *compaction* in one transaction: both, or nothing."""

        def write(expected: SessionVersion) -> CommitReceipt:
            if self._log.version() is not None:
                self._stands_on(expected, expected_head, expected_redactions)
            receipt = self._log.commit(
                self._new(compaction), entries, expected=expected, clock=clock, write_id=new_write_id()
            )
            return CommitReceipt(receipt.compaction_id, receipt.entry_ids)

        return self._write(write)

    def rewrite(
        self,
        row: NewCompaction,
        messages: Sequence[NewMessage],
        entries: Sequence[Entry],
        *,
        expected_head: int | None,
        expected_next: int,
        expected_redactions: int,
        withdrawn: Sequence[int],
        parent: int | None,
        clock: str,
    ) -> CommitReceipt:
        """Makes *row* the current view and appends *messages* after it, in one transaction."""

        def write(expected: SessionVersion) -> CommitReceipt:
            if self._log.version() is not None:
                self._stands_on(expected, expected_head, expected_redactions)
                self._ends_at(expected, expected_next)
            receipt = self._log.rewrite(
                self._new(row),
                messages,
                entries,
                expected=expected,
                withdrawn=withdrawn,
                parent=parent,
                clock=clock,
                write_id=new_write_id(),
            )
            return CommitReceipt(receipt.compaction_id, receipt.entry_ids)

        return self._write(write)

    def undo(self, *, expected_head: int, clock: str) -> UndoReceipt:
        """Makes the view before *expected_head* current again, and takes back the entries it brought."""

        def write(expected: SessionVersion) -> UndoReceipt:
            self._stands_on(expected, expected_head, None)
            receipt = self._log.undo(expected=expected, clock=clock, write_id=new_write_id())
            return UndoReceipt(receipt.head, receipt.withdrawn)

        return self._write(write)

    def save_clock(self, clock: str) -> None:
        """Writes the session's clock alone."""
        self._write(lambda expected: self._log.save_clock(clock, expected=expected, write_id=new_write_id()))

    def compactions(self) -> list[CompactionRow]:
        """Every compaction ever committed, in order."""
        return self._rows(self._log.compactions())

    def _write(self, work: Callable[[SessionVersion], _T]) -> _T:
        """Does *work* on the version that the session has, until nobody else was faster."""
        while True:
            expected = self._log.version() or _NEW
            try:
                return work(expected)
            except StoreConflictError:
                if (self._log.version() or _NEW) == expected:
                    raise

    def _rows(self, rows: Sequence[store_log.CompactionRow]) -> list[CompactionRow]:
        shown = {derived_id for row in rows if (derived_id := _shown(row)) is not None}
        texts = {text.derived_id: text for text in self._log.derived(sorted(shown))}
        found = []
        for row in rows:
            body, text = row.compaction, texts.get(_shown(row) or 0)
            compaction = NewCompaction(
                **_shared(body),
                view=tuple(item if isinstance(item, tuple) else None for item in body.view),
                summary=text.raw if text else "",
                level=text.level if text else 0,
                degraded=text.degraded if text else False,
            )
            redacted = text.redacted if text else False
            found.append(CompactionRow(row.compaction_id, row.parent, compaction, redacted))
        return found

    def _new(self, row: NewCompaction) -> store_log.NewCompaction:
        """*row* with its summary as a derived text of its own."""
        derived: tuple[store_log.NewDerived, ...] = ()
        reference: store_log.ViewItem = store_log.NewRef(0)
        if row.summary or None in row.view:
            derived = (
                store_log.NewDerived("summary", row.summary, row.covers, None, row.level, row.degraded),
            )
        view = tuple(reference if item is None else item for item in row.view)
        return store_log.NewCompaction(**_shared(row), view=view, state="", derived=derived)

    def _stands_on(self, found: SessionVersion, head: int | None, redactions: int | None) -> None:
        if found.head != head:
            raise StoreConflictError(
                f"the head of session {self._session_id!r} is {found.head}, not {head}: "
                "another writer compacted it, or undid a compaction"
            )
        if redactions not in (None, found.redactions):
            raise StoreConflictError(
                f"something of session {self._session_id!r} was forgotten or rewritten meanwhile: "
                "open it again"
            )

    def _ends_at(self, found: SessionVersion, expected: int) -> None:
        if found.next_seq != expected:
            raise StoreConflictError(
                f"the log of session {self._session_id!r} ends at {found.next_seq}, "
                f"not at {expected}: another writer appended to it"
            )


def _shared(row: NewCompaction | store_log.NewCompaction) -> dict[str, Any]:
    """The fields that both forms of a compaction have, but for the view."""
    return {field.name: getattr(row, field.name) for field in fields(NewCompaction) if field.name not in _OWN}


def _shown(row: store_log.CompactionRow) -> int | None:
    """The derived text that its view has, or else the one that it brought."""
    named = (item for item in (*row.compaction.view, *row.derived_ids) if isinstance(item, int))
    return next(named, None)


def summary_log(store: Store, session_id: str) -> SummaryLog:
    """The log of a session of *store* in its short form."""
    return SummaryLog(store.open_log(session_id), session_id)
