"""Commits a compaction, a branch or an undo: the log is written first, then the view changes."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from siltstone.compaction.base import Compaction, Compactor, Trigger
from siltstone.errors import SessionDroppedError, StoreConflictError, StoreError
from siltstone.events import CacheBroken, MemoryIndexed
from siltstone.hooks import is_watched, notify, watch_operation
from siltstone.memory import log as logs
from siltstone.memory.convert import NewEntry
from siltstone.messages import Message
from siltstone.session import rows, state as views
from siltstone.session.archiving import write_new
from siltstone.session.concurrency import Call, retried
from siltstone.session.core import SessionCore, is_at
from siltstone.session.counters import CompactionClock, cached_tokens, input_tokens
from siltstone.session.learning import learn_patterns, save_called
from siltstone.session.retention import only_new
from siltstone.session.rows import rules_of

# Tells what a rewrite of the view costs in the provider's cache.


def unchanged(core: SessionCore, before: views.View, after: views.View) -> int:
    """The tokens at the beginning of a request of *before* that one of *after* begins with too."""
    units = 0
    for one, other in zip(before, after, strict=False):
        if one.message is not other.message:
            break
        units += one.units
    return before.rule.tokens(units) + core.reserved_tokens


def broken(core: SessionCore, clock: CompactionClock, by: str, whole: int, now: int) -> CacheBroken | None:
    """The event of a rewrite at *now* (milliseconds) that left the first *whole* tokens as they were.

    *clock* is the clock before the rewrite. None if nothing beyond these tokens was in the cache.
    """
    cached = clock.cached(now)
    return CacheBroken(core.session_id, by, cached - whole, cached) if cached > whole else None


# Changes a view when its past is rewritten, and changes it back.
#
# A compaction adds a row to the log, and so does a **branch**. A branch begins where a host's list differs
# from the session. Its row keeps the messages that both have; the rest of the list is appended after it.
# Messages that left the view stay in the log. A summary stays only while all messages behind it stay.
# Otherwise the newest earlier row whose messages all stay gives its summaries, and the entries of later
# rows leave the search.
#
# The undo of a branch cannot simply go back to the row before, because messages appended since belong to
# the branch. So an undo adds a row too. This row names the restored view in full. Its parent is the row
# before the undone one.

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
    base: logs.NewCompaction | None
    view: tuple[logs.ViewItem, ...]
    withdrawn: tuple[logs.CompactionRow, ...]
    parent: logs.CompactionRow | None
    undone: logs.CompactionRow | None = None
    is_step_back: bool = False


def branch(log: logs.SessionLog, state: views.SessionState, retained: views.RangeSet) -> Step:
    """The step to a view of *retained*, the messages that a host's list and the session have in common."""
    withdrawn: list[logs.CompactionRow] = []
    base: logs.NewCompaction | None = None
    for row in logs.ancestors(log, state.head):
        if not views.minus(stood_for(log, row.compaction), retained):
            base = row.compaction
            break
        withdrawn.append(row)
    return Step(BRANCH, base, _cut(log, base, retained), tuple(withdrawn), state.head)


def step_back(log: logs.SessionLog, state: views.SessionState) -> Step | None:
    """The step back over the last compaction or branch; None where there is none."""
    gone: list[logs.CompactionRow] = []
    for row in logs.ancestors(log, state.head):
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
    found: list[logs.ViewItem] = [*(base.view if base else ()), *views.union([(since, until)])]
    if undone.compaction.reason != BRANCH:
        found += views.within([*_ranges(head.view), (head.next_seq, state.end)], until, state.end)
    return Step(UNDO, base, tuple(found), tuple(gone), parent, undone)


def row_of(
    log: logs.SessionLog, state: views.SessionState, step: Step, new: Sequence[views.Item], created_at: int
) -> tuple[logs.NewCompaction, views.View]:
    """*step* as a new row for the log, and the view of this row followed by the messages *new*."""
    base = step.base
    row = logs.NewCompaction(
        reason=step.reason,
        covers=base.covers if base else (),
        view=step.view,
        next_seq=state.end,
        state=base.state if base else "",
        tokens_before=state.view.tokens,
        tokens_after=0,
        messages_before=len(state.view),
        messages_after=0,
        created_at=created_at,
    )
    view = views.View(state.view.rule, [*live(state.view, views.shown(log, state.view, row)), *new])
    return row._replace(tokens_after=view.tokens, messages_after=len(view)), view


