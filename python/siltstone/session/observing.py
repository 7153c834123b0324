"""Brings a session in step with a message list that the host keeps itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias

from siltstone.errors import ConfigError, HistoryConflictError
from siltstone.events import CacheBroken, ForgottenReturned, HistoryBranched, notify
from siltstone.memory.log import Derived
from siltstone.messages import RawMessage, RepairedMessage, decode, read_message, unmarked
from siltstone.recall import is_recalled, may_be_recalled
from siltstone.session import branches
from siltstone.session.clock import CompactionClock
from siltstone.session.core import SessionCore
from siltstone.session.host_list import HostList
from siltstone.session.last_list import Seen
from siltstone.session.loading import content_of, line_of
from siltstone.session.range_set import RangeSet, count, minus, union, within
from siltstone.session.rewriting import dropped, rewrite
from siltstone.session.state import SessionState

__all__ = ["OnConflict", "observe"]

OnConflict: TypeAlias = Literal["branch", "raise"]
"""The reaction to a host's list that has rewritten the past: follow it, or raise an error."""


def observe(
    core: SessionCore, raws: Sequence[RawMessage], usage: Any = None, on_conflict: OnConflict = "branch"
) -> int:
    """Brings the session in step with *raws*, a host's whole list. Returns the number of new messages."""
    if on_conflict not in ("branch", "raise"):
        raise ConfigError(
            f"on_conflict must be 'branch' or 'raise', got {on_conflict!r}",
            field="on_conflict",
            value=on_conflict,
        )
    new, events = core.locked(lambda: _observe(core, raws, usage, on_conflict))
    if any(isinstance(event, HistoryBranched) for event in events):
        core.retain()  # its hooks may wait for other threads of the session
    core.tell_secrets()
    for event in events:
        notify(core.hooks, event)
    return new


def _observe(
    core: SessionCore, raws: Sequence[RawMessage], usage: Any, on_conflict: OnConflict
) -> tuple[int, list[Any]]:
    core.check_open()
    state = core.followed()
    if (more := _continued(core, state, raws, usage)) is not None:
        return more, []
    if state.deleted:
        raise dropped(core, "the list does not go on from the last one, and cannot be compared with the log")
    state = _learn(core, replace(state, host=_host(core, state).recognised()), raws)
    host, events = _host(core, state), list[Any]()
    summaries = host.summaries(raws)
    all_seen = host.originals(raws, {*summaries, *_recalled(raws)})
    line = line_of(core.rows, content_of(state.head), state.end)
    said = host.said(line)
    seen = host.placed(all_seen, said)
    now_covered = state.head.compaction.covers if state.head else ()
    covered = union(*(covers or now_covered for covers in summaries.values()))
    in_view = host.said(minus(line, covered)) if summaries else said
    start = host.new(seen, said, in_view)
    if start is None and state.own_end != state.end:
        raise core.conflict(state)
    if start is not None:
        core.state = replace(state, own_end=state.end)  # the list has what others appended
        new, out = _new(core, seen[start:])
        if new:
            begins = state.end == 0 and state.clock == CompactionClock()
            core.append_now(new, usage)
            if begins:
                core.infer_clock()
    else:
        start, end = host.shared(seen, in_view)
        _check_branch(core, raws, on_conflict, minus(covered, line), state)
        retained = union(covered, within(line, 0, in_view[end]) if end < len(in_view) else line)
        position = seen[start].place if start < len(seen) else len(raws)
        new, out = _new(core, seen[start:])
        events += _branch(core, state, retained, new, usage, position)
    returned = host.returned(all_seen) + host.gone(raws, summaries)
    untold = host.untold(returned)
    if untold:
        events.append(ForgottenReturned(core.session_id, tuple(each.place for each in untold)))
    after = core.state
    learned = _host(core, after)
    learned = learned.learned(core.redacted_rows(learned.length, after.end))
    said_now = [each for each in seen[:start] + learned.logged(seen[start:]) if each.place not in out]
    last = None
    if not returned and all(summaries.values()):
        fresh = seen[start].place if start < len(seen) else len(raws)
        last = host.listed(raws, fresh, said_now, after.version.head, after.end)
    core.state = replace(after, host=learned.kept(said_now, returned, last))
    return len(new), events


def _host(core: SessionCore, state: SessionState) -> HostList:
    """The part of *state* that is about the host's list: nothing, before the first list."""
    if state.host is not None:
        return state.host
    return HostList(clean=None if core.redacting is None else core.redacting.raw)


