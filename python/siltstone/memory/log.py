"""The session's log as Python sees it: every message ever appended, and the compactions over it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from siltstone.memory.entry import Entry
from siltstone.messages import Dialect, Provenance, Role

__all__ = [
    "CommitReceipt",
    "CompactionRow",
    "LogRow",
    "LogState",
    "NewCompaction",
    "NewMessage",
    "SessionLog",
    "UndoReceipt",
    "ViewItem",
]

ViewItem: TypeAlias = tuple[int, int] | None
"""A piece of a view: a half-open range of sequence numbers that are retained, or None: the summary."""


@dataclass(frozen=True, slots=True)
class NewMessage:
    r"""A message on its way into the log.

    Attributes:
        raw: Its JSON text, valid UTF-8 (lone surrogates as ``\udXXX``).
        role: Its role.
        dialect: How ``raw`` is to be read.
        provenance: Where it came from.
        tokens: Its estimate when it was appended.
        created_at: Milliseconds since 1970, UTC.
    """

    raw: str
    role: Role
    dialect: Dialect
    provenance: Provenance
    tokens: int
    created_at: int


@dataclass(frozen=True, slots=True)
class LogRow:
    """A message as the log holds it: a :class:`NewMessage` with its sequence number."""

    seq: int
    raw: str
    role: Role
    dialect: Dialect
    provenance: Provenance
    tokens: int
    created_at: int


@dataclass(frozen=True, slots=True)
class NewCompaction:
    """A compaction on its way into the log.

    Attributes:
        policy: The policy's name.
        reason: The trigger's reason.
        level: The summary's level.
        degraded: The summary was made without the intended model.
        summary: The framed summary as the model will read it: the content of the summary message.
        covers: The ranges of original messages it stands for.
        view: The view it leaves: retained ranges, and None where the summary stands.
        next_seq: Messages from here on were appended after the history it rewrote, and follow the view.
        model: The model that wrote the summary, empty where unknown.
        usage: The model calls as JSON text.
        tokens_before: The view before, by the policy's rule.
        tokens_after: And after.
        messages_before: Messages in the view before.
        messages_after: And after.
        created_at: Milliseconds since 1970, UTC.
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
    """What an undo left: the compaction that is current now, and how many entries are not found any more."""

    head: int | None
    withdrawn: int


@dataclass(frozen=True, slots=True)
class LogState:
    """Where a log stands.

    Attributes:
        next_seq: The sequence number that the next message gets.
        head: The compaction whose view is current; None before the first.
        cadence: What the session stored with its last write, as JSON text; empty at first.
        redactions: How often messages were forgotten, or a past was rewritten.
        dropped: The session was dropped: what is written to it is accepted as nothing.
    """

    next_seq: int
    head: CompactionRow | None
    cadence: str
    redactions: int = 0
    dropped: bool = False


@dataclass(frozen=True, slots=True)
class CommitReceipt:
    """What a commit wrote: the compaction's id, and an entry's id for each entry handed over."""

    compaction_id: int
    entry_ids: tuple[int | None, ...]


class SessionLog(Protocol):
    """An append-only log of one session, and the compactions that give views of it."""

    def state(self) -> LogState:
        """Where the log stands."""

    def redactions(self) -> int | None:
        """How often something was forgotten or rewritten; None for a session that was dropped."""

    def renew(self, compaction_id: int, summary: str, *, expected_redactions: int) -> bool:
        """Gives a compaction whose summary was forgotten a new one. Whether it is such a one.

        Raises:
            StoreConflictError: something was forgotten since *expected_redactions*.
        """

    def append(self, messages: Sequence[NewMessage], *, expected_next: int, cadence: str) -> None:
        """Writes *messages* as ``expected_next`` and onward: durable, and all of them, when it returns.

        Raises:
            StoreConflictError: the log does not end where *expected_next* says.
        """

    def read(self, start: int, end: int) -> list[LogRow]:
        """The messages of a half-open range of sequence numbers, in order."""

    def commit(
        self,
        compaction: NewCompaction,
        entries: Sequence[Entry],
        *,
        expected_head: int | None,
        cadence: str,
        expected_redactions: int | None = None,
    ) -> CommitReceipt:
        """Indexes *entries* and writes *compaction* in one step: both, or nothing.

        Raises:
            StoreConflictError: another compaction was committed since *expected_head*, or messages were
                forgotten since *expected_redactions* (None does not ask).
        """

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
        """Makes *row* the current view and appends *messages* after it, in one step: all, or nothing.

        Counts as a redaction, so that who has read the session before reads it anew.

        Args:
            row: The view. It may have messages that are before ``expected_next``, in ascending order.
            messages: What follows it.
            entries: What is to be found beside it. One that is there already keeps its id.
            expected_head: The compaction that was current when the session was read.
            expected_next: Where the log ended.
            expected_redactions: How often something had been forgotten.
            withdrawn: The compactions whose entries leave, before *entries* are written.
            parent: The compaction that *row* follows; None for the bare log.
            cadence: The session's cadence.

        Raises:
            StoreConflictError: another writer changed the session since. Nothing was written.
        """

    def undo(self, *, expected_head: int, cadence: str) -> UndoReceipt:
        """Makes the view before *expected_head* current again, and takes back the entries it brought.

        The compaction stays in the log. Entries that were indexed by a caller stay as well.

        Raises:
            StoreConflictError: another compaction was committed, or undone, since *expected_head*.
        """

    def save_cadence(self, cadence: str) -> None:
        """Writes the session's cadence alone."""

    def compactions(self) -> list[CompactionRow]:
        """Every compaction ever committed, in order."""