def live(view: views.View, items: Sequence[views.Item]) -> list[views.Item]:
    """*items*, with the caller's own objects where *view* has them."""
    return views.with_live_objects(view.items(), items)


def stood_for(log: logs.SessionLog, row: logs.NewCompaction) -> views.RangeSet:
    """The messages that *row* replaces: by a summary, by a cut text, or by search entries alone."""
    cut = (each.seq for each in log.derived([piece for piece in row.view if isinstance(piece, int)]))
    return views.union(row.covers, [(seq, seq + 1) for seq in cut if seq is not None])


def _ranges(view: Sequence[logs.ViewItem]) -> list[tuple[int, int]]:
    return [piece for piece in view if isinstance(piece, tuple)]


def _cut(
    log: logs.SessionLog, base: logs.NewCompaction | None, retained: views.RangeSet
) -> tuple[logs.ViewItem, ...]:
    """The *retained* part of the view of *base*, followed by the later messages that are *retained*."""
    found: list[logs.ViewItem] = []
    pieces = base.view if base else ()
    seqs = {
        row.derived_id: row.seq for row in log.derived([piece for piece in pieces if isinstance(piece, int)])
    }
    for piece in pieces:
        if isinstance(piece, tuple):
            found += views.common((piece,), retained)
        elif isinstance(piece, int) and _stays(seqs[piece], retained):
            found.append(piece)
    return (*found, *views.within(retained, base.next_seq if base else 0, retained[-1][1] if retained else 0))


def _stays(seq: int | None, retained: views.RangeSet) -> bool:
    """Whether a derived text stays: always for a summary, else if its message stays."""
    return seq is None or bool(views.common(((seq, seq + 1),), retained))


_log = logging.getLogger("siltstone")


@dataclass(frozen=True, slots=True)
class Entering:
    """Messages that a compaction reads before they are in the log. Both are written in one transaction.

    Attributes:
        items: The next messages of the log.
        version: The version of the session right before these messages.
        usage: The ``usage`` of ``append``.
        call: The call that appends them.
    """

    items: Sequence[views.Item]
    version: logs.SessionVersion
    usage: Any
    call: Call


def commit(
    core: SessionCore,
    compaction: Compaction,
    *,
    read: views.View,
    at: int,
    policy: Compactor,
    trigger: Trigger,
    tokens: tuple[int, int],
    seconds: float | None = None,
    entering: Entering | None = None,
) -> int:
    """Indexes the discarded messages and makes the rewritten view current, in one transaction.

    Messages appended after the view *read* follow the summary verbatim. If something was forgotten since, the
    view was read anew, and nothing is written: the model may have read the text. Messages that are *entering*
    are the last ones of *read*, and are appended in the same transaction. *seconds* is the time that the
    compaction has taken so far. Gives the id of the compaction.
    """
    step = partial(_commit, core, compaction, read, at, policy, trigger, tokens, seconds, entering)
    compaction_id, indexed, discarded, lost = core.locked(lambda: retried(step))
    if lost is not None:
        notify(core.hooks, lost)
    core.tell_secrets()
    if core.indexed:
        notify(core.hooks, MemoryIndexed(core.session_id, indexed, discarded))
        core.retain()
        learn_patterns(core)
        save_called(core, compaction.tool_calls)
        write_new(core)
    core.catch_up()
    return compaction_id


