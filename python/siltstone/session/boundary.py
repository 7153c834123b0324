"""The turn boundary as one flow: ask the policy, compact, commit, and keep within the window."""

from __future__ import annotations

from dataclasses import dataclass, replace

from siltstone.compaction.base import Compaction, CompactionContext, Compactor, Trigger
from siltstone.engine import attempt, check_room, planned, rescue
from siltstone.errors import ContextOverflowError, IllegalHistoryError
from siltstone.events import Event
from siltstone.hooks import NO_GUARDS
from siltstone.llm import Steps
from siltstone.messages import Message, RawMessage, validate_history
from siltstone.outcome import Compacted, Failed, Outcome, Plan, Skipped
from siltstone.session.core import Core

__all__ = ["Prepared", "again", "boundary", "compaction", "forecast", "prepared"]


@dataclass(frozen=True, slots=True)
class Prepared:
    """What to send to the model.

    Attributes:
        messages: The current view: the caller's own objects, and the summary where there is one.
        history: The same, in a list of its own: what a host may store.
        tokens: The view, by the policy's estimator.
        outcomes: What was attempted at this boundary: the policy's compaction where one was due, and
            the emergency net's where the window was still exceeded.
    """

    messages: list[RawMessage]
    history: list[RawMessage]
    tokens: int
    outcomes: tuple[Outcome, ...] = ()

    @property
    def compaction(self) -> Outcome | None:
        """What the last attempt at this boundary came to; None where none was due."""
        return self.outcomes[-1] if self.outcomes else None

    @property
    def events(self) -> tuple[Event, ...]:
        """The events of this boundary, in order."""
        return tuple(event for outcome in self.outcomes for event in outcome.events)


def boundary(core: Core, policy: Compactor | None, asked: Trigger | None = None) -> Steps[Prepared]:
    """One boundary: the flow asks for each completion that a due compaction wants.

    *asked* is a trigger that somebody else pulled, and goes before the policy's own.

    Raises:
        ContextOverflowError: what must be kept is larger than the window. Nothing was changed.
        IllegalHistoryError: the view may not be sent, and the session was opened with ``check=True``.
    """
    core.check_open()
    core.refresh()
    if policy is None:
        core.pass_boundary()
        return prepared(core, [])
    outcomes: list[Outcome] = []
    at = core.cadence.boundary
    _check_room(core, policy)
    trigger = asked or policy.should_compact(_context(core, policy))
    if trigger is not None:
        outcomes.append((yield from compaction(core, policy, trigger, at)))
    if core.context_window is not None:
        outcomes += yield from _within(core, policy, core.context_window, at)
    core.pass_boundary()
    return prepared(core, outcomes, policy)


def forecast(core: Core, policy: Compactor | None, asked: Trigger | None = None) -> Plan:
    """What :func:`boundary` would do now. Nothing of the caller's is called, nothing is changed."""
    core.check_open()
    core.refresh()
    with core.lock:
        view = core.view if policy is None else core.view.recounted(policy.token_rule)
        pins = frozenset(core.cadence.pins)
    name = "" if policy is None else policy.name
    idle = Plan(False, "no_policy", len(view), 0, (), 0, view.tokens, view.tokens, name)
    if policy is None:
        return idle
    trigger = asked or policy.should_compact(_context(core, policy))
    if trigger is None and core.context_window is not None:
        net = rescue(view.tokens, policy, core.context_window, core.reserved_tokens)
        policy, trigger = net or (policy, None)
    if trigger is None:
        return replace(idle, reason="not_due")
    return planned(policy, view.messages(), replace(trigger, pins=pins))


def _check_room(core: Core, policy: Compactor) -> None:
    """Raises before anything is changed, where not even the emergency net could help."""
    with core.lock:
        view, window, fixed = (
            core.view.recounted(policy.token_rule),
            core.context_window,
            core.reserved_tokens,
        )
        pins = frozenset(core.cadence.pins)
    if window is not None and view.tokens + fixed > window:
        trigger = Trigger("overflow", reserved_tokens=fixed, pins=pins)
        check_room(view.messages(), window, policy.token_rule, trigger)


