"""A chain of policies: cheap steps first, and the next step only if the history is still too large."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Any

from siltstone import checks
from siltstone.checks import share_of
from siltstone.compaction.base import (
    Compaction,
    CompactionContext,
    CompactionError,
    Compactor,
    Skip,
    Trigger,
    check_policy,
)
from siltstone.compaction.results import ACTION as COMPRESS, CompressToolOutput
from siltstone.compaction.rewrite import composed, end_of
from siltstone.llm import LAST_RESORT, Completion, CompletionRequest, Flow, UsageRecord, relayed
from siltstone.messages import Message, as_history
from siltstone.tokens import TokenRule, message_bytes, request_bytes

_OF_STEPS = frozenset({"bytes", "count"})  # figures whose bounds the steps know, and the trigger does not
_OF_PROVIDER = frozenset({"input_tokens", "forecast"})  # the provider's count, larger than our estimate


@dataclass(frozen=True, slots=True)
class _StepsDue(Trigger):
    """The trigger of a chain.

    Attributes:
        steps: The triggers of the steps that are due, by the names of the steps.
    """

    steps: tuple[tuple[str, Trigger], ...] = ()


class Chain(Compactor):
    """Runs policies in order, and stops as soon as the history is small enough.

    The chain is due if one of its steps is due. Steps before the one that is due run first. A step runs
    only while it, or a step after it, is still due: a cheap step that is due early makes no model write a
    summary early. A step that fails or has nothing to do is passed over. The changes of all steps together
    are one rewrite, which is committed at once.

    A compaction that the caller asks for runs the steps until one of them has changed the history.

    Args:
        steps: The policies, cheapest first; the first one's token rule counts.
        target: Share of the window at which no further step runs, above 0. With it, all steps run until the
            history is that small, whichever of them is due. None: each step decides for itself. Where a step
            is due by a size in bytes that the host alone knows, the steps up to it run.

    Raises:
        ConfigError: there are no steps, two steps have the same name, a step trims only single requests, or
            the target is out of its bounds.
    """

    name = "chain"

    def __init__(self, *steps: Compactor, target: float | None = None) -> None:
        if len(steps) == 1 and isinstance(steps[0], (list, tuple)):
            steps = tuple(steps[0])
        if not steps:
            checks.refuse("steps", "one policy at least", steps)
        for step in steps:
            check_policy(step)
        names = [step.name for step in steps]
        if len(set(names)) < len(names):
            checks.refuse("steps", "policies of different names", names)
        for step in steps:
            if step.shapes_request:
                checks.refuse("steps", "policies that rewrite the history: trim_scope='history'", step)
        if target is not None:
            checks.share("target", target, above_zero=True)
        self.steps, self.target = steps, target

    def __repr__(self) -> str:
        return f"Chain({', '.join(map(repr, self.steps))}, target={self.target!r})"

    @property
    def token_rule(self) -> TokenRule:
        """The rule of the first step."""
        return self.steps[0].token_rule

    def check_overhead(self, reserved_tokens: int, context_window: int | None) -> None:
        """Runs the checks of all steps.

        Raises:
            ConfigError: a step refuses its settings.
        """
        for step in self.steps:
            step.check_overhead(reserved_tokens, context_window)

    def should_compact(self, context: CompactionContext) -> Trigger | None:
        """The trigger of the first step that is due; a step that only compresses new results comes last."""
        kept = _states(context.policy_state)
        due: list[tuple[str, Trigger]] = []
        for step in self.steps:
            trigger = step.should_compact(replace(context, policy_state=kept.get(step.name)))
            if trigger is not None:
                due.append((step.name, trigger))
        if not due:
            return None
        first = next((trigger for _, trigger in due if trigger.action != COMPRESS), due[0][1])
        figures = {each.name: getattr(first, each.name) for each in fields(Trigger)}
        return _StepsDue(**{**figures, "policy_state": context.policy_state}, steps=tuple(due))

    def flow(self, history: Sequence[Message], trigger: Trigger) -> Flow[Compaction | Skip]:
        """Runs the steps in order, each on the result of the step before.

        Raises:
            CompactionError: no step changed the history, and a step failed; the error of the last such step.
        """
        kept = _states(trigger.policy_state)
        view: Sequence[Message] = history
        done: list[Compaction] = []
        spent: tuple[UsageRecord, ...] = ()
        failure: CompactionError | None = None
        skip = Skip("nothing_to_discard", "no step had anything to do")
        due = self._due(trigger)
        made: list[CompletionRequest] = []  # the steps share the calls of the trigger
        last = max((at for at, step in enumerate(self.steps) if step.name in due), default=len(self.steps))
        for at, step in enumerate(self.steps):
            if at > last:
                break
            if trigger.action == COMPRESS and not isinstance(step, CompressToolOutput):
                continue  # only the compression is due
            asked = _asked(trigger, due.get(step.name), kept.get(step.name), len(made))
            try:
                result = yield from _noted(step.flow(view, asked), made)
            except CompactionError as error:
                failure = error
                continue
            if isinstance(result, Skip):
                skip = result
                continue
            if not _in_order(history, result):
                spent += result.usage
                skip = Skip("no_valid_cut", f"the summaries of {step.name} and of earlier steps overlap")
                continue
            done.append(result)
            view = tuple(result.messages)
            if result.state is not None:
                kept[step.name] = result.state
            further = (
                [due[later.name] for later in self.steps[at + 1 :] if later.name in due] if due else [trigger]
            )
            if all(self._is_met(history, view, each, kept) for each in further):
                break
        if done:
            together = composed(history, done, kept or None)
            return replace(together, usage=(*together.usage, *spent))
        if failure is not None:
            raise failure
        return skip

    def _due(self, trigger: Trigger) -> dict[str, Trigger]:
        """The triggers of the steps that are due, with the facts of *trigger*; none if all steps may run."""
        if self.target is not None or not isinstance(trigger, _StepsDue) or trigger.action == COMPRESS:
            return {}
        facts: dict[str, Any] = {
            "pins": trigger.pins,
            "policy_state": trigger.policy_state,
            "context_window": trigger.context_window,
            "reserved_tokens": trigger.reserved_tokens,
        }
        return {
            name: replace(each.by_own_rule(), **facts)
            for name, each in trigger.steps
            if each.action != COMPRESS
        }

    def _is_met(
        self, history: Sequence[Message], view: Sequence[Message], trigger: Trigger, kept: Mapping[str, Any]
    ) -> bool:
        """Whether *view*, which steps made of *history*, is small enough; *kept* are their states."""
        tokens = self.token_rule.count(view) + trigger.reserved_tokens
        if self.target is not None and trigger.context_window is not None:
            return tokens <= share_of(trigger.context_window, self.target)
        if trigger.reason in _OF_STEPS and trigger.action == "compact":
            was_due = self._is_due(history, trigger, _states(trigger.policy_state))
            return was_due and not self._is_due(view, trigger, kept)
        if trigger.threshold is None:
            return True
        if trigger.reason in _OF_PROVIDER:
            tokens = trigger.tokens - (self.token_rule.count(history) - self.token_rule.count(view))
        return tokens < trigger.threshold

    def _is_due(self, view: Sequence[Message], trigger: Trigger, kept: Mapping[str, Any]) -> bool:
        """Whether the number of messages in *view*, or their bytes, make a step due: it knows its bounds."""
        read = as_history(view)
        pinned = set(read.positions_of(trigger.pins))
        size = sum(map(message_bytes, view)) if trigger.reason == "bytes" else 0
        context = CompactionContext(
            boundary=1,
            request_bytes=request_bytes(size),
            context_window=trigger.context_window,
            message_count=len(view),
            next_seq=end_of(read),
            fixed_count=len(pinned.union(read.rules, read.summaries)),
        )
        due = (step.should_compact(replace(context, policy_state=kept.get(step.name))) for step in self.steps)
        return any(each is not None and each.reason == trigger.reason for each in due)


def _asked(trigger: Trigger, own: Trigger | None, state: Any, made: int) -> Trigger:
    """*trigger* for one step.

    Args:
        trigger: The trigger of the chain.
        own: The step's trigger; None if it is not due.
        state: The step's state.
        made: The model calls of the steps before.
    """
    limits = [trigger.model_calls] if own is None else [trigger.model_calls, own.model_calls]
    calls = min((each for each in limits if each is not None), default=None)
    left = None if calls is None else max(0, calls - made)
    asked = replace(trigger, threshold=None, policy_state=state, model_calls=left)
    if isinstance(asked, _StepsDue):
        asked = replace(asked, steps=own.steps if isinstance(own, _StepsDue) else ())
    return asked


def _noted(flow: Flow[Compaction | Skip], made: list[CompletionRequest]) -> Flow[Compaction | Skip]:
    """*flow*; its requests to a model of the caller are added to *made*."""

    def answer(request: CompletionRequest) -> Flow[Completion]:
        if request.curator is None and request.rank != LAST_RESORT:
            made.append(request)
        return (yield request)

    return relayed(flow, answer)


def _in_order(history: Sequence[Message], result: Compaction) -> bool:
    """Whether the ranges of all new summaries ascend: a later step may have cut behind an earlier step."""
    known = {id(message) for message in history}
    made = [m for m in result.messages if m.provenance == "compaction_summary" and id(m) not in known]
    spans = [span for message in made for span in message.covers]
    return all(one[1] <= other[0] for one, other in pairwise(spans))


def _states(state: Mapping[str, Any] | None) -> dict[str, Any]:
    return dict(state) if isinstance(state, Mapping) else {}
