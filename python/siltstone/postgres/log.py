"""The log of a session in PostgreSQL. Each call goes to the session's mirror, which is brought up to date."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from operator import length_hint
from typing import Protocol, TypeVar

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
    NewRecall,
    SessionLog,
    SessionVersion,
    UndoReceipt,
)
from siltstone.messages import Message
from siltstone.postgres.mirror import Mirror, one_look

__all__ = ["PostgresLog"]

T = TypeVar("T")


class InMirror(Protocol):
    """Runs work in the mirror of a session."""

    def __call__(
        self, session_id: str, work: Callable[[Mirror], T], *, namespace: str | None = None
    ) -> T: ...


class PostgresLog(SessionLog):
    """A log whose rows are in PostgreSQL.

    A write goes to PostgreSQL at once, and is refused there if others wrote meanwhile. A read includes every
    write from before the call.
    """

    def __init__(self, session_id: str, in_mirror: InMirror) -> None:
        self._session_id = session_id
        self._in_mirror = in_mirror

    def state(self) -> LogState:
        return self._read(lambda log: log.state())

    def open(self, namespace: str | None) -> LogState:
        def opened(mirror: Mirror) -> LogState:
            return mirror.run(lambda store: mirror.log(self._session_id, store).open(namespace))

        return self._in_mirror(self._session_id, opened, namespace=namespace)

    def version(self) -> SessionVersion | None:
        return self._read(lambda log: log.version())

    def one_look(self) -> AbstractContextManager[None]:
        """Inside this context the server is asked only once for new rows."""
        return one_look()

    def append(
        self,
        messages: Sequence[NewMessage],
        *,
        expected: SessionVersion,
        clock: str,
        write_id: int,
        recalls: Sequence[NewRecall] = (),
    ) -> SessionVersion | None:
        return self._write(
            lambda log: log.append(
                messages, expected=expected, clock=clock, write_id=write_id, recalls=recalls
            )
        )

    def read(self, start: int, end: int) -> list[LogRow]:
        return self._read(lambda log: log.read(start, end))

    def messages(self, start: int, end: int) -> list[tuple[Message, int]]:
        return self._read(lambda log: log.messages(start, end))

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
        return self._write(
            lambda log: log.commit(
                compaction,
                entries,
                expected=expected,
                clock=clock,
                write_id=write_id,
                messages=messages,
                recalls=recalls,
            ),
            ids=length_hint(entries),
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
        return self._write(lambda log: log.undo(expected=expected, clock=clock, write_id=write_id))

    def save_clock(self, clock: str, *, expected: SessionVersion, write_id: int) -> SessionVersion | None:
        return self._write(lambda log: log.save_clock(clock, expected=expected, write_id=write_id))

    def save_settings(
        self, settings: str, *, expected: SessionVersion, write_id: int
    ) -> SessionVersion | None:
        return self._write(lambda log: log.save_settings(settings, expected=expected, write_id=write_id))

    def renew(
        self, derived_id: int, content: str, *, expected: SessionVersion, write_id: int
    ) -> SessionVersion | None:
        return self._write(lambda log: log.renew(derived_id, content, expected=expected, write_id=write_id))

    def compactions(self) -> list[CompactionRow]:
        return self._read(lambda log: log.compactions())

    def compaction(self, compaction_id: int) -> CompactionRow | None:
        return self._read(lambda log: log.compaction(compaction_id))

    def recalls(self, limit: int) -> list[NewRecall]:
        return self._read(lambda log: log.recalls(limit))

    def derived(self, ids: Sequence[int]) -> list[Derived]:
        return self._read(lambda log: log.derived(ids))

    def derived_after(self, derived_id: int) -> list[Derived]:
        return self._read(lambda log: log.derived_after(derived_id))

    def derived_like(self, texts: Sequence[str]) -> list[list[Derived]]:
        return self._read(lambda log: log.derived_like(texts))

    def forgotten(self) -> list[tuple[int, bytes]]:
        return self._read(lambda log: log.forgotten())

    def salt(self) -> bytes:
        return self._read(lambda log: log.salt())

    def _read(self, work: Callable[[DatabaseLog], T]) -> T:
        session = self._session_id
        return self._in_mirror(
            session, lambda mirror: mirror.read(lambda store: work(mirror.log(session, store)))
        )

    def _write(self, work: Callable[[DatabaseLog], T], *, ids: int = 0) -> T:
        session = self._session_id

        def written(mirror: Mirror) -> T:
            return mirror.run(lambda store: work(mirror.log(session, store)), fresh=False, ids=ids)

        return self._in_mirror(session, written)
