"""The window policy: a few messages in view, a summary of the others, and a search over all that left."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from siltstone.compaction.base import (
    Compaction,
    CompactionContext,
    CompactionError,
    Range,
    Skip,
    Trigger,
    check_shrunk,
)
from siltstone.compaction.calls import LEAST_SUMMARY, Calls, SummarizerOverflow
from siltstone.compaction.clip import clip
from siltstone.compaction.fallback import smart_fallback_summary
from siltstone.compaction.keeping import kept_apart, originals, summaries_of
from siltstone.compaction.prompts import unframed
from siltstone.compaction.rewrite import joined, rewrite
from siltstone.compaction.select import Selection, must_stay
from siltstone.compaction.summarise import Brief, summarise
from siltstone.compaction.window_config import WINDOW_PREFIX, WindowConfig
from siltstone.errors import ModelError
from siltstone.llm import Flow
from siltstone.messages import History, Message, as_history
from siltstone.tokens import TokenRule, rule

__all__ = ["Tiers", "WindowCompactor", "tiers"]

LEAST_LEFT = 2  # messages: with no more than this a call of `compact` does nothing

PROMPT = (
    "Summarise the conversation above in 3 to 5 sentences. Keep the decisions that were made, the facts and "
    "figures that were found, what the tools returned, and what is to be achieved. Write plain sentences, "
    "without an introduction."
)


class WindowCompactor:
    """Keeps the newest messages in view, and one summary of the others, which stay searchable.

    A run is due at any boundary if there are more messages than ``working_limit``, or if they fill 0.7 of the
    window. System messages, pinned messages with their groups, groups with a pending call and the request in
    flight always stay. If the model fails, ``smart_fallback_summary`` writes the summary, and the compaction
    is ``degraded``.

    Args:
        config: The settings: limits, shares and budgets.
        prompt: The instruction that ends a request for a summary.
    """

    def __init__(self, config: WindowConfig | None = None, *, prompt: str = PROMPT) -> None:
        self.config = config or WindowConfig()
        self.prompt = prompt
        self._token_rule = rule(self.config.estimator)

    def __repr__(self) -> str:
        return f"WindowCompactor({self.config!r})"

    @property
    def name(self) -> str:
        """``window``."""
        return "window"

    @property
    def token_rule(self) -> TokenRule:
        """The rule that the configuration names."""
        return self._token_rule

    def should_compact(self, context: CompactionContext) -> Trigger | None:
        """The trigger, by tokens or by the number of messages; at any boundary."""
        config = self.config
        if not config.auto_summarize:
            return None
        tokens = context.estimated_history_tokens + context.reserved_tokens
        if context.context_window is not None:
            threshold = config.threshold(context.context_window)
            if tokens >= threshold:
                return self._trigger("history_tokens", tokens, threshold, context)
        if config.due_at(context.message_count - context.fixed_count):
            return self._trigger("count", tokens, None, context)
        return None

    def flow(self, history: Sequence[Message], trigger: Trigger) -> Flow[Compaction | Skip]:
        """Summarises the oldest messages, and appends the summary to the text of the earlier one.

        Raises:
            CompactionError: ``no_reduction``, if a run due by tokens would not make the view smaller.
        """
        read = as_history(history)
        loose = [at for at in originals(read) if read[at].seq not in trigger.pins]
        if trigger.reason == "manual" and len(loose) <= LEAST_LEFT:
            return Skip("too_few", f"{len(loose)} messages are in view, more than {LEAST_LEFT} are needed")
        selection = self._select(history, read, loose, trigger)
        if not selection.is_worthwhile:
            return Skip("nothing_to_discard", f"{len(loose)} messages are within the limits")
        config = self.config
        calls = Calls(config.attempts, config.call_timeout, False, config.retry_delay, trigger.model_calls)
        earlier = "\n\n".join(unframed(each.text, WINDOW_PREFIX).strip() for each in summaries_of(read))
        summary, degraded = yield from self._summary(selection, earlier, calls, trigger)
        compaction = rewrite(
            history, selection, summary, WINDOW_PREFIX, usage=tuple(calls.usage), degraded=degraded
        )
        if trigger.reason == "history_tokens":
            check_shrunk(self._token_rule, history, compaction)
        return compaction

    def _trigger(
        self, reason: str, tokens: int, threshold: int | None, context: CompactionContext
    ) -> Trigger:
        return Trigger(
            "count" if reason == "count" else "history_tokens",
            tokens=tokens,
            threshold=threshold,
            context_window=context.context_window,
            reserved_tokens=context.reserved_tokens,
        )

    def _select(
        self, history: Sequence[Message], read: History, loose: list[int], trigger: Trigger
    ) -> Selection:
        """A selection that retains the newest messages: as many as the limit leaves, or fewer large ones."""
        fixed = must_stay(read, trigger.pins)
        left = self.config.left if trigger.reason == "count" else self.config.working_limit
        count = min(len(loose), left)
        if trigger.reason == "history_tokens" and trigger.context_window is not None:
            count = self._fitting(read, loose, count, fixed, trigger)
        newest = loose[len(loose) - count :]
        return kept_apart(history, read, {*fixed, *newest})

    def _fitting(self, read: History, loose: list[int], count: int, fixed: set[int], trigger: Trigger) -> int:
        """The number of the newest messages, at most *count*, that fit the target; at least 1."""
        window = trigger.context_window or 0
        target = self.config.target(window) - trigger.reserved_tokens
        sums = read.sums(self._token_rule)
        units = sum(sums[at + 1] - sums[at] for at in fixed)
        room = target - min(self.config.summary_budget_tokens, max(0, target) // 4)
        taken = 0
        for at in reversed(loose[len(loose) - count :]):
            units += 0 if at in fixed else sums[at + 1] - sums[at]
            if taken and self._token_rule.tokens(units) > room:
                break
            taken += 1
        return max(1, taken)

    def _summary(
        self, selection: Selection, earlier: str, calls: Calls, trigger: Trigger
    ) -> Flow[tuple[str, bool]]:
        """The text of the new summary, and whether the fallback wrote its newest part."""
        config = self.config
        budget = self._budget(trigger)
        half = self._token_rule.count(selection.discarded) // 2
        cap = min(config.summary_max_tokens, budget, max(LEAST_SUMMARY, half))
        appends = not earlier or self._token_rule.count_text(earlier) + cap <= budget
        new = [message for message in selection.told if message.provenance != "compaction_summary"]
        told = new if appends else selection.told
        brief = Brief(
            prompt=self.prompt,
            focus=trigger.focus,
            cap=cap if appends else max(cap, budget * 2 // 3),
            window=config.summarizer_window or trigger.context_window,
            summary_prefix=WINDOW_PREFIX,
            token_rule=self._token_rule,
            more=trigger.instructions,
        )
        degraded = False
        try:
            text = yield from _warmed(summarise(told, brief, calls), config.summary_temperature)
        except (CompactionError, SummarizerOverflow):
            text, degraded, appends = smart_fallback_summary(new, config.fallback_bytes), True, True
        text = text or "The messages held no text."
        if appends and earlier:
            room = budget - self._token_rule.count_text(text) - 1
            text = f"{clip(earlier, max(0, room), self._token_rule)}\n\n{text}".lstrip()
        return clip(text, budget, self._token_rule), degraded

    def _budget(self, trigger: Trigger) -> int:
        """The maximum tokens of the summary in view: the budget, but at most an eighth of the window."""
        budget = self.config.summary_budget_tokens
        return budget if trigger.context_window is None else max(1, min(budget, trigger.context_window // 8))


@dataclass(frozen=True, slots=True)
class Tiers:
    """The tier of each message of a session, as half-open ranges of sequence numbers.

    Attributes:
        working: The messages in view.
        short_term: The newest messages outside the view.
        long_term: All older messages outside the view.
    """

    working: tuple[Range, ...]
    short_term: tuple[Range, ...]
    long_term: tuple[Range, ...]

    def of(self, seq: int) -> Literal["working", "short_term", "long_term"] | None:
        """The tier of message *seq*; None if there is no such message."""
        if _within(self.working, seq):
            return "working"
        if _within(self.short_term, seq):
            return "short_term"
        return "long_term" if _within(self.long_term, seq) else None


def tiers(view: Iterable[Message], next_seq: int, short_term_limit: int = 100) -> Tiers:
    """The tiers of a session.

    Args:
        view: The messages in view.
        next_seq: The number of messages ever appended.
        short_term_limit: The maximum number of short-term messages.
    """
    shown = {message.seq for message in view if message.provenance != "compaction_summary"}
    left = [seq for seq in range(next_seq) if seq not in shown]
    border = max(0, len(left) - short_term_limit)
    return Tiers(_ranges(sorted(shown)), _ranges(left[border:]), _ranges(left[:border]))


def _ranges(numbers: Sequence[int]) -> tuple[Range, ...]:
    return joined((number, number + 1) for number in numbers)


def _within(ranges: Sequence[Range], seq: int) -> bool:
    return any(start <= seq < end for start, end in ranges)


def _warmed(flow: Flow[str], temperature: float | None) -> Flow[str]:
    """*flow* with *temperature* in each of its requests."""
    try:
        request = next(flow)
        while True:
            try:
                completion = yield replace(request, temperature=temperature)
            except ModelError as error:
                request = flow.throw(error)
            else:
                request = flow.send(completion)
    except StopIteration as stop:
        text: str = stop.value
        return text
    finally:
        flow.close()
