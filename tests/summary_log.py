"""A log in which every compaction has one summary: a short form of the log for the tests of stores.

It fills in the versions and ids of writes, so that a test only names the values that matter to it.
"""

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeAlias, TypeVar

from siltstone.errors import StoreConflictError
from siltstone.memory import log as store_log
from siltstone.memory.base import Store
from siltstone.memory.convert import new_entry
from siltstone.memory.entry import Entry
from siltstone.memory.log import CommitReceipt, LogRow, NewMessage, SessionVersion, UndoReceipt

_T = TypeVar("_T")

ViewItem: TypeAlias = tuple[int, int] | None  #: messages that are retained, or None: the summary


@dataclass(frozen=True, slots=True)
class NewCompaction:
    """A compaction as a store takes it, with its summary in its own row, which is None in the view."""

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
class LogState:
    """Where a log stands, with the compaction whose view is current."""

    next_seq: int
    head: CompactionRow | None
    clock: str
    redactions: int = 0
    dropped: bool = False


_OWN = ("summary", "level", "degraded", "view")


class SummaryLog:
    """The log of one session: what is expected of it is a number, and each compaction has one summary."""

    def __init__(self, log: store_log.SessionLog) -> None:
        self._log = log

    def state(self) -> LogState:
        state = self._log.state()
        head = None if state.head is None else self._rows([state.head])[0]
        return LogState(state.next_seq, head, state.clock, state.redactions, state.deleted)

    def renew(self, compaction_id: int, summary: str, *, expected_redactions: int) -> bool:
        """Gives a compaction whose summary was forgotten a new one. Whether it is such a one."""
        row = self._log.compaction(compaction_id)
        shown = None if row is None else _shown(row)
        if shown is None:
            return False
        renewed = self._write(
            lambda **place: self._log.renew(shown, summary, **place), redactions=expected_redactions
        )
        return renewed is not None

    def append(self, messages: Sequence[NewMessage], *, expected_next: int, clock: str) -> None:
        self._write(lambda **place: self._log.append(messages, clock=clock, **place), next_seq=expected_next)

    def read(self, start: int, end: int) -> list[LogRow]:
        return self._log.read(start, end)

    def commit(
        self,
        compaction: NewCompaction,
        entries: Sequence[Entry],
        *,
        expected_head: int | None,
        clock: str,
        expected_redactions: int | None = None,
    ) -> CommitReceipt:
        known = {} if expected_redactions is None else {"redactions": expected_redactions}
        rows = [new_entry(each) for each in entries]
        return self._write(
            lambda **place: self._log.commit(_new(compaction), rows, clock=clock, **place),
            head=expected_head,
            **known,
        )

    def rewrite(
        self,
        row: NewCompaction,
        messages: Sequence[NewMessage],
        entries: Sequence[Entry],
        *,
        expected_head: int | None,
        expected_next: int,
        expected_redactions: int,
        **more: Any,
    ) -> CommitReceipt:
        rows = [new_entry(each) for each in entries]
        return self._write(
            lambda **place: self._log.rewrite(_new(row), messages, rows, **more, **place),
            head=expected_head,
            next_seq=expected_next,
            redactions=expected_redactions,
        )

    def undo(self, *, expected_head: int, clock: str) -> UndoReceipt:
        return self._write(lambda **place: self._log.undo(clock=clock, **place), head=expected_head)

    def save_clock(self, clock: str) -> None:
        self._write(lambda **place: self._log.save_clock(clock, **place))

    def compactions(self) -> list[CompactionRow]:
        return self._rows(self._log.compactions())

    def _write(self, work: Callable[..., _T], **expected: Any) -> _T:
        """Does *work* on the version that the session has, but for what is *expected* of it.

        It is tried again where somebody else was faster, and what is expected may still hold.
        """
        while True:
            version = self._log.version()
            place = SessionVersion(0, None, 0, 0) if version is None else version._replace(**expected)
            try:
                return work(expected=place, write_id=secrets.randbits(63))
            except StoreConflictError:
                if self._log.version() == version:
                    raise

    def _rows(self, rows: Sequence[store_log.CompactionRow]) -> list[CompactionRow]:
        shown = {derived_id for row in rows if (derived_id := _shown(row)) is not None}
        texts = {text.derived_id: text for text in self._log.derived(sorted(shown))}
        found = []
        for row in rows:
            body, text = row.compaction, texts.get(_shown(row) or 0)
            compaction = NewCompaction(
                **_shared(body),
                view=tuple(item if isinstance(item, tuple) else None for item in body.view),
                summary=text.raw if text else "",
                level=text.level if text else 0,
                degraded=text.degraded if text else False,
            )
            redacted = text.redacted if text else False
            found.append(CompactionRow(row.compaction_id, row.parent, compaction, redacted))
        return found


def _new(row: NewCompaction) -> store_log.NewCompaction:
    """*row* with its summary as a derived text of its own."""
    derived: tuple[store_log.NewDerived, ...] = ()
    if row.summary or None in row.view:
        derived = (store_log.NewDerived("summary", row.summary, row.covers, None, row.level, row.degraded),)
    view = tuple(store_log.NewRef(0) if item is None else item for item in row.view)
    return store_log.NewCompaction(**_shared(row), view=view, state="", derived=derived)


def _shared(row: NewCompaction | store_log.NewCompaction) -> dict[str, Any]:
    """The fields that both forms of a compaction have, but for the view."""
    return {field.name: getattr(row, field.name) for field in fields(NewCompaction) if field.name not in _OWN}


def _shown(row: store_log.CompactionRow) -> int | None:
    """The derived text that its view has, or else the one that it brought."""
    named = (item for item in (*row.compaction.view, *row.derived_ids) if isinstance(item, int))
    return next(named, None)


def summary_log(store: Store, session_id: str) -> SummaryLog:
    """The log of a session of *store* in its short form."""
    return SummaryLog(store.open_log(session_id))
