"""The turn boundary under a policy that shapes each request, and leaves the history as it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Any

from siltstone.compaction.base import Compaction, Compactor, Trigger
from siltstone.compaction.rewrite import covered
from siltstone.engine import Failed, Outcome
from siltstone.events import MemoryIndexed
from siltstone.hooks import notify
from siltstone.llm import Steps
from siltstone.memory.convert import NewEntry, datetime_from
from siltstone.memory.entry import Entry
from siltstone.messages import Excerpt, Message
from siltstone.messages.legality import sendable
from siltstone.messages.message import RULE_ROLES
from siltstone.session import boundary
from siltstone.session.archiving import write_new
from siltstone.session.committing import entries_of, inject, stale
from siltstone.session.concurrency import retried
from siltstone.session.core import SessionCore
from siltstone.session.learning import learn_patterns
from siltstone.session.recovery import recovery
from siltstone.session.state import DERIVED, Request, SessionState, View, common, minus, numbers, union

AHEAD = 8  #: older messages that one write makes findable ahead of time; the newest 8 messages never are


@dataclass(slots=True)
class _Shaped:
    """A request in the making: its state, its messages, and the attempts for it."""

    state: SessionState
    messages: Sequence[Message]
    tokens: int
    outcomes: list[Outcome] = field(default_factory=list)


def shaped_boundary(
    core: SessionCore, policy: Compactor, asked: Trigger | None = None, request_bytes: int | None = None
) -> Steps[tuple[SessionState, boundary.Prepared]]:
    """One boundary under a policy that shapes each request.

    Messages that a shaped request leaves out are made findable first. The next request begins with the whole
    history again. If a request is still too large (protected messages fill the window, or the question is too
    short to trim by), the emergency fit compacts the history, as under every policy.

    Raises:
        ContextOverflowError: the messages that must stay are larger than the window. Nothing was changed.
        IllegalHistoryError: a provider would refuse the request, and the session was opened with
            ``check=True``.
    """
    core.check_open()
    outcomes = boundary.landed(core, policy)
    state = core.follow()
    at = state.clock.boundary
    for _ in range(boundary.RESCUES):
        request = _mended((yield from _shaped(core, policy, asked, request_bytes, at)), policy)
        outcomes += request.outcomes
        window, beside = core.room
        if window is None or request.tokens + beside <= window:
            break
        boundary.check_view(core, core.follow(), policy)
        outcomes += yield from boundary.within_window(core, policy, at)
        asked = None
    return _answer(core, policy, request, outcomes)


def recovered(
    core: SessionCore, policy: Compactor | None, error: Exception, retries: int
) -> Steps[tuple[SessionState, boundary.Prepared]]:
    """:func:`recovery`, after which its request is the context of the session."""
    state, prepared = yield from recovery(core, policy, error, retries)
    if core.requests.last is not None:
        core.requests.last = Request(state.view.of_log(), prepared.tokens)
    return state, prepared


def _mended(request: _Shaped, policy: Compactor) -> _Shaped:
    """*request* as its provider takes it: see ``View.sendable``. Whole groups of a legal view are legal."""
    if (view := request.state.view).sendable() is view or sendable(request.messages) is None:
        return request
    sent = View(policy.token_rule).rewritten(request.messages, 0, 0).sendable()
    return replace(request, messages=sent.messages(), tokens=sent.tokens)


def _answer(
    core: SessionCore, policy: Compactor, request: _Shaped, outcomes: list[Outcome]
) -> tuple[SessionState, boundary.Prepared]:
    """The answer for *request*. From then on this request is the context of the session."""
    state, messages = request.state, request.messages
    if state.view.sendable() is not state.view:
        core.tell_repair()
    if core.compaction_hooks.check:
        boundary.check_legal(messages, core.session_id)
    after = boundary.passed(core, policy, request.tokens)
    if after.view is not state.view:  # another thread has appended meanwhile: the next request shows that
        after = replace(after, view=state.view)
    shown = _spans(messages)
    core.requests.last = Request(shown, request.tokens)
    prepared = boundary.Prepared(
        [message.raw for message in messages],
        state.view.raws(),
        request.tokens,
        tuple(outcomes),
        trimmed=minus(state.view.of_log(), shown),
    )
    return after, prepared


def _shaped(
    core: SessionCore, policy: Compactor, asked: Trigger | None, request_bytes: int | None, at: int
) -> Steps[_Shaped]:
    """The messages that *policy* keeps for this request; the whole view if the policy trims nothing."""
    outcomes: list[Outcome] = []
    for _ in range(boundary.RESCUES):
        state = core.follow()
        view = state.view.recounted(policy.token_rule)
        trigger = asked or boundary.due(core, state, policy, request_bytes)
        made: list[tuple[Compaction, int]] = []
        if trigger is not None:
            keep = partial(_keep, core, state, made)
            outcome = yield from boundary.attempted(core, state, policy, trigger, at, commit=keep)
            outcomes.append(outcome)
            if isinstance(outcome, Failed):
                core.failed(at, state.end, outcome.usage, trigger.threshold)
                if outcome.reason == "stale":
                    continue  # a message was forgotten meanwhile: begin again with the new view
            else:
                core.charge(outcome.usage)
            asked = None
        if not made:
            return _Shaped(state, view.messages(), view.tokens, outcomes)
        [(result, tokens)] = made
        if not result.injected:
            return _Shaped(state, result.messages, tokens, outcomes)
        inject(core, result.injected, core.milliseconds())
        request = [*result.messages[: -len(result.injected)], *_new(core.state, state)]
        return _Shaped(core.state, request, tokens, outcomes)
    state = core.follow()
    view = state.view.recounted(policy.token_rule)
    return _Shaped(state, view.messages(), view.tokens, outcomes)


def _new(state: SessionState, before: SessionState) -> list[Message]:
    """The messages that were appended to the view since *before*."""
    return [item.message for item in state.view.items(len(before.view))]


def _keep(
    core: SessionCore,
    read: SessionState,
    made: list[tuple[Compaction, int]],
    result: Compaction,
    _before: int,
    after: int,
) -> None:
    """The last step of an attempt: indexes the messages that *result* leaves out, and notes the request."""
    _set_aside(core, result, read)
    made.append((result, after))


def _set_aside(core: SessionCore, result: Compaction, read: SessionState) -> None:
    """Indexes the messages that a request leaves out, before the request is sent.

    If one of them is not indexed yet, the same write also indexes the oldest other messages. They are left
    out next, so many later requests need no write. The newest messages are never indexed ahead, because a
    question in context would only outrank its answer.

    Raises:
        StoreConflictError: a message was forgotten or rewritten since the view was read. Nothing was written.
    """
    redactions = read.version.redactions

    def step() -> tuple[int, int]:
        if core.followed().version.redactions != redactions:
            raise stale(core)
        known, items = core.requests.aside(redactions), read.view.items()
        lacks = minus(read.view.of_log(), known)
        left = union(result.covers, covered([each.original for each in result.substitutes]))
        gone = set(numbers(common(lacks, left)))
        if not gone:
            return 0, 0
        unknown = set(numbers(lacks))
        lacking = [(at, item.message) for at, item in enumerate(items) if item.message.seq in unknown]
        apart = gone.union(item.message.seq for item in items[-AHEAD:])
        others = (each for _, each in lacking if each.seq not in apart and each.role not in RULE_ROLES)
        gone.update(each.seq for each in islice(others, AHEAD))
        places = [at for at, message in lacking if message.seq in gone]
        leaving, within = [items[at] for at in places], items
        if isinstance(result.discarded, Excerpt):  # each with its group: a result is known by its call
            groups = result.discarded.history.outline.closed(places)
            within = [item for group in groups for item in items[slice(*group)]]
        entries = [_entry(row) for row in entries_of(core, leaving, within)]
        if entries:
            core.store.index(core.session_id, entries)
        core.requests.set_aside(redactions, union(known, _spans([item.message for item in leaving])))
        return len(entries), len(leaving)

    if not core.indexed:
        return
    indexed, count = core.locked(lambda: retried(step))
    core.tell_secrets()
    if count:
        notify(core.hooks, MemoryIndexed(core.session_id, indexed, count))
        core.retain()
        learn_patterns(core, schedules=False)
        write_new(core)
    core.catch_up()


def _entry(row: NewEntry) -> Entry:
    return Entry(
        row.content, (row.start, row.end), row.role, row.name, row.kind, datetime_from(row.created_at)
    )


def _spans(messages: Sequence[Any]) -> tuple[tuple[int, int], ...]:
    """The ranges of *messages* that are originals of the log, without summaries and substitutes."""
    return covered([each for each in messages if each.provenance not in DERIVED])
