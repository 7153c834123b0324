"""Changes a view when its past is rewritten, and changes it back.

A compaction adds a row to the log, and so does a **branch**. A branch begins where a host's list differs from
the session. Its row keeps the messages that both have; the rest of the list is appended after it. Messages
that left the view stay in the log. A summary stays only while all messages behind it stay. Otherwise the
newest earlier row whose messages all stay gives its summaries, and the entries of later rows leave the
search.

The undo of a branch cannot simply go back to the row before, because messages appended since belong to the
branch. So an undo adds a row too. This row names the restored view in full. Its parent is the row before the
undone one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from siltstone.memory.log import CompactionRow, NewCompaction, SessionLog, ViewItem, ancestors
from siltstone.session.loading import shown, with_live_objects
from siltstone.session.range_set import RangeSet, common, minus, union, within
from siltstone.session.state import SessionState
from siltstone.session.view import Item, View

__all__ = ["BRANCH", "UNDO", "Step", "branch", "live", "row_of", "stood_for", "undo"]

BRANCH, UNDO = "branch", "undo"  #: the reasons of rows that no compaction wrote


@dataclass(frozen=True, slots=True)
class Step:
    """A step that moves the current view.

    Attributes:
        reason: ``branch`` or ``undo``.
        base: The row that gives the new view its summaries; None for none.
        view: The new view up to the end of the log; its summaries come from *base*.
        withdrawn: The rows whose entries leave the search.
        parent: The row before the new one.
        undone: The row that an undo takes back; None for a branch.
        is_step_back: Whether the view of *parent*, and all messages after it, is current again. No new row is
            needed then.
    """

    reason: str
    base: NewCompaction | None
    view: tuple[ViewItem, ...]
    withdrawn: tuple[CompactionRow, ...]
    parent: CompactionRow | None
    undone: CompactionRow | None = None
    is_step_back: bool = False


def branch(log: SessionLog, state: SessionState, retained: RangeSet) -> Step:
    """The step to a view of *retained*, the messages that a host's list and the session have in common."""
    withdrawn: list[CompactionRow] = []
    base: NewCompaction | None = None
    for row in ancestors(log, state.head):
        if not minus(stood_for(log, row.compaction), retained):
            base = row.compaction
            break
        withdrawn.append(row)
    return Step(BRANCH, base, _cut(log, base, retained), tuple(withdrawn), state.head)


def undo(log: SessionLog, state: SessionState) -> Step | None:
    """The step back over the last compaction or branch; None where there is none."""
    gone: list[CompactionRow] = []
    for row in ancestors(log, state.head):
        gone.append(row)
        if row.compaction.reason != UNDO:
            break
    else:
        return None
    undone, head = gone[-1], gone[0].compaction
    parent = None if undone.parent is None else log.compaction(undone.parent)
    if len(gone) == 1 and undone.compaction.reason != BRANCH:
        return Step(UNDO, None, (), tuple(gone), parent, undone, is_step_back=True)
    base = None if parent is None else parent.compaction
    since, until = base.next_seq if base else 0, undone.compaction.next_seq
    found: list[ViewItem] = [*(base.view if base else ()), *union([(since, until)])]
    if undone.compaction.reason != BRANCH:
        found += within([*_ranges(head.view), (head.next_seq, state.end)], until, state.end)
    return Step(UNDO, base, tuple(found), tuple(gone), parent, undone)


def row_of(
    log: SessionLog, state: SessionState, step: Step, new: Sequence[Item], created_at: int
) -> tuple[NewCompaction, View]:
    """*step* as a new row for the log, and the view of this row followed by the messages *new*."""
    base = step.base
    row = NewCompaction(
        policy="",
        reason=step.reason,
        covers=base.covers if base else (),
        view=step.view,
        derived=(),
        next_seq=state.end,
        model="",
        usage="[]",
        state=base.state if base else "",
        tokens_before=state.view.tokens,
        tokens_after=0,
        messages_before=len(state.view),
        messages_after=0,
        created_at=created_at,
    )
    view = View(state.view.rule, [*live(state.view, shown(log, state.view, row)), *new])
    return replace(row, tokens_after=view.tokens, messages_after=len(view)), view


def live(view: View, items: Sequence[Item]) -> list[Item]:
    """*items*, with the caller's own objects where *view* has them."""
    return with_live_objects(view.items(), items)


def stood_for(log: SessionLog, row: NewCompaction) -> RangeSet:
    """The messages that *row* replaces: by a summary, by a cut text, or by search entries alone."""
    cut = (each.seq for each in log.derived([piece for piece in row.view if isinstance(piece, int)]))
    return union(row.covers, [(seq, seq + 1) for seq in cut if seq is not None])


def _ranges(view: Sequence[ViewItem]) -> list[tuple[int, int]]:
    return [piece for piece in view if isinstance(piece, tuple)]


def _cut(log: SessionLog, base: NewCompaction | None, retained: RangeSet) -> tuple[ViewItem, ...]:
    """The *retained* part of the view of *base*, followed by the later messages that are *retained*."""
    found: list[ViewItem] = []
    pieces = base.view if base else ()
    seqs = {
        row.derived_id: row.seq for row in log.derived([piece for piece in pieces if isinstance(piece, int)])
    }
    for piece in pieces:
        if isinstance(piece, tuple):
            found += common((piece,), retained)
        elif isinstance(piece, int) and _stays(seqs[piece], retained):
            found.append(piece)
    return (*found, *within(retained, base.next_seq if base else 0, retained[-1][1] if retained else 0))


def _stays(seq: int | None, retained: RangeSet) -> bool:
    """Whether a derived text stays: always for a summary, else if its message stays."""
    return seq is None or bool(common(((seq, seq + 1),), retained))