def _commit(
    core: SessionCore,
    compaction: Compaction,
    read: views.View,
    at: int,
    policy: Compactor,
    trigger: Trigger,
    tokens: tuple[int, int],
    seconds: float | None,
    entering: Entering | None,
) -> tuple[int, int, int, CacheBroken | None]:
    state = core.followed()
    expected = state.version
    if entering is not None:
        if expected != entering.version:
            raise stale(core)
        state = _as_appended(core, state, read, entering)
    if not read.begins(state.view):
        raise stale(core)
    _check_pins(compaction, state)
    created_at = core.milliseconds()
    end = len(compaction.messages) - len(compaction.injected)
    view = state.view.rewritten(compaction.messages[:end], len(read), created_at)
    kept = view.items()[:end]
    stored, new = views.view_items(kept)
    next_seq = state.end - (len(state.view) - len(read))
    leaving = _leaving(compaction, read, new)
    entries = entries_of(core, leaving if core.indexed else [], read)
    still_shown = views.union((item.message.seq, item.message.seq + 1) for item in kept if _is_of_log(item))
    texts = [*new, *(state.view.measured(message, created_at) for message in compaction.asides)]
    rules, sizes = rules_of(read.messages(), compaction, trigger), [view.rule.tokens(i.units) for i in texts]
    row = logs.NewCompaction(
        policy=policy.name,
        reason=trigger.reason,
        covers=views.minus(views.line_of(core.rows, views.content_of(state.head), next_seq), still_shown),
        view=stored,
        derived=tuple(rows.derived_row(item, degraded=compaction.degraded) for item in texts),
        next_seq=next_seq,
        model=compaction.usage[-1].model if compaction.usage else "",
        usage=json.dumps([asdict(record) for record in compaction.usage]),
        state="" if compaction.state is None else json.dumps(compaction.state),
        tokens_before=tokens[0],
        tokens_after=tokens[1],
        messages_before=len(read),
        messages_after=len(compaction.messages),
        created_at=created_at,
        notes=rows.notes_to(seconds, rules, trigger, sizes, suspect=compaction.suspect),
    )
    whole = unchanged(core, state.view, view)
    clock = state.clock.committed(compaction, trigger, at, *tokens).charged(compaction.usage).cut(whole)
    items = () if entering is None else entering.items
    messages, write_id = core.message_rows(items, state.view), core.pend(items)
    if entering is not None:
        call, answer = entering.call, range(expected.next_seq, state.end)
        call.answer, call.write_id = answer, write_id  # together: an interrupt comes between calls
    try:
        with watch_operation("create_memory", core.store, core.session_id) as watched:
            receipt = core.rows.commit(
                row,
                entries,
                expected=expected,
                clock=clock.to_json(),
                write_id=write_id,
                messages=messages,
                recalls=core.unwritten(),
            )
            watched.records(list(entries) if is_watched() else ())
    except StoreError as error:
        vars(error)["attempted_entries"] = sum(1 for _ in entries)
        raise
    core.recalls.clear()
    after = replace(state, view=view, clock=clock, stored=clock)
    if receipt.version is None:  # the session was deleted: its messages stay in this process alone
        after = replace(after, deleted=True)
    else:
        head_id = None if state.head is None else state.head.compaction_id
        after = replace(
            after,
            version=receipt.version,
            view=view.named(receipt.derived_ids[: len(new)]),
            head=_row_of(receipt, head_id, row),
        )
    core.state = after if entering is None else replace(after, own_end=after.end)
    core.pending = None
    inject(core, compaction.injected, created_at)
    lost = broken(core, state.clock, policy.name, whole, created_at)
    return receipt.compaction_id, len(receipt.entry_ids), len(leaving), lost


def entries_of(
    core: SessionCore, leaving: list[views.Item], within: Iterable[views.Item]
) -> Iterable[NewEntry]:
    """The entries of messages *leaving* a view, which are *within* others; see ``Retention.once``."""
    made = rows.Entries(leaving, index_tools=core.index_tools, within=within, redacting=core.redacting)
    is_once = leaving and core.retention is not None and core.retention.once
    return only_new(core.store, core.session_id, made) if is_once else made


def _as_appended(
    core: SessionCore, state: views.SessionState, read: views.View, entering: Entering
) -> views.SessionState:
    """*state* as it is after an append of the entering messages."""
    clock, error = core.heard(entering.usage, state)
    version = state.version._replace(next_seq=state.end + len(entering.items))
    known = state.estimate_error if error is None else error
    return replace(state, version=version, view=read, clock=clock, estimate_error=known)


def stale(core: SessionCore) -> StoreConflictError:
    """The error of a rewrite whose view has changed meanwhile."""
    return StoreConflictError(
        f"something of session {core.session_id!r} was compacted, forgotten or rewritten meanwhile; "
        "nothing was written",
        session_id=core.session_id,
    )


def _leaving(compaction: Compaction, read: views.View, new: Sequence[views.Item]) -> list[views.Item]:
    """The messages that searches find from now on: discarded messages, and originals of new substitutes."""
    items = {id(item.message): item for item in read}
    leaving = [items[id(message)] for message in compaction.discarded]
    clamped = {item.message.seq for item in new if item.message.provenance == "substitute"}
    if not clamped:
        return leaving
    replaced = [
        item for item in read if item.message.seq in clamped and item.message.provenance == "original"
    ]
    known = {id(item) for item in leaving}
    return leaving + [item for item in replaced if id(item) not in known]


