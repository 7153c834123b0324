"""What changes a session: appends, a host's lists, pins, commits and what undoes them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias

from siltstone.compaction.base import Compaction, Compactor, Trigger
from siltstone.errors import (
    ConfigError,
    HistoryConflictError,
    ReadOnlyStoreError,
    StoreConflictError,
    StoreError,
)
from siltstone.events import EntriesQuarantined, HistoryBranched, MemoryIndexed, notify
from siltstone.messages import Message, RawMessage, read_message
from siltstone.session import rows
from siltstone.session.clock import CompactionClock
from siltstone.session.past import Past
from siltstone.session.range_set import RangeSet, count, minus, union, within
from siltstone.session.usage import input_tokens
from siltstone.session.view import Item, View
from siltstone.usage import UsageRecord

__all__ = ["Core", "OnConflict"]

OnConflict: TypeAlias = Literal["branch", "raise"]
"""What becomes of a host's list that has rewritten the past."""

_log = logging.getLogger("siltstone")


class Core(Past):
    """What ``Session`` and ``AsyncSession`` share. Every method takes the lock; none calls a model."""

    def append(self, raws: Sequence[RawMessage], usage: Any = None) -> None:
        """Writes *raws* to the log, and then to the view: all of them, or none."""
        with self._lock:
            self.check_open()
            items = self._measured(raws)
            new = [rows.message_row(item, self._view.rule.tokens(item.units)) for item in items]
            counted = input_tokens(usage)
            cadence = self._cadence if usage is None else self._cadence.heard(counted, self._next_seq)
            self._log.append(new, expected_next=self._next_seq, cadence=cadence.to_json())
            self._next_seq += len(items)
            self._cadence = self._saved = cadence
            if counted:
                self.estimate_error = (self._view.tokens + self.reserved_tokens) / counted - 1
            self._view.extend(items)

    def observe(
        self, raws: Sequence[RawMessage], usage: Any = None, on_conflict: OnConflict = "branch"
    ) -> int:
        """Brings the session in step with *raws*, a host's whole list; how many messages were new."""
        if on_conflict not in ("branch", "raise"):
            raise ConfigError(
                f"on_conflict must be 'branch' or 'raise', got {on_conflict!r}",
                field="on_conflict",
                value=on_conflict,
            )
        branched: HistoryBranched | None = None
        with self._lock:
            self.check_open()
            self.refresh()
            self._learn()
            summaries = {
                place: covers
                for place, raw in enumerate(raws)
                if (covers := self._summaries.find(raw)) is not None
            }
            seen = self._host.originals(raws, summaries)
            line = self.line()
            said = self._host.said(line)
            covered = union(*(covers or self.covers() for covers in summaries.values()))
            shown = self._host.said(minus(line, covered)) if summaries else said
            start = self._host.new(seen, said, shown)
            if start is None:
                start, end = self._host.shared(seen, shown)
                self._check_branch(raws, on_conflict, minus(covered, line))
                retained = union(covered, within(line, 0, shown[end]) if end < len(shown) else line)
                position = seen[start].place if start < len(seen) else len(raws)
                branched = self._branch(retained, [each.raw for each in seen[start:]], usage, position)
            elif new := [each.raw for each in seen[start:]]:
                begins = self._next_seq == 0 and self._cadence == CompactionClock()
                self.append(new, usage)
                if begins:
                    self._infer_cadence(item.message for item in self._view)
            self._host.keep(seen, start)
        if branched is not None:
            notify(self.hooks, branched)
        return len(seen) - start

    def _learn(self) -> None:
        """Takes in what the log and the compactions have beyond what is known of them."""
        for row in self._log.read(len(self._host), self._next_seq):
            self._host.learn(row.raw, injected=row.provenance == "injected_context")
        state = self._head or 0, self._redactions
        if self._summaries_of != state:
            every, current = self.lineage()
            for each in sorted(every, key=lambda each: each.compaction_id in current):
                if each.compaction.covers:
                    self._summaries.learn(each.compaction.summary, each.compaction.covers)
            self._summaries_of = state

    def _check_branch(self, raws: Sequence[RawMessage], on_conflict: OnConflict, foreign: RangeSet) -> None:
        """Refuses a list that leaves the line of the session, where it cannot be followed."""
        if on_conflict == "branch" and raws and not foreign:
            return
        why = "what was logged was changed or taken back"
        if on_conflict == "branch":
            why = "its summary is not of this history" if raws else "it is empty"
        raise HistoryConflictError(
            f"the list of {len(raws)} messages does not go on from the {self._next_seq} in the log "
            f"of session {self.session_id!r}: {why}; nothing was written; "
            "open a session of another id for it",
            session_id=self.session_id,
            logged=self._next_seq,
        )

    def _branch(
        self, retained: RangeSet, raws: Sequence[RawMessage], usage: Any, position: int
    ) -> HistoryBranched:
        """Leaves the line of the session after *retained*, and goes on with *raws*; what is told of it."""
        cadence = self._cadence.rewritten()
        if usage is not None:
            cadence = cadence.heard(input_tokens(usage), self._next_seq)
        branch_id, left = self.branch(retained, self._measured(raws), cadence)
        self._retain()
        return HistoryBranched(self.session_id, branch_id, position, count(retained), count(left), len(raws))

    def _measured(self, raws: Sequence[RawMessage]) -> list[Item]:
        """*raws* as the next messages of the log. One that is none raises."""
        messages = [read_message(raw, self._next_seq + offset) for offset, raw in enumerate(raws)]
        created_at = self._milliseconds()
        return [self._view.measured(message, created_at) for message in messages]

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

    def pass_boundary(self) -> None:
        """Counts one more boundary. It is stored with the next write, so a turn costs one write."""
        with self._lock:
            self._cadence = self._cadence.passed()

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
                    f"something of session {self.session_id!r} was forgotten or rewritten meanwhile; "
                    "nothing was written"
                )
            items = {id(item.message): item for item in read}
            self._check_pins(compaction)
            discarded = [items[id(message)] for message in compaction.discarded]
            entries = rows.entries(discarded, index_tools=self._index_tools) if self.indexed else []
            created_at = self._milliseconds()
            cadence = self._cadence.committed(compaction, trigger, at, *tokens)
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


def _is_at(message: Message, seq: int) -> bool:
    return message.seq == seq and message.provenance != "compaction_summary"
