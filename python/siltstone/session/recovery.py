"""A smaller request, after a provider refused one as too large."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Any, Final, Generic, TypeVar

from siltstone.compaction.base import Compaction, Compactor, Trigger
from siltstone.compaction.rewrite import covered
from siltstone.engine import Compacted, Failed, Lighten, Outcome, rescue
from siltstone.errors import ConfigError, ContextOverflowError
from siltstone.events import MemoryIndexed
from siltstone.hooks import notify
from siltstone.limits import is_context_overflow, request_bytes_of
from siltstone.llm import Steps
from siltstone.memory.convert import NewEntry, datetime_from
from siltstone.memory.entry import Entry
from siltstone.messages import Excerpt, Message, RawMessage, read_message
from siltstone.messages.legality import sendable
from siltstone.messages.message import RULE_ROLES
from siltstone.refusals import refusal_of
from siltstone.session.archiving import write_new
from siltstone.session.boundary import (
    RESCUES,
    Prepared,
    attempted,
    can_hold,
    check_fit,
    check_legal,
    check_view,
    compaction,
    due,
    landed,
    passed,
    prepared,
    within_window,
)
from siltstone.session.committing import entries_of, inject, stale
from siltstone.session.concurrency import retried
from siltstone.session.core import SessionCore
from siltstone.session.learning import learn_patterns
from siltstone.session.state import DERIVED, Request, SessionState, View, common, minus, numbers, union

MOST_RETRIES = 2  #: smaller requests after one refused request; after that the caller gets the error

# The size of the view after the emergency fit, in quarters of the size before: at the first retry, when the
# policy could not help, and at a later retry.
AFTER_POLICY = 3
AT_LAST = 2


def recovery(
    core: SessionCore, policy: Compactor | None, error: Exception, retries: int
) -> Steps[tuple[SessionState, Prepared]]:
    """A smaller request, after a request was refused with *error*.

    Args:
        core: The session.
        policy: Its policy.
        error: The exception of the provider's client.
        retries: How often this request was made smaller before.

    Returns:
        The state of the session, and the answer for that state. The view is never larger than the window.

    Raises:
        Exception: *error* itself: it is no overflow, there is no policy, the retries are used up, or the
            messages that must stay cannot be made smaller.
    """
    core.check_open()
    refusal = refusal_of(error)
    if policy is None or retries >= most_retries(policy) or refusal is None:
        raise error
    outcomes: list[Outcome] = []
    at, core.is_asked = max(core.follow().clock.boundary - 1, 0), True
    if refusal.kind == "bytes":
        outcomes.append((yield from _lighter(core, policy, refusal.limit, retries, at)))
    if any(isinstance(outcome, Compacted) for outcome in outcomes):
        pass
    elif policy.shapes_request:
        outcomes.append((yield from _smaller(core, policy, AT_LAST if retries else AFTER_POLICY, at, error)))
    elif retries == 0 or policy.overflow_retries is not None:
        window, beside = core.room
        tokens = _tokens(core, policy) + beside
        trigger = Trigger("overflow", tokens=tokens, context_window=window, reserved_tokens=beside)
        try:
            outcomes.append((yield from compaction(core, policy, trigger, at)))
        except ContextOverflowError as refused:
            raise error from refused
    if not any(isinstance(outcome, Compacted) for outcome in outcomes):
        quarters = AT_LAST if retries else AFTER_POLICY
        outcomes.append((yield from _smaller(core, policy, quarters, at, error)))
    window, beside = core.room
    while window is not None and _tokens(core, policy) + beside > window:
        outcomes.append((yield from _smaller(core, policy, 4, at, error)))
    state = core.state
    return state, prepared(core, state, outcomes, policy)


def learn(core: SessionCore, policy: Compactor, error: Exception) -> None:
    """Learns from *error* how large a request may be: until the next answer, and for the model.

    The limit that the provider names is kept in its own tokens. It is not kept if it is no smaller than the
    window, if a larger request was accepted by a model that nobody names (then another model has answered),
    or if the messages that must stay are larger. If the provider counted more tokens in the request than we
    did, the next request keeps to a part of the limit. A request that is mostly media teaches nothing.

    Raises:
        Exception: *error* itself, if the messages that must stay are larger than the limit.
    """
    said = refusal_of(error)
    if said is None or said.kind != "tokens" or said.limit is None or core.follow().view.is_mostly_media():
        return
    given, clock, limit = core.given_window, core.clock, said.limit
    sent, answer = sent_tokens(core, policy) + core.reserved_tokens, said.answer or 0
    if answer <= core.reserved_tokens:
        answer = 0  # its room is a part of our own count
    by_our_count = limit - answer
    if said.total:
        by_our_count = max(1, by_our_count * sent // max(1, said.total - answer))
    try:
        check_fit(core, policy, max(limit, by_our_count))
    except ContextOverflowError as refused:
        error.add_note(str(refused))
        raise error from refused
    if clock.agent_model or clock.accepted <= limit:  # else another model has answered
        learned, ours = clock.known(), sent - core.reserved_tokens
        if said.total and ours:
            theirs = max(1, said.total - answer)
            counted = learned.counted(ours, theirs, policy.token_rule.name, core.reserved_tokens)
            learned = counted if counted.fixed < limit else learned  # no message would fit beside that
        if (given is None or limit < given) and can_hold(core, policy, limit):
            learned = learned._replace(tokens=limit, source="the provider's refusal", window=given or 0)
        if clock.known() != learned:
            core.learn_limit(learned)
    if can_hold(core, policy, min(limit, by_our_count)):
        core.refused_window = min(limit, by_our_count)


def sent_tokens(core: SessionCore, policy: Compactor) -> int:
    """The tokens of the last request: the view, or the part of it that a shaped request showed."""
    return core.requests.sent_tokens(core.follow().view.sendable().recounted(policy.token_rule))


def _tokens(core: SessionCore, policy: Compactor) -> int:
    """The tokens of the view as it is sent."""
    return core.state.view.sendable().recounted(policy.token_rule).tokens


def _lighter(
    core: SessionCore, policy: Compactor, limit: int | None, retries: int, at: int
) -> Steps[Outcome]:
    """A compaction to the *limit* in bytes, or to the one of the model's provider, else to half the request.

    At a later retry every body leaves that may.
    """
    sent, known = core.follow().view.bytes, limit or request_bytes_of(core.clock.agent_model)
    most = 0 if retries else known if known is not None and known < sent else sent // 2
    trigger = Trigger("bytes", "emergency", _tokens(core, policy), context_window=core.context_window)
    return (yield from compaction(core, Lighten(most, policy.token_rule), trigger, at, is_emergency=True))


def _smaller(
    core: SessionCore, policy: Compactor, quarters: int, at: int, error: Exception
) -> Steps[Compacted]:
    """The emergency fit's compaction to *quarters* / 4 of the last request, or to the window if smaller."""
    tokens, (window, beside) = _tokens(core, policy), core.room
    aim = max(1, min(tokens, sent_tokens(core, policy)) * quarters // 4)
    if window is not None:
        aim = min(aim, max(1, window - beside))
    added = max(0, tokens - core.state.view.recounted(policy.token_rule).tokens)  # by the repair of the view
    fit = rescue(tokens - added, policy, aim, added)
    if fit is None:
        raise error
    try:
        outcome = yield from compaction(core, *fit, at, is_emergency=True)
    except ContextOverflowError as refused:
        raise error from refused
    if not isinstance(outcome, Compacted):
        raise error
    return outcome


# Sends a request to the agent's own model, and sends a smaller one if the provider finds it too large.

T = TypeVar("T")

CONTINUE_PROMPT: Final = "Continue where you left off. Older context has been compacted."
"""The message that tells the model that its request was too large and is sent again."""


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """The result of a request.

    Attributes:
        value: The call's result; None if every request was too large.
        partial: The assistant's last text, if every request was too large; else empty.
        retries: The number of requests after the first.
        prepared: The answer of ``prepare`` or ``recover`` whose messages were sent last.
    """

    value: T | None
    partial: str
    retries: int
    prepared: Prepared

    @property
    def is_partial(self) -> bool:
        """Whether the provider refused every request as too large."""
        return bool(self.partial)


def check_call(call: object) -> None:
    """Checks the function that sends a request.

    Raises:
        ConfigError: it is none. A text is no question: it is appended as a message.
    """
    if not callable(call):
        raise ConfigError(
            f"ask needs a function that sends messages to your model, got {call!r}; append a question first: "
            'session.append({"role": "user", "content": "..."})',
            "call",
            call,
        )


def most_retries(policy: Compactor | None) -> int:
    """The number of times that a request may be sent again under *policy*."""
    own = None if policy is None else policy.overflow_retries
    return MOST_RETRIES if own is None else own


def again(prepared: Prepared) -> list[Any]:
    """The messages of a request that is sent again: the model is told to go on."""
    return [*prepared.messages, {"role": "user", "content": CONTINUE_PROMPT}]


def ended(
    error: Exception,
    retries: int,
    policy: Compactor | None,
    prepared: Prepared,
    history: Iterable[RawMessage],
) -> Answer[Any]:
    """The answer when no smaller request can be made after *error*: the assistant's last text.

    Raises:
        Exception: *error* itself, if it is no overflow, or if retries are left but nothing can be discarded.
        ContextOverflowError: the assistant has said nothing. Carries ``attempts``.
    """
    if not is_context_overflow(error) or retries < most_retries(policy):
        raise error
    for raw in reversed(list(history)):
        message = read_message(raw, 0)
        if message.role == "assistant" and message.text.strip():
            return Answer(None, message.text, retries, prepared)
    attempts = retries + 1
    raise ContextOverflowError(
        f"the provider found {attempts} requests too large, and the assistant has said nothing: {error}",
        attempts=attempts,
    ) from error


# The turn boundary under a policy that shapes each request, and leaves the history as it is.

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
) -> Steps[tuple[SessionState, Prepared]]:
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
    outcomes = landed(core, policy)
    state = core.follow()
    at = state.clock.boundary
    for _ in range(RESCUES):
        request = _mended((yield from _shaped(core, policy, asked, request_bytes, at)), policy)
        outcomes += request.outcomes
        window, beside = core.room
        if window is None or request.tokens + beside <= window:
            break
        check_view(core, core.follow(), policy)
        outcomes += yield from within_window(core, policy, at)
        asked = None
    return _answer(core, policy, request, outcomes)


def recovered(
    core: SessionCore, policy: Compactor | None, error: Exception, retries: int
) -> Steps[tuple[SessionState, Prepared]]:
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
) -> tuple[SessionState, Prepared]:
    """The answer for *request*. From then on this request is the context of the session."""
    state, messages = request.state, request.messages
    if state.view.sendable() is not state.view:
        core.tell_repair()
    if core.compaction_hooks.check:
        check_legal(messages, core.session_id)
    after = passed(core, policy, request.tokens)
    if after.view is not state.view:  # another thread has appended meanwhile: the next request shows that
        after = replace(after, view=state.view)
    shown = _spans(messages)
    core.requests.last = Request(shown, request.tokens)
    prepared = Prepared(
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
    for _ in range(RESCUES):
        state = core.follow()
        view = state.view.recounted(policy.token_rule)
        trigger = asked or due(core, state, policy, request_bytes)
        made: list[tuple[Compaction, int]] = []
        if trigger is not None:
            keep = partial(_keep, core, state, made)
            outcome = yield from attempted(core, state, policy, trigger, at, commit=keep)
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
