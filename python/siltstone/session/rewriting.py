"""Moves the current view: commits a branch, and undoes a compaction or a branch."""

from __future__ import annotations

from collections.abc import Sequence

from siltstone.errors import SessionDroppedError
from siltstone.memory.log import CommitReceipt, CompactionRow, NewCompaction, SessionVersion
from siltstone.session import branches, rows
from siltstone.session.clock import CompactionClock
from siltstone.session.core import SessionCore
from siltstone.session.loading import content_of, line_of, load, originals
from siltstone.session.range_set import minus, numbers
from siltstone.session.repeats import Call, retried
from siltstone.session.state import SessionState
from siltstone.session.view import Item, View
from siltstone.values import replace

__all__ = ["rewrite", "undo"]


def undo(core: SessionCore, call: Call) -> CompactionRow | None:
    """Undoes the last compaction or branch, and restores the view before it. Returns the undone row.

    *call* comes from :class:`Calls`. The caller of this function marks it as answered.

    Raises:
        StoreConflictError: another worker moved the head meanwhile. Nothing was changed.
    """
    return core.locked(lambda: retried(lambda: _undo(core, call)))


def _undo(core: SessionCore, call: Call) -> CompactionRow | None:
    core.check_open()
    state = core.followed()
    if state.deleted:
        raise SessionDroppedError(
            f"session {core.session_id!r} was deleted meanwhile", session_id=core.session_id
        )
    if call.write_id and core.rows.state().write_id == call.write_id:
        undone: CompactionRow = call.answer  # of an interrupted undo that had become durable
        return undone
    step = branches.undo(core.rows, state)
    if step is None:
        return None
    call.answer = step.undone
    if step.is_step_back:
        call.write_id = write_id = core.pend()
        receipt = core.rows.undo(expected=state.version, clock=state.clock.to_json(), write_id=write_id)
        items = load(core.rows, state.view, step.parent, state.end)
        core.state = _with_view(state, items, receipt.version or state.version, step.parent)
        core.pending = None
    else:
        rewrite(core, state, step, (), state.clock.rewritten(), call)
    return step.undone


def rewrite(
    core: SessionCore,
    state: SessionState,
    step: branches.Step,
    new: Sequence[Item],
    clock: CompactionClock,
    call: Call | None = None,
) -> CommitReceipt:
    """Commits *step* as the current view, with *new* after it."""
    row, view = branches.row_of(core.rows, state, step, new, core.milliseconds())
    entries = []
    if step.withdrawn and core.indexed:
        spans = branches.stood_for(core.rows, step.base) if step.base else ()
        entries = rows.entries(
            originals(core.rows, view, spans), index_tools=core.index_tools, redacting=core.redacting
        )
    parent = None if step.parent is None else step.parent.compaction_id
    written = core.message_rows(new, view)
    write_id = core.pend(new)
    if call is not None:
        call.write_id = write_id
    receipt = core.rows.rewrite(
        row,
        written,
        entries,
        expected=state.version,
        withdrawn=[each.compaction_id for each in step.withdrawn],
        gone=_gone(core, state, row),
        parent=parent,
        clock=clock.to_json(),
        write_id=write_id,
    )
    head = CompactionRow(receipt.compaction_id, parent, row)
    version = receipt.version or state.version
    core.state = replace(
        state,
        version=version,
        view=view,
        head=head,
        clock=clock,
        stored=clock,
        own_end=version.next_seq,
    )
    core.pending = None
    return receipt


def _gone(core: SessionCore, state: SessionState, row: NewCompaction) -> list[int]:
    """The messages that leave the line with *row*, if requests may have made entries of them; else none."""
    if core.requests.last is None:
        return []
    before = line_of(core.rows, content_of(state.head), state.end)
    return numbers(minus(before, line_of(core.rows, row, state.end)))


def _with_view(
    state: SessionState,
    items: Sequence[Item],
    version: SessionVersion,
    head: CompactionRow | None,
) -> SessionState:
    live = branches.live(state.view, items)
    return replace(
        state,
        version=version,
        view=View(state.view.rule, live),
        head=head,
        stored=state.clock,
    )
