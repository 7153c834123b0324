"""The turn boundary as one flow: ask the policy, compact, commit, and keep within the window."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import takewhile
from time import perf_counter
from typing import TYPE_CHECKING, Any

from siltstone.compaction.base import Compaction, CompactionContext, CompactionError, Compactor, Trigger
from siltstone.compaction.breakdown import alert_of, band_of
from siltstone.compaction.material import Lazy
from siltstone.errors import ContextOverflowError, IllegalHistoryError, StoreConflictError
from siltstone.hooks import NO_COMPACTION_HOOKS, notify
from siltstone.llm import Steps
from siltstone.messages import InjectedMessage, Message, opens_turn, read_message, validate_history
from siltstone.messages.message import RULE_ROLES
from siltstone.messages.results import GET_NAME
from siltstone.session.background import Job
from siltstone.session.core import SessionCore
from siltstone.session.policy_history import written
from siltstone.session.state import RangeSet, SessionState, View, covered

if TYPE_CHECKING:
    from siltstone.engine import Outcome, Plan, Skipped
    from siltstone.events import Event, Hook


# The answer of ``prepare``.


@dataclass(frozen=True, slots=True)
class Prepared:
    """The answer of ``prepare``: the messages to send to the model, and how they came about.

    Attributes:
        messages: The request: the current view with the caller's own objects, the summary if there is one,
            and recalled context. A call without a result has one that says that it was interrupted, and
            results without a call are left out.
        history: The list that a host may store: the view without recalled context and such repairs, and with
            the messages that only this request leaves out.
        tokens: The size of *messages*, by the policy's estimator.
        outcomes: The attempts at this boundary: the policy's compaction if one was due, then the emergency
            compactions if the window was still exceeded.
        recalled: The content of the recalled message; empty if there is none.
        standing: The content of the message with the user's standing wishes; empty if there is none.
        told: Events of this boundary that belong to no attempt: the results of recall.
        trimmed: Ranges of messages that are in the history and not in this request. Only policies that shape
            each request have some (``SmartTrimConfig.trim_scope``).
    """

    messages: list[Any]
    history: list[Any]
    tokens: int
    outcomes: tuple[Outcome, ...] = ()
    recalled: str = ""
    told: tuple[Event, ...] = ()
    trimmed: RangeSet = ()
    standing: str = ""

    def __repr__(self) -> str:
        done = f", {self.outcomes}" if self.outcomes else ""
        return f"<Prepared: {len(self.messages)} messages, {self.tokens:,} tokens{done}>"

    @property
    def compaction(self) -> Outcome | None:
        """The outcome of the last attempt at this boundary; None where no compaction was due."""
        return self.outcomes[-1] if self.outcomes else None

    @property
    def events(self) -> tuple[Event, ...]:
        """The events of this boundary, in order."""
        return (*(event for outcome in self.outcomes for event in outcome.events), *self.told)


def instructed(core: SessionCore, text: str, prepared: Prepared) -> Prepared:
    """*prepared* with *text* at the end of its system prompt; where it has none, before the other messages.

    Without room in the window, or with the text of an earlier request, it stays as it is.
    """
    messages, (window, beside) = list(prepared.messages), core.room
    heads = list(takewhile(lambda raw: raw.get("role") in RULE_ROLES, messages))
    prompt = heads[-1].get("content") if heads else None
    note = InjectedMessage(role="user", content=text)
    tokens = prepared.tokens + core.view.rule.count([read_message(note, 0)])
    is_text = isinstance(prompt, str)
    if not text or (is_text and text in str(prompt)) or (window is not None and tokens + beside > window):
        return prepared
    if is_text:
        note = InjectedMessage({**heads[-1], "content": f"{prompt}\n\n{text}"})
    messages[len(heads) - is_text : len(heads)] = [note]
    return replace(prepared, messages=messages, tokens=tokens)


_log = logging.getLogger("siltstone")


DOCUMENTED = frozenset({"bytes/4", "chars/3", "chars/3-utf16", "bytes_total", "flat_tools"})
RESCUES = 8  #: of one boundary, while other threads go on appending
MOST_CALLS = 2  #: of a model in one compaction that a call of ``prepare`` or ``recover`` waits for


def boundary(
    core: SessionCore,
    policy: Compactor | None,
    asked: Trigger | None = None,
    request_bytes: int | None = None,
) -> Steps[tuple[SessionState, Prepared]]:
    """One boundary, as a flow that asks for each completion that a due compaction needs.

    *asked* is a trigger from the model's tool. It goes before the policy's own trigger. *request_bytes* is
    the size of the whole request, if the host knows it.

    Returns:
        The state of the session, and the answer for that state.

    Raises:
        ContextOverflowError: the messages that must stay are larger than the window. Nothing was changed.
        IllegalHistoryError: a provider would refuse the view, and the session was opened with ``check=True``.
    """
    if core.is_closed:
        core.check_open()
    if policy is None:
        core.follow()
        state = passed(core, None)
        return state, prepared(core, state, [])
    outcomes = landed(core, policy) if core.background.job is not None else []
    state = core.follow()
    at, request = state.clock.boundary, _tokens(state, policy)
    window, beside = _room(core, state, policy)
    fits = window is None or request + beside <= window
    if not fits:
        check_view(core, state, policy)
    trigger = asked or due(core, state, policy, request_bytes, tells=True)
    if trigger is None and state.version.redactions:
        _rewrite_forgotten(core, state, policy)
    if trigger is None and fits and not outcomes and core.state is state:  # as at most boundaries
        after = passed(core, policy, request)
        if after.view is state.view:
            return after, prepared(core, after, outcomes, policy, request)
        return (yield from _fitted(core, policy, at, after, outcomes))
    if trigger is not None and _in_background(core, policy, trigger):
        outcomes += _begun(core, state, policy, trigger)
    elif trigger is not None:
        _tell_triggered(core, policy, trigger)
        outcomes.append((yield from compaction(core, policy, trigger, at)))
        _tell_ended(core, policy, outcomes[-1])
    if outcomes or not fits or _fitting(core, core.state, policy) is None:
        outcomes += yield from within_window(core, policy, at)
    return (yield from _fitted(core, policy, at, passed(core, policy), outcomes))


def _fitted(
    core: SessionCore, policy: Compactor, at: int, state: SessionState, outcomes: list[Outcome]
) -> Steps[tuple[SessionState, Prepared]]:
    """The answer of the boundary *at*, after an emergency fit if another thread has appended too much."""
    answered = _fitting(core, state, policy)
    while answered is None:
        outcomes += yield from within_window(core, policy, at)
        answered = _fitting(core, core.state, policy)
    return answered, prepared(core, answered, outcomes, policy)


def landed(core: SessionCore, policy: Compactor) -> list[Outcome]:
    """Commits the result of the background job, if the job is done. Gives its outcome, or nothing."""
    from siltstone.engine import Compacted, Failed

    job = core.background.take()
    if job is None:
        return []
    if policy.kind not in ("", job.kind):
        job.withdraw(_other_mode(core, job.kind, policy.kind))
    else:
        job.land()
    view = core.follow().view.recounted(policy.token_rule)
    outcome = job.outcome(view.raws(), view.tokens)
    if outcome is None:
        return []
    if isinstance(outcome, Failed) and outcome.reason != "stale":
        core.failed(core.clock.boundary, job.end, outcome.usage, job.threshold)
    elif not isinstance(outcome, Compacted):
        core.charge(outcome.usage)
    _tell_ended(core, policy, outcome)
    return [outcome]


def _in_background(core: SessionCore, policy: Compactor, trigger: Trigger) -> bool:
    """Whether the compaction for *trigger* runs in the background."""
    return core.background.is_on and policy.runs_in_background(trigger)


def _begun(core: SessionCore, state: SessionState, policy: Compactor, trigger: Trigger) -> list[Outcome]:
    """Begins a background job, if there is none. The session's thread or task drives it.

    A job that has ended since this boundary began waits for the next one, which commits it.
    """
    if core.background.job is not None:
        return [in_flight(core, policy)]
    _tell_triggered(core, policy, trigger)
    heard: list[Job] = []

    def hear(event: Event) -> None:
        heard[0].hear(event)

    flow = attempted(core, state, policy, trigger, None, is_emergency=False, hooks=(hear, *core.hooks))
    job = Job(flow, trigger.threshold, state.end, policy.kind)
    heard.append(job)
    core.background.job = job
    return []


def _rewrite_forgotten(core: SessionCore, state: SessionState, policy: Compactor) -> None:
    """Begins a job that has forgotten summaries of the view written again, if there is no job."""
    background, look = core.background, (state.version.head, state.version.redactions)
    if background.is_on and background.job is None and background.looked != look:
        from siltstone.session.learning import rewriting, unwritten

        background.looked = look
        if found := unwritten(core, policy, state)[:MOST_CALLS]:
            flow = rewriting(core, policy, found, MOST_CALLS // len(found))
            background.job = Job(flow, None, state.end, policy.kind)
            background.job.compacts = False


def in_flight(core: SessionCore, policy: Compactor | None) -> Skipped:
    """The outcome of a compaction that does not begin, since another one is under way."""
    from siltstone.engine import Skipped

    view = core.view if policy is None else core.view.recounted(policy.token_rule)
    message = "another compaction is running"
    return Skipped(view.raws(), view.tokens, view.tokens, reason="in_flight", message=message)


def _other_mode(core: SessionCore, one: str, other: str) -> StoreConflictError:
    return StoreConflictError(
        f"session {core.session_id!r} goes on in the mode {other!r}, and this compaction began in {one!r}; "
        "nothing was written",
        session_id=core.session_id,
    )


def _tell_triggered(core: SessionCore, policy: Compactor, trigger: Trigger) -> None:
    """Tells log and hooks which tier is reached, for a policy with tiers."""
    if not policy.kind or not trigger.threshold:
        return
    usage = policy.usage_of(trigger)
    text = "compaction triggered: session %r, usage %.1f%%, action %s"
    fields = {"session_id": core.session_id, "usage": f"{usage:.1%}", "action": trigger.action}
    _log.info(text, core.session_id, usage * 100, trigger.action, extra=fields)
    from siltstone.events import CompactionTriggered

    event = CompactionTriggered(
        usage, trigger.action, core.session_id, policy.name, trigger.tokens, trigger.threshold
    )
    notify(core.hooks, event)


def _tell_ended(core: SessionCore, policy: Compactor, outcome: Outcome) -> None:
    """Logs the outcome, for a policy with tiers."""
    if not policy.kind:
        return
    from siltstone.engine import Compacted, Failed

    said = {"session_id": core.session_id}
    if isinstance(outcome, Compacted):
        turns = sum(opens_turn(read_message(raw, 0)) for raw in outcome.discarded)
        text = "compaction completed: session %r, %d turns compacted"
        _log.info(text, core.session_id, turns, extra={**said, "turns_compacted": turns})
    elif isinstance(outcome, Failed):
        text, reason = "compaction failed: session %r, error %s: %s", outcome.reason
        _log.error(text, core.session_id, reason, outcome.message, extra={**said, "error": reason})


def passed(core: SessionCore, policy: Compactor | None, tokens: int | None = None) -> SessionState:
    """Counts the boundary, and alerts hooks when the request enters a higher band of the window.

    *tokens* is the size of the request's messages by our count, if the request is not the view.
    """
    window, state = core.context_window, core.state
    if window is None:
        return core.pass_boundary()
    tokens = core.reported(_tokens(state, policy) if tokens is None else tokens)
    band = band_of(tokens, window)
    alert = alert_of(tokens, window) if band > state.clock.band else None
    state = core.pass_boundary(band)
    if alert is not None:
        notify(core.hooks, alert)
    return state


def forecast(core: SessionCore, policy: Compactor | None, asked: Trigger | None = None) -> Plan:
    """Tells what :func:`boundary` would do now. Calls no code of the caller, and changes nothing."""
    from siltstone.engine import Plan, planned, rescue

    core.check_open()
    state = core.follow()
    view = state.view if policy is None else state.view.recounted(policy.token_rule)
    name = "" if policy is None else policy.name
    idle = Plan(False, "no_policy", len(view), 0, (), 0, view.tokens, view.tokens, name)
    if policy is None:
        return idle
    trigger = asked or due(core, state, policy)
    if trigger is None and core.context_window is not None:
        window, beside = _room(core, state, policy)
        fit = rescue(view.tokens, policy, window or 0, beside)
        policy, trigger = fit or (policy, None)
    if trigger is None:
        return replace(idle, reason="not_due")
    return planned(policy, view.messages(), _completed(core, state, policy, trigger))


def check_view(core: SessionCore, state: SessionState, policy: Compactor) -> None:
    """Raises ContextOverflowError before any change, if not even the emergency fit could help."""
    tokens, (window, beside) = state.view.recounted(policy.token_rule).tokens, _room(core, state, policy)
    if window is not None and max(tokens, _tokens(state, policy)) + beside > window:
        check_fit(core, policy, window, beside)


def check_fit(
    core: SessionCore, policy: Compactor, window: int, beside: int | None = None, view: View | None = None
) -> None:
    """Checks that what must stay of *view* fits in *window* tokens, with *beside* tokens beside it.

    Raises:
        ContextOverflowError: they do not. Names the sizes.
    """
    from siltstone.engine import check_room

    state, beside = core.follow(), core.reserved_tokens if beside is None else beside
    view = (state.view if view is None else view).recounted(policy.token_rule)
    trigger = _completed(core, state, policy, Trigger("overflow", reserved_tokens=beside))
    check_room(view.history(policy.request_rule), window, policy.token_rule, trigger, policy.request_rule)


def can_hold(core: SessionCore, policy: Compactor, window: int, beside: int | None = None) -> bool:
    """Whether :func:`check_fit` finds room. The session learns no limit without."""
    try:
        check_fit(core, policy, window, beside)
    except ContextOverflowError:
        return False
    return True


def _fitting(core: SessionCore, state: SessionState, policy: Compactor) -> SessionState | None:
    """*state* if its view fits the window, else None."""
    tokens, (window, beside) = _tokens(state, policy), core.room
    given = core.told_window
    fits = window is None or given is None or tokens + beside <= window
    return state if fits or tokens + core.reserved_tokens <= (given or 0) else None


def _tokens(state: SessionState, policy: Compactor | None) -> int:
    """The tokens of the messages of *state* as they are sent."""
    sent = state.view.sendable()
    return (sent if policy is None else sent.recounted(policy.token_rule)).tokens


def _room(core: SessionCore, state: SessionState, policy: Compactor) -> tuple[int | None, int]:
    """The window and what is sent beside the messages, both by our count, as the provider's counts teach.

    What was learned refuses no request: without room for the messages that must stay, it does not count.
    """
    (window, beside), given = core.room, (core.told_window, core.reserved_tokens)
    if window is None or (window, beside) == given or _tokens(state, policy) + beside <= window:
        return window, beside
    return (window, beside) if can_hold(core, policy, window, beside) else given


def compaction(
    core: SessionCore, policy: Compactor, trigger: Trigger, at: int, *, is_emergency: bool = False
) -> Steps[Outcome]:
    """One attempt on the session's view, committed in one transaction.

    If another worker's compaction came first, the attempt reads the session again, and is made once more if
    it is still due. It is not made again if a message was forgotten or rewritten meanwhile, because the model
    has already read that message. The emergency fit asks no hook, because a veto would leave no request.
    """
    from siltstone.engine import Failed, Skipped

    before = core.follow()
    if before.version.redactions and not (is_emergency or trigger.fold):
        from siltstone.session.learning import rewriting, unwritten

        most = MOST_CALLS if trigger.model_calls is None else trigger.model_calls
        if found := unwritten(core, policy, before)[:1]:  # its sentence would tell the model nothing
            yield from rewriting(core, policy, found, min(1, max(0, most - 1)))
            before, trigger = core.follow(), replace(trigger, model_calls=min(1, most))
    outcome = yield from attempted(core, before, policy, trigger, at, is_emergency=is_emergency)
    state = core.follow() if isinstance(outcome, Failed) and outcome.reason == "stale" else None
    if state is not None and state.version.redactions == before.version.redactions:
        core.charge(outcome.usage)
        due = _still_due(core, state, policy, trigger, is_emergency=is_emergency)
        if due is None:
            tokens = state.view.recounted(policy.token_rule).tokens
            message = "another worker compacted the session meanwhile"
            return Skipped(state.view.raws(), tokens, tokens, reason="not_due", message=message)
        outcome = yield from attempted(core, state, policy, due, at, is_emergency=is_emergency)
    if isinstance(outcome, Failed):
        end = state.end if state is not None else before.end
        core.failed(at, end, outcome.usage, trigger.threshold)
    elif isinstance(outcome, Skipped):
        core.charge(outcome.usage)
    return outcome


def _still_due(
    core: SessionCore, state: SessionState, policy: Compactor, trigger: Trigger, *, is_emergency: bool
) -> Trigger | None:
    """The trigger of a second attempt, after another worker has changed the view; None if none is due."""
    if is_emergency:
        window, beside = _room(core, state, policy)
        over = trigger.context_window is not None and window is not None
        return trigger if not over or _tokens(state, policy) + beside > (window or 0) else None
    if trigger.reason in ("manual", "model", "overflow"):
        return trigger
    return due(core, state, policy)


def attempted(
    core: SessionCore,
    state: SessionState,
    policy: Compactor,
    trigger: Trigger,
    at: int | None,
    *,
    is_emergency: bool = False,
    hooks: Sequence[Hook] = (),
    commit: Callable[[Compaction, int, int], int | None] | None = None,
) -> Steps[Outcome]:
    """One attempt on the view of *state*, at the boundary *at*.

    If *at* is None, the attempt stops before its commit, which a later boundary makes. *commit* receives the
    rewrite; without it, the rewrite becomes the view.
    """
    from siltstone.engine import attempt
    from siltstone.session.committing import commit as commit_compaction

    read, began = state.view, perf_counter()

    def rewrite(result: Compaction, before: int, after: int) -> int:
        window, beside = core.told_window, core.reserved_tokens
        if window is not None and (after + beside > window or read.sendable() is not read):
            try:
                check_fit(core, policy, window, beside, read.rewritten(result.messages, len(read), 0))
            except ContextOverflowError as error:
                raise CompactionError(f"with it, {error}", reason="no_reduction") from error
        try:
            return commit_compaction(
                core,
                result,
                read=read,
                at=core.clock.boundary if at is None else at,
                policy=policy,
                trigger=trigger,
                tokens=(before, after),
                seconds=perf_counter() - began,
            )
        except StoreConflictError:
            core.background.keep(result.new_summaries, state.version.redactions)
            raise

    shown = {item.derived_id for item in read if item.derived_id is not None}
    past = partial(core.policy_line.past_summaries, policy.name, state.head, shown)
    trigger = replace(_completed(core, state, policy, trigger), past=Lazy(past))
    return (
        yield from attempt(
            policy,
            read.history(policy.request_rule),
            trigger,
            clean=None if core.redacting is None else core.redacting.compaction,
            commit=commit or rewrite,
            hooks=hooks or core.hooks,
            compaction_hooks=NO_COMPACTION_HOOKS if is_emergency else core.compaction_hooks,
            last_input_tokens=state.clock.last_input_tokens,
            session_id=core.session_id,
            lands=at is None,
        )
    )


def within_window(core: SessionCore, policy: Compactor, at: int) -> Steps[list[Outcome]]:
    """The emergency fit: compacts until the request fits the window, whatever the policy did.

    What the provider's counts prove to be sent beside the messages has its room too, where it can.

    Raises:
        ContextOverflowError: the request is still larger than the window.
    """
    from siltstone.engine import Compacted, Failed, rescue

    outcomes: list[Outcome] = []
    for _ in range(RESCUES):
        state = core.follow()
        window, beside = _room(core, state, policy)
        tokens = _tokens(state, policy)
        if window is None or tokens + beside <= window:
            return outcomes
        fit = rescue(tokens, policy, window, beside)
        if fit is None:
            return outcomes
        outcome = yield from compaction(core, *fit, at, is_emergency=True)
        outcomes.append(outcome)
        was_overtaken = isinstance(outcome, Failed) and outcome.reason == "stale"
        if not isinstance(outcome, Compacted) and not was_overtaken:
            break
    if _fitting(core, core.state, policy) is not None:
        return outcomes
    window, tokens = core.told_window, _tokens(core.state, policy) + core.reserved_tokens
    last = outcomes[-1]
    cause = last.cause if isinstance(last, Failed) else None
    reason = "" if isinstance(last, Compacted) else f"; the emergency fit came to nothing: {last.message}"
    raise ContextOverflowError(
        f"the request has {tokens} tokens, the window {window}{reason}", tokens=tokens, context_window=window
    ) from cause


def _completed(core: SessionCore, state: SessionState, policy: Compactor, trigger: Trigger) -> Trigger:
    """*trigger* with what only the session knows: pins, the policy's state, the log, the time.

    A compaction that somebody waits for makes ``MOST_CALLS`` model calls at most. One that was asked for by
    ``compact`` or ``resummarize``, or that runs in the background, makes as many as it needs.
    """
    calls, trigger = trigger.model_calls, trigger.by_own_rule()
    if trigger.reason != "manual" and not _in_background(core, policy, trigger):
        calls = MOST_CALLS if calls is None else min(calls, MOST_CALLS)

    def originals(ranges: Sequence[tuple[int, int]]) -> list[Message]:
        return covered(core.rows, ranges)

    def said_at(seq: int) -> float | None:
        found = core.rows.read(seq, seq + 1)
        return found[0].created_at / 1000 if found else None

    return replace(
        trigger,
        model_calls=calls,
        pins=frozenset(state.clock.pins),
        policy_state=core.policy_line.state(policy.name, state.head),
        recall_tokens=core.recall_tokens,
        keeps_substitutes=True,
        reader=GET_NAME if core.indexed and core.offers_tools else "",
        originals=originals,
        written=partial(written, core.rows, policy.name, state.head),
        unplaced=core.background.unplaced(state.version.redactions),
        said_at=said_at,
        now=core.milliseconds() / 1000,
    )


def due(
    core: SessionCore,
    state: SessionState,
    policy: Compactor,
    request_bytes: int | None = None,
    *,
    tells: bool = False,
) -> Trigger | None:
    """The trigger of the compaction that *policy* wants; None if it wants none.

    In a window the sizes are the provider's, as far as its counts teach; a documented rule decides by itself,
    up to nine tenths of it. If more than three quarters of the threshold are sent beside the messages, a
    compaction cannot help. Then the policy decides as if nothing was sent beside them, and the window was
    smaller by that. With *tells* the host hears of it.
    """
    context, fixed = _context(core, state, policy, request_bytes, core.counts), core.counts[1]
    window = context.context_window
    if window is None or (policy.token_rule.name in DOCUMENTED and context.tokens * 10 < window * 9):
        context = _context(core, state, policy, request_bytes, (1.0, core.reserved_tokens))
    trigger = policy.should_compact(context)
    if trigger is None or trigger.threshold is None or fixed <= core.reserved_tokens:
        return trigger
    if fixed <= trigger.threshold * 3 // 4:
        return trigger
    if tells:
        core.tell_overhead(policy.name, trigger.threshold)
    window = context.context_window
    return policy.should_compact(
        replace(
            context,
            last_input_tokens=max(0, context.last_input_tokens - fixed),
            forecast_tokens=max(0, context.forecast_tokens - fixed),
            reserved_tokens=0,
            context_window=window - fixed if window is not None and window > fixed else window,
        )
    )


def _context(
    core: SessionCore,
    state: SessionState,
    policy: Compactor,
    request_bytes: int | None,
    counts: tuple[float, int],
) -> CompactionContext:
    """The figures from which *policy* decides whether a compaction is due, with *counts* of the provider."""
    clock, view = state.clock, state.view.recounted(policy.token_rule)
    (factor, beside), end = counts, state.version.next_seq
    tokens = int(view.tokens * factor)
    turn_start, settled = _turn(view) or (end, view.tokens)
    counted = clock.last_input_tokens if core.reserved_tokens else 0
    most_bytes = None
    if clock.agent_model:
        from siltstone.limits import request_bytes_of  # with the table of refusals, which few processes read

        most_bytes = request_bytes_of(clock.agent_model)
    return CompactionContext(
        boundary=clock.boundary,
        last_compaction_boundary=clock.last_compaction,
        last_attempt_boundary=clock.last_attempt,
        last_input_tokens=clock.last_input_tokens,
        estimated_history_tokens=tokens,
        request_bytes=state.view.bytes if request_bytes is None else request_bytes,
        reserved_tokens=beside,
        factor=factor,
        context_window=core.context_window,
        message_count=len(view),
        low_yield_attempts=clock.low_yield_attempts,
        forecast_tokens=counted + int(view.tokens_since(clock.last_input_seq) * factor) if counted else 0,
        next_seq=end,
        fixed_count=state.view.fixed(clock.pins),
        failed_at=clock.failed_at,
        cached_tokens=clock.cached(core.milliseconds()) if clock.cached_tokens else 0,
        failed_threshold=clock.failed_threshold,
        policy_state=None if state.head is None else core.policy_line.state(policy.name, state.head),
        turn_start=turn_start,
        settled_tokens=int(settled * factor),
        max_request_bytes=most_bytes,
        recall_tokens=core.recall_tokens,
    )


def _turn(view: View) -> tuple[int, int] | None:
    """The sequence number at which the turn in flight begins, and the tokens of the view before it.

    None without such a turn. A turn is over when the view ends with an assistant message without a tool call.
    """
    newest, last = view.newest_request(), view.last()
    is_over = last is not None and last.role == "assistant" and not _calls(last)
    return None if newest is None or is_over else (newest[0].seq, newest[1])


def _calls(message: Message) -> bool:
    return any(part.kind == "tool_call" for part in message.parts)


def prepared(
    core: SessionCore,
    state: SessionState,
    outcomes: list[Outcome],
    policy: Compactor | None = None,
    tokens: int | None = None,
) -> Prepared:
    """The view of *state* as its provider takes it: the answer of a boundary with *outcomes*.

    *tokens* is the size of the request by the rule of *policy*, if the caller knows it.
    """
    sent = state.view.sendable()
    if sent is not state.view:
        core.tell_repair()
    if tokens is None:
        tokens = (sent if policy is None else sent.recounted(policy.token_rule)).tokens
    if core.compaction_hooks.check:
        check_legal(sent.messages(), core.session_id)
    history = state.view.raws()
    return Prepared(history if sent is state.view else sent.raws(), history, tokens, tuple(outcomes))


def check_legal(history: Sequence[Message], session_id: str) -> None:
    """Checks *history* against the provider's rules.

    Raises:
        IllegalHistoryError: the provider would refuse *history*.
    """
    found = validate_history(history, pending_ok=False)
    if found:
        raise IllegalHistoryError(
            f"the provider would refuse the request of session {session_id!r}, in {len(found)} places: "
            f"message {found[0].position}: {found[0].sentence} ({found[0].rule}); session.forget takes a "
            "message out, and siltstone.messages.conversion.convert writes all in one dialect",
            findings=tuple(found),
        )
