"""The settings of threshold compaction, each checked when it is set."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from siltstone.compaction.checks import LEAST_RESULT
from siltstone.compaction.checks import at_least as _at_least
from siltstone.compaction.checks import is_int as _is_int
from siltstone.compaction.checks import is_number as _is_number
from siltstone.compaction.checks import one_of as _one_of
from siltstone.compaction.checks import positive as _positive
from siltstone.compaction.checks import refuse as _refuse
from siltstone.compaction.prompts import SUMMARY_PREFIX
from siltstone.errors import ConfigError
from siltstone.messages import RawMessage, is_request
from siltstone.tokens import TokenRule, rule
from siltstone.values import dataclass

if TYPE_CHECKING:
    from siltstone.messages import RequestRule

__all__ = ["CompactionConfig", "Curator"]

AUTO: Final = "auto"  # of a budget: a share of the effective threshold
UNKNOWN_WINDOW_THRESHOLD = 100_000  # tokens: where nobody says how large the window is
USER_MESSAGE_SHARE = 4  # of the effective threshold, kept user messages have at most a quarter
RESULT_SHARE = 6  # of the effective threshold, a message with results has at most a sixth
SHORTEST_SUMMARY = 1  # tokens: what a window of less than eight still asks for
SMALLEST_WINDOW = 1_024  # tokens: a summariser's; a smaller one does not hold the prompt and an answer

Curator: TypeAlias = Callable[[list[RawMessage]], str]
"""Writes a summary of discarded messages, earlier summaries among them."""


@dataclass(frozen=True, slots=True)
class CompactionConfig:
    """When :class:`ThresholdCompactor` acts, and how much it retains.

    Attributes:
        auto_compact_threshold: Tokens at which a compaction is due. ``"auto"``: four fifths of a known
            window, 100,000 where none is known. A number is taken as it is, and refused by a session or a
            call whose window is smaller.
        recent_turn_budget: The most complete turns retained; 0 retains none.
        max_summary_tokens: The most tokens a summary has; an eighth of a known window at most.
        min_turns_between_compactions: Boundaries (calls of ``prepare``) between two attempts.
        retained_token_budget: Tokens of retained turns. ``"auto"``: half the effective threshold.
            None: no bound, so exactly ``recent_turn_budget`` turns and the whole turn in flight stay; where
            that turn is all there is, its older groups leave as with ``"auto"``.
        strict_guard: The spacing holds for every trigger, also where the history itself is over.
        trigger_fraction: A share of the window, 0..1, at which a compaction is due: where the window is
            known it takes the place of ``auto_compact_threshold``.
        max_messages: Messages in the history at which a compaction is due. It obeys the spacing.
        max_request_bytes: The provider's cap on a request; four fifths of it are a trigger, and a
            quarter of it bounds the retained turns.
        keep_user_messages: The messages that open turns stay verbatim, the newest that
            ``user_message_budget`` has room for; the others are summarised. The emergency net lets them go.
        user_message_budget: Tokens of the messages that ``keep_user_messages`` keeps. ``"auto"``: a quarter
            of the effective threshold. None: no bound.
        min_reduction: A compaction that reclaims less than this share, 0..1, is refused.
        estimator: How tokens are counted: ``"blocks"``, ``"bytes/4"`` or ``"chars/3"``, or a rule of one's
            own, such as :class:`siltstone.TokenizerRule`.
        summary_prefix: What a summary message begins with, before a blank line.
        summarizer_window: The window of the model that writes summaries, in tokens. None: that of the
            session. What does not fit it is summarised in pieces, which are then merged.
        call_timeout: Seconds that one model call may take; None for any time. An async driver breaks a
            call off then, a sync one hands it on as ``request.deadline``.
        attempts: Calls of one model for one answer; one that raises is called again.
        retry_delay: Seconds between the first call and the second; each further one waits twice as long,
            eight at most. 0: no pause.
        min_summary_tokens: A summary shorter than this, of at least 1,000 tokens, is marked ``suspect``.
        on_model_failure: When every model has failed. ``"fail"``: so does the attempt.
            ``"fallback_summary"``: the extractive model writes a summary, marked ``degraded``.
        on_summarizer_overflow: When even small requests are too large for the provider.
            ``"mechanical"``: the summary says what is archived and quotes the newest of it, marked
            ``degraded``. ``"fail"``: the attempt fails.
        curator: Writes the summary instead of a model: takes the discarded messages, gives a text. When
            it raises or its text is blank, the attempt fails.
        max_result_tokens: The most tokens of a tool's results in one message of the rewrite: what is larger
            keeps its head and its tail. Where that is enough, nothing is discarded and no model is asked.
            ``"auto"``: a sixth of the effective threshold. None: no bound.
        max_summary_level: A summary of summaries that would have a higher level is written anew from the
            messages it stands for, where the caller can read them (``Trigger.originals``), and there are
            twice as many as when one last was. None: never.
        request_rule: Says of a user's text that stands beside tool results whether it is a request. The
            default takes each for one that does not begin with one of ``siltstone.messages.REMINDER_TAGS``.
        prefix_preserving: Where the whole history fits the summariser's window, the request is the live
            one with the instruction as its last message, so that a provider's cache is used.

    Raises:
        ConfigError: a setting is out of its bounds. Carries ``field`` and ``value``.
    """

    auto_compact_threshold: int | Literal["auto"] = AUTO
    recent_turn_budget: int = 4
    max_summary_tokens: int = 4096
    min_turns_between_compactions: int = 3
    retained_token_budget: int | Literal["auto"] | None = AUTO
    strict_guard: bool = False
    max_request_bytes: int | None = None
    min_reduction: float = 0.0
    estimator: str | TokenRule = "blocks"
    summary_prefix: str = SUMMARY_PREFIX
    summarizer_window: int | None = None
    call_timeout: float | None = 120.0
    attempts: int = 2
    min_summary_tokens: int = 16
    on_model_failure: Literal["fail", "fallback_summary"] = "fail"
    on_summarizer_overflow: Literal["mechanical", "fail"] = "mechanical"
    curator: Curator | None = None
    prefix_preserving: bool = False
    trigger_fraction: float | None = None
    max_messages: int | None = None
    keep_user_messages: bool = False
    retry_delay: float = 0.5
    request_rule: RequestRule = is_request
    max_result_tokens: int | Literal["auto"] | None = AUTO
    max_summary_level: int | None = 4
    user_message_budget: int | Literal["auto"] | None = AUTO

    def __post_init__(self) -> None:
        if self.auto_compact_threshold != AUTO:
            _positive("auto_compact_threshold", self.auto_compact_threshold)
        if not _is_int(self.recent_turn_budget) or self.recent_turn_budget < 0:
            _refuse("recent_turn_budget", "an int >= 0", self.recent_turn_budget)
        _positive("max_summary_tokens", self.max_summary_tokens)
        _positive("min_turns_between_compactions", self.min_turns_between_compactions)
        if self.retained_token_budget is not None and self.retained_token_budget != AUTO:
            _positive("retained_token_budget", self.retained_token_budget, or_else='"auto", None or ')
        if not isinstance(self.strict_guard, bool):
            _refuse("strict_guard", "True or False", self.strict_guard)
        if self.max_request_bytes is not None:
            _positive("max_request_bytes", self.max_request_bytes, or_else="None or ")
        if self.max_messages is not None:
            _positive("max_messages", self.max_messages, or_else="None or ")
        fraction = self.trigger_fraction
        if fraction is not None and (not _is_number(fraction) or not 0 < fraction < 1):
            _refuse("trigger_fraction", "None or a number between 0 and 1", fraction)
        if not isinstance(self.keep_user_messages, bool):
            _refuse("keep_user_messages", "True or False", self.keep_user_messages)
        share = self.min_reduction
        if not _is_number(share) or not 0 <= share <= 1:
            _refuse("min_reduction", "a number in 0..1", share)
        if not isinstance(self.summary_prefix, str) or not self.summary_prefix.strip():
            _refuse("summary_prefix", "a text that is not blank", self.summary_prefix)
        self._check_summariser()
        try:
            self.token_rule()
        except ConfigError as error:
            raise ConfigError(f"estimator: {error}", field="estimator", value=self.estimator) from None

    def _check_summariser(self) -> None:
        if self.summarizer_window is not None:
            _at_least("summarizer_window", self.summarizer_window, SMALLEST_WINDOW, or_else="None or ")
        seconds = self.call_timeout
        if seconds is not None and (not _is_number(seconds) or not 0 < seconds < inf):
            _refuse("call_timeout", "None or a number of seconds > 0", seconds)
        _positive("attempts", self.attempts)
        pause = self.retry_delay
        if not _is_number(pause) or not 0 <= pause < inf:
            _refuse("retry_delay", "a number of seconds >= 0", pause)
        _at_least("min_summary_tokens", self.min_summary_tokens, 0)
        _one_of("on_model_failure", self.on_model_failure, ("fail", "fallback_summary"))
        _one_of("on_summarizer_overflow", self.on_summarizer_overflow, ("mechanical", "fail"))
        if self.curator is not None and not callable(self.curator):
            _refuse("curator", "None or a function of the discarded messages", self.curator)
        if self.user_message_budget is not None and self.user_message_budget != AUTO:
            _positive("user_message_budget", self.user_message_budget, or_else="'auto', None or ")
        if self.max_summary_level is not None:
            _positive("max_summary_level", self.max_summary_level, or_else="None or ")
        if self.max_result_tokens is not None and self.max_result_tokens != AUTO:
            _at_least("max_result_tokens", self.max_result_tokens, LEAST_RESULT, or_else="'auto', None or ")
        if not callable(self.request_rule):
            _refuse("request_rule", "a function of a text", self.request_rule)
        if not isinstance(self.prefix_preserving, bool):
            _refuse("prefix_preserving", "True or False", self.prefix_preserving)

    def token_rule(self) -> TokenRule:
        """The rule that ``estimator`` names."""
        return rule(self.estimator)

    def effective_threshold(self, context_window: int | None) -> int:
        """The tokens at which a compaction is due under a window, None where it is unknown.

        With ``trigger_fraction`` that share of a known window; else ``auto_compact_threshold`` where it is
        a number; else four fifths of the window, or ``UNKNOWN_WINDOW_THRESHOLD`` without one.
        """
        if context_window is not None and self.trigger_fraction is not None:
            return max(1, int(context_window * self.trigger_fraction))
        if self.auto_compact_threshold != AUTO:
            return self.auto_compact_threshold
        return UNKNOWN_WINDOW_THRESHOLD if context_window is None else max(1, context_window * 4 // 5)

    def summary_cap(self, context_window: int | None) -> int:
        """The least of ``max_summary_tokens`` and an eighth of each window, of those that are known."""
        windows = [window for window in (context_window, self.summarizer_window) if window is not None]
        return max(SHORTEST_SUMMARY, min([self.max_summary_tokens, *(window // 8 for window in windows)]))

    def result_tokens(self, threshold: int) -> int | None:
        """The most tokens of a message with results under an effective *threshold*; None: no bound."""
        if self.max_result_tokens != AUTO:
            return self.max_result_tokens
        return max(LEAST_RESULT, threshold // RESULT_SHARE)

    def user_message_tokens(self, threshold: int) -> int | None:
        """The budget of kept user messages under an effective *threshold*; None where there is no bound."""
        if self.user_message_budget != AUTO:
            return self.user_message_budget
        return max(1, threshold // USER_MESSAGE_SHARE)

    def retained_tokens(self, threshold: int) -> int | None:
        """The budget of retained turns under an effective *threshold*; None where there is no bound."""
        return threshold // 2 if self.retained_token_budget == AUTO else self.retained_token_budget
