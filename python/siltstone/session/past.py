"""A session's past: the views there were, a past that its host has rewritten, and the way back.

A compaction adds a row to the log, and so does a **branch**: where a host's list leaves the line of the
session, the row of a branch keeps what they share, and the rest of the list follows it. What left stays in
the log. A summary stays while all that it stands for does; else the newest earlier view whose summary does
takes its place, and what that one brought into the search leaves it again.

Undoing a branch cannot be a step back to the row before, because what was appended since belongs to the
branch. So it adds a row as well, which spells out the view that is given back, and follows the row before
the one that is undone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from siltstone.errors import SessionDroppedError, StoreConflictError
from siltstone.memory.entry import Entry
from siltstone.memory.log import CompactionRow, NewCompaction, ViewItem
from siltstone.session import rows
from siltstone.session.clock import CompactionClock
from siltstone.session.loading import load, pieces, with_live_objects
from siltstone.session.range_set import RangeSet, common, minus, union, within
from siltstone.session.state import State
from siltstone.session.view import Item, View

__all__ = ["BRANCH", "UNDO", "Past", "line_of"]

BRANCH, UNDO = "branch", "undo"  #: the reasons of rows that no compaction wrote


def line_of(row: NewCompaction | None, end: int) -> RangeSet:
    """What was said on the way to the view of *row* and the messages after it, up to *end*."""
    if row is None:
        return union([(0, end)])
    return union(_ranges(row.view), row.covers, [(row.next_seq, end)])


class Past(State):
    """What changes a session's past. Every method takes the lock; none calls a model."""

    def line(self) -> RangeSet:
        """What was said on the way to the current view, as sequence numbers."""
        with self._lock:
            return line_of(self._stands_on(), self._next_seq)

    def covers(self) -> RangeSet:
        """What the summary of the current view stands for."""
        row = self._stands_on()
        return () if row is None else row.covers

    def left_by(self, row: CompactionRow) -> RangeSet:
        """What a branch has left: sequence numbers of messages that its view does not go on from."""
        with self._lock:
            parent = None if row.parent is None else self._known()[row.parent]
        before = line_of(_content(parent), row.compaction.next_seq)
        return minus(before, line_of(row.compaction, row.compaction.next_seq))

    def view_before(self, row: CompactionRow | None) -> list[Item]:
        """What *row* found when it was written; for None the current view, read back."""
        with self._lock:
            known = self._known()
            parent, end = self._head, self._next_seq
            if row is not None:
                parent, end = row.parent, row.compaction.next_seq
            return load(self._log, self._view, None if parent is None else known.get(parent), end)

    def branch(
        self, retained: RangeSet, new: Sequence[Item], cadence: CompactionClock
    ) -> tuple[int, RangeSet]:
        """Makes *retained*, and *new* after it, the current view: the id of the branch, and what left.

        Raises:
            StoreConflictError: another writer changed the session meanwhile. Nothing was written.
        """
        known = self._known()
        chain = _chain(known, self._head)
        stands_on = next((row for row in chain if not minus(union(row.compaction.covers), retained)), None)
        withdrawn = chain[: chain.index(stands_on)] if stands_on else chain
        base = _content(stands_on)
        left = minus(self.line(), retained)
        row = self._row(BRANCH, base, _cut(base, retained))
        return self._rewrite(row, base, withdrawn, self._head, new, cadence), left

    def undo(self) -> CompactionRow | None:
        """Takes the last compaction or branch back, and the view with it. The one that was undone.

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
                known = self._known()
                head = self._head
                if head is None:
                    return None
                if head not in known:
                    raise SessionDroppedError(
                        f"session {self.session_id!r} was dropped meanwhile", session_id=self.session_id
                    )
                chain = _chain(known, head)
                steps = [place for place, row in enumerate(chain) if row.compaction.reason != UNDO]
                if not steps:
                    return None
                undone = chain[steps[0]]
                before = None if undone.parent is None else known[undone.parent]
                if steps[0] == 0 and undone.compaction.reason != BRANCH:
                    self._step_back(head, before)
                else:
                    self._give_back(chain[: steps[0] + 1], before)
                return undone
        finally:
            self.end()

    def _step_back(self, head: int, before: CompactionRow | None) -> None:
        """Makes the view of *before*, and whatever came after it, current again."""
        items = with_live_objects(self._view, load(self._log, self._view, before, self._next_seq))
        self._log.undo(expected_head=head, cadence=self._cadence.to_json())
        self._head = None if before is None else before.compaction_id
        self._saved = self._cadence
        self._view = View(self._view.rule, items)

    def _give_back(self, gone: Sequence[CompactionRow], before: CompactionRow | None) -> None:
        """Makes what the last of *gone* has found current again, and what came after it on this line."""
        undone, head = gone[-1].compaction, gone[0].compaction
        base = _content(before)
        since = base.next_seq if base else 0
        found = [*(base.view if base else ()), *within([(since, undone.next_seq)], since, undone.next_seq)]
        if undone.reason != BRANCH:
            shown = [*_ranges(head.view), (head.next_seq, self._next_seq)]
            found += within(shown, undone.next_seq, self._next_seq)
        parent = None if before is None else before.compaction_id
        self._rewrite(self._row(UNDO, base, found), base, gone, parent, (), self._cadence.rewritten())

    def _row(self, reason: str, base: NewCompaction | None, view: Sequence[ViewItem]) -> NewCompaction:
        """A row whose view is *view*, with the summary of *base* where they have one."""
        return NewCompaction(
            policy="",
            reason=reason,
            level=base.level if base else 0,
            degraded=base.degraded if base else False,
            summary=base.summary if base else "",
            covers=base.covers if base else (),
            view=tuple(view),
            next_seq=self._next_seq,
            model="",
            usage="[]",
            tokens_before=self._view.tokens,
            tokens_after=0,
            messages_before=len(self._view),
            messages_after=0,
            created_at=self._milliseconds(),
        )

    def _rewrite(
        self,
        row: NewCompaction,
        base: NewCompaction | None,
        withdrawn: Sequence[CompactionRow],
        parent: int | None,
        new: Sequence[Item],
        cadence: CompactionClock,
    ) -> int:
        """Commits *row* as the current view, with *new* after it; then holds that view. The row's id.

        What the summary of *base* stands for is to be found, whichever row brought it before.
        """
        items = with_live_objects(self._view, pieces(self._log, self._view, row))
        view = View(self._view.rule, [*items, *new])
        row = replace(row, tokens_after=view.tokens, messages_after=len(view))
        receipt = self._log.rewrite(
            row,
            [rows.message_row(item, self._view.rule.tokens(item.units)) for item in new],
            self._covered_entries(base) if withdrawn and self.indexed else [],
            expected_head=self._head,
            expected_next=self._next_seq,
            expected_redactions=self._redactions,
            withdrawn=[each.compaction_id for each in withdrawn],
            parent=parent,
            cadence=cadence.to_json(),
        )
        self._head, self._cadence, self._saved = receipt.compaction_id, cadence, cadence
        self._next_seq += len(new)
        self._redactions += 1
        self._changes += 1
        self._view = view
        return receipt.compaction_id

    def _covered_entries(self, base: NewCompaction | None) -> list[Entry]:
        found = [] if base is None else [row for span in base.covers for row in self._log.read(*span)]
        items = [Item(rows.message_of(row), 0, row.created_at) for row in found]
        return rows.entries(items, index_tools=self._index_tools)

    def _stands_on(self) -> NewCompaction | None:
        """The row whose view is current."""
        if self._standing is None or self._standing[0] != self._head:
            row = None if self._head is None else self._known().get(self._head)
            self._standing = self._head, _content(row)
        return self._standing[1]

    def _known(self) -> dict[int, CompactionRow]:
        return {row.compaction_id: row for row in self._log.compactions()}


def _content(row: CompactionRow | None) -> NewCompaction | None:
    return None if row is None else row.compaction


def _chain(known: dict[int, CompactionRow], head: int | None) -> list[CompactionRow]:
    """The rows that led to the current view, the newest first."""
    chain: list[CompactionRow] = []
    while head is not None and head in known:
        chain.append(known[head])
        head = known[head].parent
    return chain


def _ranges(view: Sequence[ViewItem]) -> list[tuple[int, int]]:
    return [piece for piece in view if piece is not None]


def _cut(base: NewCompaction | None, retained: RangeSet) -> list[ViewItem]:
    """The view of *base* as far as it is *retained*, and after it whatever was retained that came later."""
    found: list[ViewItem] = []
    for piece in base.view if base else ():
        found += (piece,) if piece is None else common((piece,), retained)
    return found + list(within(retained, base.next_seq if base else 0, retained[-1][1] if retained else 0))