def _continued(core: SessionCore, state: SessionState, raws: Sequence[RawMessage], usage: Any) -> int | None:
    """Appends the rest of a list that begins with the last list. None if *raws* is no such list.

    The log has the whole last list, so only the messages after it are compared. All of them must be new. A
    summary, a substitute or a forgotten text needs the full comparison, since it refers to earlier messages.
    A deleted session has no log. It goes on in memory, and the last list is all that is compared.
    """
    host = _host(core, state)
    last = host.last
    if last is None:
        return None
    if state.deleted:
        head, end = last.head, last.end
    elif host.is_outdated or state.own_end != state.end:
        return None
    else:
        head, end = state.version.head, state.end
    listed = raws if type(raws) is list else list(raws)
    if not last.begins(listed, head, end):
        return None
    start = len(last.raws)
    more = listed[start:]
    if more and not state.deleted:
        host = _host(core, _learn(core, state, more))
    if not all(map(host.is_plain, more)):
        return None
    seen = [each._replace(place=start + each.place) for each in host.originals(more, _recalled(more))]
    if any(each.was or each.stands_for != each.digest for each in seen):
        return None
    if seen:
        core.append_now([each.raw for each in seen], usage)
    after = core.state
    core.state = replace(after, host=_host(core, after).continued(last.grown(listed, seen, after.end)))
    return len(seen)


def _recalled(raws: Sequence[RawMessage]) -> list[int]:
    """The places of blocks that were recalled for an earlier request. They are no messages of the log."""
    return [
        place
        for place, raw in enumerate(raws)
        if may_be_recalled(raw) and is_recalled(read_message(raw, place))
    ]


def _new(core: SessionCore, seen: Sequence[Seen]) -> tuple[list[RawMessage], set[int]]:
    """The new messages, and the places of forgotten messages that are left out.

    A forgotten message with ties, such as a call that has a result, is replaced by its tombstone.
    """
    new, out = list[RawMessage](), set[int]()
    forgotten = {each.place for each in _host(core, core.state).returned(seen)}
    for each in seen:
        if each.place not in forgotten:
            new.append(each.raw)
        elif each.is_tied:
            (row,) = core.rows.read(each.was[0], each.was[0] + 1)
            new.append(RepairedMessage(decode(row.raw)))
        else:
            out.add(each.place)
    return new, out


def _learn(core: SessionCore, state: SessionState, raws: Sequence[RawMessage]) -> SessionState:
    """Updates the host list by the new rows of the log, and looks up the summaries among *raws*."""
    host = _host(core, state)
    if host.is_outdated:
        forgotten, log = core.rows.forgotten(), core.redacted_rows(0, state.end)
        gone = core.rows.derived([-place for place, _ in forgotten if place < 0])
        covers = {-row.derived_id: union(row.covers) for row in gone}
        summaries = [(covers[place], each) for place, each in forgotten if place < 0]
        messages = [(place, each) for place, each in forgotten if place >= 0]
        host = host.relearned(log, messages, summaries, core.rows.salt())
    else:
        host = host.learned(core.redacted_rows(host.length, state.end))
    texts = host.unknown(raws)
    if texts:
        host = host.looked_up(texts, _derived_like(core, texts))
    core.state = replace(state, host=host)
    return core.state


def _derived_like(core: SessionCore, texts: Sequence[str]) -> list[list[Derived]]:
    """The derived rows with each of *texts*, or with the text without its mark: renewed texts have none."""
    found = core.rows.derived_like(texts)
    bare = {text: unmarked(text) for text, rows in zip(texts, found, strict=True) if not rows}
    asked = [text for text in bare if bare[text] != text]
    known = dict(zip(asked, core.rows.derived_like([bare[text] for text in asked]), strict=True))
    return [rows or known.get(text, []) for text, rows in zip(texts, found, strict=True)]


def _check_branch(
    core: SessionCore,
    raws: Sequence[RawMessage],
    on_conflict: OnConflict,
    foreign: RangeSet,
    state: SessionState,
) -> None:
    """Raises HistoryConflictError for a rewritten past, if the session may not or cannot follow it."""
    if on_conflict == "branch" and raws and not foreign:
        return
    why = "logged messages were changed or taken back"
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
) -> list[HistoryBranched | CacheBroken]:
    """Commits a branch: the view keeps *retained*, and *raws* follow it. Returns the events."""
    step = branches.branch(core.rows, state, retained)
    left = minus(line_of(core.rows, content_of(state.head), state.end), retained)
    receipt, lost = rewrite(core, state, step, core.measured(raws, state), usage)
    branched = HistoryBranched(
        core.session_id, receipt.compaction_id, position, count(retained), count(left), len(raws)
    )
    return [branched] if lost is None else [branched, lost]
