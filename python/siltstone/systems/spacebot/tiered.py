"""Tiered compaction: summarises old turns in the background; in an emergency discards them at once."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from siltstone import checks
from siltstone.checks import reached_at, share_of
from siltstone.compaction import base
from siltstone.compaction.prompts import framed
from siltstone.compaction.rewrite import covered, joined, kept_apart, layered
from siltstone.compaction.summarise import Calls
from siltstone.errors import ConfigError, explains
from siltstone.llm import Flow
from siltstone.messages import Message, summary_level
from siltstone.systems.spacebot import config as configs, run as runs
from siltstone.systems.spacebot.chronicle import LEAST_MATERIAL, ChronicleRun, checkpoints_of
from siltstone.systems.spacebot.run import Extract as Extract

# Rolling tiered compaction: a summary replaces the oldest messages, and joins the stack of summaries.

_log = logging.getLogger("siltstone")

SUSPECT: Final = (1_000, 16)  # tokens: a summary of >= 1,000 is suspect if it has fewer than 16


@dataclass(frozen=True, slots=True)
class _Cut:
    """The cut of a run: the position *end*, the first and last turn that it removes, and the turns begun."""

    end: int
    turns: tuple[int, int]
    turns_begun: int


class RollingRun(runs.TieredRun):
    """One run over a history whose summaries stack before its live messages."""

    def __init__(self, policy: TieredCompactor, history: Sequence[Message], trigger: base.Trigger) -> None:
        super().__init__(policy, history, trigger)
        self.stack = runs.Stack.of(self.read, trigger, self.config.summary_heading)

    def heading(self, numbers: tuple[int, int], turns: tuple[int, int]) -> str:
        """The first line of a summary."""
        number = f"{numbers[0]}-{numbers[1]}" if numbers[0] != numbers[1] else str(numbers[0])
        return self.config.summary_heading.format(n=number, first=turns[0], last=turns[1])

    def summarised(self) -> Flow[base.Compaction | base.Skip]:
        """Replaces the oldest messages after the stack by a summary, which becomes the last of the stack."""
        config = self.config
        gentle = self.trigger.action == "background"
        fraction = config.background_fraction if gentle else config.aggressive_fraction
        end = self.cut(fraction, config.retain_floor)
        if end is None:
            return self.no_cut()
        cut = self._cut_at(end)
        selection = self.selection(cut.end)
        if not selection.is_worthwhile:
            return self.no_cut()
        calls = self.calls()
        told = selection.told
        text = yield from self.written(told, calls, offers_tools=True)
        yield from self.extracted(told)
        number = self.stack.number + 1
        covers = covered(selection.discarded)
        layer = runs.Layer(covers[0][0], (number, number), cut.turns)
        made = self.message(framed(self.heading(layer.numbers, layer.turns), text), covers)
        stack = replace(self.stack, layers=(*self.stack.layers, layer), number=number, turns=cut.turns_begun)
        compaction = layered(
            selection,
            [made],
            text,
            state=self._state(stack, self.first_live(cut.end)),
            usage=tuple(calls.usage),
            degraded=calls.degraded,
        )
        base.check_shrunk(self.rule, self.history, compaction)
        suspect = self.rule.count(told) >= SUSPECT[0] and self.rule.count_text(text) < SUSPECT[1]
        folded = yield from self._folded(cut, made, text, stack, calls)
        return replace(
            folded or compaction,
            suspect=suspect,
            usage=tuple(calls.usage),
            tool_calls=tuple(calls.tool_calls),
        )

    def marked(self, end: int, marker: str) -> base.Compaction | base.Skip:
        """Discards all before position *end*; *marker* tells the number of these messages."""
        cut = self._cut_at(end)
        selection = self.selection(cut.end)
        if not selection.is_worthwhile:
            return self.no_cut()
        count = sum(message.provenance != "compaction_summary" for message in selection.discarded)
        covers = covered(selection.discarded)
        text = marker.format(n=count)
        made = self.message(text, covers)
        if self.rule.count(selection.discarded) <= self.rule.count([made]):
            return base.Skip(
                "nothing_to_discard", f"{count} messages are smaller than the line that would say so"
            )
        stack = replace(
            self.stack,
            layers=(*self.stack.layers, runs.Layer(covers[0][0], turns=cut.turns)),
            turns=cut.turns_begun,
        )
        return layered(
            selection, [made], text, state=self._state(stack, self.first_live(cut.end)), degraded=True
        )

    def folded_alone(self) -> Flow[base.Compaction | base.Skip]:
        """Replaces all summaries by one new summary of the first level; no other message leaves."""
        if not self.stack.positions:
            return base.Skip("nothing_to_discard", f"there is no summary among {len(self.history)} messages")
        calls = self.calls()
        selection = kept_apart(
            self.read, set(range(len(self.history))) - set(self.folding(self.stack.positions))
        )
        text = yield from self.written(self._sources(selection.discarded), calls, configs.META_NOTE)
        covers = covered(selection.discarded)
        layer = self._joined(self.stack.layers, covers[0][0])
        made = self.message(framed(self.heading(layer.numbers, layer.turns), text), covers)
        stack = replace(self.stack, layers=(layer,))
        end = self.first_live(self.stack.start)
        usage = tuple(calls.usage)
        return layered(selection, [made], text, state=self._state(stack, end), usage=usage)

    def _cut_at(self, end: int) -> _Cut:
        start = self.stack.start
        begun = sum(1 for at in self.read.outline.requests if start <= at < end)
        last = self.stack.turns + begun
        first = self.stack.turns + 1 if begun else max(1, self.stack.turns)
        return _Cut(end, (first, max(first, last)), last)

    def _state(self, stack: runs.Stack, end: int) -> dict[str, object]:
        """The state to keep: the stack, and the chronicle of a session that had one."""
        chronicle = runs.chronicle_in(self.trigger.policy_state)
        kept = stack.state(end=end)
        return kept if chronicle is None else {**kept, "chronicle": chronicle}

    def _folded(
        self, cut: _Cut, made: Message, text: str, stack: runs.Stack, calls: Calls
    ) -> Flow[base.Compaction | None]:
        """The same rewrite, with the oldest summaries folded into one because the stack is too large.

        None if the stack is not too large, if no model or no call is left, if the model failed, or if the
        fold is not possible. Then the next run tries again.
        """
        count = self._outgrown(made)
        if count == 0 or calls.left == 0 or calls.degraded:
            return None
        oldest, layers = self.stack.positions[:count], self.stack.layers[:count]
        selection = self.selection(cut.end, oldest)
        gone = [self.read[at] for at in self.folding(oldest)]
        covers = covered(gone)
        if covers[-1][1] > made.covers[0][0]:
            return None  # a message that was pinned before lies among them, so the two ranges would overlap
        calls.last_resort = False  # lines selected of summaries would lose what these say
        try:
            meta = yield from self.written(self._sources(gone), calls, configs.META_NOTE)
        except base.CompactionError as error:
            _log.warning("the summaries of a session could not be made one: %s", error)
            return None
        layer = self._joined(layers, covers[0][0])
        level = 1 + max(summary_level(self.read[at]) for at in oldest)
        heading = self.heading(layer.numbers, layer.turns)
        above = self.message(framed(heading, meta), covers, level)
        stack = replace(stack, layers=(layer, *stack.layers[count:]))
        compaction = layered(
            selection,
            [above, made],
            text,
            state=self._state(stack, self.first_live(cut.end)),
            degraded=calls.degraded,
        )
        before, after = self.rule.count(self.history), self.rule.count(compaction.messages)
        return compaction if after < before else None

    def _outgrown(self, made: Message) -> int:
        """The number of oldest summaries to fold into one, now that *made* is added; 0 for none."""
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
        """The source messages of a summary of summaries.

        They are the summaries. Behind a marker they are summaries that found no place in a view, and the
        messages that no model has read. On request they are the messages behind all summaries.
        """
        if self.trigger.originals is None:
            return gone
        markers = {layer.seq for layer in self.stack.layers if layer.is_marker}
        read, unread = list[Message](), set[int]()
        for message in gone:
            if message.provenance == "compaction_summary" and (self.trigger.fold or message.seq in markers):
                unread |= _numbers(message)
            else:
                read.append(message)
        for summary in () if self.trigger.fold else self.trigger.unplaced:
            if _numbers(summary) <= unread:
                unread -= _numbers(summary)
                read.append(summary)
        read += self.trigger.originals(joined((seq, seq + 1) for seq in unread))
        return sorted(read, key=lambda message: message.seq) or gone

    def _joined(self, layers: Sequence[runs.Layer], seq: int) -> runs.Layer:
        """The layer of the summary that replaces *layers*; it begins with message *seq*."""
        numbers = [number for layer in layers for number in layer.numbers if number]
        turns = [turn for layer in layers for turn in layer.turns if turn]
        return runs.Layer(
            seq,
            (min(numbers, default=1), max(numbers, default=1)),
            (min(turns, default=1), max(turns, default=max(1, self.stack.turns))),
        )


def _numbers(summary: Message) -> set[int]:
    """The sequence numbers that *summary* covers."""
    return {seq for span in summary.covers for seq in range(*span)}


IN_BACKGROUND: Final = ("background", "aggressive", "interval", "pressure")

WRITTEN_LATER: Final = (
    "Something in the chronicle of this session was forgotten. It is shown anew with the next checkpoint; "
    "the chronicle lists and opens what is left of it."
)


@explains
class TieredCompactor(base.Configured[configs.TieredConfig]):
    """Watches the share of the window that is in use, and acts in three tiers.

    From 0.80 of the window the oldest 30 % of the messages are summarised, from 0.85 the oldest half. A
    session does this in the background: the conversation goes on, and the summary replaces the messages at a
    later boundary. From 0.95 a marker replaces the oldest half at once; no model is asked.

    Summaries stack in order before the live messages. If the stack is larger than its budget, its oldest
    summaries become one summary of the next level. A cut never separates a call from its result, and never
    removes the stack.

    With ``TieredConfig(mode="chronicle")`` it writes checkpoints instead. Every 40 messages, or sooner, the
    messages since the last checkpoint become a new checkpoint, which is never changed. One message in view
    shows the checkpoints.

    Args:
        config: Thresholds, fractions and budgets. ``TieredConfig.documented()`` has the documented form.
        prompt: The instruction that ends a request for a summary; by default the prompt of the mode.
        extract: A function, sync or async, that is called with the summarised messages, once for each summary
            or checkpoint. If it raises, the compaction continues, and hooks get ``ExtractionFailed``.
        tools: Definitions of tools that the summarising model may call. A session carries out only calls of
            ``memory_save``, after the commit.
    """

    name = "tiered"

    def __init__(
        self,
        config: configs.TieredConfig | None = None,
        *,
        prompt: str = configs.SUMMARY_PROMPT,
        extract: Extract | None = None,
        tools: Sequence[Any] = (),
    ) -> None:
        super().__init__(config or configs.TieredConfig())
        checks.text("prompt", prompt)
        if extract is not None and not callable(extract):
            checks.refuse("extract", "a callable that takes messages, or None", extract)
        if self.keeps_checkpoints and prompt == configs.SUMMARY_PROMPT:
            prompt = configs.CHECKPOINT_PROMPT
        self.prompt, self.extract, self.tools = prompt, extract, tuple(tools)
        self._told_of_window = False

    @property
    def kind(self) -> str:
        """The mode, ``rolling`` or ``chronicle``, which is the ``kind`` in ``CompactionStarted``."""
        return self.config.mode

    @property
    def keeps_checkpoints(self) -> bool:
        """Whether it writes checkpoints."""
        return self.config.mode == "chronicle"

    @property
    def expand_limit(self) -> int:
        """The maximum messages of a page when a checkpoint is expanded."""
        return self.config.chronicle.expand_message_limit

    @property
    def overflow_retries(self) -> int:
        """The maximum number of retries of a request that the provider found too large."""
        return self.config.overflow_retries

    def window(self, named: int | None) -> int:
        """The window in tokens, for a caller that names *named*. The fallback is logged once."""
        window = self.config.window(named)
        if named is None and self.config.context_window is None and not self._told_of_window:
            self._told_of_window = True
            _log.warning(
                "no context window was named; tiered compaction takes %d tokens", configs.FALLBACK_WINDOW
            )
        return window

    def check_overhead(self, reserved_tokens: int, context_window: int | None) -> None:
        """Checks that the reserved tokens without any history reach no tier.

        Raises:
            ConfigError: they are at or above the first threshold, so the policy would compact at every
                boundary.
        """
        window = self.config.window(context_window)
        threshold = self._first_threshold(window)
        if reserved_tokens >= threshold:
            raise ConfigError(
                f"reserved_tokens must be < {threshold}, the background threshold of a window of {window}, "
                f"got {reserved_tokens}",
                "background_threshold",
                self.config.background_threshold,
            )

    def should_compact(self, context: base.CompactionContext) -> base.Trigger | None:
        """The trigger of the highest tier that is reached; at any boundary.

        The tokens in use are the estimate of the history plus the reserved tokens, or the forecast from the
        provider's count, if that is larger. After a failed job the same tier waits ``retry_after_turns``
        boundaries; a higher tier does not wait. While the breaker is open, no model is asked. An emergency
        never waits.
        """
        window = self.window(context.context_window)
        tokens = max(context.tokens, context.forecast_tokens)
        tier = self._checkpoint_due(context, window, tokens) if self.keeps_checkpoints else None
        action, threshold = tier or self._tier(window, tokens)
        if not action:
            return None
        pauses = base.breaker_pauses(context)
        fails = self.keeps_checkpoints or self.config.on_model_failure == "fail"
        if action != runs.EMERGENCY and (self._waits(context, threshold) or (pauses and fails)):
            return None
        trigger = context.trigger("fraction", action, tokens, threshold)
        return replace(trigger, model_calls=0) if pauses else trigger

    def _tier(self, window: int, tokens: int) -> tuple[str, int]:
        """The highest tier that *tokens* reach, and its threshold in tokens; ``("", 0)`` below all tiers."""
        tier = self.config.tier(tokens, window)
        if self.keeps_checkpoints and tier != runs.EMERGENCY:
            tier = None
        return ("", 0) if tier is None else (tier, self.config.threshold(tier, window))

    def _checkpoint_due(
        self, context: base.CompactionContext, window: int, tokens: int
    ) -> tuple[str, int] | None:
        """The action and the threshold of a due checkpoint; None if none is due, or in an emergency.

        A checkpoint is due by the interval if that many messages or tokens came since the last one, and at
        least half of them are in finished turns, because a checkpoint ends with a turn.
        """
        config, settings = self.config, self.config.chronicle
        if tokens >= config.threshold(runs.EMERGENCY, window):
            return None
        state = runs.ChronicleState.read(context.policy_state) or runs.ChronicleState()
        end = context.next_seq or context.message_count - context.fixed_count
        turn = end if context.turn_start is None else context.turn_start
        pressure = self._first_threshold(window)
        if tokens >= pressure and (turn > state.end or not settings.whole_turns):
            return "pressure", pressure
        fixed = int(state.fixed * context.factor)
        came = context.estimated_history_tokens - fixed
        settled = came if context.turn_start is None else context.settled_tokens - fixed
        interval = reached_at(window, settings.interval_token_fraction)
        by_number = min(end - state.end, 2 * (turn - state.end)) >= settings.interval_messages
        by_tokens = min(came, 2 * settled) >= interval
        if (by_number or by_tokens) and turn > state.end and settled >= LEAST_MATERIAL:
            return "interval", min(tokens, pressure)
        return None

    def _first_threshold(self, window: int) -> int:
        """The threshold of the first tier; in chronicle mode lower by ``fork_reserve`` of the window."""
        threshold = self.config.threshold("background", window)
        if not self.keeps_checkpoints:
            return threshold
        return max(1, threshold - share_of(window, self.config.fork_reserve))

    def fork_trigger(
        self, tokens: int, prompt_tokens: int, context_window: int | None
    ) -> base.Trigger | None:
        """The trigger of a fork's compaction before its first call; None if it fits.

        With ``"usage"`` half of the fork is summarised once, if it is above ``fork_usage_threshold`` of the
        window. With ``"budget"`` the oldest messages leave until the rest fits beside the prompt and the
        reserve.
        """
        window, config = self.window(context_window), self.config
        if config.fork_preflight == "usage":
            most = share_of(window, config.fork_usage_threshold)
            if tokens + prompt_tokens <= most:
                return None
            return base.Trigger("manual", runs.FORK, tokens, most, context_window=context_window)
        budget = max(0, window - share_of(window, config.fork_reserve) - prompt_tokens)
        if tokens <= budget:
            return None
        return base.Trigger("overflow", runs.FORK, tokens, budget, context_window=context_window)

    def runs_in_background(self, trigger: base.Trigger) -> bool:
        """Whether the compaction may run in the background: the first two tiers, and due checkpoints."""
        return trigger.action in IN_BACKGROUND

    def usage_of(self, trigger: base.Trigger) -> float:
        """The share of the window that was in use at *trigger*; 1 is all of it."""
        return trigger.tokens / self.config.window(trigger.context_window)

    def flow(self, history: Sequence[Message], trigger: base.Trigger) -> Flow[base.Compaction | base.Skip]:
        """Summarises the oldest messages after the stack, or discards them if no model may be asked.

        A call of ``compact`` summarises half of them. After an overflow three quarters are discarded.

        Raises:
            CompactionError: ``llm_failed``, ``empty_summary``, ``refused_summary``, ``summarizer_overflow``
                or ``no_reduction``.
        """
        truncates = trigger.action == runs.EMERGENCY or trigger.reason == "overflow"
        if self.keeps_checkpoints:
            chronicle = ChronicleRun(self, history, trigger)
            if trigger.fold:
                return base.Skip("nothing_to_discard", "a checkpoint is never written anew")
            return chronicle.truncated() if truncates else (yield from chronicle.checkpointed())
        run = RollingRun(self, history, trigger)
        if trigger.fold:
            return (yield from run.folded_alone())
        return run.truncated() if truncates else (yield from run.summarised())

    def checkpoints(
        self, written: Iterable[tuple[base.State | None, Sequence[Message]]]
    ) -> list[base.Checkpoint]:
        """All checkpoints, in order, from the state and the summaries of each run in *written*."""
        return checkpoints_of(written)

    def resummarize(
        self, messages: Sequence[Message], context_window: int | None, model_calls: int | None
    ) -> Flow[tuple[str, tuple[Any, ...]]]:
        """The content of a summary message for *messages*, with its first line, and the calls it cost.

        Raises:
            CompactionError: no model gave a summary.
        """
        trigger = base.Trigger("manual", context_window=context_window, model_calls=model_calls)
        run = RollingRun(self, messages, trigger)
        calls = run.calls()
        if self.keeps_checkpoints:
            if len(messages) > self.config.chronicle.max_messages_per_checkpoint:
                return WRITTEN_LATER, ()  # the chronicle in view: the next checkpoint writes it anew
            answer = yield from run.written(messages, calls, more=configs.CHECKPOINT_NOTE)
            return answer, tuple(calls.usage)
        text = yield from run.written(messages, calls)
        stack = run.stack
        heading = run.heading((stack.number + 1,) * 2, (1, max(1, len(run.read.outline.requests))))
        return framed(heading, text), tuple(calls.usage)

    def _waits(self, context: base.CompactionContext, threshold: int) -> bool:
        """Whether the last job failed recently, at this *threshold* or a higher one."""
        if context.failed_at is None or context.last_attempt_boundary is None:
            return False
        if context.boundary - context.last_attempt_boundary >= self.config.retry_after_turns:
            return False
        return not 0 < context.failed_threshold < threshold
