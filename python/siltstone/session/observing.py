"""Brings a session in step with the list of a host that keeps its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias

from siltstone.errors import ConfigError, HistoryConflictError
from siltstone.events import ForgottenReturned, HistoryBranched, notify
from siltstone.messages import RawMessage
from siltstone.session import branches
from siltstone.session.clock import CompactionClock
from siltstone.session.core import SessionCore
from siltstone.session.host_list import Seen
from siltstone.session.loading import content_of, line_of
from siltstone.session.range_set import RangeSet, count, minus, union, within
from siltstone.session.rewriting import rewrite
from siltstone.session.state import SessionState
from siltstone.session.usage import input_tokens

__all__ = ["OnConflict", "observe"]

OnConflict: TypeAlias = Literal["branch", "raise"]
"""What becomes of a host's list that has rewritten the past."""


def observe(
    core: SessionCore, raws: Sequence[RawMessage], usage: Any = None, on_conflict: OnConflict = "branch"
) -> int:
    """Brings the session in step with *raws*, a host's whole list; how many messages were new."""
    if on_conflict not in ("branch", "raise"):
        raise ConfigError(
            f"on_conflict must be 'branch' or 'raise', got {on_conflict!r}",
            field="on_conflict",
            value=on_conflict,
        )
    new, events = core.locked(lambda: _observe(core, raws, usage, on_conflict))
    for event in events:
        notify(core.hooks, event)
    return new


def _observe(
    core: SessionCore, raws: Sequence[RawMessage], usage: Any, on_conflict: OnConflict
) -> tuple[int, list[Any]]:
    core.check_open()
    state = _learn(core, core.followed(), raws)
    host, events = state.host, list[Any]()
    summaries = host.summaries(raws)
    seen = host.originals(raws, summaries)
    line = line_of(core.rows, content_of(state.head), state.end)
    said = host.said(line)
    now_covered = state.head.compaction.covers if state.head else ()
    covered = union(*(covers or now_covered for covers in summaries.values()))
    in_view = host.said(minus(line, covered)) if summaries else said
    start = host.new(seen, said, in_view)
    if start is None and state.own_end != state.end:
        raise core.conflict(state)
    if start is not None:
        core.state = replace(state, own_end=state.end)  # the list has what others appended
        new, kept_out = _new(core, seen[start:])
        if new:
            begins = state.end == 0 and state.clock == CompactionClock()
            core.append_now([each.raw for each in new], usage)
            if begins:
                core.infer_clock()
    else:
        start, end = host.shared(seen, in_view)
        _check_branch(core, raws, on_conflict, minus(covered, line), state)
        retained = union(covered, within(line, 0, in_view[end]) if end < len(in_view) else line)
        position = seen[start].place if start < len(seen) else len(raws)
        new, kept_out = _new(core, seen[start:])
        events.append(_branch(core, state, retained, [each.raw for each in new], usage, position))
    if kept_out:
        places_out = tuple(each.place for each in kept_out)
        events.append(ForgottenReturned(core.session_id, places_out))
    after = core.state
    learned = after.host.learned(core.rows.read(after.host.length, after.end))
    out = {id(each) for each in kept_out}
    core.state = replace(after, host=learned.kept([each for each in seen if id(each) not in out]))
    return len(new), events


def _new(core: SessionCore, seen: Sequence[Seen]) -> tuple[list[Seen], list[Seen]]:
    """Those that are new, and those that were forgotten, and stay out though the host has them still."""
    forgotten = {id(each) for each in core.state.host.returned(seen)}
    new = [each for each in seen if id(each) not in forgotten]
    return new, [each for each in seen if id(each) in forgotten]


def _learn(core: SessionCore, state: SessionState, raws: Sequence[RawMessage]) -> SessionState:
    """Takes in what the log has beyond what is known of it, and which of *raws* were handed out."""
    host = state.host
    if host.is_outdated:
        host = host.relearned(core.rows.read(0, state.end))
    else:
        host = host.learned(core.rows.read(host.length, state.end))
    texts = host.unknown(raws)
    if texts:
        host = host.told(texts, core.rows.derived_like(texts))
    core.state = replace(state, host=host)
    return core.state


def _check_branch(
    core: SessionCore,
    raws: Sequence[RawMessage],
    on_conflict: OnConflict,
    foreign: RangeSet,
    state: SessionState,
) -> None:
    """Refuses a list that leaves the line of the session, where it cannot be followed."""
    if on_conflict == "branch" and raws and not foreign:
        return
    why = "what was logged was changed or taken back"
    if on_conflict == "branch":
        why = "its summary is not of this history" if raws else "it is empty"
    raise HistoryConflictError(
        f"the list of {len(raws)} messages does not go on from the {state.end} in the log "
        f"of session {core.session_id!r}: {why}; nothing was written; "
        "open a session of another id for it",
        session_id=core.session_id,
        logged=state.end,
    )


def _branch(
    core: SessionCore,
    state: SessionState,
    retained: RangeSet,
    raws: Sequence[RawMessage],
    usage: Any,
    position: int,
) -> HistoryBranched:
    """Leaves the line of the session after *retained*, and goes on with *raws*; the event of it."""
    clock = state.clock.rewritten()
    if usage is not None:
        clock = clock.heard(input_tokens(usage), state.end)
    step = branches.branch(core.rows, state, retained)
    left = minus(line_of(core.rows, content_of(state.head), state.end), retained)
    receipt = rewrite(core, state, step, core.measured(raws, state), clock)
    core.retain()
    return HistoryBranched(
        core.session_id, receipt.compaction_id, position, count(retained), count(left), len(raws)
    )
