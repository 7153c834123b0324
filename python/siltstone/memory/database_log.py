"""The log of a session in the store's database, where it commits together with the entries."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, TypeAlias

from siltstone import _native
from siltstone.errors import InvalidMessageError, StoreCorruptError
from siltstone.memory import convert, log as logs
from siltstone.memory.convert import NewEntry, compaction_to_row
from siltstone.memory.limits import Limits
from siltstone.messages import Message, OwnTools, decode, indexable_text, is_request, read_message

# Records of the recalls of a session, from its log: ids and figures, without any text of an entry.

MOST_RECALLS: Final = 1_000  #: the maximum number of recalls in the log of a session; the oldest are deleted

Placing: TypeAlias = Literal["placed", "cut", "budget"]
"""``placed``: the whole entry was in the block. ``cut``: a part of it was. ``budget``: it had no room."""

_PLACINGS: Final[tuple[Placing, ...]] = ("placed", "cut", "budget")


@dataclass(frozen=True, slots=True)
class RecallCandidate:
    """An entry that a recall found, with a score above the limit.

    Attributes:
        entry_id: Its id in the store; 0 or less if it had none. The entry may be deleted since: ``store.get``
            then raises ``EntryNotFoundError``.
        score: 0..1, by the search that found it; for a neighbour of the best hit, a share of that hit's
            score.
        tokens: Its size in the block, or the size that it needed; None if it was left out before it was
            counted.
        placing: Whether the entry was placed, cut or left out.
    """

    entry_id: int
    score: float
    tokens: int | None
    placing: Placing

    @property
    def is_placed(self) -> bool:
        """Whether the block had it, or a part of it."""
        return self.placing != "budget"


@dataclass(frozen=True, slots=True)
class RecallRecord:
    """A recall: the entries in its block, and the entries that were left out.

    Attributes:
        position: The length of the log at that time.
        at: The time, in UTC.
        query: The sequence numbers of the messages that made the query, oldest first.
        candidates: The entries with a score above the limit, best first.
        facts: The number of facts in the block.
        below: The number of found entries with a score below the limit.
        tokens: The size of the block; 0 if there was none.
        cap: The largest allowed size.
        seconds: The time for the search and the block.
        reason: Why there was no block: ``short_query``, ``no_hits``, ``no_room``; else empty.
        before: The number of the message that the block stands before.
        standing: The size of the block of standing wishes; 0 if there was none.
    """

    position: int
    at: datetime
    query: tuple[int, ...]
    candidates: tuple[RecallCandidate, ...]
    facts: int
    below: int
    tokens: int
    cap: int
    seconds: float
    reason: str
    before: int
    standing: int

    @property
    def placed(self) -> tuple[RecallCandidate, ...]:
        """The entries in the block, best first."""
        return tuple(each for each in self.candidates if each.is_placed)

    @property
    def left_out(self) -> tuple[RecallCandidate, ...]:
        """The entries without room in the block, best first."""
        return tuple(each for each in self.candidates if not each.is_placed)


def record_of(row: logs.NewRecall) -> RecallRecord:
    """The record of a row of the log."""
    body = json.loads(row.body)
    return RecallRecord(
        position=row.seq,
        at=convert.datetime_from(row.created_at),
        query=tuple(body["q"]),
        candidates=tuple(
            RecallCandidate(entry, score / 1e6, tokens, _PLACINGS[placing])
            for entry, score, tokens, placing in body["e"]
        ),
        facts=body["f"],
        below=body["b"],
        tokens=body["t"],
        cap=body["c"],
        seconds=body["u"] / 1e6,
        reason=body["r"],
        before=body["p"],
        standing=body["s"],
    )


# Makes entries of messages that are still in context, so that other sessions of a namespace find them.

Findable: TypeAlias = Literal["all", "words", "nothing"]
"""The part of a session that other sessions of its namespace may find: all, all but its tools, or nothing."""

_KEY: Final = "findable"
_LOOK_BACK: Final = 64  # messages read before the wanted ones, to find the tool calls of their results
_SESSIONS: Final = 1_024  # sessions whose tool calls are remembered


def findable(settings: str) -> Findable:
    """The part of a session that others may find, from its settings."""
    value = json.loads(settings).get(_KEY) if settings else None
    return value if value in ("words", "nothing") else "all"


def with_findable(settings: str, value: Findable) -> str:
    """*settings* with *value* as the findable part."""
    known = json.loads(settings) if settings else {}
    changed = {key: each for key, each in known.items() if key != _KEY}
    if value != "all":
        changed[_KEY] = value
    return json.dumps(changed) if changed else ""


def entry_of(message: Message, created_at: int, **options: Any) -> NewEntry | None:
    """The entry of a message as a row; None if it has no text to index.

    Args:
        message: The message.
        created_at: The time of the message, in milliseconds since 1970.
        options: As for :func:`siltstone.messages.indexable_text`.
    """
    text = indexable_text(message, **options)
    if not text or text.isspace():
        return None
    name = None
    if message.said is None:  # no single text has a name
        name = next((part.name for part in message.parts if part.name), None)
    return NewEntry(text, message.seq, message.seq + 1, message.role, name, "message", created_at)


class Sayings:
    """Reads messages of logs as entries."""

    def __init__(self) -> None:
        self._tools: OrderedDict[str, OwnTools] = OrderedDict()  # least recently used first

    def of(self, session_id: str, log: logs.SessionLog, rows: Sequence[logs.LogRow]) -> list[NewEntry | None]:
        """An entry or None for each of *rows*, which are messages of the session's *log* in order."""
        may = findable(log.state().settings)
        if may == "nothing":
            return [None] * len(rows)
        tools = self._tools.pop(session_id, None)
        if tools is None:
            tools = OwnTools()
            if rows:
                first = rows[0].seq
                _walk(tools, log.read(max(0, first - _LOOK_BACK), first))
        self._tools[session_id] = tools
        while len(self._tools) > _SESSIONS:
            self._tools.popitem(last=False)
        found: list[NewEntry | None] = []
        for row in rows:
            message = _message(row)
            if message is None:
                found.append(None)
                continue
            own = tools.parts_of(message)
            found.append(entry_of(message, row.created_at, index_tools=may == "all", own=own))
        return found

    def in_context(self, session_id: str, log: logs.SessionLog) -> list[NewEntry]:
        """The entries of the messages in the context of the session, in their order."""
        state = log.state()
        spans = [(0 if state.head is None else state.head.compaction.next_seq, state.next_seq)]
        if state.head is not None:
            spans += [item for item in state.head.compaction.view if isinstance(item, tuple)]
        rows = [row for start, end in sorted(spans) for row in log.read(start, end)]
        return [entry for entry in self.of(session_id, log, rows) if entry is not None]


