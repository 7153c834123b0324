"""Moves the current view: commits a branch, and undoes a compaction or a branch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from siltstone.errors import SessionDroppedError, StoreConflictError
from siltstone.events import CacheBroken, notify
from siltstone.memory.entry import Entry
from siltstone.memory.log import CommitReceipt, CompactionRow, NewCompaction
from siltstone.session import branches, rows
from siltstone.session.concurrency import Call, retried
from siltstone.session.core import SessionCore
from siltstone.session.loading import content_of, line_of, load, originals
from siltstone.session.provider_cache import broken, unchanged
from siltstone.session.range_set import minus, numbers
from siltstone.session.state import SessionState
from siltstone.session.usage import cached_tokens, input_tokens
from siltstone.session.view import Item, View

__all__ = ["dropped", "rewrite", "undo"]


def undo(core: SessionCore, call: Call) -> CompactionRow | None:
    """Undoes the last compaction or branch, and restores the view before it. Returns the undone row.

    *call* comes from :class:`Calls`; its key is empty, or has the id of the row that is to be undone. The
    caller of this function marks it as answered.

    Raises:
        StoreConflictError: another worker moved the head meanwhile, or another row is the last one. Nothing
            was changed.
    """
    undone, lost = core.locked(lambda: retried(lambda: _undo(core, call)))
    if lost is not None:
        notify(core.hooks, lost)
    return undone


def _undo(core: SessionCore, call: Call) -> tuple[CompactionRow | None, CacheBroken | None]:
    core.check_open()
    state = core.followed()
    if state.deleted:
        raise dropped(core, "no compaction can be undone")
    if call.write_id and core.rows.state().write_id == call.write_id:
        undone: CompactionRow = call.answer  # of an interrupted undo that had become durable
        return undone, None
    step = branches.undo(core.rows, state)
    last = None if step is None or step.undone is None else step.undone.compaction_id
    if call.key and call.key[0] != last:
        raise StoreConflictError(
            f"compaction {call.key[0]!r} is not the last one of session {core.session_id!r}, that is {last}: "
            "nothing was changed",
            session_id=core.session_id,
            expected=call.key[0],
            found=last,
        )
    if step is None:
        return None, None
    call.answer = step.undone
    if not step.is_step_back:
        return step.undone, rewrite(core, state, step, (), call=call)[1]
    items = load(core.rows, state.view, step.parent, state.end)
    view = View(state.view.rule, branches.live(state.view, items))
    whole = unchanged(core, state.view, view)
    clock = state.clock.rewritten(whole)
    call.write_id = write_id = core.pend()
    receipt = core.rows.undo(expected=state.version, clock=clock.to_json(), write_id=write_id)
    if receipt.version is None:
        raise dropped(core, "no compaction can be undone")
    core.state = replace(
        state,
        version=receipt.version,
        view=view,
        head=step.parent,
        clock=clock,
        stored=clock,
    )
    core.pending = None
    return step.undone, broken(core, state.clock, step.reason, whole, core.milliseconds())


def rewrite(
    core: SessionCore,
    state: SessionState,
    step: branches.Step,
    new: Sequence[Item],
    usage: Any = None,
    call: Call | None = None,
) -> tuple[CommitReceipt, CacheBroken | None]:
    """Commits *step* as the current view, with *new* after it.

    *usage* is that of the model call whose answer *new* ends with. The caller tells the event.
    """
    now = core.milliseconds()
    row, view = branches.row_of(core.rows, state, step, new, now)
    whole = unchanged(core, state.view, view)
    clock = state.clock.rewritten(whole)
    if usage is not None:
        counted = input_tokens(usage)
        clock = clock.heard(counted, state.end, min(cached_tokens(usage), counted), now)
    entries: Sequence[Entry] = ()
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
    if receipt.version is None:
        raise dropped(core, "its view cannot be changed")
    head = CompactionRow(receipt.compaction_id, parent, row)
    core.state = replace(
        state,
        version=receipt.version,
        view=view,
        head=head,
        clock=clock,
        stored=clock,
        own_end=receipt.version.next_seq,
    )
    core.pending = None
    return receipt, broken(core, state.clock, step.reason, whole, now)


def dropped(core: SessionCore, why: str) -> SessionDroppedError:
    """The error of a call that needs the log of a session that was deleted meanwhile. Notes the deletion."""
    core.state, core.pending = replace(core.state, deleted=True), None
    return SessionDroppedError(
        f"session {core.session_id!r} was deleted meanwhile, and its log is gone: {why}; go on with "
        "another id, or begin it anew with store.revive(session_id)",
        session_id=core.session_id,
    )


def _gone(core: SessionCore, state: SessionState, row: NewCompaction) -> list[int]:
    """The messages that leave the line with *row*, if requests may have made entries of them; else none."""
    if core.requests.last is None:
        return []
    before = line_of(core.rows, content_of(state.head), state.end)
    return numbers(minus(before, line_of(core.rows, row, state.end)))
