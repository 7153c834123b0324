"""Runs a policy over a history: one attempt, its events and its outcome.

``compact`` and ``acompact`` act now, on any list of messages, without a session. A session runs the
same :func:`attempt` with a ``commit`` step, so that nothing leaves its context before it is durable.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from siltstone import checks, errors, llm
from siltstone.compaction.base import Compaction, CompactionError, Compactor, Skip, Trigger, check_policy
from siltstone.compaction.emergency import Emergency, Lighten as Lighten, check_room as check_room
from siltstone.compaction.prompts import estimated_usage
from siltstone.compaction.rewrite import Offload
from siltstone.compaction.validate import check_legal, dry_run, guided, injected, validate
from siltstone.events import (
    CompactionCompleted,
    CompactionFailed,
    CompactionStarted,
    Event,
    ExtractionFailed,
    Hook,
    UserMessagesSummarised,
)
from siltstone.hooks import (
    HOOK_TIMEOUT,
    NO_COMPACTION_HOOKS,
    UNWATCHED,
    CompactionHooks,
    Guidance,
    HookCall,
    HookError,
    Watched,
    checked_hooks,
    notify,
    watch_compaction,
)
from siltstone.messages import Excerpt, History, Message, RawMessage
from siltstone.models import ExtractiveModel
from siltstone.tokens import TokenRule

# The outcome of a compaction: compacted, skipped or failed, always with the numbers.


@dataclass(frozen=True, slots=True)
class _Outcome(ABC):
    """The fields of every outcome.

    Attributes:
        messages: The rewritten history, or the one given, unchanged; the caller's own objects. Their type
            is open, so that the client of any SDK takes them.
        tokens_before: Tokens of the given history, by the policy's estimator.
        tokens_after: Tokens of ``messages``; equal to ``tokens_before`` if nothing changed.
        events: The events of the attempt, in order.
        usage: Every model call that was made, also by a failed attempt.
    """

    messages: list[Any]
    tokens_before: int
    tokens_after: int
    events: tuple[Event, ...] = ()
    usage: tuple[llm.UsageRecord, ...] = ()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self._in_short()}>"

    @abstractmethod
    def _in_short(self) -> str:
        """The outcome in a few words."""


@dataclass(frozen=True, slots=True, repr=False)
class Compacted(_Outcome):
    """The history was rewritten.

    Attributes:
        summary: The summary's text, without its frame.
        retained: The messages that stay, in order.
        discarded: The messages that the summary replaces, in order, including an earlier summary.
        covers: Half-open ranges of their positions (in a session: sequence numbers).
        level: 1 for a summary of messages alone, else one more than the highest summary it replaced.
        degraded: Whether the summary was made without a model of the caller.
        suspect: Whether the summary is very short for the messages that it replaces.
        compaction_id: In a session, the id of the committed compaction.
        injected: The messages that ``on_after_compact`` added to the end of ``messages``.
        summaries: The new summary messages in ``messages``, in order; most policies write one.
        state: The policy's own state, which it receives at its next run; None if it has none.
        substituted: The messages of ``retained`` that were too large, in order. ``messages`` has a shorter
            one in place of each.
    """

    summary: str = ""
    retained: tuple[Any, ...] = ()
    discarded: tuple[Any, ...] = ()
    covers: tuple[tuple[int, int], ...] = ()
    level: int = 1
    degraded: bool = False
    suspect: bool = False
    compaction_id: int | None = None
    injected: tuple[RawMessage, ...] = ()
    summaries: tuple[RawMessage, ...] = ()
    state: Mapping[str, Any] | None = None
    substituted: tuple[RawMessage, ...] = ()

    def _in_short(self) -> str:
        tokens = f"{self.tokens_before:,} to {self.tokens_after:,} tokens"
        return f"{tokens}, {len(self.discarded)} messages discarded, level {self.level}"


@dataclass(frozen=True, slots=True, repr=False)
class Skipped(_Outcome):
    """Nothing was due, or nothing could be discarded.

    Attributes:
        reason: ``nothing_to_discard``, ``vetoed``, ``in_flight``, ``no_policy`` …
        message: The compared numbers, in one sentence.
    """

    reason: str = ""
    message: str = ""

    def _in_short(self) -> str:
        return f"{self.reason}: {self.message}" if self.message else self.reason


@dataclass(frozen=True, slots=True, repr=False)
class Failed(_Outcome):
    """The attempt failed; the history is unchanged.

    Attributes:
        reason: As in ``CompactionFailed``.
        message: A description in one sentence.
        cause: The exception behind it, if there was one.
        error_class: As in ``CompactionFailed``.
        attempted_entries: As in ``CompactionFailed``.
    """

    reason: str = ""
    message: str = ""
    cause: BaseException | None = None
    error_class: str = ""
    attempted_entries: int = 0

    def _in_short(self) -> str:
        return f"{self.reason}: {self.message}" if self.message else self.reason


Outcome: TypeAlias = Compacted | Skipped | Failed


@dataclass(frozen=True, slots=True)
class Plan:
    """A dry run of a compaction, which calls no model and no curator, and changes nothing.

    Attributes:
        compacts: Whether messages would be discarded.
        reason: Why none would be discarded, else empty; for a session also ``not_due`` and ``no_policy``.
        retained: The number of messages that would stay.
        discarded: The number of messages that would leave.
        covers: Half-open ranges of the positions that the summary would replace.
        requests: The minimum number of model calls.
        tokens_before: Tokens of the history, by the policy's estimator.
        tokens_after: Tokens of the history after, if the summary fills its whole budget.
        policy: The policy's name.
        cause: Why it is due, as in ``Trigger.reason``.
    """

    compacts: bool
    reason: str
    retained: int
    discarded: int
    covers: tuple[tuple[int, int], ...]
    requests: int
    tokens_before: int
    tokens_after: int
    policy: str = ""
    cause: str = ""


BeforeCompact: TypeAlias = Callable[[Plan], "Guidance | None"]
"""A hook before a compaction. Returns None to go on, or a veto, more instructions, pins."""

AfterCompact: TypeAlias = Callable[[Compacted], "Sequence[RawMessage] | None"]
"""A hook before the commit of a compaction. Returns user messages for the end of the history, or None."""

AsyncBeforeCompact: TypeAlias = Callable[[Plan], "Awaitable[Guidance | None] | Guidance | None"]
AsyncAfterCompact: TypeAlias = Callable[
    [Compacted], "Awaitable[Sequence[RawMessage] | None] | Sequence[RawMessage] | None"
]


def compact(
    messages: Sequence[RawMessage],
    policy: Compactor,
    *,
    model: llm.Models | None = None,
    context_window: int | None = None,
    focus: str | None = None,
    hooks: Sequence[Hook] = (),
    on_before_compact: BeforeCompact | None = None,
    on_after_compact: AfterCompact | None = None,
    hook_timeout: float | None = HOOK_TIMEOUT,
    check: bool = False,
) -> Outcome:
    """Compacts *messages* now, without asking whether it is due.

    Args:
        messages: A history in any dialect. It is not changed.
        policy: Decides which messages to discard, and how.
        model: Writes the summary: ``CompletionRequest -> Completion | str``, or a list of them, each asked if
            those before it failed. Not needed for a policy that asks no model.
        context_window: The model's window in tokens, if known.
        focus: A subject that the summary should keep in particular.
        hooks: Called with each event as it happens.
        on_before_compact: Receives the plan. Its :class:`Guidance` may veto it, pin messages or add
            instructions.
        on_after_compact: Receives the outcome before it counts. May add user messages to the end.
        hook_timeout: Seconds that each of these two hooks may take, in a thread of its own. None: no limit,
            in your thread.
        check: Whether the outcome is ``Failed`` if a provider would refuse the rewritten history.

    Returns:
        ``Compacted``, ``Skipped(reason)`` or ``Failed(reason)``. A failing model or hook is a ``Failed``.

    Raises:
        InvalidMessageError: one of *messages* is not a message.
        ConfigError: *policy* could never act under *context_window*.
        ContextOverflowError: the messages that must stay are larger than *context_window*.
    """
    compaction_hooks = CompactionHooks(on_before_compact, on_after_compact, hook_timeout, check)
    history, trigger = _manual(messages, policy, context_window, focus)
    told = checked_hooks(hooks)
    return llm.run(attempt(policy, history, trigger, hooks=told, compaction_hooks=compaction_hooks), model)


async def acompact(
    messages: Sequence[RawMessage],
    policy: Compactor,
    *,
    model: llm.AsyncModels | None = None,
    context_window: int | None = None,
    focus: str | None = None,
    hooks: Sequence[Hook] = (),
    on_before_compact: AsyncBeforeCompact | None = None,
    on_after_compact: AsyncAfterCompact | None = None,
    hook_timeout: float | None = HOOK_TIMEOUT,
    check: bool = False,
) -> Outcome:
    """Like :func:`compact`; *model* and the two hooks may be async callables."""
    compaction_hooks = CompactionHooks(on_before_compact, on_after_compact, hook_timeout, check)
    history, trigger = _manual(messages, policy, context_window, focus)
    return await llm.run_async(
        attempt(policy, history, trigger, hooks=checked_hooks(hooks), compaction_hooks=compaction_hooks),
        model,
    )


def plan(messages: Sequence[RawMessage], policy: Compactor, *, context_window: int | None = None) -> Plan:
    """Tells what :func:`compact` would do: ranges, counts and tokens. Calls no model, and changes nothing.

    A curator is not called either, and does not count as a request. Each summary is assumed to fill its
    budget, or the largest half, quarter, ... of it with which the history shrinks. So ``tokens_after`` is an
    upper bound.
    """
    return planned(policy, *_manual(messages, policy, context_window, None))


def planned(policy: Compactor, history: Sequence[Message], trigger: Trigger) -> Plan:
    """A dry run of an :func:`attempt`: the plan of the compaction. It calls no function of the caller."""
    before = policy.token_rule.count(history)
    requests, result = dry_run(policy, history, trigger)
    if not isinstance(result, Compaction):
        figures = (len(history), 0, (), requests, before, before)
        return Plan(False, result.reason, *figures, policy.name, trigger.reason)
    after = policy.token_rule.count(result.messages)
    parts = len(result.retained), len(result.discarded), result.covers
    return Plan(True, "", *parts, requests, before, after, policy.name, trigger.reason)


def rescue(
    tokens: int, policy: Compactor, context_window: int, reserved_tokens: int = 0
) -> tuple[Compactor, Trigger] | None:
    """The emergency fit under every policy: its policy and trigger if *tokens* exceed the window, else None.

    Args:
        tokens: The size of the history, by the policy's rule.
        policy: The session's policy, which gives the rule.
        context_window: The window in tokens.
        reserved_tokens: Tokens that are sent beside the history, and are part of the window.
    """
    if tokens + reserved_tokens <= context_window:
        return None
    rule, task = policy.request_rule, policy.keeps_task
    fit = Emergency(estimator=policy.token_rule, request_rule=rule, task=task)
    return fit, Trigger(
        "overflow",
        "emergency",
        tokens + reserved_tokens,
        context_window,
        context_window=context_window,
        reserved_tokens=reserved_tokens,
    )


def check_offload(tokens: int) -> None:
    """Checks that a result cut to *tokens* has room for more than the note about the cut.

    Raises:
        ConfigError: it is too small.
    """
    checks.at_least("tokens", tokens, checks.LEAST_RESULT)


def offloading(seq: int, tokens: int, token_rule: TokenRule) -> tuple[Compactor, Trigger]:
    """The policy that cuts the results of message *seq* to *tokens*, and its trigger."""
    return Offload(seq, tokens, token_rule), Trigger("manual", "offload", model_calls=0)


def attempt(
    policy: Compactor,
    history: Sequence[Message],
    trigger: Trigger,
    *,
    clean: Callable[[Compaction], Compaction] | None = None,
    commit: Callable[[Compaction, int, int], int | None] | None = None,
    hooks: Sequence[Hook] = (),
    compaction_hooks: CompactionHooks = NO_COMPACTION_HOOKS,
    last_input_tokens: int = 0,
    session_id: str = "",
    lands: bool = False,
    clock: Callable[[], float] = time.perf_counter,
) -> llm.Steps[Outcome]:
    """One attempt as a flow: runs the policy, validates its rewrite, commits it, and tells hooks the outcome.

    Every ``CompactionStarted`` is followed by exactly one terminal event, on every way out: a
    cancelled caller closes the flow, and that too is told.

    Args:
        policy: Decides which messages to discard, and how.
        history: The view to rewrite.
        trigger: The reason and its figures.
        clean: Removes secrets from a rewrite, from summaries of any author.
        commit: Makes the rewrite durable before it counts: ``(compaction, tokens before, tokens
            after) -> compaction id``. If it raises, the attempt fails.
        hooks: Called with each event.
        compaction_hooks: The hooks before and after, and whether an illegal rewrite is refused.
        last_input_tokens: For the event alone.
        session_id: For events that name the session.
        lands: Whether to yield a :class:`~siltstone.llm.Landing` before the commit, and wait for a boundary.
        clock: Seconds, monotonic.
    """
    run = _Attempt(policy, history, trigger, hooks, last_input_tokens, session_id, clock)
    try:
        run.measure()
        if compaction_hooks.before and (due := planned(policy, history, trigger)).compacts:
            said = yield HookCall("on_before_compact", compaction_hooks.before, due, compaction_hooks.timeout)
            trigger, veto = guided(trigger, said, history)
            if veto:
                return run.skipped(Skip("vetoed", veto))
        result = yield from llm.relayed(policy.flow(history, trigger), run.ask)
        if isinstance(result, Skip):
            return run.skipped(result)
        run.start()
        validate(history, result, _content(result), trigger, policy.request_rule)
        result = replace(result, usage=tuple(run.usage))
        if clean is not None:
            result = clean(result)
        after = policy.token_rule.count(result.messages)
        if compaction_hooks.after:
            told = run.compacted(result, after, None)
            said = yield HookCall("on_after_compact", compaction_hooks.after, told, compaction_hooks.timeout)
            result = injected(result, said, history, policy.token_rule)
            after = policy.token_rule.count(result.messages)
        if compaction_hooks.check:
            check_legal(result, is_sent=commit is None)
        if lands:
            yield llm.Landing()
        with run.watched.during():
            compaction_id = commit(result, run.before, after) if commit else None
    except CompactionError as error:
        return run.failed(error.reason, error)
    except errors.ModelError as error:
        return run.failed("llm_failed", error)
    except HookError as error:
        return run.failed("hook_failed", error)
    except errors.StoreConflictError as error:
        return run.failed("stale", error)
    except errors.StoreError as error:
        return run.failed("memory_indexing_failed", error)
    except errors.ContextOverflowError as error:
        run.failed("context_overflow", error)
        raise
    except errors.ConfigError as error:  # the policy's settings cannot work here: the caller must change them
        run.failed("internal", error)
        raise
    except Exception as error:  # a defect in the caller's own policy must not end the run
        return run.failed("internal", error)
    except BaseException as error:
        run.failed("cancelled", error)
        raise
    return run.completed(result, after, compaction_id)


def answered(token_rule: TokenRule, request: llm.CompletionRequest) -> llm.Flow[llm.Completion]:
    """The answer of the caller's models, or of the extractive model as the last resort."""
    if request.rank != llm.LAST_RESORT:
        return (yield request)
    # Late: its regular expressions cost more than all of this room.

    return llm.call(ExtractiveModel(token_rule), replace(request, rank=0))


