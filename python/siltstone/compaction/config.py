"""The settings of threshold compaction, each checked when it is set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from siltstone.compaction import checks
from siltstone.compaction.base import Curator
from siltstone.compaction.prompts import SUMMARY_PREFIX
from siltstone.messages import RequestRule, is_request
from siltstone.tokens import TokenRule, rule

__all__ = ["CompactionConfig"]

AUTO: Final = "auto"  # a budget that is a share of the effective threshold
UNKNOWN_WINDOW_THRESHOLD = 100_000  # tokens, for an unknown window
USER_MESSAGE_SHARE = 4  # kept user messages have at most a quarter of the effective threshold
RESULT_SHARE = 6  # a message with results has at most a sixth of the effective threshold
SHORTEST_SUMMARY = 1  # tokens: a window of less than eight still asks for so many


@dataclass(frozen=True, slots=True)
class CompactionConfig:
    """The settings of :class:`ThresholdCompactor`: when it compacts, and how much it retains.

    Attributes:
        auto_compact_threshold: Tokens at which a compaction is due. ``"auto"``: four fifths of a known
            window, else 100,000. A number is used as it is; a session or a call with a smaller window refuses
            it.
        recent_turn_budget: The maximum number of retained complete turns; 0 retains none.
        max_summary_tokens: The maximum tokens of a summary; never more than an eighth of a known window.
        min_turns_between_compactions: Boundaries (calls of ``prepare``) between two attempts.
        retained_token_budget: The maximum tokens of retained turns. ``"auto"``: half the effective threshold.
            None: no bound, so exactly ``recent_turn_budget`` turns and the whole turn in flight stay; if the
            history is this turn alone, its older groups leave as with ``"auto"``.
        strict_guard: Whether the spacing holds for every trigger, even if the history itself is over its
            threshold.
        trigger_fraction: A share of the window, 0..1, at which a compaction is due. With a known window it
            replaces ``auto_compact_threshold``.
        max_messages: Messages in the history at which a compaction is due. It obeys the spacing.
        max_request_bytes: The provider's maximum request size; four fifths of it are a trigger, and a quarter
            of it bounds the retained turns.
        keep_user_messages: Whether messages that open turns stay verbatim, the newest within
            ``user_message_budget``; older ones are summarised. The emergency fit may discard them.
        user_message_budget: The maximum tokens of the messages that ``keep_user_messages`` keeps. ``"auto"``:
            a quarter of the effective threshold. None: no bound.
        min_reduction: A compaction that reclaims less than this share, 0..1, is refused.
        estimator: The token rule: ``"blocks"``, ``"bytes/4"`` or ``"chars/3"``, or your own rule, such as
            :class:`siltstone.TokenizerRule`.
        summary_prefix: The first text of a summary message, before a blank line.
        summarizer_window: The window of the model that writes summaries, in tokens. None: the window of the
            session. Longer material is summarised in pieces, which are then merged.
        call_timeout: Seconds that one model call may take; None for no limit. An async driver cancels the
            call then; a sync driver passes the limit on as ``request.deadline``.
        attempts: The maximum calls of one model for one answer; a call that raises is repeated.
        retry_delay: Seconds between the first call and the second; each further call waits twice as long,
            at most eight seconds. 0: no pause.
        min_summary_tokens: A summary with fewer tokens is marked ``suspect`` if it replaces at least 1,000
            tokens.
        on_model_failure: The reaction if every model has failed. ``"fail"``: the attempt fails.
            ``"fallback_summary"``: the extractive model writes a summary, marked ``degraded``.
        on_summarizer_overflow: The reaction if even small requests are too large for the provider.
            ``"mechanical"``: the summary lists the archived messages and quotes the newest, marked
            ``degraded``. ``"fail"``: the attempt fails.
        curator: Writes the summary instead of a model: a function of the discarded messages that returns a
            text. If it raises or its text is blank, the attempt fails.
        max_result_tokens: The maximum tokens of tool results in one message of the rewrite. A larger result
            keeps its head and its tail. If that frees enough, nothing is discarded and no model is asked.
            ``"auto"``: a sixth of the effective threshold. None: no bound.
        request_rule: Decides whether a user's text beside tool results is a request. The default: it is one,
            unless it begins with one of ``siltstone.messages.REMINDER_TAGS``.
        prefix_preserving: Whether the request for the summary is the live request with the instruction as its
            last message, so that the provider's cache is used. Only if the whole history fits the
            summariser's window.

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
    user_message_budget: int | Literal["auto"] | None = AUTO

    def __post_init__(self) -> None:
        if self.auto_compact_threshold != AUTO:
            checks.positive("auto_compact_threshold", self.auto_compact_threshold)
        checks.at_least("recent_turn_budget", self.recent_turn_budget, 0)
        checks.positive("max_summary_tokens", self.max_summary_tokens)
        checks.positive("min_turns_between_compactions", self.min_turns_between_compactions)
        if self.retained_token_budget is not None and self.retained_token_budget != AUTO:
            checks.positive("retained_token_budget", self.retained_token_budget, or_else='"auto", None or ')
        checks.boolean("strict_guard", self.strict_guard)
        if self.max_request_bytes is not None:
            checks.positive("max_request_bytes", self.max_request_bytes, or_else="None or ")
        if self.max_messages is not None:
            checks.positive("max_messages", self.max_messages, or_else="None or ")
        fraction = self.trigger_fraction
        if fraction is not None and (not checks.is_number(fraction) or not 0 < fraction < 1):
            checks.refuse("trigger_fraction", "None or a number between 0 and 1", fraction)
        checks.boolean("keep_user_messages", self.keep_user_messages)
        checks.share("min_reduction", self.min_reduction)
        checks.text("summary_prefix", self.summary_prefix)
        self._check_summariser()
        checks.estimator(self.estimator)

    def _check_summariser(self) -> None:
        checks.summarizer_window(self.summarizer_window)
        checks.seconds("call_timeout", self.call_timeout)
        checks.positive("attempts", self.attempts)
        checks.pause("retry_delay", self.retry_delay)
        checks.at_least("min_summary_tokens", self.min_summary_tokens, 0)
        checks.one_of("on_model_failure", self.on_model_failure, ("fail", "fallback_summary"))
        checks.one_of("on_summarizer_overflow", self.on_summarizer_overflow, ("mechanical", "fail"))
        if self.curator is not None and not callable(self.curator):
            checks.refuse("curator", "None or a function of the discarded messages", self.curator)
        if self.user_message_budget is not None and self.user_message_budget != AUTO:
            checks.positive("user_message_budget", self.user_message_budget, or_else="'auto', None or ")
        if self.max_result_tokens is not None and self.max_result_tokens != AUTO:
            least = checks.LEAST_RESULT
            checks.at_least("max_result_tokens", self.max_result_tokens, least, or_else="'auto', None or ")
        if not callable(self.request_rule):
            checks.refuse("request_rule", "a function of a text", self.request_rule)
        checks.boolean("prefix_preserving", self.prefix_preserving)

    def token_rule(self) -> TokenRule:
        """The rule that ``estimator`` names."""
        return rule(self.estimator)

    def effective_threshold(self, context_window: int | None) -> int:
        """The tokens at which a compaction is due under a window; pass None for an unknown window.

        The first of these that applies: the share ``trigger_fraction`` of a known window;
        ``auto_compact_threshold``, if it is a number; four fifths of a known window;
        ``UNKNOWN_WINDOW_THRESHOLD``.
        """
        if context_window is not None and self.trigger_fraction is not None:
            from siltstone.compaction.share import reached_at

            return reached_at(context_window, self.trigger_fraction)
        if self.auto_compact_threshold != AUTO:
            return self.auto_compact_threshold
        return UNKNOWN_WINDOW_THRESHOLD if context_window is None else max(1, context_window * 4 // 5)

    def summary_cap(self, context_window: int | None) -> int:
        """The smallest of ``max_summary_tokens`` and an eighth of each known window, at least 1 token."""
        windows = [window for window in (context_window, self.summarizer_window) if window is not None]
        return max(SHORTEST_SUMMARY, min([self.max_summary_tokens, *(window // 8 for window in windows)]))

    def result_tokens(self, threshold: int) -> int | None:
        """The maximum tokens of a message with results, for an effective *threshold*; None: no bound."""
        if self.max_result_tokens != AUTO:
            return self.max_result_tokens
        return max(checks.LEAST_RESULT, threshold // RESULT_SHARE)

    def user_message_tokens(self, threshold: int) -> int | None:
        """The budget of kept user messages in tokens, for an effective *threshold*; None: no bound."""
        if self.user_message_budget != AUTO:
            return self.user_message_budget
        return max(1, threshold // USER_MESSAGE_SHARE)

    def retained_tokens(self, threshold: int) -> int | None:
        """The budget of retained turns in tokens, for an effective *threshold*; None: no bound."""
        return threshold // 2 if self.retained_token_budget == AUTO else self.retained_token_budget
