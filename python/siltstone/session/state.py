"""What a session knows: its log, its current view, its cadence, and the one lock over them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from siltstone.errors import ReadOnlyStoreError, SessionDroppedError, StoreClosedError
from siltstone.events import Hook
from siltstone.hooks import NO_GUARDS, Guards
from siltstone.memory.base import Store
from siltstone.memory.log import CompactionRow, NewCompaction
from siltstone.messages import Message, RawMessage, decode
from siltstone.session import rows
from siltstone.session.clock import CompactionClock
from siltstone.session.loading import covered, load, pieces, with_live_objects
from siltstone.session.observe import HostList, Summaries
from siltstone.session.retention import Retention, retain
from siltstone.session.view import View
from siltstone.tokens import TokenRule, rule
from siltstone.usage import UsageRecord, total

__all__ = ["State"]

DEFAULT_RULE = "blocks"  #: how a session without a policy counts


class State:
    """What is known of a session, and read of it. Every method takes the lock; none calls a model."""

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
        reserved_tokens: int = 0,
        retention: Retention | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.store, self.session_id, self.indexed, self.hooks = store, session_id, indexed, tuple(hooks)
        self.context_window, self.reserved_tokens, self.guards = context_window, reserved_tokens, guards
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
        self._cadence = self._saved = CompactionClock.from_json(state.cadence, session_id)
        self._closed = False
        self._damaged: tuple[int, ...] = ()
        self._changes = 0
        self._usage = [record for row in self._log.compactions() for record in rows.usage_of(row.compaction)]
        self._view = View(token_rule or rule(DEFAULT_RULE))
        self._view.extend(load(self._log, self._view, state.head, self._next_seq))
        if not state.cadence and state.next_seq:
            self._infer_cadence(rows.message_of(row) for row in self._log.read(0, state.next_seq))
        self._host = HostList()
        self._standing: tuple[int | None, NewCompaction | None] | None = None
        self._summaries, self._summaries_of = Summaries(), (-1, -1)
        self._retain()

    def check_open(self) -> None:
        """Refuses the use of a closed session."""
        if self._closed:
            raise StoreClosedError(f"session {self.session_id!r} was closed", session_id=self.session_id)

    def begin(self) -> bool:
        """Takes the one place for a compaction in flight; False where it is taken."""
        return self._compacting.acquire(blocking=False)

    def end(self) -> None:
        """Gives the place back."""
        self._compacting.release()

    @property
    def cadence(self) -> CompactionClock:
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
        """Reads the view anew, if something of the session was forgotten or rewritten since it was read.

        What was forgotten then leaves this memory too. A session that was dropped keeps its view until it is
        closed: whoever runs it goes on, and nothing of it is kept.
        """
        with self._lock:
            if self._closed or self._log.redactions() in (None, self._redactions):
                return
            state = self._log.state()
            head = state.head.compaction_id if state.head else None
            if head != self._head:  # another writer moved on: where it stands is where we stand
                self._cadence = self._saved = CompactionClock.from_json(state.cadence, self.session_id)
            self._head, self._next_seq, self._redactions = head, state.next_seq, state.redactions
            items = with_live_objects(self._view, load(self._log, self._view, state.head, self._next_seq))
            self._view = View(self._view.rule, items)
            self._host.reread()
            self._standing = None
            self._changes += 1

    @property
    def redactions(self) -> int:
        """How often something of the session had been forgotten or rewritten when the view was read."""
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

    def _infer_cadence(self, history: Iterable[Message]) -> None:
        """Takes over the boundaries of a history that was not begun here, and stores them at once."""
        self._cadence = replace(self._cadence, boundary=CompactionClock.inferred(history).boundary)
        if self._cadence == self._saved:
            return
        try:
            self._log.save_cadence(self._cadence.to_json())
        except ReadOnlyStoreError:
            return  # opened to look
        self._saved = self._cadence

    def _retain(self) -> None:
        if self._retention is not None:
            retain(self.store, self.session_id, self._retention, self.hooks, self._now())

    def _milliseconds(self) -> int:
        return int(self._now() * 1000)
