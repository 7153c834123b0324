"""The contract of a session's log: every message ever appended, and the compactions over it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from siltstone.messages import Dialect, Provenance, Role

if TYPE_CHECKING:
    from siltstone.memory.database_log import DatabaseLog

SessionLog: TypeAlias = "DatabaseLog"
"""An append-only log of one session, and the rows that give views of it."""


class SessionVersion(NamedTuple):
    """The version of a session that a worker has read. Every write names it; an old version is a conflict.

    Attributes:
        next_seq: The sequence number of the next message.
        head: The id of the row whose view is current; None before the first.
        redactions: The number of times that messages were forgotten, or the past was rewritten.
        counter: A number that grows with every write of the session's own state.
    """

    next_seq: int
    head: int | None
    redactions: int
    counter: int


@dataclass(frozen=True, slots=True)
class NewRef:
    """A reference from the view of a new row to the row's own derived text at *place*."""

    place: int


ViewItem: TypeAlias = tuple[int, int] | NewRef | int
"""A piece of a view: a half-open range of shown messages, or a derived text by its id (new: ``NewRef``)."""


class NewMessage(NamedTuple):
    r"""A message that is not in the log yet.

    Attributes:
        raw: Its JSON text, valid UTF-8 (lone surrogates as ``\udXXX``).
        role: Its role.
        dialect: The dialect of ``raw``.
        provenance: Its origin.
        tokens: Its estimated tokens when it was appended.
        created_at: Milliseconds since 1970, UTC.
    """

    raw: str
    role: Role
    dialect: Dialect
    provenance: Provenance
    tokens: int
    created_at: int


class LogRow(NamedTuple):
    """A message of the log: a :class:`NewMessage` with its sequence number, and the id of its write."""

    seq: int
    raw: str
    role: Role
    dialect: Dialect
    provenance: Provenance
    tokens: int
    created_at: int
    write_id: int = 0


class NewDerived(NamedTuple):
    """A derived text that is not in the log yet. It replaces messages of the log in the view.

    Attributes:
        kind: A summary of many messages, or a substitute for one.
        raw: For a summary its framed text, the content of the summary message; for a substitute the whole
            message as JSON.
        covers: For a summary the ranges of original messages that it replaces.
        seq: For a substitute the message that it replaces.
        level: For a summary 1 if it was made from messages alone; otherwise one more than the highest level
            that it replaced.
        degraded: Whether the summary was made without the intended model.
        dialect: For a substitute the dialect of ``raw``.
    """

    kind: Literal["summary", "substitute"]
    raw: str
    covers: tuple[tuple[int, int], ...] = ()
    seq: int | None = None
    level: int = 0
    degraded: bool = False
    dialect: Dialect = "any"


class Derived(NamedTuple):
    """A derived text of the log: a :class:`NewDerived` with its id."""

    derived_id: int
    kind: Literal["summary", "substitute"]
    raw: str
    covers: tuple[tuple[int, int], ...]
    seq: int | None
    level: int
    degraded: bool
    redacted: bool  #: whether it was forgotten, and has another text now
    dialect: Dialect
    created_at: int


class NewCompaction(NamedTuple):
    """What a compaction writes: the view that becomes current, and how it was made.

    ``CompactionRow`` is the same with the id that the store gave it.

    Attributes:
        reason: The trigger's reason.
        covers: The ranges of messages that are on the line of the session and not shown.
        view: The view right after it.
        next_seq: The first message after the rewritten history. Messages from here on follow the view.
        state: The policy's own state as JSON text, empty if it has none.
        tokens_before: Tokens of the view before, by the policy's rule.
        tokens_after: Tokens of the view after.
        messages_before: Messages in the view before.
        messages_after: Messages in the view after.
        created_at: Milliseconds since 1970, UTC.
        policy: The policy's name; empty where no policy made it.
        derived: The new derived texts; ``NewRef`` names them in ``view``.
        model: The model that wrote the summary, empty if unknown.
        usage: The model calls as JSON text.
        notes: How it was made, as JSON text, empty where nobody said.
    """

    reason: str
    covers: tuple[tuple[int, int], ...]
    view: tuple[ViewItem, ...]
    next_seq: int
    state: str
    tokens_before: int
    tokens_after: int
    messages_before: int
    messages_after: int
    created_at: int
    policy: str = ""
    derived: tuple[NewDerived, ...] = ()
    model: str = ""
    usage: str = "[]"
    notes: str = ""


class NewRecall(NamedTuple):
    """A record of a recall, for the log or from it.

    Attributes:
        seq: The length of the log at that time. Of two recalls at the same length the later one is kept.
        created_at: Milliseconds since 1970, UTC.
        body: The ids and figures of the recall as JSON text, without any text of an entry.
    """

    seq: int
    created_at: int
    body: str


class CompactionRow(NamedTuple):
    """A row of the log, with its id, the id of the row before it, and the ids of its derived texts."""

    compaction_id: int
    parent: int | None
    compaction: NewCompaction
    derived_ids: tuple[int, ...] = ()


class LogState(NamedTuple):
    """The state of a log.

    Attributes:
        next_seq: The sequence number of the next message.
        head: The row whose view is current; None before the first.
        clock: The session's own state, stored with its last write, as JSON text; empty at first.
        redactions: The number of times that messages were forgotten, or the past was rewritten.
        counter: A number that grows with every write of the session's own state.
        deleted: Whether the session was deleted. Writes to it are accepted, and nothing is kept.
        namespace: The namespace with which it was first opened; empty for none.
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


class CommitReceipt(NamedTuple):
    """The ids of a commit.

    Attributes:
        compaction_id: The row's id.
        derived_ids: An id for each derived text of the row.
        entry_ids: The ids of the entries, in the order given; None for an entry that is not stored. An entry
            that ``Limits`` cuts into pieces has the id of each piece.
        version: The session's version after the commit; None if the session was deleted, and nothing was
            written.
    """

    compaction_id: int
    derived_ids: tuple[int, ...]
    entry_ids: tuple[int | None, ...]
    version: SessionVersion | None


class UndoReceipt(NamedTuple):
    """The state after an undo: the current row, the number of removed entries, the version."""

    head: int | None
    withdrawn: int
    version: SessionVersion | None


def ancestors(log: SessionLog, head: CompactionRow | None) -> Iterator[CompactionRow]:
    """*head* and the rows that led to it, newest first, read on demand."""
    row = head
    while row is not None:
        yield row
        row = None if row.parent is None else log.compaction(row.parent)
