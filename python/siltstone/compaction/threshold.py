"""Threshold compaction: one summary replaces old turns when the history has reached a threshold."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from operator import sub
from typing import TYPE_CHECKING, Any

from siltstone.compaction.base import (
    Compaction,
    CompactionContext,
    CompactionError,
    Curator,
    Reason,
    Skip,
    Substitute,
    Trigger,
    check_shrunk,
)
from siltstone.compaction.config import CompactionConfig
from siltstone.compaction.prompts import PROMPT, framed
from siltstone.compaction.select import Selection
from siltstone.errors import ConfigError, ModelError
from siltstone.events import UsageRecord
from siltstone.llm import CompletionRequest, Flow
from siltstone.messages import Message, RequestRule
from siltstone.tokens import TokenRule, rule

if TYPE_CHECKING:
    from siltstone.compaction.summarise import Brief


__all__ = ["ThresholdCompactor"]

_OF_TOKENS = frozenset({"history_tokens", "fraction", "input_tokens", "forecast"})

SUSPECT_FROM = 1_000  # discarded tokens: a short summary of fewer is not suspect


class ThresholdCompactor:
    """Replaces old turns by one summary when the history has reached a threshold.

    Args:
        config: The settings: when it compacts, and how much it retains.
        prompt: The instruction that ends the request for a summary.
        tools: The tool definitions that the agent sends with its requests. A ``prefix_preserving`` request
            must send the same ones.
    """

    def __init__(
        self, config: CompactionConfig | None = None, *, prompt: str = PROMPT, tools: Sequence[Any] = ()
    ) -> None:
        self.config = config or CompactionConfig()
        self.prompt = prompt
        self.tools = tuple(tools)
        self._token_rule = self.config.token_rule()

    def __repr__(self) -> str:
        return f"ThresholdCompactor({self.config!r})"

    @property
    def name(self) -> str:
        """``threshold``."""
        return "threshold"

    @property
    def token_rule(self) -> TokenRule:
        """The rule that the configuration names."""
        return self._token_rule

    @property
    def request_rule(self) -> RequestRule:
        """The rule of the configuration that decides which text beside tool results is a request."""
        return self.config.request_rule

    def should_compact(self, context: CompactionContext) -> Trigger | None:
        """The trigger, if a compaction is due; never at boundary 0.

        A history or a request at or over its own threshold overrides the spacing of attempts. The provider's
        count, the forecast and the number of messages do not.

        After three attempts in a row with low yield the circuit breaker opens: the next attempt is made after
        10 boundaries, then after 20 more, then after 40 each, with one model call. No trigger overrides this;
        the session's emergency fit guards the window. With ``on_model_failure="fallback_summary"``
        compactions go on meanwhile, without a model of the caller between two attempts.
        """
        if context.boundary == 0:
            return None
        trigger = self._fired(context)
        if trigger is None:
            return None
        from siltstone.compaction.breaker import BREAKER_ATTEMPTS, breaker_pauses

        if context.low_yield_attempts >= BREAKER_ATTEMPTS:
            pauses = breaker_pauses(context)
            if pauses and self.config.on_model_failure == "fail":
                return None
            trigger = replace(trigger, model_calls=0 if pauses else 1)
        over_capacity = trigger.reason == "bytes" or context.estimated_history_tokens >= (
            trigger.threshold or 0
        )
        if self._guard_holds(context) and (self.config.strict_guard or not over_capacity):
            return None
        return trigger

    def flow(self, history: Sequence[Message], trigger: Trigger) -> Flow[Compaction | Skip]:
        """Asks for a summary of the discarded messages, in one or more requests, and replaces them by it.

        Raises:
            CompactionError: ``llm_failed``, ``empty_summary``, ``refused_summary``, ``curator_failed``,
                ``summarizer_overflow`` or ``no_reduction``.
        """
        from siltstone.compaction.calls import Calls, SummarizerOverflow
        from siltstone.compaction.clamp import clamped_alone
        from siltstone.compaction.clip import clip
        from siltstone.compaction.rewrite import rewrite
        from siltstone.compaction.summarise import summarise

        substitutes = {} if trigger.fold else self._clamped(history, trigger)
        if substitutes and self._is_enough(substitutes, trigger):
            return clamped_alone(history, substitutes)
        selection = self._summaries(history) if trigger.fold else self._select(history, trigger, substitutes)
        if trigger.fold and not selection.discarded:
            return Skip("nothing_to_discard", f"there is no summary among {len(history)} messages")
        if not trigger.fold and not selection.is_worthwhile:
            if substitutes:
                return clamped_alone(history, substitutes)
            return Skip("nothing_to_discard", f"all {len(history)} messages are to be retained")
        brief = self._brief(history, trigger)
        config = self.config
        calls = Calls(
            config.attempts,
            config.call_timeout,
            config.on_model_failure != "fail",
            config.retry_delay,
            trigger.model_calls,
        )
        overflowed = False
        if self.config.curator is not None:
            text = yield from _curated(self.config.curator, selection, brief.cap)
            summary = clip(text, brief.cap, self.token_rule)
        else:
            try:
                told = _originals(selection, trigger) if trigger.fold else selection.told
                summary = yield from summarise(told, brief, calls)
            except SummarizerOverflow as error:
                if self.config.on_summarizer_overflow == "fail":
                    raise calls.too_large(error) from error.__cause__
                summary, overflowed = self._mechanical(selection, brief), True
        compaction = rewrite(
            history,
            selection,
            summary,
            brief.summary_prefix,
            usage=tuple(calls.usage),
            degraded=calls.degraded or overflowed,
            suspect=self._is_suspect(selection, summary),
            substitutes=substitutes,
            level=1 if trigger.fold else None,
        )
        compaction = replace(compaction, requests_left=self._requests_left(selection))
        if trigger.fold:
            return compaction
        check_shrunk(self.token_rule, history, compaction, self.config.min_reduction)
        return compaction

    def resummarize(
        self, messages: Sequence[Message], context_window: int | None
    ) -> Flow[tuple[str, tuple[UsageRecord, ...]]]:
        """The content of a summary message for *messages*, with its frame, and the model calls it cost.

        Raises:
            CompactionError: no model gave a summary.
        """
        from siltstone.compaction.calls import Calls, SummarizerOverflow
        from siltstone.compaction.summarise import summarise

        brief = self._brief(messages, Trigger("manual", context_window=context_window))
        calls = Calls(self.config.attempts, self.config.call_timeout, last_resort=False)
        try:
            summary = yield from summarise(messages, replace(brief, live=None), calls)
        except SummarizerOverflow as error:
            raise calls.too_large(error) from error.__cause__
        return framed(brief.summary_prefix, summary), tuple(calls.usage)

    def _brief(self, history: Sequence[Message], trigger: Trigger) -> Brief:
        from siltstone.compaction.summarise import Brief

        return Brief(
            prompt=self.prompt,
            focus=trigger.focus,
            cap=self.config.summary_cap(trigger.context_window),
            window=self.config.summarizer_window or trigger.context_window,
            summary_prefix=self.config.summary_prefix,
            token_rule=self.token_rule,
            live=history if self.config.prefix_preserving and not trigger.fold else None,
            tools=self.tools,
            more=trigger.instructions,
        )

    def _mechanical(self, selection: Selection, brief: Brief) -> str:
        from siltstone.compaction.clip import clip
        from siltstone.compaction.mechanical import mechanical_summary
        from siltstone.compaction.rewrite import covered

        def fits(text: str) -> bool:
            return self.token_rule.count_text(text) <= brief.cap

        covers = covered(selection.discarded)
        # First guess: four characters a token. `fits` decides, and clip cuts a note that is too long.
        text = mechanical_summary(selection.told, covers, brief.summary_prefix, 4 * brief.cap, fits)
        return clip(text, brief.cap, self.token_rule)

    def _summaries(self, history: Sequence[Message]) -> Selection:
        """A selection that discards only the earlier summaries."""
        from siltstone.compaction.select import parted

        kept = {at for at, message in enumerate(history) if message.provenance != "compaction_summary"}
        return parted(history, kept)

    def _is_suspect(self, selection: Selection, summary: str) -> bool:
        if self.token_rule.count_text(summary) >= self.config.min_summary_tokens:
            return False
        count, discarded = self.token_rule.count, selection.discarded
        if isinstance(discarded, tuple) and count(discarded[:SUSPECT_FROM]) >= SUSPECT_FROM:
            return True  # so of many messages the first are enough
        return count(discarded) >= SUSPECT_FROM

    def check_overhead(self, reserved_tokens: int, context_window: int | None) -> None:
        """Checks that the threshold can work.

        Raises:
            ConfigError: it is larger than the window, so it would never be reached; or not larger than the
                reserved tokens, so it would be reached at every boundary.
        """
        threshold = self.config.effective_threshold(context_window)
        if context_window is not None and threshold > context_window:
            raise ConfigError(
                f"auto_compact_threshold must be <= the window of {context_window} tokens, got {threshold}: "
                'it would never be reached; "auto" is four fifths of the window',
                field="auto_compact_threshold",
                value=threshold,
            )
        if reserved_tokens < threshold:
            return
        window = "" if context_window is None else f" of a window of {context_window}"
        raise ConfigError(
            f"the threshold of {threshold} tokens{window} must be > reserved_tokens, got {reserved_tokens}: "
            f"{reserved_tokens - threshold + 1} more are needed",
            field="auto_compact_threshold",
            value=self.config.auto_compact_threshold,
        )

    def _fired(self, context: CompactionContext) -> Trigger | None:
        window = context.context_window
        threshold = self.config.effective_threshold(window)
        if window is not None and threshold > window:  # of a window that became smaller meanwhile
            threshold = max(1, window * 4 // 5)
        tokens = context.estimated_history_tokens + context.reserved_tokens
        reason = self._reason(context, tokens, threshold)
        if reason is None:
            return None
        figures = {"input_tokens": context.last_input_tokens, "forecast": context.forecast_tokens}
        return Trigger(
            reason,
            tokens=figures.get(reason, tokens),
            threshold=threshold,
            context_window=context.context_window,
            reserved_tokens=context.reserved_tokens,
        )

    def _reason(self, context: CompactionContext, tokens: int, threshold: int) -> Reason | None:
        """The reason of the most important crossed threshold; None if none was crossed."""
        byte_cap, most_messages = self.config.max_request_bytes, self.config.max_messages
        if tokens >= threshold:
            by_share = self.config.trigger_fraction is not None and context.context_window is not None
            return "fraction" if by_share else "history_tokens"
        if byte_cap is not None and context.request_bytes >= byte_cap * 4 // 5:
            return "bytes"
        if context.last_input_tokens >= threshold:
            return "input_tokens"
        if context.forecast_tokens >= threshold:
            return "forecast"
        if most_messages is not None and context.message_count >= most_messages:
            return "count"
        return None

    def _guard_holds(self, context: CompactionContext) -> bool:
        since = _boundaries_since_last(context)
        return since is not None and since < self.config.min_turns_between_compactions

    def _clamped(self, history: Sequence[Message], trigger: Trigger) -> dict[int, Substitute]:
        """The substitutes for results that are too large, by position."""
        from siltstone.compaction.clamp import clamp
        from siltstone.messages import as_history

        most = self.config.result_tokens(self._threshold(trigger))
        if most is None:
            return {}
        rule = self.token_rule
        outlined = as_history(history)
        if rule.tokens(outlined.largest(rule)) <= most:
            return {}
        sums = outlined.sums(rule)
        sizes = list(map(sub, islice(sums, 1, None), sums))
        by_size = sorted(set(sizes))
        first = bisect_right(by_size, most, key=rule.tokens)
        large = ((at, history[at]) for at, size in enumerate(sizes) if size >= by_size[first])
        return clamp(large, most, rule, trigger)

    def _is_enough(self, substitutes: Mapping[int, Substitute], trigger: Trigger) -> bool:
        """Whether the history is well below its threshold again once large results are cut."""
        if trigger.reason not in _OF_TOKENS:
            return False
        count = self.token_rule.count
        reclaimed = sum(count([each.original]) - count([each.message]) for each in substitutes.values())
        return trigger.tokens - reclaimed <= self._threshold(trigger) * 4 // 5

    def _threshold(self, trigger: Trigger) -> int:
        return trigger.threshold or self.config.effective_threshold(trigger.context_window)

    def _select(
        self, history: Sequence[Message], trigger: Trigger, substitutes: Mapping[int, Substitute]
    ) -> Selection:
        from siltstone.compaction.select import select

        threshold = self._threshold(trigger)
        room = max(1, threshold - trigger.reserved_tokens)
        limits = []
        tokens = self.config.retained_tokens(room)
        if tokens is not None:
            limits.append((self.token_rule, tokens))
        if self.config.max_request_bytes is not None:  # a quarter of the maximum, at four bytes a token
            limits.append((rule("bytes/4"), -(-self.config.max_request_bytes // 16)))

        def within(limits: Sequence[tuple[TokenRule, int]]) -> Selection:
            return select(
                history,
                self.config.recent_turn_budget,
                limits,
                trigger.pins,
                request_limits=self._request_limits(threshold),
                request_rule=self.config.request_rule,
                substitutes=substitutes,
            )

        selection = within(limits)
        if tokens is None and not selection.is_worthwhile:  # the history is only a turn in flight
            return within([*limits, (self.token_rule, room // 2)])
        return selection

    def _request_limits(self, threshold: int) -> list[tuple[TokenRule, int]] | None:
        """The room of kept user messages for an effective *threshold*; None if none are kept."""
        if not self.config.keep_user_messages:
            return None
        most = self.config.user_message_tokens(threshold)
        return [] if most is None else [(self.token_rule, most)]

    def _requests_left(self, selection: Selection) -> int:
        """The number of user messages that leave because the budget of kept messages is used up."""
        from siltstone.messages import opens_turn

        if not self.config.keep_user_messages:
            return 0
        return sum(opens_turn(message, self.config.request_rule) for message in selection.discarded)


def _boundaries_since_last(context: CompactionContext) -> int | None:
    """Boundaries since the later of the last compaction and the last attempt."""
    known = [at for at in (context.last_compaction_boundary, context.last_attempt_boundary) if at is not None]
    return context.boundary - max(known) if known else None


def _curated(curator: Curator, selection: Selection, cap: int) -> Flow[str]:
    """The curator's summary. It is requested like a model's, so that a dry run need not call the curator."""
    from siltstone.llm import CompletionRequest

    def write(_: CompletionRequest) -> str:
        try:
            text = curator([message.raw for message in selection.told])
        except Exception as error:
            name = type(error).__name__
            raise ModelError(f"the curator raised {name}: {error}", error_class=name) from error
        if not isinstance(text, str):
            raise ModelError(f"the curator must give a str, got {type(text).__name__}")
        return text

    try:
        completion = yield CompletionRequest((), cap, curator=write)
    except ModelError as error:
        error_class = getattr(error, "error_class", type(error).__name__)
        cause = error.__cause__ or error
        raise CompactionError(str(error), reason="curator_failed", error_class=error_class) from cause
    if not completion.text.strip():
        raise CompactionError("the curator's summary is empty", reason="empty_summary")
    return completion.text.strip()


def _originals(selection: Selection, trigger: Trigger) -> Sequence[Message]:
    """The messages behind the summaries of *selection*; the summaries, if the caller cannot read these."""
    from siltstone.compaction.rewrite import covered

    return selection.told if trigger.originals is None else trigger.originals(covered(selection.discarded))
