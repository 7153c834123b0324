"""Brings a session in step with a message list that the host keeps itself."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice, takewhile
from typing import Any, Literal, TypeAlias

from siltstone import messages as chat
from siltstone.errors import HistoryConflictError, refuse
from siltstone.events import CacheBroken, ForgottenReturned, HistoryBranched, HistoryContinued
from siltstone.hooks import notify
from siltstone.memory.log import Derived, ancestors
from siltstone.messages import Message, RawMessage
from siltstone.messages.message import RULE_ROLES
from siltstone.recall import is_recalled, may_be_recalled
from siltstone.session import committing, state as views
from siltstone.session.committing import dropped, rewrite
from siltstone.session.core import SessionCore
from siltstone.session.counters import CompactionClock
from siltstone.session.host_list import HostList, Seen, has_cache_marks, is_rule, leading, without_cache_marks

_log = logging.getLogger("siltstone")

_VIEWS = 6  # the newest views whose summaries are known without marks: few are made between two requests

OnConflict: TypeAlias = Literal["branch", "raise"]
"""The reaction to a host's list that has rewritten the past: follow it, or raise an error."""


def observe(
    core: SessionCore, raws: Sequence[RawMessage], usage: Any = None, on_conflict: OnConflict = "branch"
) -> int:
    """Brings the session in step with *raws*, a host's whole list. Returns the number of new messages."""
    if on_conflict not in ("branch", "raise"):
        refuse("on_conflict", "'branch' or 'raise'", on_conflict)
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
    all_seen = host.originals(raws, {*summaries, *_recalled(core, raws)})
    line = views.line_of(core.rows, views.content_of(state.head), state.end)
    said, run = host.said(line), state.clock.run_of(line[-1][1] if line else 0)
    seen = host.placed(all_seen, said)
    now_covered = state.head.compaction.covers if state.head else ()
    covered = views.union(*(covers or now_covered for covers in summaries.values()))
    in_view = host.said(views.minus(line, covered)) if summaries else said
    known = host.followed(seen, said, in_view, run)
    is_unrelated = known is None and host.is_unrelated(seen, said)
    has_rules_alone = bool(raws) and len(raws) == leading(raws)
    if known is None and has_rules_alone and (core.is_first_list or core.begins_run):
        known = said  # the list of a host that has not begun to speak
    elif known is None and seen and not summaries and _begins_run(core, is_unrelated):
        known, run = [], state.end
        state = replace(state, clock=state.clock.begun(run))
    retained: views.RangeSet | None = None
    if known is None:
        known, retained = _kept_in_branch(core, state, raws, seen, line, run, covered if summaries else None)
        _check_branch(core, raws, on_conflict, views.minus(covered, line), state)
        if state.own_end != state.end:
            raise core.conflict(state)
    else:
        state = core.state = replace(state, own_end=state.end)  # the list has what others appended
    start, known_now = len(known), dict(zip(known, seen, strict=False))
    current = _Current(core, state, raws, known_now, retained)
    new, out = _new(core, seen[start:], current.new)
    position = seen[start].place if start < len(seen) else len(raws)
    if retained is not None:
        events += _branch(core, state, retained, new, usage, position)
    elif new:
        begins = state.end == 0 and state.clock == CompactionClock()
        core.append_now(new, usage)
        if begins:
            core.infer_clock()
        elif 0 < run == state.end:
            events.append(HistoryContinued(core.session_id, run, len(new)))
            _log.info(
                "session %r goes on: the host has begun anew, with message %d",
                core.session_id,
                run,
                extra={"session_id": core.session_id},
            )
    _count_unrelated(core, is_unrelated=is_unrelated and retained is not None)
    returned = host.returned(all_seen) + host.gone(raws, summaries)
    untold = host.untold(returned)
    if untold:
        events.append(ForgottenReturned(core.session_id, tuple(each.place for each in untold)))
    after = core.state
    learned = _host(core, after)
    learned = learned.learned(core.redacted_rows(learned.length, after.end))
    said_now = [each for each in seen[:start] + learned.logged(seen[start:]) if each.place not in out]
    last = None
    has_other_forms = any(not host.stands_at(each, seq) for seq, each in known_now.items())
    if not returned and not has_other_forms and all(summaries.values()):  # else the next list is read whole
        last = host.listed(raws, position, said_now, after.version.head, after.end)
    moves = core.background.job is None  # it would lose its view
    view = after.view.showing(current.items(after.view, moves=moves))
    core.state = replace(after, view=view, host=learned.kept(said_now, returned, last if moves else None))
    if not has_rules_alone:
        core.is_first_list = core.begins_run = False
    return len(new), events