def inject(core: SessionCore, messages: Sequence[Message], created_at: int) -> None:
    """Appends messages that a hook added. If the store refuses them, the compaction stays: it is durable."""
    if not messages:
        return
    state = core.state
    numbered = [replace(message, seq=state.end + place) for place, message in enumerate(messages)]
    items = [state.view.measured(message, created_at) for message in numbered]
    try:
        version = core.rows.append(
            core.message_rows(items, state.view),
            expected=state.version,
            clock=state.clock.to_json(),
            write_id=core.pend(items),
        )
    except StoreError:
        _log.exception("what on_after_compact gave to session %r is lost", core.session_id)
        return
    core.state = state.appended(items, version, state.clock)
    core.pending = None


def _check_pins(compaction: Compaction, state: views.SessionState) -> None:
    """Raises StoreConflictError if a discarded message was pinned while the summary was written."""
    for message in compaction.discarded:
        if message.seq in state.clock.pins and is_at(message, message.seq):
            raise StoreConflictError(f"message {message.seq} was pinned meanwhile; nothing was written")


def _row_of(receipt: logs.CommitReceipt, parent: int | None, row: logs.NewCompaction) -> logs.CompactionRow:
    committed = rows.committed(row, receipt.derived_ids)
    return logs.CompactionRow(receipt.compaction_id, parent, committed, receipt.derived_ids)


def _is_of_log(item: views.Item) -> bool:
    return item.message.provenance != "compaction_summary"


# Moves the current view: commits a branch, and undoes a compaction or a branch.


def undo(core: SessionCore, call: Call) -> logs.CompactionRow | None:
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


def _undo(core: SessionCore, call: Call) -> tuple[logs.CompactionRow | None, CacheBroken | None]:
    core.check_open()
    state = core.followed()
    if state.deleted:
        raise dropped(core, "no compaction can be undone")
    if call.write_id and core.rows.state().write_id == call.write_id:
        undone: logs.CompactionRow = call.answer  # of an interrupted undo that had become durable
        return undone, None
    step = step_back(core.rows, state)
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
    items = views.load(core.rows, state.view, step.parent, state.end)
    view = views.View(state.view.rule, live(state.view, items))
    whole = unchanged(core, state.view, view)
    clock = state.clock.rewritten(whole)
    call.write_id = write_id = core.pend()
    receipt = core.rows.undo(expected=state.version, clock=clock.to_json(), write_id=write_id)
    if receipt.version is None:
        raise dropped(core, "no compaction can be undone")
    core.state = replace(
        state, version=receipt.version, view=view, head=step.parent, clock=clock, stored=clock
    )
    core.pending = None
    return step.undone, broken(core, state.clock, step.reason, whole, core.milliseconds())


def rewrite(
    core: SessionCore,
    state: views.SessionState,
    step: Step,
    new: Sequence[views.Item],
    usage: Any = None,
    call: Call | None = None,
) -> tuple[logs.CommitReceipt, CacheBroken | None]:
    """Commits *step* as the current view, with *new* after it.

    *usage* is that of the model call whose answer *new* ends with. The caller tells the event.
    """
    now = core.milliseconds()
    row, view = row_of(core.rows, state, step, new, now)
    whole = unchanged(core, state.view, view)
    clock = state.clock.rewritten(whole)
    if usage is not None:
        counted = input_tokens(usage)
        clock = clock.heard(counted, state.end, min(cached_tokens(usage), counted), now)
    entries: Iterable[NewEntry] = ()
    if step.withdrawn and core.indexed:
        spans = stood_for(core.rows, step.base) if step.base else ()
        entries = rows.Entries(
            views.originals(core.rows, view, spans), index_tools=core.index_tools, redacting=core.redacting
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
    head = logs.CompactionRow(receipt.compaction_id, parent, row)
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


def _gone(core: SessionCore, state: views.SessionState, row: logs.NewCompaction) -> list[int]:
    """The messages that leave the line with *row*, if requests may have made entries of them; else none."""
    if core.requests.last is None:
        return []
    before = views.line_of(core.rows, views.content_of(state.head), state.end)
    return views.numbers(views.minus(before, views.line_of(core.rows, row, state.end)))
