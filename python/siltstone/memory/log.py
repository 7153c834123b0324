"""The session's log as Python sees it: every message ever appended, and the compactions over it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from siltstone.memory.entry import Entry
from siltstone.values import dataclass

if TYPE_CHECKING:
    from siltstone.messages import Dialect, Provenance, Role

__all__ = [
    "CommitReceipt",
    "CompactionRow",
    "Derived",
    "LogRow",
    "LogState",
    "NewCompaction",
    "NewDerived",
    "NewMessage",
    "NewRecall",
    "NewRef",
    "SessionLog",
    "SessionVersion",
    "UndoReceipt",
    "ViewItem",
    "ancestors",
]


@dataclass(frozen=True, slots=True)
class SessionVersion:
    """The version of a session that a worker has read. Every write names it; an old version is a conflict.

    Attributes:
        next_seq: The sequence number that the next message gets.
        head: The row whose view is current; None before the first.
        redactions: How often messages were forgotten, or a past was rewritten.
        counter: Raised by every write of the session's own state.
    """

    next_seq: int
    head: int | None
    redactions: int
    counter: int


@dataclass(frozen=True, slots=True)
class NewRef:
    """In the view of a row on its way into the log: the derived text of that row at *place*."""

    place: int


ViewItem: TypeAlias = tuple[int, int] | NewRef | int
"""A piece of a view: a half-open range of sequence numbers that are shown, or the id of a derived text."""


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
    """A message as the log holds it: a :class:`NewMessage` with its number, and the write it came with."""

    seq: int
    raw: str
    role: Role
    dialect: Dialect
    provenance: Provenance
    tokens: int
    created_at: int
    write_id: int = 0


@dataclass(frozen=True, slots=True)
class NewDerived:
    """A text that stands in the view for messages of the log, on its way into the log.

    Attributes:
        kind: A summary of many messages, or a substitute for one.
        raw: For a summary its framed text, the content of the summary message; for a substitute the whole
            message as JSON.
        covers: For a summary the ranges of original messages that it stands for.
        seq: For a substitute the message that it stands for.
        level: For a summary 1 if it was made from messages alone; otherwise one more than the highest level
            that it replaced.
        degraded: The summary was made without the intended model.
        dialect: For a substitute the dialect of ``raw``.
    """

    kind: Literal["summary", "substitute"]
    raw: str
    covers: tuple[tuple[int, int], ...] = ()
    seq: int | None = None
    level: int = 0
    degraded: bool = False
    dialect: Dialect = "any"


@dataclass(frozen=True, slots=True)
class Derived:
    """A derived text as the log holds it: a :class:`NewDerived` with its id."""

    derived_id: int
    kind: Literal["summary", "substitute"]
    raw: str
    covers: tuple[tuple[int, int], ...]
    seq: int | None
    level: int
    degraded: bool
    redacted: bool  #: it was forgotten, and another text stands in its place
    dialect: Dialect
    created_at: int


@dataclass(frozen=True, slots=True)
class NewCompaction:
    """A row that makes a view current, on its way into the log.

    Attributes:
        policy: The policy's name.
        reason: The trigger's reason.
        covers: The ranges of messages that are on the line of the session and not shown.
        view: The view it leaves.
        derived: The derived texts that it brings; ``NewRef`` names them in ``view``.
        next_seq: Messages from here on were appended after the history it rewrote, and follow the view.
        model: The model that wrote the summary, empty where unknown.
        usage: The model calls as JSON text.
        state: The policy's own state as JSON text, empty where it has none.
        tokens_before: The view before, by the policy's rule.
        tokens_after: And after.
        messages_before: Messages in the view before.
        messages_after: And after.
        created_at: Milliseconds since 1970, UTC.
        notes: How it was made, as JSON text, empty where nobody said.
    """

    policy: str
    reason: str
    covers: tuple[tuple[int, int], ...]
    view: tuple[ViewItem, ...]
    derived: tuple[NewDerived, ...]
    next_seq: int
    model: str
    usage: str
    state: str
    tokens_before: int
    tokens_after: int
    messages_before: int
    messages_after: int
    created_at: int
    notes: str = ""


@dataclass(frozen=True, slots=True)
class NewRecall:
    """A recall on its way into the log, or as the log holds it.

    Attributes:
        seq: The number of messages that the log had. Of two recalls at one place the later one is kept.
        created_at: Milliseconds since 1970, UTC.
        body: What was recalled, as JSON text without any text of an entry.
    """

    seq: int
    created_at: int
    body: str


@dataclass(frozen=True, slots=True)
class CompactionRow:
    """A row as the log holds it, with its id, the one whose view it rewrote, and what it brought."""

    compaction_id: int
    parent: int | None
    compaction: NewCompaction
    derived_ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class LogState:
    """Where a log stands.

    Attributes:
        next_seq: The sequence number that the next message gets.
        head: The row whose view is current; None before the first.
        clock: The session's own state, stored with its last write, as JSON text; empty at first.
        redactions: How often messages were forgotten, or a past was rewritten.
        counter: Raised by every write of the session's own state.
        deleted: The session was deleted: writes to it are accepted, and nothing is kept.
        namespace: The namespace that it was first opened with; empty for none.
        write_id: The id of the last write; 0 before the first.
        settings: The session's settings as JSON text.
    """

    next_seq: int
    head: CompactionRow | None
    clock: str
    redactions: int = 0
    counter: int = 0
    deleted: bool = False
    namespace: str = ""
    write_id: int = 0
    settings: str = ""

    @property
    def version(self) -> SessionVersion:
        """The session's version."""
        head = None if self.head is None else self.head.compaction_id
        return SessionVersion(self.next_seq, head, self.redactions, self.counter)


