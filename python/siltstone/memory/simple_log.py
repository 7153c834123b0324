"""The log of a session in process memory: the same promises but one, it ends with the process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, field, replace

from siltstone.errors import StoreConflictError
from siltstone.memory.entry import Entry, Receipt
from siltstone.memory.limits import Limits
from siltstone.memory.log import (
    CommitReceipt,
    CompactionRow,
    LogRow,
    LogState,
    NewCompaction,
    NewMessage,
    UndoReceipt,
)

__all__ = ["LogRecord", "SimpleLog"]


@dataclass(slots=True)
class LogRecord:
    """What a store remembers of one session's log."""

    messages: list[LogRow] = field(default_factory=list)
    compactions: list[CompactionRow] = field(default_factory=list)
    head: CompactionRow | None = None
    cadence: str = ""
    brought: dict[int, int] = field(default_factory=dict)
    """Of each entry that a compaction brought: which one."""
    redactions: int = 0
    dropped: bool = False

    def forget(
        self, messages: Sequence[tuple[int, str]], summaries: Sequence[int], replacement: str
    ) -> tuple[int, int]:
        """Puts tombstones in the place of *messages*, and *replacement* in that of summaries; how many."""
        counts = [0, 0]
        for seq, raw in messages:
            row = self.messages[seq]
            if row.raw != raw or row.provenance != "placeholder":
                self.messages[seq] = replace(row, raw=raw, provenance="placeholder")
                counts[0] += 1
        for place, each in enumerate(self.compactions):
            covered = any(start <= seq < end for start, end in each.compaction.covers for seq, _ in messages)
            if not each.redacted and (covered or each.compaction_id in summaries):
                emptied = replace(each.compaction, summary=replacement)
                self.compactions[place] = replace(each, compaction=emptied, redacted=True)
                counts[1] += 1
                if self.head is each:
                    self.head = self.compactions[place]
        self.redactions += any(counts)
        return counts[0], counts[1]


