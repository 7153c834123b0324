"""The log of a session in process memory: the same promises but one, it ends with the process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, field

from siltstone.errors import StoreConflictError
from siltstone.memory.entry import Entry, Receipt
from siltstone.memory.log import CommitReceipt, CompactionRow, LogRow, LogState, NewCompaction, NewMessage

__all__ = ["LogRecord", "SimpleLog"]


@dataclass(slots=True)
class LogRecord:
    """What a store remembers of one session's log."""

    messages: list[LogRow] = field(default_factory=list)
    compactions: list[CompactionRow] = field(default_factory=list)
    head: CompactionRow | None = None
    cadence: str = ""


class SimpleLog:
    """A :class:`~siltstone.memory.log.SessionLog` of a ``SimpleMemoryStore``, made by its ``open_log``.

    Args:
        session_id: The session.
        record: Gives what the store remembers of the session, and raises once the store is closed. Asked
            for anew with every call: the session may have been dropped since.
        next_compaction: Gives an id that no compaction had.
        index: Stores entries, all or none.
        lock: Held over every call.
    """

    def __init__(
        self,
        session_id: str,
        record: Callable[[], LogRecord],
        next_compaction: Callable[[], int],
        index: Callable[[Sequence[Entry]], Receipt],
        lock: threading.RLock,
    ) -> None:
        self._session_id = session_id
        self._record = record
        self._next_compaction = next_compaction
        self._index = index
        self._lock = lock

    def state(self) -> LogState:
        """Where the log stands."""
        with self._lock:
            record = self._record()
            return LogState(len(record.messages), record.head, record.cadence)

    def append(self, messages: Sequence[NewMessage], *, expected_next: int, cadence: str) -> None:
        """Writes *messages* as ``expected_next`` and onward, all or none."""
        with self._lock:
            record = self._record()
            if len(record.messages) != expected_next:
                raise StoreConflictError(
                    f"the log of session {self._session_id!r} ends at {len(record.messages)}, "
                    f"not at {expected_next}: another writer appended to it"
                )
            rows = [LogRow(seq, *astuple(message)) for seq, message in enumerate(messages, expected_next)]
            record.messages += rows
            record.cadence = cadence

    def read(self, start: int, end: int) -> list[LogRow]:
        """The messages of a half-open range of sequence numbers, in order."""
        with self._lock:
            return self._record().messages[max(start, 0) : max(end, 0)]

    def commit(
        self, compaction: NewCompaction, entries: Sequence[Entry], *, expected_head: int | None, cadence: str
    ) -> CommitReceipt:
        """Indexes *entries* and remembers *compaction*: both, or nothing."""
        with self._lock:
            record = self._record()
            head = record.head.compaction_id if record.head else None
            if head != expected_head:
                raise StoreConflictError(
                    f"the head of session {self._session_id!r} is {head}, not {expected_head}: "
                    "another writer compacted it"
                )
            receipt = self._index(entries)
            row = CompactionRow(self._next_compaction(), head, compaction)
            record.compactions.append(row)
            record.head = row
            record.cadence = cadence
            return CommitReceipt(row.compaction_id, receipt.entry_ids)

    def save_cadence(self, cadence: str) -> None:
        """Remembers the session's cadence alone."""
        with self._lock:
            self._record().cadence = cadence

    def compactions(self) -> list[CompactionRow]:
        """Every compaction ever committed, in order."""
        with self._lock:
            return list(self._record().compactions)