@dataclass(slots=True)
class _Attempt:
    """The bookkeeping of one attempt: events, usage, time."""

    policy: Compactor
    history: Sequence[Message]
    trigger: Trigger
    hooks: Sequence[Hook]
    last_input_tokens: int
    session_id: str
    clock: Callable[[], float]
    before: int = 0
    events: list[Event] = field(default_factory=list)
    usage: list[llm.UsageRecord] = field(default_factory=list)
    watched: Watched = UNWATCHED
    started_at: float = field(init=False)

    def __post_init__(self) -> None:
        self.started_at = self.clock()

    def measure(self) -> None:
        """Counts the history first, since the caller's own token rule may raise."""
        rule = self.policy.token_rule
        try:
            self.before = rule.count(self.history)
        except errors.SiltstoneError:
            raise
        except Exception as error:
            name = type(error).__name__
            raise CompactionError(
                f"the token rule {rule.name!r} raised {name}: {error}",
                reason="estimation_failed",
                error_class=name,
            ) from error

    def ask(self, request: llm.CompletionRequest) -> llm.Flow[llm.Completion]:
        """Passes a request of the policy on, and keeps the usage of the answer."""
        self.start()
        try:
            completion = yield from self._answer(request)
        except errors.ModelError as error:
            if request.purpose == "extraction":
                self._emit(ExtractionFailed(self.session_id, str(error), 1, 1))
            raise
        if request.curator is None and request.purpose != "selection":
            rule = self.policy.token_rule
            self.usage.append(completion.usage or estimated_usage(rule, request, completion))
        return completion

    def _answer(self, request: llm.CompletionRequest) -> llm.Flow[llm.Completion]:
        """The answer of the caller's models, or of the extractive model as the last resort."""
        is_watched = self.watched is not UNWATCHED
        asked = replace(request, part_of=self.watched) if is_watched else request
        return (yield from answered(self.policy.token_rule, asked))

    def start(self) -> None:
        """Tells that the compaction began, once."""
        if not self.events:
            seconds = self.clock() - self.started_at
            self.watched = watch_compaction(self.session_id, self.policy.name, self.trigger.reason, seconds)
            before, length, policy = self.before, len(self.history), self.policy
            cause, kind = self.trigger.reason, policy.kind
            self._emit(CompactionStarted(self.last_input_tokens, before, length, policy.name, cause, kind))

    def skipped(self, skip: Skip) -> Outcome:
        if self.events:  # it asked a model first, so the start event needs an end event
            self._emit(self._failure(skip.reason, skip.message))
        return Skipped(*self._unchanged(), skip.reason, skip.message)

    def failed(self, reason: str, error: BaseException) -> Outcome:
        self.start()
        message = str(error) or type(error).__name__
        raised, attempted = _raised(error), getattr(error, "attempted_entries", 0)
        self._emit(self._failure(reason, message, raised, attempted))
        return Failed(*self._unchanged(), reason, message, error, raised, attempted)

    def _unchanged(self) -> tuple[list[RawMessage], int, int, tuple[Event, ...], tuple[llm.UsageRecord, ...]]:
        """The history, its tokens before and after, and what has happened."""
        return _raws(self.history), self.before, self.before, tuple(self.events), tuple(self.usage)

    def completed(self, compaction: Compaction, after: int, compaction_id: int | None) -> Outcome:
        if compaction.requests_left:
            self._emit(UserMessagesSummarised(compaction.requests_left, self.policy.name))
        self._emit(
            CompactionCompleted(
                summary_tokens=sum(record.output_tokens for record in self.usage),
                messages_before=len(self.history),
                messages_after=len(compaction.messages),
                tokens_before=self.before,
                tokens_after=after,
                discarded=compaction.covers,
                duration=self.clock() - self.started_at,
                usage=tuple(self.usage),
                policy=self.policy.name,
                cause=self.trigger.reason,
                degraded=compaction.degraded,
                suspect=compaction.suspect,
            )
        )
        return self.compacted(compaction, after, compaction_id)

    def compacted(self, compaction: Compaction, after: int, compaction_id: int | None) -> Compacted:
        """The outcome, before or after the commit."""
        return Compacted(
            messages=_raws(compaction.messages),
            tokens_before=self.before,
            tokens_after=after,
            events=tuple(self.events),
            usage=tuple(self.usage),
            summary=compaction.summary,
            retained=tuple(_raws(compaction.retained)),
            discarded=tuple(_raws(compaction.discarded)),
            covers=compaction.covers,
            level=compaction.level,
            degraded=compaction.degraded,
            suspect=compaction.suspect,
            compaction_id=compaction_id,
            injected=tuple(message.raw for message in compaction.injected),
            summaries=tuple(message.raw for message in compaction.new_summaries),
            state=compaction.state,
            substituted=tuple(each.original.raw for each in compaction.substitutes),
        )

    def _emit(self, event: Event) -> None:
        self.events.append(event)
        if isinstance(event, CompactionCompleted | CompactionFailed):
            self.watched.ended(event)
        notify(self.hooks, event)

    def _failure(self, reason: str, message: str, raised: str = "", attempted: int = 0) -> CompactionFailed:
        duration, usage = self.clock() - self.started_at, tuple(self.usage)
        policy, cause = self.policy.name, self.trigger.reason
        return CompactionFailed(reason, message, duration, usage, policy, cause, raised, attempted)