def _walk(tools: OwnTools, rows: Iterable[logs.LogRow]) -> None:
    for row in rows:
        if (message := _message(row)) is not None:
            tools.parts_of(message)


def _message(row: logs.LogRow) -> Message | None:
    """The message of a row; None if a caller wrote the row without a session, and it is no message."""
    try:
        return read_message(decode(row.raw), row.seq, dialect=row.dialect, provenance=row.provenance)
    except InvalidMessageError:
        return None


_Version: TypeAlias = tuple[int, int | None, int, int]  # next_seq, head, redactions, counter

_PAGE = 256  #: messages that are held at once


class DatabaseLog:
    """An append-only log of one session, and the rows that give views of it.

    Every write names the version that the worker has read, and an id of its own. If the session has another
    version, the write raises ``StoreConflictError``, which carries ``expected`` and ``found``, each with the
    values of a ``SessionVersion``; nothing was written. A write to a deleted session is accepted, keeps
    nothing, and returns no version.
    """

    def __init__(
        self, native: _native.Store, session_id: str, limits: Limits, on_entries: Callable[[], None]
    ) -> None:
        self._native = native
        self._session_id = session_id
        self._limits = limits
        self._on_entries = on_entries  # told when a commit may have brought some
        self._titled = self._is_searched = False
        # The last version, twice.
        self._known: tuple[_Version | None, logs.SessionVersion | None] = (None, None)

    def state(self) -> logs.LogState:
        """The state of the log."""
        return self._state(self._native.log_state(self._session_id))

    def open(self, namespace: str | None) -> logs.LogState:
        """The state of the log, after a check of the namespace; None checks nothing.

        A new session with a namespace is created.

        Raises:
            ConfigError: the session has another namespace.
        """
        return self._state(self._native.open_session(self._session_id, namespace))

    def version(self) -> logs.SessionVersion | None:
        """The version alone; None for a session that was deleted. It takes microseconds."""
        return self._same(self._native.version(self._session_id))

    def append(
        self,
        messages: Sequence[logs.NewMessage],
        *,
        expected: logs.SessionVersion,
        clock: str,
        write_id: int,
        recalls: Sequence[logs.NewRecall] = (),
    ) -> logs.SessionVersion | None:
        """Writes *messages* at the end of the log, and *recalls*: durable, and all, when it returns."""
        title, write = self._checked(messages, expected) if messages else "", (expected, write_id)
        version = self._native.append_messages(
            self._session_id, write, list(messages), clock, title, list(recalls)
        )
        if title:
            self._titled = True
        return self._same(version)

    def read(self, start: int, end: int) -> list[logs.LogRow]:
        """The messages of a half-open range of sequence numbers, in order."""
        return [
            convert.message_from_row(row) for row in self._native.read_messages(self._session_id, start, end)
        ]

    def messages(self, start: int, end: int) -> list[tuple[Message, int]]:
        """The same messages as a session shows them, each with its time (ms since 1970), at less cost."""
        return [
            convert.shown_message(row) for row in self._native.shown_messages(self._session_id, start, end)
        ]

    def commit(
        self,
        compaction: logs.NewCompaction,
        entries: Iterable[NewEntry],
        *,
        expected: logs.SessionVersion,
        clock: str,
        write_id: int,
        messages: Sequence[logs.NewMessage] = (),
        recalls: Sequence[logs.NewRecall] = (),
    ) -> logs.CommitReceipt:
        """Indexes *entries* and makes the view of *compaction* current, in one step: both, or nothing.

        *messages* and *recalls* are written in the same step. The messages are part of the rewritten view.
        """
        said = list(messages), self._checked(messages, expected) if messages else "", list(recalls)

        found = self._limits.cut(entries)
        row, write = compaction_to_row(compaction), (expected, write_id)
        receipt = self._native.commit_compaction(self._session_id, write, row, found, clock, said)
        self._titled = self._titled or bool(said[1])
        self._on_entries()
        return _receipt(receipt)

    def rewrite(
        self,
        row: logs.NewCompaction,
        messages: Sequence[logs.NewMessage],
        entries: Iterable[NewEntry],
        *,
        expected: logs.SessionVersion,
        withdrawn: Sequence[int],
        gone: Sequence[int] = (),
        parent: int | None,
        clock: str,
        write_id: int,
    ) -> logs.CommitReceipt:
        """Makes *row* the current view and appends *messages* after it, in one step: all, or nothing.

        It counts as a redaction, so that other workers read the session again.

        Args:
            row: The new view.
            messages: The messages that follow it.
            entries: The entries that searches find beside the view. An entry that exists keeps its id.
            expected: The session's version.
            withdrawn: The rows whose entries are removed, before *entries* are written.
            gone: Numbers of messages, ascending, whose entries are removed too, of any origin.
            parent: The row before *row*; None if there is none.
            clock: The session's clock.
            write_id: The write's id.
        """
        self._limits.check_messages(messages, expected.next_seq)
        found = self._limits.cut(entries)
        changes, write = (list(withdrawn), list(gone), parent, list(messages), found), (expected, write_id)
        receipt = self._native.rewrite(self._session_id, write, compaction_to_row(row), changes, clock)
        self._is_searched = False  # *messages* may have the first request: the next write stores its title
        self._on_entries()
        return _receipt(receipt)

    def undo(self, *, expected: logs.SessionVersion, clock: str, write_id: int) -> logs.UndoReceipt:
        """Makes the view before the current row current again, and removes the entries of that row.

        The row stays in the log. Entries that a caller indexed stay too.
        """
        undone = self._native.undo_compaction(self._session_id, (expected, write_id), clock)
        head, withdrawn, version = undone
        return logs.UndoReceipt(head, withdrawn, _version(version))

    def save_clock(
        self, clock: str, *, expected: logs.SessionVersion, write_id: int
    ) -> logs.SessionVersion | None:
        """Writes the session's clock alone."""
        return _version(self._native.save_clock(self._session_id, (expected, write_id), clock))

    def save_settings(
        self, settings: str, *, expected: logs.SessionVersion, write_id: int
    ) -> logs.SessionVersion | None:
        """Writes the settings of the session, a JSON text."""
        return _version(self._native.save_settings(self._session_id, (expected, write_id), settings))

    def renew(
        self, derived_id: int, content: str, *, expected: logs.SessionVersion, write_id: int
    ) -> logs.SessionVersion | None:
        """Gives a forgotten derived text a new *content*; None if *derived_id* is no such text."""
        return _version(self._native.renew(self._session_id, (expected, write_id), derived_id, content))

    def compactions(self) -> list[logs.CompactionRow]:
        """Every compaction ever committed, in order."""
        return [convert.compaction_from_row(row) for row in self._native.compactions(self._session_id)]

    def compaction(self, compaction_id: int) -> logs.CompactionRow | None:
        """The compaction with that id; None if this session has none."""
        row = self._native.compaction(self._session_id, compaction_id)
        return None if row is None else convert.compaction_from_row(row)

    def recalls(self, limit: int) -> list[logs.NewRecall]:
        """The newest recalls, at most *limit* of the 1,000 that a log keeps, the newest first."""
        return [logs.NewRecall(*row) for row in self._native.recalls(self._session_id, limit)]

    def derived(self, ids: Sequence[int]) -> list[logs.Derived]:
        """The derived texts with *ids*, in the order of *ids*."""
        return [convert.derived_from_row(row) for row in self._native.derived(self._session_id, list(ids))]

    def derived_after(self, derived_id: int) -> list[logs.Derived]:
        """All derived texts of the session with a larger id, ascending."""
        rows = self._native.derived_after(self._session_id, derived_id)
        return [convert.derived_from_row(row) for row in rows]

    def derived_like(self, texts: Sequence[str]) -> list[list[logs.Derived]]:
        """For each text the equal derived texts, newest first. The store must have an index for this."""
        found = self._native.derived_like(self._session_id, list(texts))
        return [[convert.derived_from_row(row) for row in rows] for rows in found]

    def forgotten(self) -> list[tuple[int, bytes]]:
        """Forgotten texts: the number of a message, or minus the id of a summary; and the old digest."""
        return self._native.forgotten(self._session_id)

    def salt(self) -> bytes:
        """The salt of these digests (``canonical_digest``): each store has its own.

        A copied session keeps the salt of its first store.
        """
        return self._native.salt(self._session_id)

    def _checked(self, messages: Sequence[logs.NewMessage], expected: logs.SessionVersion) -> str:
        """Checks the size of *messages*. Returns the title of the session, if it has none yet; else ""."""
        self._limits.check_messages(messages, expected.next_seq)
        if self._titled:
            return ""
        return self._first_request(expected.next_seq) or request_among(messages)

    def _first_request(self, length: int) -> str:
        """The first request in a log without a title, as a repair or a rewrite may leave it."""
        pages = (self.read(start, start + _PAGE) for start in range(0, length, _PAGE))
        found = "" if self._is_searched else request_among(row for page in pages for row in page)
        self._is_searched = True
        return found

    def _same(self, row: _Version | None) -> logs.SessionVersion | None:
        """The version of *row*: the same object for the same version, which is compared faster."""
        known, version = self._known
        if row is not None and row == known:
            return version
        version = _version(row)
        self._known = row, version
        return version

    def _state(self, row: _native.LogState) -> logs.LogState:
        next_seq, head, redactions, counter = row.version
        self._titled, self._is_searched = bool(row.title), False
        standing = None if head is None else self.compaction(head)
        if head is not None and standing is None:
            raise StoreCorruptError(
                f"session {self._session_id!r} stands on compaction {head}, which is missing",
                table="compaction",
                id=head,
            )
        return logs.LogState(
            next_seq=next_seq,
            head=standing,
            clock=row.clock,
            redactions=redactions,
            counter=counter,
            deleted=row.deleted,
            namespace=row.namespace,
            write_id=row.write_id,
            settings=row.settings,
        )


def _version(row: _Version | None) -> logs.SessionVersion | None:
    return None if row is None else logs.SessionVersion(*row)


def _receipt(row: tuple[int, list[int], list[int | None], _Version | None]) -> logs.CommitReceipt:
    compaction_id, derived_ids, entry_ids, version = row
    return logs.CommitReceipt(compaction_id, tuple(derived_ids), tuple(entry_ids), _version(version))


def request_among(messages: Iterable[logs.NewMessage | logs.LogRow]) -> str:
    """The text of the first request among *messages*; empty where there is none."""
    for message in messages:
        if message.role == "user" and message.provenance == "original":
            try:
                read = read_message(decode(message.raw), 0, dialect=message.dialect)
            except (InvalidMessageError, json.JSONDecodeError):
                continue  # a caller may have written its own log, with messages that cannot be read
            texts = (part.text.strip() for part in read.parts if part.kind == "text" and part.text)
            if title := next((text for text in texts if text and is_request(text)), ""):
                return title
    return ""
