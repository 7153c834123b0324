"""The log of a session in the store's database, where it commits together with the entries."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from siltstone import _native
from siltstone.errors import InvalidMessageError, StoreConflictError, StoreCorruptError
from siltstone.memory.convert import (
    compaction_from_row,
    derived_from_row,
    message_from_row,
    shown_message,
)
from siltstone.memory.entry import Entry
from siltstone.memory.limits import Limits
from siltstone.memory.log import (
    CommitReceipt,
    CompactionRow,
    Derived,
    LogRow,
    LogState,
    NewCompaction,
    NewMessage,
    NewRecall,
    SessionVersion,
    UndoReceipt,
)
from siltstone.messages import Message, decode

__all__ = ["DatabaseLog", "request_among"]

_Version: TypeAlias = tuple[int, int | None, int, int]  # next_seq, head, redactions, counter

_PAGE = 256  #: messages that are held at once


class DatabaseLog:
    """A :class:`~siltstone.memory.log.SessionLog` over an open store."""

    def __init__(
        self,
        native: _native.Store,
        session_id: str,
        limits: Limits,
        on_entries: Callable[[], None],
    ) -> None:
        self._native = native
        self._session_id = session_id
        self._limits = limits
        self._on_entries = on_entries  # told when a commit may have brought some
        self._titled = self._is_searched = False
        self._known: tuple[_Version | None, SessionVersion | None] = (None, None)  # the last version, twice

    def state(self) -> LogState:
        """The state of the log."""
        return self._state(self._native.log_state(self._session_id))

    def open(self, namespace: str | None) -> LogState:
        """The state of the log, after a check of the namespace; None checks nothing.

        A new session with a namespace is created.

        Raises:
            ConfigError: the session has another namespace.
        """
        return self._state(self._native.open_session(self._session_id, namespace))

    def version(self) -> SessionVersion | None:
        """The version alone; None for a session that was deleted."""
        return self._same(self._native.version(self._session_id))

    def append(
        self,
        messages: Sequence[NewMessage],
        *,
        expected: SessionVersion,
        clock: str,
        write_id: int,
        recalls: Sequence[NewRecall] = (),
    ) -> SessionVersion | None:
        """Writes *messages* at the end of the log, and *recalls*: durable, and all, when it returns."""
        title, write = self._checked(messages, expected) if messages else "", (expected, write_id)
        try:
            version = self._native.append_messages(
                self._session_id, write, list(messages), clock, title, list(recalls)
            )
        except StoreConflictError as error:
            _name_versions(error)
            raise
        if title:
            self._titled = True
        return self._same(version)

    def read(self, start: int, end: int) -> list[LogRow]:
        """The messages of a half-open range of sequence numbers, in order."""
        return [message_from_row(row) for row in self._native.read_messages(self._session_id, start, end)]

    def messages(self, start: int, end: int) -> list[tuple[Message, int]]:
        """The same messages as a session shows them, each with its time, at a third of the cost."""
        return [shown_message(row) for row in self._native.shown_messages(self._session_id, start, end)]

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
        """Writes *messages* and *recalls*, indexes *entries* and writes *compaction* in one transaction."""
        said = list(messages), self._checked(messages, expected) if messages else "", list(recalls)
        from siltstone.memory.written import compaction_to_row, new_entry

        found = map(new_entry, self._limits.cut(entries))
        row, write = compaction_to_row(compaction), (expected, write_id)
        with _Versions():
            receipt = self._native.commit_compaction(self._session_id, write, row, found, clock, said)
        self._titled = self._titled or bool(said[1])
        self._on_entries()
        return _receipt(receipt)

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
        """Makes *row* the current view and appends *messages* after it, in one transaction."""
        from siltstone.memory.written import compaction_to_row, new_entry

        self._limits.check_messages(messages, expected.next_seq)
        found = map(new_entry, self._limits.cut(entries))
        changes, write = (list(withdrawn), list(gone), parent, list(messages), found), (expected, write_id)
        with _Versions():
            receipt = self._native.rewrite(self._session_id, write, compaction_to_row(row), changes, clock)
        self._is_searched = False  # *messages* may have the first request: the next write stores its title
        self._on_entries()
        return _receipt(receipt)

    def undo(self, *, expected: SessionVersion, clock: str, write_id: int) -> UndoReceipt:
        """Makes the previous view current again, and removes the entries of the undone compaction."""
        with _Versions():
            undone = self._native.undo_compaction(self._session_id, (expected, write_id), clock)
        head, withdrawn, version = undone
        return UndoReceipt(head, withdrawn, _version(version))

    def save_clock(self, clock: str, *, expected: SessionVersion, write_id: int) -> SessionVersion | None:
        """Writes the session's clock alone."""
        with _Versions():
            return _version(self._native.save_clock(self._session_id, (expected, write_id), clock))

    def save_settings(
        self, settings: str, *, expected: SessionVersion, write_id: int
    ) -> SessionVersion | None:
        """Writes the settings of the session."""
        with _Versions():
            return _version(self._native.save_settings(self._session_id, (expected, write_id), settings))

    def renew(
        self, derived_id: int, content: str, *, expected: SessionVersion, write_id: int
    ) -> SessionVersion | None:
        """Gives a forgotten derived text a new *content*; None if *derived_id* is no such text."""
        with _Versions():
            return _version(self._native.renew(self._session_id, (expected, write_id), derived_id, content))

    def compactions(self) -> list[CompactionRow]:
        """Every compaction ever committed, in order."""
        return [compaction_from_row(row) for row in self._native.compactions(self._session_id)]

    def compaction(self, compaction_id: int) -> CompactionRow | None:
        """The compaction with that id; None if this session has none."""
        row = self._native.compaction(self._session_id, compaction_id)
        return None if row is None else compaction_from_row(row)

    def recalls(self, limit: int) -> list[NewRecall]:
        """The newest recalls, at most *limit* of the 1,000 that a log keeps, the newest first."""
        return [NewRecall(*row) for row in self._native.recalls(self._session_id, limit)]

    def derived(self, ids: Sequence[int]) -> list[Derived]:
        """The derived texts with *ids*, in the order of *ids*."""
        return [derived_from_row(row) for row in self._native.derived(self._session_id, list(ids))]

    def derived_after(self, derived_id: int) -> list[Derived]:
        """All derived texts of the session with a larger id, ascending."""
        rows = self._native.derived_after(self._session_id, derived_id)
        return [derived_from_row(row) for row in rows]

    def derived_like(self, texts: Sequence[str]) -> list[list[Derived]]:
        """For each text the derived texts that are equal to it, the newest first."""
        found = self._native.derived_like(self._session_id, list(texts))
        return [[derived_from_row(row) for row in rows] for rows in found]

    def forgotten(self) -> list[tuple[int, bytes]]:
        """Forgotten texts: the number of a message, or minus the id of a summary; and the old digest."""
        return self._native.forgotten(self._session_id)

    def salt(self) -> bytes:
        """The salt of these digests: from the store, or from the store from which the session was copied."""
        return self._native.salt(self._session_id)

    def _checked(self, messages: Sequence[NewMessage], expected: SessionVersion) -> str:
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

    def _same(self, row: _Version | None) -> SessionVersion | None:
        """The version of *row*: the same object for the same version, which is compared faster."""
        known, version = self._known
        if row is not None and row == known:
            return version
        version = _version(row)
        self._known = row, version
        return version

    def _state(self, row: _native.LogState) -> LogState:
        next_seq, head, redactions, counter = row.version
        self._titled, self._is_searched = bool(row.title), False
        standing = None if head is None else self.compaction(head)
        if head is not None and standing is None:
            raise StoreCorruptError(
                f"session {self._session_id!r} stands on compaction {head}, which is missing",
                table="compaction",
                id=head,
            )
        return LogState(
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


class _Versions:
    """Converts the tuples ``expected`` and ``found`` of a conflict to versions."""

    __slots__ = ()

    def __enter__(self) -> None:
        """Does nothing."""

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        """Puts versions in the place of the tuples of *error*."""
        if isinstance(error, StoreConflictError):
            _name_versions(error)


def _name_versions(error: StoreConflictError) -> None:
    fields = vars(error)
    for name in ("expected", "found"):
        if isinstance(fields.get(name), tuple):
            fields[name] = SessionVersion(*fields[name])


def _version(row: _Version | None) -> SessionVersion | None:
    return None if row is None else SessionVersion(*row)


def _receipt(row: tuple[int, list[int], list[int | None], _Version | None]) -> CommitReceipt:
    compaction_id, derived_ids, entry_ids, version = row
    return CommitReceipt(compaction_id, tuple(derived_ids), tuple(entry_ids), _version(version))


def request_among(messages: Iterable[NewMessage | LogRow]) -> str:
    """The text of the first request among *messages*; empty where there is none."""
    from siltstone.messages import is_request, read_message

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
