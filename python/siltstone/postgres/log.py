"""The log of a session in PostgreSQL: that of its mirror, which is brought up to date as it is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol, TypeVar

from siltstone.errors import InternalError
from siltstone.memory.database_log import DatabaseLog
from siltstone.memory.entry import Entry
from siltstone.memory.log import (
    CommitReceipt,
    CompactionRow,
    Derived,
    LogRow,
    LogState,
    NewCompaction,
    NewMessage,
    SessionLog,
    SessionVersion,
    UndoReceipt,
)
from siltstone.postgres.mirror import Mirror
from siltstone.stores.memory import MemoryStore

__all__ = ["PostgresLog"]

T = TypeVar("T")

_LOOK: ContextVar[dict[object, SessionVersion | None] | None] = ContextVar("one_look", default=None)


class Place(Protocol):
    """Runs what is to be done in the mirror of a session."""

    def __call__(
        self, session_id: str, work: Callable[[Mirror], T], *, namespace: str | None = None
    ) -> T: ...


class PostgresLog(SessionLog):
    """A log whose rows are in PostgreSQL.

    A write goes to PostgreSQL at once, and is refused there where others wrote. What is read has all that was
    written before the call.
    """

    is_remote = True

    def __init__(self, session_id: str, place: Place) -> None:
        self._session_id = session_id
        self._place = place
        self._known: tuple[MemoryStore, DatabaseLog] | None = None

    def state(self) -> LogState:
        """Where the log stands."""
        return self._read(lambda log: log.state())

    def open(self, namespace: str | None) -> LogState:
        """Where the log stands, if the session is of that namespace; None does not ask.

        A session that is new, and has a namespace, is begun with it.

        Raises:
            ConfigError: the session is of another namespace.
        """

        def opened(mirror: Mirror) -> LogState:
            return mirror.run(lambda store: self._of(store).open(namespace))

        return self._place(self._session_id, opened, namespace=namespace)

    def version(self) -> SessionVersion | None:
        """The version alone; None for a session that was deleted. It is asked once within ``one_look``."""
        known = _LOOK.get()
        if known is None:
            return self._read(lambda log: log.version())
        if self not in known:
            known[self] = self._read(lambda log: log.version())
        return known[self]

    @contextmanager
    def one_look(self) -> Iterator[None]:
        """Within it the version is asked of the server once.

        A call that reads is of one moment then. A write names the version that it stands on in any case, and
        what it is refused for is asked anew.
        """
        before = _LOOK.set({})
        try:
            yield
        finally:
            _LOOK.reset(before)

    def append(
        self, messages: Sequence[NewMessage], *, expected: SessionVersion, clock: str, write_id: int
    ) -> SessionVersion | None:
        """Writes *messages* at the end of the log: PostgreSQL has all of them when it returns."""
        return self._write(
            lambda log: log.append(messages, expected=expected, clock=clock, write_id=write_id)
        )

    def read(self, start: int, end: int) -> list[LogRow]:
        """The messages of a half-open range of sequence numbers, in order."""
        return self._read(lambda log: log.read(start, end))

    def commit(
        self,
        compaction: NewCompaction,
        entries: Sequence[Entry],
        *,
        expected: SessionVersion,
        clock: str,
        write_id: int,
        messages: Sequence[NewMessage] = (),
    ) -> CommitReceipt:
        """Writes *messages*, indexes *entries* and writes *compaction* in one transaction."""
        return self._write(
            lambda log: log.commit(
                compaction, entries, expected=expected, clock=clock, write_id=write_id, messages=messages
            )
        )

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
        return self._write(
            lambda log: log.rewrite(
                row,
                messages,
                entries,
                expected=expected,
                withdrawn=withdrawn,
                gone=gone,
                parent=parent,
                clock=clock,
                write_id=write_id,
            )
        )

    def undo(self, *, expected: SessionVersion, clock: str, write_id: int) -> UndoReceipt:
        """Makes the view before the current one current again, and takes back the entries it brought."""
        return self._write(lambda log: log.undo(expected=expected, clock=clock, write_id=write_id))

    def save_clock(self, clock: str, *, expected: SessionVersion, write_id: int) -> SessionVersion | None:
        """Writes the session's clock alone."""
        return self._write(lambda log: log.save_clock(clock, expected=expected, write_id=write_id))

    def save_settings(
        self, settings: str, *, expected: SessionVersion, write_id: int
    ) -> SessionVersion | None:
        """Writes what was settled for the session."""
        return self._write(lambda log: log.save_settings(settings, expected=expected, write_id=write_id))

    def renew(
        self, derived_id: int, content: str, *, expected: SessionVersion, write_id: int
    ) -> SessionVersion | None:
        """Gives a derived text that was forgotten a new one; None where it is no such text."""
        return self._write(lambda log: log.renew(derived_id, content, expected=expected, write_id=write_id))

    def compactions(self) -> list[CompactionRow]:
        """Every compaction ever committed, in order."""
        return self._read(lambda log: log.compactions())

    def compactions_after(self, compaction_id: int, *, limit: int) -> list[CompactionRow]:
        """At most *limit* compactions that were committed after *compaction_id*, in order."""
        return self._read(lambda log: log.compactions_after(compaction_id, limit=limit))

    def compaction(self, compaction_id: int) -> CompactionRow | None:
        """The compaction of that id; None where this session has none."""
        return self._read(lambda log: log.compaction(compaction_id))

    def chain(self, head: int, *, until: int | None = None, limit: int | None = None) -> list[CompactionRow]:
        """The compactions that led to *head*, itself first, up to *until*, which is left out."""
        return self._read(lambda log: log.chain(head, until=until, limit=limit))

    def derived(self, ids: Sequence[int]) -> list[Derived]:
        """The derived texts of those ids, in their order."""
        return self._read(lambda log: log.derived(ids))

    def derived_after(self, derived_id: int) -> list[Derived]:
        """All derived texts of the session with a larger id, ascending."""
        return self._read(lambda log: log.derived_after(derived_id))

    def derived_like(self, texts: Sequence[str]) -> list[list[Derived]]:
        """Of each text the derived texts that are exactly that, the newest first."""
        return self._read(lambda log: log.derived_like(texts))

    def forgotten(self) -> list[tuple[int, bytes]]:
        """What was forgotten: a message's place, or minus the id of a summary, and its digest from before."""
        return self._read(lambda log: log.forgotten())

    def salt(self) -> bytes:
        """What these digests are made with: it is the mirror's own."""
        return self._read(lambda log: log.salt())

    def _read(self, work: Callable[[DatabaseLog], T]) -> T:
        return self._place(self._session_id, lambda mirror: mirror.read(lambda store: work(self._of(store))))

    def _write(self, work: Callable[[DatabaseLog], T]) -> T:
        known = _LOOK.get()
        if known is not None:
            known.pop(self, None)
        return self._place(
            self._session_id, lambda mirror: mirror.run(lambda store: work(self._of(store)), fresh=False)
        )

    def _of(self, store: MemoryStore) -> DatabaseLog:
        """The log of the mirror, as long as that has the same store."""
        known = self._known
        if known is None or known[0] is not store:
            log = store.open_log(self._session_id)
            if not isinstance(log, DatabaseLog):
                raise InternalError("the store of a mirror has another log")
            self._known = known = store, log
        return known[1]
