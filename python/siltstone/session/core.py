"""What changes a session: appends, a host's lists, pins, commits and what undoes them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
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
from siltstone.events import EntriesQuarantined, MemoryIndexed, notify
from siltstone.memory.entry import Entry
from siltstone.memory.log import CompactionRow
from siltstone.messages import Message, RawMessage, read_message
from siltstone.session import rows
from siltstone.session.cadence import Cadence
from siltstone.session.loading import load, with_live_objects
from siltstone.session.observe import is_summary
from siltstone.session.state import State
from siltstone.session.usage import input_tokens
from siltstone.session.view import Item, View
from siltstone.usage import UsageRecord

__all__ = ["Core"]

_log = logging.getLogger("siltstone")


class Core(State):
    """What ``Session`` and ``AsyncSession`` share. Every method takes the lock; none calls a model."""

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

    def _entries(self, discarded: Sequence[Item]) -> list[Entry]:
        found = (rows.entry(item, index_tools=self._index_tools) for item in discarded)
        return [entry for entry in found if entry is not None]


def _is_at(message: Message, seq: int) -> bool:
    return message.seq == seq and message.provenance != "compaction_summary"


def _is_said(message: Message) -> bool:
    """Whether a host's own list may have *message*: nothing that we wrote."""
    return message.provenance not in ("compaction_summary", "injected_context")
