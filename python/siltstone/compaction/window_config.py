"""The settings of windows, each checked when it is set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from siltstone.compaction import checks
from siltstone.compaction.share import reached_at, share_of
from siltstone.tokens import TokenRule

__all__ = ["WINDOW_PREFIX", "WindowConfig"]

WINDOW_PREFIX: Final = "[Summary of earlier messages]"
AUTO: Final = "auto"


@dataclass(frozen=True, slots=True)
class WindowConfig:
    """The settings of :class:`WindowCompactor`: when it compacts, and how many messages stay.

    Attributes:
        working_limit: The maximum number of messages in view, without system messages, the summary, pinned
            messages, and a group that crosses the limit.
        short_term_limit: The number of newest messages outside the view that are short-term; older ones are
            long-term.
        auto_summarize: False: compacts only when ``compact`` is called.
        working_slack: With 0 the limit is a strict maximum. Else a run is due at the limit plus this number.
        working_target: Messages that stay after a run due by their number. ``"auto"``: half of a strict
            limit, so that one model call summarises many messages; else the limit. A run by ``compact``
            leaves the limit.
        auto_summarize_threshold: Share of the window at which a run is due, for any number of messages.
        auto_summarize_target: Share of the window that such a run aims at.
        summary_max_tokens: The maximum tokens of one answer.
        summary_temperature: The sampling temperature of the answer, 0..1.
        summary_budget_tokens: The maximum tokens of the summary in view. If a new summary has no room after
            the earlier ones, it is made from them and the messages together.
        fallback_bytes: The maximum bytes of the fallback summary, which needs no model.
        attempts: Calls of one model for one answer.
        call_timeout: Seconds that a call may take; None for no limit.
        retry_delay: Seconds before the second call for one answer.
        summarizer_window: The window of the model that writes summaries, in tokens; None: the session's.
        estimator: The token rule, as in :class:`CompactionConfig`.

    Raises:
        ConfigError: a setting is out of its bounds. Carries ``field`` and ``value``.
    """

    working_limit: int = 20
    short_term_limit: int = 100
    auto_summarize: bool = True
    working_slack: int = 0
    working_target: int | Literal["auto"] = AUTO
    auto_summarize_threshold: float = 0.7
    auto_summarize_target: float = 0.5
    summary_max_tokens: int = 500
    summary_temperature: float | None = 0.3
    summary_budget_tokens: int = 1500
    fallback_bytes: int = 500
    attempts: int = 2
    call_timeout: float | None = 120.0
    retry_delay: float = 0.5
    summarizer_window: int | None = None
    estimator: str | TokenRule = "bytes/4"

    def __post_init__(self) -> None:
        checks.positive("working_limit", self.working_limit)
        checks.positive("short_term_limit", self.short_term_limit)
        checks.boolean("auto_summarize", self.auto_summarize)
        checks.at_least("working_slack", self.working_slack, 0)
        if self.working_target != AUTO:
            checks.positive("working_target", self.working_target, or_else='"auto" or ')
            if self.working_target > self.working_limit:
                checks.refuse(
                    "working_target", f"at most working_limit, {self.working_limit}", self.working_target
                )
        checks.share("auto_summarize_threshold", self.auto_summarize_threshold, above_zero=True)
        checks.share("auto_summarize_target", self.auto_summarize_target, above_zero=True)
        if not self.auto_summarize_target < self.auto_summarize_threshold:
            checks.refuse(
                "auto_summarize_target",
                f"< auto_summarize_threshold, {self.auto_summarize_threshold}",
                self.auto_summarize_target,
            )
        checks.positive("summary_max_tokens", self.summary_max_tokens)
        if self.summary_temperature is not None:
            checks.share("summary_temperature", self.summary_temperature)
        checks.positive("summary_budget_tokens", self.summary_budget_tokens)
        checks.positive("fallback_bytes", self.fallback_bytes)
        checks.positive("attempts", self.attempts)
        checks.seconds("call_timeout", self.call_timeout)
        checks.pause("retry_delay", self.retry_delay)
        checks.summarizer_window(self.summarizer_window)
        checks.estimator(self.estimator)

    @classmethod
    def documented(cls) -> WindowConfig:
        """The documented slack of 20: a run is due at twice the limit, and leaves the limit."""
        return cls(working_slack=20)

    @property
    def left(self) -> int:
        """The number of messages that stay after a run due by their number."""
        if self.working_target != AUTO:
            return self.working_target
        return self.working_limit if self.working_slack else max(1, self.working_limit // 2)

    def due_at(self, count: int) -> bool:
        """Whether a run is due with *count* messages in view."""
        if self.working_slack:
            return count >= self.working_limit + self.working_slack
        return count > self.working_limit

    def threshold(self, context_window: int) -> int:
        """The tokens at which a run is due: its share of the window, rounded up."""
        return reached_at(context_window, self.auto_summarize_threshold)

    def target(self, context_window: int) -> int:
        """The maximum tokens that a run due by tokens aims at: its share of the window, rounded down."""
        return share_of(context_window, self.auto_summarize_target)