def compaction(
    core: Core, policy: Compactor, trigger: Trigger, at: int, *, is_net: bool = False
) -> Steps[Outcome]:
    """One attempt on the session's view, committed in one transaction; never two at a time.

    No hook is asked by the emergency net: without it there is no request.
    """
    if not core.begin():
        view = core.view.recounted(policy.token_rule)
        tokens = view.tokens
        return Skipped(
            view.raws(), tokens, tokens, reason="in_flight", message="another compaction is running"
        )
    try:
        with core.lock:
            core.refresh()
            read, length = core.view, len(core.view)
            trigger = replace(trigger, pins=frozenset(core.cadence.pins))
            history = read.messages()
            last_input_tokens = core.cadence.last_input_tokens

        def commit(result: Compaction, before: int, after: int) -> int:
            return core.commit(
                result,
                read=read,
                length=length,
                at=at,
                policy=policy,
                trigger=trigger,
                tokens=(before, after),
            )

        outcome = yield from attempt(
            policy,
            history,
            trigger,
            commit=commit,
            hooks=core.hooks,
            guards=NO_GUARDS if is_net else core.guards,
            last_input_tokens=last_input_tokens,
        )
    finally:
        core.end()
    core.charge(outcome.usage)
    if isinstance(outcome, Failed):
        core.failed(at)
    return outcome


def _within(core: Core, policy: Compactor, context_window: int, at: int) -> Steps[list[Outcome]]:
    """The emergency net: whatever the policy did, no more than the window goes out."""
    fixed = core.reserved_tokens
    net = rescue(core.view.recounted(policy.token_rule).tokens, policy, context_window, fixed)
    if net is None:
        return []
    outcome = yield from compaction(core, *net, at, is_net=True)
    tokens = core.view.recounted(policy.token_rule).tokens
    if tokens + fixed > context_window:
        cause = outcome.cause if isinstance(outcome, Failed) else None
        reason = (
            ""
            if isinstance(outcome, Compacted)
            else f"; the emergency net came to nothing: {outcome.message}"
        )
        raise ContextOverflowError(
            f"the request has {tokens + fixed} tokens, the window {context_window}{reason}",
            tokens=tokens + fixed,
            context_window=context_window,
        ) from cause
    return [outcome]


def _context(core: Core, policy: Compactor) -> CompactionContext:
    with core.lock:
        cadence, view = core.cadence, core.view.recounted(policy.token_rule)
        counted = cadence.last_input_tokens if core.reserved_tokens else 0
        return CompactionContext(
            boundary=cadence.boundary,
            last_compaction_boundary=cadence.last_compaction,
            last_attempt_boundary=cadence.last_attempt,
            last_input_tokens=cadence.last_input_tokens,
            estimated_history_tokens=view.tokens,
            request_bytes=core.view.bytes,
            reserved_tokens=core.reserved_tokens,
            context_window=core.context_window,
            message_count=len(view),
            low_yield_attempts=cadence.low_yield_attempts,
            forecast_tokens=counted + view.tokens_since(cadence.last_input_seq) if counted else 0,
        )


def prepared(core: Core, outcomes: list[Outcome], policy: Compactor | None = None) -> Prepared:
    """The current view, as the answer of a boundary at which *outcomes* came about."""
    with core.lock:
        view = core.view if policy is None else core.view.recounted(policy.token_rule)
        if core.guards.check:
            _check_legal(view.messages(), core.session_id)
        return Prepared(view.raws(), view.raws(), view.tokens, tuple(outcomes))


def _check_legal(history: list[Message], session_id: str) -> None:
    found = validate_history(history, pending_ok=False)
    if found:
        raise IllegalHistoryError(
            f"the provider would refuse the history of session {session_id!r}, in {len(found)} places: "
            f"message {found[0].position}: {found[0].sentence} ({found[0].rule}); "
            "siltstone.messages.repair heals a history that came so",
            findings=tuple(found),
        )


def again(answer: Prepared) -> Prepared:
    """The same answer for a boundary that was asked for twice, in lists of its own."""
    return replace(answer, messages=answer.messages.copy(), history=answer.history.copy())