def _raised(error: BaseException) -> str:
    """The class name of the exception of the caller's model, hook or curator, or of the error itself.

    Empty if nothing was raised, but a rewrite refused.
    """
    known = getattr(error, "error_class", None)
    if isinstance(known, str):
        return known
    if error.__cause__ is not None and isinstance(error, CompactionError | errors.ModelError | HookError):
        return type(error.__cause__).__name__
    return "" if isinstance(error, CompactionError) else type(error).__name__


def _raws(messages: Sequence[Message]) -> list[RawMessage]:
    """The caller's own objects of *messages*."""
    if isinstance(messages, History | Excerpt):
        return list(messages.raws)
    return [message.raw for message in messages]


def _content(compaction: Compaction) -> str:
    """The text of a rewrite's new summary, the last of several; empty for a rewrite without one."""
    made = compaction.new_summaries
    return made[-1].text if made else ""


def _manual(
    messages: Sequence[RawMessage], policy: Compactor, context_window: int | None, focus: str | None
) -> tuple[History, Trigger]:
    if context_window is not None and context_window <= 0:
        errors.refuse("context_window", "> 0", context_window)
    check_policy(policy)
    policy.check_overhead(0, context_window)
    trigger = Trigger("manual", focus=focus, context_window=context_window, keeps_substitutes=True)
    return History(messages), trigger