def _begins_run(core: SessionCore, is_unrelated: bool) -> bool:
    """Whether a list that continues nothing begins a run of the host.

    Raises:
        HistoryConflictError: it shares nothing with the session, and the session has ``unrelated="raise"``.
    """
    if core.begins_run or core.unrelated == "always":
        return True
    if is_unrelated and core.unrelated == "raise":
        raise HistoryConflictError(
            f"the list shares no request with session {core.session_id!r}; nothing was written; if the host "
            "has begun anew, call session.new_run() before, or open the session with unrelated='first'",
            session_id=core.session_id,
            logged=core.state.end,
        )
    return is_unrelated and core.unrelated == "first" and core.is_first_list


def _kept_in_branch(
    core: SessionCore,
    state: views.SessionState,
    raws: Sequence[RawMessage],
    seen: Sequence[Seen],
    line: views.RangeSet,
    run: int,
    covered: views.RangeSet | None,
) -> tuple[list[int], views.RangeSet]:
    """The messages of the log that *seen* begins with, and all that stay in the branch that *seen* begins.

    *covered* are the messages behind the summaries of the list; None of a list without summaries.

    Raises:
        HistoryConflictError: the list belongs to an earlier run.
    """
    host = _host(core, state)
    said, of_run = host.said(line), host.said(line, run)
    known = of_run if covered is None else host.said(views.minus(line, covered))
    start, end = host.shared(seen, known)
    if covered is None:
        of_line = host.shared(seen, said)
        if of_line[1] > len(said) - len(of_run):  # the list is the whole line, up to a place in this run
            known, (start, end) = said, of_line
    is_earlier = end < len(known) and known[end] < run
    if run and not start:
        before = said[: len(said) - len(of_run)]
        is_earlier |= host.goes_on_before(seen, before)
        together = host.neighbours(seen, said)
        if covered is None and together > host.neighbours(seen, of_run):  # it has messages of earlier runs
            is_earlier |= together == host.neighbours(seen, before)
            known, end = said, 0  # if it has those of this run too, only its first message is another
    if is_earlier:
        raise HistoryConflictError(
            f"the list of {len(raws)} messages goes on with an earlier run of the host, and the current run "
            f"begins at message {run} of session {core.session_id!r}: two lists use one session; nothing "
            "was written; open a session of its own for each conversation",
            session_id=core.session_id,
            logged=state.end,
        )
    kept = views.within(line, 0, known[end]) if end < len(known) else line
    return known[end - start : end], views.union(covered or (), kept)


def _count_unrelated(core: SessionCore, *, is_unrelated: bool) -> None:
    """Logs a warning at the second branch in a row that shares nothing with the session before it."""
    core.unrelated_branches = core.unrelated_branches + 1 if is_unrelated else 0
    if core.unrelated_branches == 2:
        _log.warning(
            "two lists in a row share nothing with session %r, and its earlier messages have left the "
            'context: if the host sends only what is new, open the session with unrelated="always"; if these '
            "are several conversations, open a session for each",
            core.session_id,
            extra={"session_id": core.session_id},
        )


def _host(core: SessionCore, state: views.SessionState) -> HostList:
    """The part of *state* that is about the host's list: nothing, before the first list."""
    if state.host is not None:
        return state.host
    return HostList(clean=None if core.redacting is None else core.redacting.raw)


def _continued(
    core: SessionCore, state: views.SessionState, raws: Sequence[RawMessage], usage: Any
) -> int | None:
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
    if state.clock.runs and len(listed) >= len(state.view) > len(last.raws):
        return None  # it may be the whole view, which begins as the last list does
    start, rules = len(last.raws), leading(listed)
    more = listed[start:]
    if more and not state.deleted:
        host = _host(core, _learn(core, state, more))
    if any(map(is_rule, more)) or not all(map(host.is_plain, more)):
        return None
    seen = [each._replace(place=start + each.place) for each in host.originals(more, _recalled(core, more))]
    if any(each.was or each.stands_for != each.digest for each in seen):
        return None
    current = None
    if listed[:rules] != last.raws[:rules]:
        current = _Current(core, state, listed, {})
        if current.new:
            return None
    if seen:
        core.append_now([each.raw for each in seen], usage)
    after = core.state
    if current is not None:
        after = replace(after, view=after.view.showing(current.items(after.view, moves=False)))
    core.state = replace(after, host=_host(core, after).continued(last.grown(listed, seen, after.end)))
    core.is_first_list = core.begins_run = False
    return len(seen)


