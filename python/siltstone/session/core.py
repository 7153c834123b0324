"""A session's state: its log, its current view, its cadence, and the one lock over them."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from siltstone.compaction.base import Compaction, Compactor, Trigger
from siltstone.errors import (
    ConfigError,
    HistoryConflictError,
    ReadOnlyStoreError,
    SessionDroppedError,
    StoreClosedError,
    StoreConflictError,
    StoreError,
)
from siltstone.events import EntriesQuarantined, Hook, MemoryIndexed, notify
from siltstone.hooks import NO_GUARDS, Guards
from siltstone.memory.base import Store
from siltstone.memory.entry import Entry
from siltstone.memory.log import CompactionRow, NewCompaction
from siltstone.messages import Message, RawMessage, decode, read_message
from siltstone.session import rows
from siltstone.session.cadence import Cadence
from siltstone.session.loading import covered, load, pieces, with_live_objects
from siltstone.session.observe import HostList, is_summary
from siltstone.session.retention import Retention, retain
from siltstone.session.usage import input_tokens
from siltstone.session.view import Item, View
from siltstone.tokens import TokenRule, rule
from siltstone.usage import UsageRecord, total

__all__ = ["Core"]

_log = logging.getLogger("siltstone")

DEFAULT_RULE = "blocks"  #: how a session without a policy counts


class Core:
    """What ``Session`` and ``AsyncSession`` share. Every method takes the lock; none calls a model."""

    def __init__(
        self,
        store: Store,
        session_id: str,
        *,
        indexed: bool,
        index_tools: bool = True,
        token_rule: TokenRule | None,
        hooks: Sequence[Hook],
        guards: Guards = NO_GUARDS,
        context_window: int | None = None,
        fixed_tokens: int = 0,
        retention: Retention | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.store, self.session_id, self.indexed, self.hooks = store, session_id, indexed, tuple(hooks)
        self.context_window, self.fixed_tokens, self.guards = context_window, fixed_tokens, guards
        self.estimate_error: float | None = None
        self._now, self._index_tools, self._retention = now, index_tools, retention
        self._log = store.open_log(session_id)
        self._lock = threading.RLock()
        self._compacting = threading.Lock()
        state = self._log.state()
        self._head = state.head.compaction_id if state.head else None
        if state.dropped:
            raise SessionDroppedError(
                f"session {session_id!r} was dropped, and what is written to it is lost: use another id, or "
                "begin it anew with store.revive(session_id)",
                session_id=session_id,
            )
        self._next_seq, self._redactions = state.next_seq, state.redactions
        self._cadence = self._saved = Cadence.from_json(state.cadence, session_id)
        self._closed = False
        self._damaged: tuple[int, ...] = ()
        self._changes = 0
        self._usage = [record for row in self._log.compactions() for record in rows.usage_of(row.compaction)]
        self._view = View(token_rule or rule(DEFAULT_RULE))
        self._view.extend(load(self._log, self._view, state.head, self._next_seq))
        if not state.cadence and state.next_seq:
            self._infer_cadence(rows.message_of(row) for row in self._log.read(0, state.next_seq))
        self._host = HostList()
        self._summaries: tuple[int | None, set[str]] | None = None
        self._retain()

    # -- reading ---------------------------------------------------------------------------------

    @property
    def cadence(self) -> Cadence:
        """Where the session stands between two compactions."""
        return self._cadence

    @property
    def view(self) -> View:
        """The current view. It is replaced, not changed, by a compaction."""
        return self._view

    @property
    def mark(self) -> tuple[int, int]:
        """What the view is of: it has changed where this has."""
        return self._next_seq, self._changes

    @property
    def next_seq(self) -> int:
        """How many messages were ever appended."""
        return self._next_seq

    @property
    def lock(self) -> threading.RLock:
        """Held for every change of state; short, and never while a model is called."""
        return self._lock

    @property
    def usage(self) -> UsageRecord:
        """The sum of every model call of ours, those of earlier runs included."""
        return total(self._usage)

    def log(self) -> list[dict[str, Any]]:
        """Every message ever appended, read back from the log."""
        return self.read(0, self._next_seq)

    def lineage(self) -> tuple[list[CompactionRow], set[int]]:
        """Every compaction ever committed, and the ids of those that led to the current view."""
        with self._lock:
            compactions, head = self._log.compactions(), self._head
        parents, current = {row.compaction_id: row.parent for row in compactions}, set()
        while head is not None and head in parents:
            current.add(head)
            head = parents[head]
        return compactions, current

    def view_left_by(self, row: NewCompaction) -> list[RawMessage]:
        """What *row* made of the history."""
        with self._lock:
            return [item.message.raw for item in pieces(self._log, self._view, row)]

    def read(self, start: int, end: int) -> list[dict[str, Any]]:
        """Messages of the log, read back."""
        return [decode(row.raw) for row in self._log.read(start, end)]

    def refresh(self) -> None:
        """Reads the view anew, if something of the session was forgotten since it was read.

        What was forgotten then leaves this memory too. A session that was dropped keeps its view until it is
        closed: whoever runs it goes on, and nothing of it is kept.
        """
        with self._lock:
            if self._closed or self._log.redactions() in (None, self._redactions):
                return
            state = self._log.state()
            head = state.head.compaction_id if state.head else None
            if head != self._head:  # another writer moved on: where it stands is where we stand
                self._cadence = self._saved = Cadence.from_json(state.cadence, self.session_id)
            self._head, self._next_seq, self._redactions = head, state.next_seq, state.redactions
            items = with_live_objects(self._view, load(self._log, self._view, state.head, self._next_seq))
            self._view = View(self._view.rule, items)
            self._host.reread()
            self._summaries = None
            self._changes += 1

    @property
    def redactions(self) -> int:
        """How often something of the session had been forgotten when the view was read."""
        return self._redactions

    def covered(self, row: NewCompaction) -> list[Message]:
        """What is left of the messages that a summary stands for."""
        return covered(self._log, row)

    def renew(self, compaction_id: int, content: str, redactions: int) -> bool:
        """Gives a compaction whose summary was forgotten the summary message *content*."""
        with self._lock:
            renewed = self._log.renew(compaction_id, content, expected_redactions=redactions)
            self.refresh()
            return renewed

    # -- writing ---------------------------------------------------------------------------------

    def append(self, raws: Sequence[RawMessage], usage: Any = None) -> None:
        """Writes *raws* to the log, and then to the view: all of them, or none."""
        with self._lock:
            self.check_open()
            first = self._next_seq
            messages = [read_message(raw, first + offset) for offset, raw in enumerate(raws)]
            created_at = self._milliseconds()
            items = [self._view.measured(message, created_at) for message in messages]
            new = [rows.message_row(item, self._view.rule.tokens(item.units)) for item in items]
            counted = input_tokens(usage)
            cadence = self._cadence if usage is None else self._cadence.heard(counted, first)
            self._log.append(new, expected_next=first, cadence=cadence.to_json())
            self._next_seq += len(items)
            self._cadence = self._saved = cadence
            if counted:
                self.estimate_error = (self._view.tokens + self.fixed_tokens) / counted - 1
            self._view.extend(items)

    def observe(self, raws: Sequence[RawMessage], usage: Any = None) -> int:
        """Appends what *raws*, a host's whole list, has beyond the log; how many messages that were."""
        with self._lock:
            self.check_open()
            self.refresh()
            for row in self._log.read(len(self._host), self._next_seq):
                self._host.learn(row.raw, injected=row.provenance == "injected_context")
            summaries = self._summary_texts()
            seen = self._host.originals([raw for raw in raws if not is_summary(raw, summaries)])
            view = None
            if len(seen) < len(raws):
                view = [item.message.seq for item in self._view if _is_said(item.message)]
            start = self._host.new(seen, view)
            if start is None:
                raise HistoryConflictError(
                    f"the list of {len(raws)} messages does not go on from the {self._next_seq} in the log "
                    f"of session {self.session_id!r}: what was logged was changed or taken back; nothing was "
                    "written; open a session of another id for it",
                    session_id=self.session_id,
                    logged=self._next_seq,
                )
            if new := [raw for raw, _ in seen[start:]]:
                begins = self._next_seq == 0 and self._cadence == Cadence()
                self.append(new, usage)
                if begins:
                    self._infer_cadence(item.message for item in self._view)
            self._host.keep(seen, start)
            return len(new)

    def _infer_cadence(self, history: Iterable[Message]) -> None:
        """Takes over the boundaries of a history that was not begun here, and stores them at once."""
        self._cadence = replace(self._cadence, boundary=Cadence.inferred(history).boundary)
        if self._cadence == self._saved:
            return
        try:
            self._log.save_cadence(self._cadence.to_json())
        except ReadOnlyStoreError:
            return  # opened to look
        self._saved = self._cadence

    def _summary_texts(self) -> set[str]:
        """The contents of every summary message there ever was; read again after a compaction alone."""
        if self._summaries is None or self._summaries[0] != self._head:
            self._summaries = self._head, {row.compaction.summary for row in self._log.compactions()}
        return self._summaries[1]

    def pin(self, seq: int, *, pinned: bool) -> None:
        """Pins message *seq* of the view, or lets go of it. Durable when it returns."""
        with self._lock:
            self.check_open()
            if pinned and not any(_is_at(item.message, seq) for item in self._view):
                raise ConfigError(
                    f"seq must be that of a message in the view of session {self.session_id!r}, got {seq!r}: "
                    "what was discarded cannot be pinned",
                    field="seq",
                    value=seq,
                )
            cadence = self._cadence.pinned(seq) if pinned else self._cadence.unpinned(seq)
            if cadence != self._cadence:
                self._log.save_cadence(cadence.to_json())
                self._cadence = self._saved = cadence

    def check_open(self) -> None:
        """Refuses the use of a closed session."""
        if self._closed:
            raise StoreClosedError(f"session {self.session_id!r} was closed", session_id=self.session_id)

    def pass_boundary(self) -> None:
        """Counts one more boundary. It is stored with the next write, so a turn costs one write."""
        with self._lock:
            self._cadence = self._cadence.passed()

    def begin(self) -> bool:
        """Takes the one place for a compaction in flight; False where it is taken."""
        return self._compacting.acquire(blocking=False)

    def end(self) -> None:
        """Gives the place back."""
        self._compacting.release()

    def tell_damage(self) -> None:
        """Tells which entries a search leaves out, when that has changed. Never in silence."""
        damaged = self.store.quarantined(self.session_id)
        if damaged != self._damaged:
            self._damaged = damaged
            if damaged:
                _log.warning("%d entries of session %r are damaged", len(damaged), self.session_id)
                notify(self.hooks, EntriesQuarantined(self.session_id, damaged))

    def charge(self, records: Sequence[UsageRecord]) -> None:
        """Adds model calls of ours, whatever came of them."""
        with self._lock:
            self._usage += records

    def failed(self, at: int) -> None:
        """Records an attempt that came to nothing."""
        with self._lock:
            self._cadence = self._cadence.failed(at)

    def commit(
        self,
        compaction: Compaction,
        *,
        read: View,
        length: int,
        at: int,
        policy: Compactor,
        trigger: Trigger,
        tokens: tuple[int, int],
    ) -> int:
        """Indexes what *compaction* discards and makes it the current view, in one transaction.

        Messages appended since the history was read (*length* items of *read*) follow it verbatim.
        """
        with self._lock:
            if read is not self._view:
                raise StoreConflictError(
                    f"something of session {self.session_id!r} was forgotten meanwhile; nothing was written"
                )
            items = {id(item.message): item for item in read}
            self._check_pins(compaction)
            discarded = [items[id(message)] for message in compaction.discarded]
            entries = self._entries(discarded) if self.indexed else []
            created_at = self._milliseconds()
            cadence = self._cadence.compacted(at, *tokens)
            row = rows.compaction_row(
                compaction,
                policy,
                trigger,
                next_seq=self._next_seq - (len(self._view) - length),
                tokens=tokens,
                messages_before=length,
                created_at=created_at,
            )
            receipt = self._log.commit(
                row,
                entries,
                expected_head=self._head,
                expected_redactions=self._redactions,
                cadence=cadence.to_json(),
            )
            self._head = receipt.compaction_id
            self._cadence = self._saved = cadence
            end = len(compaction.messages) - len(compaction.injected)
            self._view = self._view.rewritten(compaction.messages[:end], length, created_at)
            self._inject(compaction.injected, created_at)
        if self.indexed:
            notify(self.hooks, MemoryIndexed(self.session_id, len(entries), len(discarded)))
            self._retain()
        return receipt.compaction_id

    def _inject(self, messages: Sequence[Message], created_at: int) -> None:
        """Appends what a hook added. Where the store refuses it, the compaction stands: it is durable."""
        numbered = [replace(message, seq=self._next_seq + place) for place, message in enumerate(messages)]
        items = [self._view.measured(message, created_at) for message in numbered]
        if not items:
            return
        new = [rows.message_row(item, self._view.rule.tokens(item.units)) for item in items]
        try:
            self._log.append(new, expected_next=self._next_seq, cadence=self._cadence.to_json())
        except StoreError:
            _log.exception("what on_after_compact gave to session %r is lost", self.session_id)
            return
        self._next_seq += len(items)
        self._view.extend(items)

    def undo(self) -> CompactionRow | None:
        """Moves the head back by one compaction, and the view with it. The one that was undone.

        Raises:
            StoreConflictError: a compaction is in flight, or another writer moved the head.
        """
        if not self.begin():
            raise StoreConflictError(
                f"session {self.session_id!r} is being compacted; undo when it is done",
                session_id=self.session_id,
            )
        try:
            with self._lock:
                self.check_open()
                self.refresh()
                known = {row.compaction_id: row for row in self._log.compactions()}
                if self._head is None:
                    return None
                undone = known.get(self._head)
                if undone is None:
                    raise SessionDroppedError(
                        f"session {self.session_id!r} was dropped meanwhile", session_id=self.session_id
                    )
                before = None if undone.parent is None else known[undone.parent]
                items = with_live_objects(self._view, load(self._log, self._view, before, self._next_seq))
                self._log.undo(expected_head=self._head, cadence=self._cadence.to_json())
                self._head, self._saved = undone.parent, self._cadence
                self._view = View(self._view.rule, items)
                return undone
        finally:
            self.end()

    def _check_pins(self, compaction: Compaction) -> None:
        """Refuses to discard what was pinned while the summary was written."""
        for message in compaction.discarded:
            if message.seq in self._cadence.pins and _is_at(message, message.seq):
                raise StoreConflictError(f"message {message.seq} was pinned meanwhile; nothing was written")

    def close(self, owns_store: bool) -> None:
        """Stores the cadence where it moved since the last write, and closes the store if it is ours."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            try:
                if self._cadence != self._saved:
                    self._log.save_cadence(self._cadence.to_json())
            except ReadOnlyStoreError:
                pass  # opened to look: there is nothing to keep
            finally:
                if owns_store:
                    self.store.close()

    def _retain(self) -> None:
        if self._retention is not None:
            retain(self.store, self.session_id, self._retention, self.hooks, self._now())

    def _entries(self, discarded: Sequence[Item]) -> list[Entry]:
        found = (rows.entry(item, index_tools=self._index_tools) for item in discarded)
        return [entry for entry in found if entry is not None]

    def _milliseconds(self) -> int:
        return int(self._now() * 1000)


def _is_at(message: Message, seq: int) -> bool:
    return message.seq == seq and message.provenance != "compaction_summary"


def _is_said(message: Message) -> bool:
    """Whether a host's own list may have *message*: nothing that we wrote."""
    return message.provenance not in ("compaction_summary", "injected_context")
