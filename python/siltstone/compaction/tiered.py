"""Tiered compaction: old turns are summarised in the background, and leave at once where that is too late."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from inspect import iscoroutinefunction
from typing import Any, Final

from siltstone.compaction import checks
from siltstone.compaction.base import Compaction, CompactionContext, CompactionError, Skip, Trigger
from siltstone.compaction.breaker import breaker_pauses
from siltstone.compaction.calls import Calls, SummarizerOverflow
from siltstone.compaction.keeping import held, kept_apart, layered, superseded
from siltstone.compaction.prompts import framed
from siltstone.compaction.rewrite import covered, joined, summary_message
from siltstone.compaction.select import Selection
from siltstone.compaction.summarise import Brief, summarise
from siltstone.compaction.tiered_config import FALLBACK_WINDOW, TieredConfig
from siltstone.compaction.tiered_cut import cut_positions
from siltstone.compaction.tiered_prompts import FORK_MARKER, META_NOTE, OVERFLOW_MARKER, SUMMARY_PROMPT
from siltstone.compaction.tiered_stack import Layer, Stack
from siltstone.errors import ConfigError, ModelError
from siltstone.llm import CompletionRequest, Flow
from siltstone.messages import History, Message, RawMessage, as_history, groups, summary_level
from siltstone.tokens import TokenRule, rule

__all__ = ["Extract", "TieredCompactor"]

Extract = Callable[[Sequence[RawMessage]], Any]
"""Told the messages that a compaction summarises, to take from them what shall be remembered."""

EMERGENCY: Final = "emergency"
FORK: Final = "fork"
IN_BACKGROUND: Final = ("background", "aggressive")
LEAST_OF_OVERFLOW: Final = 4  # messages: of fewer an overflow takes nothing
SUSPECT: Final = (1_000, 16)  # tokens: of so many a summary of less than so few is suspect

_log = logging.getLogger("siltstone")


class TieredCompactor:
    """Watches the share of the window that is in use, and acts in three tiers.

    From 0.80 of the window the oldest 30 % of the messages are summarised, from 0.85 half of them. A session
    does that in the background: the conversation goes on, and the summary is put in their place at a later
    boundary. From 0.95 the oldest half leaves at once and a marker stands in its place; no model is asked.

    Summaries stack in order before the live messages. When the stack has outgrown its budget, its oldest
    become one summary of the next level. A cut never parts a call from its result and never swallows the
    stack.

    Args:
        config: Thresholds, fractions and budgets. ``TieredConfig.documented()`` has the documented form.
        prompt: The instruction that ends a request for a summary.
        extract: Called with the messages that were summarised, once for each compaction. Where it raises,
            the compaction goes on and ``ExtractionFailed`` is told.
        tools: Definitions of tools that whoever summarises may call. A session carries out calls of
            ``memory_save`` with the commit, and no others.
    """

    def __init__(
        self,
        config: TieredConfig | None = None,
        *,
        prompt: str = SUMMARY_PROMPT,
        extract: Extract | None = None,
        tools: Sequence[Any] = (),
    ) -> None:
        self.config = config or TieredConfig()
        checks.text("prompt", prompt)
        if extract is not None and not callable(extract):
            checks.refuse("extract", "a callable that takes messages, or None", extract)
        self.prompt, self.extract, self.tools = prompt, extract, tuple(tools)
        self._token_rule = rule(self.config.estimator)
        self._told_of_window = False

    def __repr__(self) -> str:
        return f"TieredCompactor({self.config!r})"

    @property
    def name(self) -> str:
        """``tiered``."""
        return "tiered"

    @property
    def kind(self) -> str:
        """``rolling``: what ``CompactionStarted`` says of the run."""
        return "rolling"

    @property
    def token_rule(self) -> TokenRule:
        """The rule that the configuration names."""
        return self._token_rule

    @property
    def overflow_retries(self) -> int:
        """How often a session may send a request again that the provider found too large."""
        return self.config.overflow_retries

    def window(self, named: int | None) -> int:
        """The window that counts, where a caller names *named*; a guess is logged, once."""
        window = self.config.window(named)
        if named is None and self.config.context_window is None and not self._told_of_window:
            self._told_of_window = True
            _log.warning("no context window was named; tiered compaction takes %d tokens", FALLBACK_WINDOW)
        return window

    def check_overhead(self, reserved_tokens: int, context_window: int | None) -> None:
        """Refuses reserved tokens that reach a tier by themselves.

        Raises:
            ConfigError: they are at or above the first threshold, so every boundary would compact.
        """
        window = self.config.window(context_window)
        threshold = self.config.threshold("background", window)
        if reserved_tokens >= threshold:
            raise ConfigError(
                f"reserved_tokens must be < {threshold}, the background threshold of a window of {window}, "
                f"got {reserved_tokens}",
                field="background_threshold",
                value=self.config.background_threshold,
            )

    def should_compact(self, context: CompactionContext) -> Trigger | None:
        """The trigger of the highest tier that is reached; at any boundary.

        What is in use is the estimate of the history and of what is sent beside it, or what the provider's
        count forecasts, where that is more. After a job that failed the same tier waits
        ``retry_after_turns`` boundaries, a higher one does not; after three attempts of low yield the breaker
        is open. Nothing holds an emergency back.
        """
        window = self.window(context.context_window)
        tokens = max(context.estimated_history_tokens + context.reserved_tokens, context.forecast_tokens)
        tier = self.config.tier(tokens, window)
        if tier is None:
            return None
        threshold = self.config.threshold(tier, window)
        if tier != EMERGENCY and (self._waits(context, threshold) or breaker_pauses(context)):
            return None
        return Trigger(
            "fraction",
            tier,
            tokens,
            threshold,
            context_window=context.context_window,
            reserved_tokens=context.reserved_tokens,
            policy_state=context.policy_state,
        )

    def fork_trigger(self, tokens: int, prompt_tokens: int, context_window: int | None) -> Trigger | None:
        """What a fork gives up before its first call; None where it fits.

        By ``"usage"`` half of it is summarised, once, above ``fork_usage_threshold`` of the window, not at
        it. By ``"budget"`` the oldest leave until the history fits beside the prompt and the reserve.
        """
        window, config = self.window(context_window), self.config
        if config.fork_preflight == "usage":
            most = int(Fraction(str(config.fork_usage_threshold)) * window)
            if tokens + prompt_tokens <= most:
                return None
            return Trigger("manual", FORK, tokens, most, context_window=context_window)
        budget = max(0, window - int(Fraction(str(config.fork_reserve)) * window) - prompt_tokens)
        if tokens <= budget:
            return None
        return Trigger("overflow", FORK, tokens, budget, context_window=context_window)

    def runs_in_background(self, trigger: Trigger) -> bool:
        """Whether the conversation may go on while this is done: the first two tiers."""
        return trigger.action in IN_BACKGROUND

    def usage_of(self, trigger: Trigger) -> float:
        """What share of the window was in use when *trigger* was pulled; 1 is all of it."""
        return trigger.tokens / self.config.window(trigger.context_window)

    def flow(self, history: Sequence[Message], trigger: Trigger) -> Flow[Compaction | Skip]:
        """Summarises the oldest messages behind the stack, or takes them out where no model may be asked.

        Called for by somebody, half of them are summarised; after an overflow three quarters leave.

        Raises:
            CompactionError: ``llm_failed``, ``empty_summary``, ``refused_summary``, ``summarizer_overflow``
                or ``no_reduction``.
        """
        run = _Run(self, history, trigger)
        if trigger.fold:
            return (yield from run.folded_alone())
        if trigger.action == FORK and trigger.reason == "overflow":
            return run.forked(trigger.threshold or 0)
        if trigger.action == EMERGENCY:
            fraction, floor = self.config.emergency_fraction, self.config.retain_floor
            return run.truncated(fraction, floor, max(2, floor), self.config.emergency_marker)
        if trigger.reason == "overflow":
            return run.truncated(self.config.overflow_fraction, 2, LEAST_OF_OVERFLOW, OVERFLOW_MARKER)
        return (yield from run.summarised())

    def resummarize(
        self, messages: Sequence[Message], context_window: int | None
    ) -> Flow[tuple[str, tuple[Any, ...]]]:
        """The content of a summary message for *messages*, with its first line, and the calls it cost.

        Raises:
            CompactionError: no model gave one.
        """
        run = _Run(self, messages, Trigger("manual", context_window=context_window))
        calls = run.calls()
        text = yield from run.written(messages, calls)
        stack = run.stack
        heading = run.heading((stack.number + 1,) * 2, (1, max(1, len(run.read.outline.requests))))
        return framed(heading, text), tuple(calls.usage)

    def _waits(self, context: CompactionContext, threshold: int) -> bool:
        """Whether a job failed too short a time ago, and no higher *threshold* is reached since."""
        if context.failed_at is None or context.last_attempt_boundary is None:
            return False
        if context.boundary - context.last_attempt_boundary >= self.config.retry_after_turns:
            return False
        return not 0 < context.failed_threshold < threshold


@dataclass(frozen=True, slots=True)
class _Cut:
    """What a run takes out: the positions up to *end*, and how the live messages are numbered then."""

    end: int
    turns: tuple[int, int]
    turns_begun: int


class _Run:
    """One run over one history."""

    def __init__(self, policy: TieredCompactor, history: Sequence[Message], trigger: Trigger) -> None:
        self.policy, self.history, self.trigger = policy, history, trigger
        self.config, self.rule = policy.config, policy.token_rule
        self.read: History = as_history(history)
        self.window = policy.window(trigger.context_window)
        self.stack = Stack.of(self.read, trigger, self.config.summary_heading)
        self.held = held(self.read, trigger)

    def calls(self) -> Calls:
        """The model calls of this run."""
        config = self.config
        return Calls(
            config.attempts, config.call_timeout, False, config.retry_delay, self.trigger.model_calls
        )

    def heading(self, numbers: tuple[int, int], turns: tuple[int, int]) -> str:
        """The first line of a summary."""
        number = f"{numbers[0]}-{numbers[1]}" if numbers[0] != numbers[1] else str(numbers[0])
        return self.config.summary_heading.format(n=number, first=turns[0], last=turns[1])

    def written(
        self, told: Sequence[Message], calls: Calls, note: str = "", *, offers_tools: bool = False
    ) -> Flow[str]:
        """A summary of *told*."""
        brief = Brief(
            prompt=self.policy.prompt,
            focus=self.trigger.focus,
            cap=self.config.summary_cap(self.window),
            window=self.config.summarizer_window or self.trigger.context_window,
            summary_prefix="",
            token_rule=self.rule,
            offered=self.policy.tools if offers_tools else (),
            more="\n\n".join(filter(None, (note, self.trigger.instructions))),
        )
        try:
            return (yield from summarise(told, brief, calls))
        except SummarizerOverflow as error:
            raise CompactionError(
                f"the summariser finds even small requests too large: {error}",
                reason="summarizer_overflow",
                usage=tuple(calls.usage),
            ) from error.__cause__

    def summarised(self) -> Flow[Compaction | Skip]:
        """The oldest messages behind the stack give way to a summary after it."""
        config = self.config
        gentle = self.trigger.action == "background"
        fraction = config.background_fraction if gentle else config.aggressive_fraction
        cut = self._cut(fraction, config.retain_floor)
        if cut is None:
            return self._no_cut()
        selection = self._selection(cut.end)
        if not selection.is_worthwhile:
            return self._no_cut()
        calls = self.calls()
        told = selection.told
        text = yield from self.written(told, calls, offers_tools=True)
        yield from self._extracted(told)
        number = self.stack.number + 1
        covers = covered(selection.discarded)
        layer = Layer(covers[0][0], (number, number), cut.turns)
        made = summary_message(framed(self.heading(layer.numbers, layer.turns), text), covers)
        stack = replace(self.stack, layers=(*self.stack.layers, layer), number=number, turns=cut.turns_begun)
        compaction = layered(
            self.history,
            selection,
            [made],
            text,
            state=stack.state(end=self._first_live(cut.end)),
            usage=tuple(calls.usage),
            degraded=calls.degraded,
        )
        self._check_shrunk(compaction)
        suspect = self.rule.count(told) >= SUSPECT[0] and self.rule.count_text(text) < SUSPECT[1]
        folded = yield from self._folded(cut, made, text, stack, calls)
        return replace(
            folded or compaction,
            suspect=suspect,
            usage=tuple(calls.usage),
            tool_calls=tuple(calls.tool_calls),
        )

    def truncated(self, fraction: float, floor: int, least: int, marker: str) -> Compaction | Skip:
        """The oldest messages behind the stack leave, and a marker tells how many. No model is asked."""
        live = len(self.history) - self.stack.start
        if live <= least:
            return Skip("too_few", f"{live} messages are live, more than {least} are needed")
        cut = self._cut(fraction, floor, or_earlier=True)
        return self._no_cut() if cut is None else self._marked(cut, marker)

    def forked(self, budget: int) -> Compaction | Skip:
        """The oldest messages leave until the others fit *budget*; the floor of a fork goes before it."""
        config, start = self.config, self.stack.start
        live = self.read[start:]
        kept = self.rule.count(self.history)
        marker = self.rule.count([summary_message(FORK_MARKER.format(n=len(live)), ((0, 1),))])
        gone = 0
        while kept + (marker if gone else 0) > budget and len(live) - gone > config.fork_floor:
            rest = live[gone:]
            count = cut_positions(len(rest), groups(rest), config.fork_fraction, config.fork_floor)
            if count == 0:
                break
            kept -= self.rule.count(rest[:count])
            gone += count
        if gone == 0:
            return Skip("too_few", f"{len(live)} messages are live, and a fork keeps {config.fork_floor}")
        if kept + marker > budget:
            _log.warning("a fork begins with %d tokens, %d more than fit", kept, kept + marker - budget)
        return self._marked(self._cut_at(start + gone), FORK_MARKER)

    def _marked(self, cut: _Cut, marker: str) -> Compaction | Skip:
        """What stands before *cut* leaves, and *marker* tells how many messages that were."""
        selection = self._selection(cut.end)
        if not selection.is_worthwhile:
            return self._no_cut()
        count = sum(message.provenance != "compaction_summary" for message in selection.discarded)
        covers = covered(selection.discarded)
        text = marker.format(n=count)
        made = summary_message(text, covers)
        if self.rule.count(selection.discarded) <= self.rule.count([made]):
            return Skip("nothing_to_discard", f"{count} messages are smaller than the line that would say so")
        stack = replace(
            self.stack,
            layers=(*self.stack.layers, Layer(covers[0][0], turns=cut.turns)),
            turns=cut.turns_begun,
        )
        return layered(
            self.history,
            selection,
            [made],
            text,
            state=stack.state(end=self._first_live(cut.end)),
            degraded=True,
        )

    def folded_alone(self) -> Flow[Compaction | Skip]:
        """All summaries give way to one of the first level, written anew; nothing else leaves."""
        if not self.stack.positions:
            return Skip("nothing_to_discard", f"there is no summary among {len(self.history)} messages")
        calls = self.calls()
        selection = kept_apart(
            self.history, self.read, set(range(len(self.history))) - set(self._folding(self.stack.positions))
        )
        text = yield from self.written(self._sources(selection.discarded), calls, META_NOTE)
        covers = covered(selection.discarded)
        layer = self._joined(self.stack.layers, covers[0][0])
        made = summary_message(framed(self.heading(layer.numbers, layer.turns), text), covers)
        stack = replace(self.stack, layers=(layer,))
        end = self._first_live(self.stack.start)
        usage = tuple(calls.usage)
        return layered(self.history, selection, [made], text, state=stack.state(end=end), usage=usage)

    def _cut(self, fraction: float, floor: int, *, or_earlier: bool = False) -> _Cut | None:
        """Where the live messages are cut; None where no place is right."""
        start = self.stack.start
        live = self.read[start:]
        count = cut_positions(len(live), groups(live), fraction, floor, or_earlier=or_earlier)
        return None if count == 0 else self._cut_at(start + count)

    def _cut_at(self, end: int) -> _Cut:
        start = self.stack.start
        begun = sum(1 for at in self.read.outline.requests if start <= at < end)
        last = self.stack.turns + begun
        first = self.stack.turns + 1 if begun else max(1, self.stack.turns)
        return _Cut(end, (first, max(first, last)), last)

    def _selection(self, end: int, folded: Sequence[int] = ()) -> Selection:
        """Live messages before *end* leave, and the summaries at *folded*, with what stands among them."""
        gone = {*range(self.stack.start, end), *self._folding(folded), *superseded(self.read, self.trigger)}
        kept = self.held | (set(range(len(self.history))) - gone)
        return kept_apart(self.history, self.read, kept)

    def _folding(self, summaries: Sequence[int]) -> list[int]:
        """*summaries*, and messages before the last of them that nothing holds any more, in whole groups."""
        if not summaries:
            return []
        fixed = {*self.read.rules, *self.read.summaries, *self.held}
        loose = {at for at in range(summaries[-1]) if at not in fixed}
        others = [at for at in range(len(self.read)) if at not in loose]
        for start, end in self.read.outline.closed(others):
            loose.difference_update(range(start, end))
        return sorted({*summaries, *loose})

    def _extracted(self, told: Sequence[Message]) -> Flow[None]:
        """Hands *told* to the caller's extraction. Its failure is told by whoever drives this."""
        extract = self.policy.extract
        if extract is None:
            return
        raws = [message.raw for message in told]

        def curator(_: CompletionRequest) -> str:
            extract(raws)
            return ""

        async def awaiting(_: CompletionRequest) -> str:
            await extract(raws)
            return ""

        asked: Any = awaiting if iscoroutinefunction(extract) else curator
        with suppress(ModelError):
            yield CompletionRequest((), 1, "extraction", deadline=self.config.call_timeout, curator=asked)

    def _folded(
        self, cut: _Cut, made: Message, text: str, stack: Stack, calls: Calls
    ) -> Flow[Compaction | None]:
        """The same rewrite with the oldest summaries made one, where all are too large together.

        None where they are not, or no model could.
        """
        count = self._outgrown(made)
        if count == 0:
            return None
        oldest, layers = self.stack.positions[:count], self.stack.layers[:count]
        selection = self._selection(cut.end, oldest)
        gone = [self.read[at] for at in self._folding(oldest)]
        covers = covered(gone)
        if covers[-1][1] > made.covers[0][0]:
            return None  # what was pinned once lies among them: one summary could not stand before the other
        try:
            meta = yield from self.written(self._sources(gone), calls, META_NOTE)
        except CompactionError as error:
            _log.warning("the summaries of a session could not be made one: %s", error)
            return None
        layer = self._joined(layers, covers[0][0])
        level = 1 + max(summary_level(self.read[at]) for at in oldest)
        heading = self.heading(layer.numbers, layer.turns)
        above = summary_message(framed(heading, meta), covers, level)
        stack = replace(stack, layers=(layer, *stack.layers[count:]))
        compaction = layered(
            self.history,
            selection,
            [above, made],
            text,
            state=stack.state(end=self._first_live(cut.end)),
            degraded=calls.degraded,
        )
        before, after = self.rule.count(self.history), self.rule.count(compaction.messages)
        return compaction if after < before else None

    def _outgrown(self, made: Message) -> int:
        """How many of the oldest summaries have to become one, now that *made* is there; 0 for none."""
        budget = self.config.stack_budget(self.window)
        stack = self.stack
        rules = set(self.read.rules)
        sizes = [0] * len(stack.positions)
        place = 0
        for at in range(stack.start):
            if at in rules or at in self.held:
                continue
            sizes[place] += self.rule.count([self.read[at]])
            place += at in stack.positions
        new = self.rule.count([made])
        if not sizes or sum(sizes) + new <= budget:
            return 0
        cap = self.config.summary_cap(self.window)
        for count in range(min(2, len(sizes)), len(sizes)):
            if cap + sum(sizes[count:]) + new <= budget * 3 // 4:
                return count
        return len(sizes)

    def _sources(self, gone: Sequence[Message]) -> Sequence[Message]:
        """What a summary of summaries is made of: the messages of the log, else the summaries."""
        originals = self.trigger.originals
        if originals is None or (self.config.fold_source == "summaries" and not self.trigger.fold):
            return gone
        spans = joined(span for message in gone for span in message.covers)
        others = [message for message in gone if message.provenance != "compaction_summary"]
        found = originals(spans)
        return sorted([*found, *others], key=lambda message: message.seq) if found else gone

    def _joined(self, layers: Sequence[Layer], seq: int) -> Layer:
        """What is known of the summary that *layers* become, from message *seq* on."""
        numbers = [number for layer in layers for number in layer.numbers if number]
        turns = [turn for layer in layers for turn in layer.turns if turn]
        return Layer(
            seq,
            (min(numbers, default=1), max(numbers, default=1)),
            (min(turns, default=1), max(turns, default=max(1, self.stack.turns))),
        )

    def _first_live(self, end: int) -> int:
        """The number that the first message behind position *end* has, or would have."""
        live = self.read[end].seq if end < len(self.read) else None
        return live if live is not None else self.read[end - 1].seq + 1

    def _no_cut(self) -> Skip:
        live = len(self.history) - self.stack.start
        return Skip(
            "no_valid_cut", f"tool calls, pins or the request hold all {live} messages that may leave"
        )

    def _check_shrunk(self, compaction: Compaction) -> None:
        before, after = self.rule.count(self.history), self.rule.count(compaction.messages)
        if after >= before:
            raise CompactionError(
                f"the rewrite has {after} tokens, the history {before}: it must be smaller",
                reason="no_reduction",
                usage=compaction.usage,
                before=before,
                after=after,
            )
