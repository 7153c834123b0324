"""The log of a session in the store's database, where it commits together with the entries."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from siltstone import _native
from siltstone.errors import StoreCorruptError
from siltstone.memory.convert import (
    compaction_from_row,
    compaction_to_row,
    message_from_row,
    message_to_row,
    new_entry,
)
from siltstone.memory.entry import Entry
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

__all__ = ["DatabaseLog"]


class DatabaseLog:
    """A :class:`~siltstone.memory.log.SessionLog` over an open store. Made by ``MemoryStore.open_log``."""

    def __init__(
        self, native: _native.Store, session_id: str, limits: Limits, on_entries: Callable[[], None]
    ) -> None:
        self._native = native
        self._session_id = session_id
        self._limits = limits
        self._on_entries = on_entries  # told when a commit may have brought some

    def state(self) -> LogState:
        """Where the log stands."""
        next_seq, head, cadence, redactions, dropped = self._native.log_state(self._session_id)
        if head is None:
            return LogState(next_seq, None, cadence, redactions, dropped)
        row = self._native.compaction(head)
        if row is None:
            raise StoreCorruptError(
                f"session {self._session_id!r} stands on compaction {head}, which is missing",
                table="compaction",
                id=head,
            )
        return LogState(next_seq, compaction_from_row(row), cadence, redactions, dropped)

    def redactions(self) -> int | None:
        """How often something was forgotten or rewritten; None for a session that was dropped."""
        *_, redactions, dropped = self._native.log_state(self._session_id)
        return None if dropped else redactions

    def renew(self, compaction_id: int, summary: str, *, expected_redactions: int) -> bool:
        """Gives a compaction whose summary was forgotten a new one. Whether it is such a one."""
        return self._native.renew_summary(self._session_id, compaction_id, summary, expected_redactions)

    def append(self, messages: Sequence[NewMessage], *, expected_next: int, cadence: str) -> None:
        """Writes *messages* as ``expected_next`` and onward: durable, and all of them, when it returns."""
        self._limits.check_messages(messages, expected_next)
        rows = [message_to_row(message) for message in messages]
        self._native.append_messages(self._session_id, expected_next, rows, cadence)

    def read(self, start: int, end: int) -> list[LogRow]:
        """The messages of a half-open range of sequence numbers, in order."""
        return [message_from_row(row) for row in self._native.read_messages(self._session_id, start, end)]

    def commit(
        self,
        compaction: NewCompaction,
        entries: Sequence[Entry],
        *,
        expected_head: int | None,
        cadence: str,
        expected_redactions: int | None = None,
    ) -> CommitReceipt:
        """Indexes *entries* and writes *compaction* in one transaction: both, or nothing."""
        compaction_id, entry_ids = self._native.commit_compaction(
            self._session_id,
            (expected_head, expected_redactions),
            compaction_to_row(compaction),
            [new_entry(entry) for entry in self._limits.cut(entries)],
            cadence,
        )
        self._on_entries()
        return CommitReceipt(compaction_id, tuple(entry_ids))

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
        """Makes *row* the current view and appends *messages* after it, in one transaction."""
        self._limits.check_messages(messages, expected_next)
        new = [message_to_row(message) for message in messages]
        found = [new_entry(entry) for entry in self._limits.cut(entries)]
        row_id, entry_ids = self._native.rewrite(
            self._session_id,
            (expected_head, expected_redactions),
            compaction_to_row(row),
            (expected_next, list(withdrawn), parent, new, found),
            cadence,
        )
        self._on_entries()
        return CommitReceipt(row_id, tuple(entry_ids))

    def undo(self, *, expected_head: int, cadence: str) -> UndoReceipt:
        """Makes the view before *expected_head* current again, and takes back the entries it brought."""
        return UndoReceipt(*self._native.undo_compaction(self._session_id, expected_head, cadence))

    def save_cadence(self, cadence: str) -> None:
        """Writes the session's cadence alone."""
        self._native.save_cadence(self._session_id, cadence)

    def compactions(self) -> list[CompactionRow]:
        """Every compaction ever committed, in order."""
        return [compaction_from_row(row) for row in self._native.compactions(self._session_id)]
