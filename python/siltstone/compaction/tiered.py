"""Tiered compaction: summarises old turns in the background; in an emergency discards them at once."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Any, Final

from siltstone.compaction import checks
from siltstone.compaction.base import Compaction, CompactionContext, Skip, State, Trigger
from siltstone.compaction.breaker import breaker_pauses
from siltstone.compaction.checkpoint import Checkpoint
from siltstone.compaction.chronicle_run import LEAST_MATERIAL, ChronicleRun, checkpoints_of
from siltstone.compaction.chronicle_state import ChronicleState
from siltstone.compaction.prompts import framed
from siltstone.compaction.rolling_run import RollingRun
from siltstone.compaction.share import reached_at, share_of
from siltstone.compaction.tiered_config import FALLBACK_WINDOW, TieredConfig
from siltstone.compaction.tiered_prompts import CHECKPOINT_NOTE, CHECKPOINT_PROMPT, SUMMARY_PROMPT
from siltstone.compaction.tiered_run import EMERGENCY, FORK, Extract
from siltstone.errors import ConfigError
from siltstone.llm import Flow
from siltstone.messages import Message
from siltstone.tokens import TokenRule, rule

__all__ = ["Extract", "TieredCompactor"]

_log = logging.getLogger("siltstone")

IN_BACKGROUND: Final = ("background", "aggressive", "interval", "pressure")

WRITTEN_LATER: Final = (
    "Something in the chronicle of this session was forgotten. It is shown anew with the next checkpoint; "
    "the tool chronicle lists and opens what is left of it."
)


class TieredCompactor:
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
        if self.keeps_checkpoints and prompt == SUMMARY_PROMPT:
            prompt = CHECKPOINT_PROMPT
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
    def token_rule(self) -> TokenRule:
        """The rule that the configuration names."""
        return self._token_rule

    @property
    def overflow_retries(self) -> int:
        """The maximum number of retries of a request that the provider found too large."""
        return self.config.overflow_retries

    def window(self, named: int | None) -> int:
        """The window in tokens, for a caller that names *named*. The fallback is logged once."""
        window = self.config.window(named)
        if named is None and self.config.context_window is None and not self._told_of_window:
            self._told_of_window = True
            _log.warning("no context window was named; tiered compaction takes %d tokens", FALLBACK_WINDOW)
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
                field="background_threshold",
                value=self.config.background_threshold,
            )

    def should_compact(self, context: CompactionContext) -> Trigger | None:
        """The trigger of the highest tier that is reached; at any boundary.

        The tokens in use are the estimate of the history plus the reserved tokens, or the forecast from the
        provider's count, if that is larger. After a failed job the same tier waits ``retry_after_turns``
        boundaries; a higher tier does not wait. After three attempts of low yield the breaker is open. An
        emergency never waits.
        """
        window = self.window(context.context_window)
        tokens = max(context.estimated_history_tokens + context.reserved_tokens, context.forecast_tokens)
        tier = self._checkpoint_due(context, window, tokens) if self.keeps_checkpoints else None
        action, threshold = tier or self._tier(window, tokens)
        if not action:
            return None
        if action != EMERGENCY and (self._waits(context, threshold) or breaker_pauses(context)):
            return None
        return Trigger(
            "fraction",
            action,
            tokens,
            threshold,
            context_window=context.context_window,
            reserved_tokens=context.reserved_tokens,
            policy_state=context.policy_state,
        )

    def _tier(self, window: int, tokens: int) -> tuple[str, int]:
        """The highest tier that *tokens* reach, and its threshold in tokens; ``("", 0)`` below all tiers."""
        tier = self.config.tier(tokens, window)
        if self.keeps_checkpoints and tier != EMERGENCY:
            tier = None
        return ("", 0) if tier is None else (tier, self.config.threshold(tier, window))

    def _checkpoint_due(self, context: CompactionContext, window: int, tokens: int) -> tuple[str, int] | None:
        """The action and the threshold of a due checkpoint; None if none is due, or in an emergency.

        A checkpoint is due by the interval if that many messages or tokens came since the last one, and at
        least half of them are in finished turns, because a checkpoint ends with a turn.
        """
        config, settings = self.config, self.config.chronicle
        if tokens >= config.threshold(EMERGENCY, window):
            return None
        state = ChronicleState.read(context.policy_state) or ChronicleState()
        end = context.next_seq or context.message_count - context.fixed_count
        turn = end if context.turn_start is None else context.turn_start
        pressure = self._first_threshold(window)
        if tokens >= pressure and (turn > state.end or not settings.whole_turns):
            return "pressure", pressure
        came = context.estimated_history_tokens - state.fixed
        settled = came if context.turn_start is None else context.settled_tokens - state.fixed
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

    def fork_trigger(self, tokens: int, prompt_tokens: int, context_window: int | None) -> Trigger | None:
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
            return Trigger("manual", FORK, tokens, most, context_window=context_window)
        budget = max(0, window - share_of(window, config.fork_reserve) - prompt_tokens)
        if tokens <= budget:
            return None
        return Trigger("overflow", FORK, tokens, budget, context_window=context_window)

    def runs_in_background(self, trigger: Trigger) -> bool:
        """Whether the compaction may run in the background: the first two tiers, and due checkpoints."""
        return trigger.action in IN_BACKGROUND

    def usage_of(self, trigger: Trigger) -> float:
        """The share of the window that was in use at *trigger*; 1 is all of it."""
        return trigger.tokens / self.config.window(trigger.context_window)

    def flow(self, history: Sequence[Message], trigger: Trigger) -> Flow[Compaction | Skip]:
        """Summarises the oldest messages after the stack, or discards them if no model may be asked.

        A call of ``compact`` summarises half of them. After an overflow three quarters are discarded.

        Raises:
            CompactionError: ``llm_failed``, ``empty_summary``, ``refused_summary``, ``summarizer_overflow``
                or ``no_reduction``.
        """
        truncates = trigger.action == EMERGENCY or trigger.reason == "overflow"
        if self.keeps_checkpoints:
            chronicle = ChronicleRun(self, history, trigger)
            if trigger.fold:
                return Skip("nothing_to_discard", "a checkpoint is never written anew")
            return chronicle.truncated() if truncates else (yield from chronicle.checkpointed())
        run = RollingRun(self, history, trigger)
        if trigger.fold:
            return (yield from run.folded_alone())
        return run.truncated() if truncates else (yield from run.summarised())

    def checkpoints(self, written: Iterable[tuple[State | None, Sequence[Message]]]) -> list[Checkpoint]:
        """All checkpoints, in order, from the state and the summaries of each run in *written*."""
        return checkpoints_of(written)

    def resummarize(
        self, messages: Sequence[Message], context_window: int | None
    ) -> Flow[tuple[str, tuple[Any, ...]]]:
        """The content of a summary message for *messages*, with its first line, and the calls it cost.

        Raises:
            CompactionError: no model gave a summary.
        """
        run = RollingRun(self, messages, Trigger("manual", context_window=context_window))
        calls = run.calls()
        if self.keeps_checkpoints:
            if len(messages) > self.config.chronicle.max_messages_per_checkpoint:
                return WRITTEN_LATER, ()  # the chronicle in view: the next checkpoint writes it anew
            answer = yield from run.written(messages, calls, more=CHECKPOINT_NOTE)
            return answer, tuple(calls.usage)
        text = yield from run.written(messages, calls)
        stack = run.stack
        heading = run.heading((stack.number + 1,) * 2, (1, max(1, len(run.read.outline.requests))))
        return framed(heading, text), tuple(calls.usage)

    def _waits(self, context: CompactionContext, threshold: int) -> bool:
        """Whether the last job failed recently, at this *threshold* or a higher one."""
        if context.failed_at is None or context.last_attempt_boundary is None:
            return False
        if context.boundary - context.last_attempt_boundary >= self.config.retry_after_turns:
            return False
        return not 0 < context.failed_threshold < threshold