def _recalled(core: SessionCore, raws: Sequence[RawMessage]) -> list[int]:
    """The places of what an earlier request had beside the log: recalled blocks, and texts of a preset."""
    return [
        place
        for place, raw in enumerate(raws)
        if (may_be_recalled(raw) and is_recalled(chat.read_message(raw, place)))
        or (core.notes and _is_note(raw, core.notes))
    ]


def _is_note(raw: RawMessage, beginnings: tuple[str, ...]) -> bool:
    said = isinstance(raw, Mapping) and raw.get("role") == "user" and raw.get("content")
    return isinstance(said, str) and said.startswith(beginnings)


def _new(
    core: SessionCore, seen: Sequence[Seen], rules: Mapping[int, RawMessage]
) -> tuple[list[RawMessage], set[int]]:
    """The new messages in the order of the list, and the places of forgotten messages that are left out.

    A forgotten message with ties, such as a call that has a result, is replaced by its tombstone. *rules* are
    the new system messages by their places.
    """
    new, out = dict(rules), set[int]()
    forgotten = {each.place for each in _host(core, core.state).returned(seen)}
    for each in seen:
        if each.place not in forgotten:
            new[each.place] = each.raw
        elif each.is_tied:
            (row,) = core.rows.read(each.was[0], each.was[0] + 1)
            new[each.place] = chat.RepairedMessage(chat.decode(row.raw))
        else:
            out.add(each.place)
    return [new[place] for place in sorted(new)], out


class _Current:
    """The host's current objects, and the places of its system messages, for the view.

    The log has each message as it was first received. What is sent is what the host has now: with its marks
    of a cache, and with the newest form of its system messages. Those at the beginning of the list stand at
    the beginning of the view. One that the list lacks now leaves the view.

    Attributes:
        new: The system messages that the log lacks, by their places in the list.
    """

    def __init__(
        self,
        core: SessionCore,
        state: views.SessionState,
        raws: Sequence[RawMessage],
        known: Mapping[int, Seen],
        retained: views.RangeSet | None = None,
    ) -> None:
        """Compares the system messages of *raws* with those of the view.

        Args:
            core: The session.
            state: Its state, before the new messages of *raws* are written.
            raws: The host's list.
            known: The messages of the log that *raws* has.
            retained: The messages that stay in a branch; None: all stay.
        """
        host, read = _host(core, state), state.view.read()
        self._end = state.end
        there = {
            message.seq: message.raw
            for message in read
            if message.role in RULE_ROLES
            and message.provenance == "original"
            and (retained is None or views.has(retained, message.seq))
        }
        self._alike = {seq for seq, each in known.items() if host.is_alike(each, seq)}
        self._raws = {
            seq: each.raw for seq, each in known.items() if each.digest == each.stands_for and not each.was
        }
        first = leading(raws)
        places = [place for place, raw in enumerate(raws) if is_rule(raw) and not host.is_injected(raw)]
        found = dict[int, int]()  # places in the list, to the system messages of the log
        for place in places:
            seq = next((seq for seq, raw in there.items() if raw == raws[place]), None)
            if seq is None:
                seq = host.place_of(raws[place], there)
            if seq is not None:
                found[place] = seq
                del there[seq]
        at_front = [message.seq for message in takewhile(_is_rule_of_log, read) if message.seq in there]
        for place, seq in zip([each for each in places[:first] if each not in found], at_front, strict=False):
            found[place] = seq
            del there[seq]
        self._raws |= {seq: raws[place] for place, seq in found.items()}
        between = (min(known), max(known)) if known else (0, 0)
        self._gone = {seq for seq in there if between[0] < seq < between[1] or (first and seq in at_front)}
        self.new = {place: raws[place] for place in places if place not in found}
        self._front = [(found.get(place), raws[place]) for place in places[:first]]

    def items(self, view: views.View, *, moves: bool = True) -> list[views.Item]:
        """The items of *view* with the current objects; with *moves*, in the host's order."""
        front, rest = dict[int, views.Item](), list[views.Item]()
        order = {id(raw) if seq is None else seq: place for place, (seq, raw) in enumerate(self._front)}
        for item in view.items():
            message, item = item.message, self._current(view, item)
            place = None
            if message.role in RULE_ROLES and item.derived_id is None:
                if moves and message.seq in self._gone:
                    continue
                place = order.get(message.seq, order.get(id(message.raw)))
            if place is None or not moves:
                rest.append(item)
            else:
                front[place] = item
        return [*(front[place] for place in sorted(front)), *rest]

    def _current(self, view: views.View, item: views.Item) -> views.Item:
        """*item* with the host's object; without marks of a cache, if the list has no such message."""
        known, message = item.message.raw, item.message
        raw = self._raws.get(message.seq) if item.derived_id is None else None
        is_dropped = raw is None and message.seq < self._end
        if is_dropped and isinstance(known, dict) and has_cache_marks(known):
            raw = without_cache_marks(known)
            if isinstance(known, chat.SubstituteMessage):
                raw = chat.SubstituteMessage(raw, known.kind)
        if raw is None or raw is known or raw == known:
            return item
        if message.seq in self._alike and not _differ_in_marks_alone(raw, known):
            return item  # the host's object was changed in place, and is still the same message
        shown = chat.read_message(raw, message.seq, provenance=message.provenance)
        return view.measured(shown, item.created_at, item.derived_id)