@dataclass(frozen=True, slots=True)
class CommitReceipt:
    """The ids that a commit wrote. A session that was deleted takes nothing, and has no version.

    Attributes:
        compaction_id: The row's id.
        derived_ids: An id for each derived text of the row.
        entry_ids: An id for each entry handed over; None for one that is not stored.
        version: The session's version after it.
    """

    compaction_id: int
    derived_ids: tuple[int, ...]
    entry_ids: tuple[int | None, ...]
    version: SessionVersion | None


@dataclass(frozen=True, slots=True)
class UndoReceipt:
    """The state after an undo: the current row, the number of entries that left the search, the version."""

    head: int | None
    withdrawn: int
    version: SessionVersion | None


class SessionLog(Protocol):
    """An append-only log of one session, and the rows that give views of it.

    Every write names the version that it stands on, and an id of its own. A version that is not the
    session's raises ``StoreConflictError``, which carries ``expected`` and ``found``; nothing was written.
    A write to a session that was deleted is accepted, keeps nothing, and gives no version.
    """

    def state(self) -> LogState:
        """Where the log stands."""

    def open(self, namespace: str | None) -> LogState:
        """Where the log stands, if the session is of that namespace; None does not ask.

        A session that is new, and has a namespace, is begun with it.

        Raises:
            ConfigError: the session is of another namespace.
        """

    def version(self) -> SessionVersion | None:
        """The session's version; None for a session that was deleted. It takes microseconds."""

    def append(
        self,
        messages: Sequence[NewMessage],
        *,
        expected: SessionVersion,
        clock: str,
        write_id: int,
        recalls: Sequence[NewRecall] = (),
    ) -> SessionVersion | None:
        """Writes *messages* to the end of the log, and *recalls*: durable, and all, when it returns."""

    def read(self, start: int, end: int) -> list[LogRow]:
        """The messages of a half-open range of sequence numbers, in order."""

    def commit(
        self,
        compaction: NewCompaction,
        entries: Sequence[Entry],
        *,
        expected: SessionVersion,
        clock: str,
        write_id: int,
        messages: Sequence[NewMessage] = (),
        recalls: Sequence[NewRecall] = (),
    ) -> CommitReceipt:
        """Indexes *entries* and makes the view of *compaction* current, in one step: both, or nothing.

        *messages* go to the end of the log before it, in the same step: the view has them. So do *recalls*.
        """

    def rewrite(
        self,
        row: NewCompaction,
        messages: Sequence[NewMessage],
        entries: Sequence[Entry],
        *,
        expected: SessionVersion,
        withdrawn: Sequence[int],
        gone: Sequence[int] = (),
        parent: int | None,
        clock: str,
        write_id: int,
    ) -> CommitReceipt:
        """Makes *row* the current view and appends *messages* after it, in one step: all, or nothing.

        It counts as a redaction, so that workers that have read the session read it again.

        Args:
            row: The view.
            messages: The messages that follow it.
            entries: The entries that are found beside it. An entry that is there already keeps its id.
            expected: The session's version.
            withdrawn: The rows whose entries leave, before *entries* are written.
            gone: Messages, ascending, whose entries leave as well, whatever brought them.
            parent: The row that *row* follows; None for the bare log.
            clock: The session's clock.
            write_id: The write's id.
        """

    def undo(self, *, expected: SessionVersion, clock: str, write_id: int) -> UndoReceipt:
        """Makes the view before the current row current again, and takes back the entries it brought.

        The row stays in the log. Entries that were indexed by a caller stay as well.
        """

    def save_clock(self, clock: str, *, expected: SessionVersion, write_id: int) -> SessionVersion | None:
        """Writes the session's clock alone."""

    def save_settings(
        self, settings: str, *, expected: SessionVersion, write_id: int
    ) -> SessionVersion | None:
        """Writes the settings of the session, a JSON text."""

    def renew(
        self, derived_id: int, content: str, *, expected: SessionVersion, write_id: int
    ) -> SessionVersion | None:
        """Gives a summary that was forgotten a new text. None where there is no such summary."""

    def compaction(self, compaction_id: int) -> CompactionRow | None:
        """The row of that id; None where this session has none."""

    def compactions(self) -> list[CompactionRow]:
        """Every row ever committed, in order."""

    def recalls(self, limit: int) -> list[NewRecall]:
        """The newest recalls, at most *limit* of the 1,000 that a log keeps, the newest first."""

    def derived(self, ids: Sequence[int]) -> list[Derived]:
        """The derived texts of those ids, in the order of *ids*."""

    def derived_like(self, texts: Sequence[str]) -> list[list[Derived]]:
        """For each text the derived texts that are equal to it, the newest first: an index finds them."""

    def derived_after(self, derived_id: int) -> list[Derived]:
        """All derived texts of the session with a larger id, ascending."""

    def forgotten(self) -> list[tuple[int, bytes]]:
        """Forgotten messages and summaries: the place, or minus the id of a summary, and the old digest."""

    def salt(self) -> bytes:
        """The salt of these digests (``canonical_digest``): each store has its own.

        A session that was copied keeps that of the store it came from.
        """


def ancestors(log: SessionLog, head: CompactionRow | None) -> Iterator[CompactionRow]:
    """*head* and the rows that led to it, the newest first, each read when it is asked for."""
    row = head
    while row is not None:
        yield row
        row = None if row.parent is None else log.compaction(row.parent)
