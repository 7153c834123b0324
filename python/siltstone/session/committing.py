"""Commits a compaction: discarded messages become searchable, and the rewritten view becomes current."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from siltstone.compaction.base import Compaction, Compactor, Trigger
from siltstone.errors import StoreConflictError, StoreError
from siltstone.events import CacheBroken, MemoryIndexed, notify, watch_operation
from siltstone.memory.entry import Entry
from siltstone.memory.log import CommitReceipt, CompactionRow, NewCompaction, SessionVersion
from siltstone.messages import Message
from siltstone.session import rows
from siltstone.session.archiving import write_new
from siltstone.session.concurrency import Call, retried
from siltstone.session.core import SessionCore, is_at
from siltstone.session.deciding import rules_of
from siltstone.session.learning import learn_patterns, save_called
from siltstone.session.loading import content_of, line_of
from siltstone.session.provider_cache import broken, unchanged
from siltstone.session.range_set import minus, union
from siltstone.session.retention import only_new
from siltstone.session.state import SessionState
from siltstone.session.view import Item, View, view_items

__all__ = ["Entering", "commit", "inject", "stale"]

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

    items: Sequence[Item]
    version: SessionVersion
    usage: Any
    call: Call


def commit(
    core: SessionCore,
    compaction: Compaction,
    *,
    read: View,
    redactions: int,
    at: int,
    policy: Compactor,
    trigger: Trigger,
    tokens: tuple[int, int],
    seconds: float | None = None,
    entering: Entering | None = None,
) -> int:
    """Indexes the discarded messages and makes the rewritten view current, in one transaction.

    Messages appended after the view *read* follow the summary verbatim. *redactions* is the session's count
    of redactions when the view was read. Another count now means that the model has read a forgotten text, so
    nothing is written. Messages that are *entering* are the last ones of *read*, and are appended in the same
    transaction. *seconds* is the time that the compaction has taken so far. Gives the id of the compaction.
    """

    def step() -> tuple[int, int, int, CacheBroken | None]:
        if core.followed().version.redactions != redactions:
            raise stale(core)
        return _commit(core, compaction, read, at, policy, trigger, tokens, seconds, entering)

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
    read: View,
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
    stored, new = view_items(kept)
    next_seq = state.end - (len(state.view) - len(read))
    leaving = _leaving(compaction, read, new)
    entries: Sequence[Entry] = ()
    if core.indexed:
        entries = rows.entries(leaving, index_tools=core.index_tools, within=read, redacting=core.redacting)
        if core.retention is not None and core.retention.once:
            entries = only_new(core.store, core.session_id, entries)
    still_shown = union((item.message.seq, item.message.seq + 1) for item in kept if _is_of_log(item))
    row = rows.compaction_row(
        compaction,
        policy,
        trigger,
        view=stored,
        new=[*new, *(state.view.measured(message, created_at) for message in compaction.asides)],
        covers=minus(line_of(core.rows, content_of(state.head), next_seq), still_shown),
        next_seq=next_seq,
        tokens=tokens,
        messages_before=len(read),
        created_at=created_at,
        seconds=seconds,
        rules=rules_of(read.messages(), compaction, trigger),
        token_rule=view.rule,
    )
    whole = unchanged(core, state.view, view)
    clock = state.clock.committed(compaction, trigger, at, *tokens).charged(compaction.usage).cut(whole)
    items = () if entering is None else entering.items
    messages, write_id = core.message_rows(items, state.view), core.pend(items)
    if entering is not None:
        call, answer = entering.call, range(expected.next_seq, state.end)
        call.answer, call.write_id = answer, write_id  # no call in between: no interrupt separates the two
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
            watched.records(entries)
    except StoreError as error:
        vars(error)["attempted_entries"] = len(entries)
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
    return receipt.compaction_id, len(entries), len(leaving), lost


def _as_appended(core: SessionCore, state: SessionState, read: View, entering: Entering) -> SessionState:
    """*state* as it is after an append of the entering messages."""
    clock, error = core.heard(entering.usage, state)
    version = replace(state.version, next_seq=state.end + len(entering.items))
    known = state.estimate_error if error is None else error
    return replace(state, version=version, view=read, clock=clock, estimate_error=known)


def stale(core: SessionCore) -> StoreConflictError:
    """The error of a rewrite whose view has changed meanwhile."""
    return StoreConflictError(
        f"something of session {core.session_id!r} was compacted, forgotten or rewritten meanwhile; "
        "nothing was written",
        session_id=core.session_id,
    )


def _leaving(compaction: Compaction, read: View, new: Sequence[Item]) -> list[Item]:
    """The messages that searches find from now on: discarded messages, and originals of new substitutes."""
    items = {id(item.message): item for item in read}
    leaving = [items[id(message)] for message in compaction.discarded]
    clamped = {item.message.seq for item in new if item.message.provenance == "substitute"}
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


def _check_pins(compaction: Compaction, state: SessionState) -> None:
    """Raises StoreConflictError if a discarded message was pinned while the summary was written."""
    for message in compaction.discarded:
        if message.seq in state.clock.pins and is_at(message, message.seq):
            raise StoreConflictError(f"message {message.seq} was pinned meanwhile; nothing was written")


def _row_of(receipt: CommitReceipt, parent: int | None, row: NewCompaction) -> CompactionRow:
    committed = rows.committed(row, receipt.derived_ids)
    return CompactionRow(receipt.compaction_id, parent, committed, receipt.derived_ids)


def _is_of_log(item: Item) -> bool:
    return item.message.provenance != "compaction_summary"