def _differ_in_marks_alone(one: RawMessage, other: RawMessage) -> bool:
    if not (isinstance(one, Mapping) and isinstance(other, Mapping)):
        return False
    return without_cache_marks(one) == without_cache_marks(other)


def _is_rule_of_log(message: Message) -> bool:
    return message.role in RULE_ROLES and message.provenance == "original"


def _learn(core: SessionCore, state: views.SessionState, raws: Sequence[RawMessage]) -> views.SessionState:
    """Updates the host list by the new rows of the log, and looks up the summaries among *raws*."""
    host = _host(core, state)
    if host.is_outdated:
        forgotten, log = core.rows.forgotten(), core.redacted_rows(0, state.end)
        gone = core.rows.derived([-place for place, _ in forgotten if place < 0])
        covers = {-row.derived_id: views.union(row.covers) for row in gone}
        summaries = [(covers[place], each) for place, each in forgotten if place < 0]
        messages = [(place, each) for place, each in forgotten if place >= 0]
        host = host.relearned(log, messages, summaries, core.rows.salt())
    else:
        host = host.learned(core.redacted_rows(host.length, state.end))
    texts = host.unknown(raws)
    if texts:
        head = state.version.head
        if host.shown_of != head:
            rows = islice(ancestors(core.rows, state.head), _VIEWS)
            host = host.showing(head, [views.derived_of(core.rows, row.compaction) for row in rows])
        host = host.looked_up(texts, _derived_like(core, texts))
    core.state = replace(state, host=host)
    return core.state


def _derived_like(core: SessionCore, texts: Sequence[str]) -> list[list[Derived]]:
    """The derived rows with each of *texts*, or with the text without its mark: renewed texts have none."""
    found = core.rows.derived_like(texts)
    bare = {text: chat.unmarked(text) for text, rows in zip(texts, found, strict=True) if not rows}
    asked = [text for text in bare if bare[text] != text]
    known = dict(zip(asked, core.rows.derived_like([bare[text] for text in asked]), strict=True))
    return [rows or known.get(text, []) for text, rows in zip(texts, found, strict=True)]


def _check_branch(
    core: SessionCore,
    raws: Sequence[RawMessage],
    on_conflict: OnConflict,
    foreign: views.RangeSet,
    state: views.SessionState,
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
    state: views.SessionState,
    retained: views.RangeSet,
    raws: Sequence[RawMessage],
    usage: Any,
    position: int,
) -> list[HistoryBranched | CacheBroken]:
    """Commits a branch: the view keeps *retained*, and *raws* follow it. Returns the events."""
    step = committing.branch(core.rows, state, retained)
    left = views.minus(views.line_of(core.rows, views.content_of(state.head), state.end), retained)
    receipt, lost = rewrite(core, state, step, core.measured(raws, state), usage)
    branched = HistoryBranched(
        core.session_id, receipt.compaction_id, position, views.count(retained), views.count(left), len(raws)
    )
    return [branched] if lost is None else [branched, lost]