class SimpleLog:
    """A :class:`~siltstone.memory.log.SessionLog` of a ``SimpleMemoryStore``, made by its ``open_log``.

    Args:
        session_id: The session.
        record: Gives what the store remembers of the session, and raises once the store is closed. Asked
            for anew with every call: the session may have been dropped since.
        next_compaction: Gives an id that no compaction had.
        index: Stores entries, all or none, as brought by a compaction.
        withdraw: Takes back the entries that a compaction brought; how many.
        lock: Held over every call.
        limits: How much one call may hand over.
    """

    def __init__(
        self,
        session_id: str,
        record: Callable[[], LogRecord],
        next_compaction: Callable[[], int],
        index: Callable[[Sequence[Entry], int], Receipt],
        withdraw: Callable[[int], int],
        lock: threading.RLock,
        limits: Limits,
    ) -> None:
        self._session_id = session_id
        self._record = record
        self._next_compaction = next_compaction
        self._index = index
        self._withdraw = withdraw
        self._lock = lock
        self._limits = limits

    def state(self) -> LogState:
        """Where the log stands."""
        with self._lock:
            record = self._record()
            return LogState(
                len(record.messages), record.head, record.cadence, record.redactions, record.dropped
            )

    def redactions(self) -> int | None:
        """How often something was forgotten or rewritten; None for a session that was dropped."""
        with self._lock:
            record = self._record()
            return None if record.dropped else record.redactions

    def renew(self, compaction_id: int, summary: str, *, expected_redactions: int) -> bool:
        """Gives a compaction whose summary was forgotten a new one. Whether it is such a one."""
        with self._lock:
            record = self._record()
            if record.redactions != expected_redactions:
                raise StoreConflictError(
                    f"something of session {self._session_id!r} was forgotten meanwhile: its summaries are "
                    "to be made again"
                )
            for place, row in enumerate(record.compactions):
                if row.compaction_id == compaction_id and row.redacted:
                    renewed = replace(
                        row, compaction=replace(row.compaction, summary=summary), redacted=False
                    )
                    record.compactions[place] = renewed
                    record.head = renewed if record.head is row else record.head
                    record.redactions += 1
                    return True
            return False

    def append(self, messages: Sequence[NewMessage], *, expected_next: int, cadence: str) -> None:
        """Writes *messages* as ``expected_next`` and onward, all or none."""
        self._limits.check_messages(messages, expected_next)
        with self._lock:
            record = self._record()
            if record.dropped:
                return
            self._ends_at(record, expected_next)
            record.messages += _numbered(messages, expected_next)
            record.cadence = cadence

    def read(self, start: int, end: int) -> list[LogRow]:
        """The messages of a half-open range of sequence numbers, in order."""
        with self._lock:
            return self._record().messages[max(start, 0) : max(end, 0)]

    def commit(
        self,
        compaction: NewCompaction,
        entries: Sequence[Entry],
        *,
        expected_head: int | None,
        cadence: str,
        expected_redactions: int | None = None,
    ) -> CommitReceipt:
        """Indexes *entries* and remembers *compaction*: both, or nothing."""
        with self._lock:
            if self._record().dropped:
                return CommitReceipt(0, self._index(entries, 0).entry_ids)
            record = self._stands_on(expected_head, expected_redactions)
            row = CompactionRow(self._next_compaction(), expected_head, compaction)
            receipt = self._index(entries, row.compaction_id)
            record.compactions.append(row)
            record.head = row
            record.cadence = cadence
            return CommitReceipt(row.compaction_id, receipt.entry_ids)

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
        cadence: str,
    ) -> CommitReceipt:
        """Makes *row* the current view and remembers *messages* after it: all, or nothing."""
        self._limits.check_messages(messages, expected_next)
        with self._lock:
            if self._record().dropped:
                return CommitReceipt(0, self._index(entries, 0).entry_ids)
            record = self._stands_on(expected_head, expected_redactions)
            self._ends_at(record, expected_next)
            added = CompactionRow(self._next_compaction(), parent, row)
            for compaction_id in withdrawn:
                self._withdraw(compaction_id)
            receipt = self._index(entries, added.compaction_id)
            record.messages += _numbered(messages, expected_next)
            record.compactions.append(added)
            record.head, record.cadence = added, cadence
            record.redactions += 1
            return CommitReceipt(added.compaction_id, receipt.entry_ids)

    def undo(self, *, expected_head: int, cadence: str) -> UndoReceipt:
        """Makes the view before *expected_head* current again, and takes back the entries it brought."""
        with self._lock:
            record = self._stands_on(expected_head)
            rows = {row.compaction_id: row for row in record.compactions}
            parent = rows[expected_head].parent
            record.head = None if parent is None else rows[parent]
            record.cadence = cadence
            return UndoReceipt(parent, self._withdraw(expected_head))

    def save_cadence(self, cadence: str) -> None:
        """Remembers the session's cadence alone."""
        with self._lock:
            self._record().cadence = cadence

    def compactions(self) -> list[CompactionRow]:
        """Every compaction ever committed, in order."""
        with self._lock:
            return list(self._record().compactions)

    def _stands_on(self, expected: int | None, redactions: int | None = None) -> LogRecord:
        """The record, if no other writer moved the session's head or, where they are asked, forgot."""
        record = self._record()
        head = record.head.compaction_id if record.head else None
        if head != expected:
            raise StoreConflictError(
                f"the head of session {self._session_id!r} is {head}, not {expected}: "
                "another writer compacted it, or undid what it had"
            )
        if redactions not in (None, record.redactions):
            raise StoreConflictError(
                f"something of session {self._session_id!r} was forgotten or rewritten meanwhile: "
                "open it again"
            )
        return record

    def _ends_at(self, record: LogRecord, expected: int) -> None:
        """Nothing, if no other writer appended to the log."""
        if len(record.messages) != expected:
            raise StoreConflictError(
                f"the log of session {self._session_id!r} ends at {len(record.messages)}, "
                f"not at {expected}: another writer appended to it"
            )


def _numbered(messages: Sequence[NewMessage], first: int) -> list[LogRow]:
    return [LogRow(seq, *astuple(message)) for seq, message in enumerate(messages, first)]
