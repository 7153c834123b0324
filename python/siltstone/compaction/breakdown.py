"""How full a context is: tokens by what they are for, and the bands at which somebody should know."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal, TypeAlias

from siltstone.compaction.base import summaries
from siltstone.events import ContextCritical, ContextWarning
from siltstone.messages import Message
from siltstone.tokens import TokenRule, rule
from siltstone.values import dataclass

__all__ = [
    "ContextBreakdown",
    "Level",
    "alert_of",
    "band_of",
    "breakdown",
    "context_alert",
    "level_of_ratio",
    "percent_of",
]

Level: TypeAlias = Literal["ok", "warning", "critical", "overflow"]

IS_WARNING = 0.7  # of the window: from here on a breakdown warns
WARNING_PERCENT, CRITICAL_PERCENT = 70, 90  # whole per cent: from here on an event tells


@dataclass(frozen=True, slots=True)
class ContextBreakdown:
    """The tokens of a context, by category.

    Attributes:
        summary_tokens: The summaries in view.
        message_tokens: Everything else in view.
        total_tokens: Both together, counted once.
        context_window: The window; 0 where unknown.
        remaining_tokens: What is left of it, at least 0.
        message_count: Messages in view, without summaries.
        messages_seen: Messages there ever were.
        pinned_count: Those of the view that are pinned.
        has_summary: There is a summary in view.
        facts_count: Facts that the host keeps beside it.
        rules_count: Rules that the host keeps beside it.
    """

    summary_tokens: int
    message_tokens: int
    total_tokens: int
    context_window: int
    remaining_tokens: int
    message_count: int
    messages_seen: int
    pinned_count: int
    has_summary: bool
    facts_count: int = 0
    rules_count: int = 0

    @property
    def ratio(self) -> float:
        """The share of the window that is used, 0..1; 0 for a window of 0."""
        if self.context_window <= 0:
            return 0.0
        return min(1.0, self.total_tokens / self.context_window)

    @property
    def is_warning(self) -> bool:
        """Seven tenths of the window are used."""
        return self.ratio >= IS_WARNING

    @property
    def percent(self) -> int:
        """The share in whole per cent, rounded down, above 100 where it is over the window."""
        return percent_of(self.total_tokens, self.context_window)

    @property
    def level(self) -> Level:
        """The band of the ratio."""
        return level_of_ratio(self.ratio)


def breakdown(
    view: Sequence[Message],
    context_window: int | None,
    *,
    estimator: str | TokenRule = "bytes/4",
    pins: Collection[int] = (),
    messages_seen: int | None = None,
    facts_count: int = 0,
    rules_count: int = 0,
) -> ContextBreakdown:
    """The tokens of the context *view*, by category.

    Args:
        view: The messages in view.
        context_window: The window in tokens; None where unknown.
        estimator: How tokens are counted.
        pins: Sequence numbers of pinned messages.
        messages_seen: Messages there ever were; None: those in view, and those that summaries stand for.
        facts_count: Facts that the host keeps.
        rules_count: Rules that the host keeps.
    """
    chosen = rule(estimator)
    made = summaries(view)
    total, of_summaries = chosen.count(view), chosen.count(made)
    covered = sum(end - start for message in made for start, end in message.covers)
    window = context_window or 0
    own = [message for message in view if message.provenance != "compaction_summary"]
    return ContextBreakdown(
        summary_tokens=of_summaries,
        message_tokens=total - of_summaries,
        total_tokens=total,
        context_window=window,
        remaining_tokens=max(0, window - total),
        message_count=len(own),
        messages_seen=len(own) + covered if messages_seen is None else messages_seen,
        pinned_count=sum(message.seq in pins for message in own),
        has_summary=bool(made),
        facts_count=facts_count,
        rules_count=rules_count,
    )


def level_of_ratio(ratio: float) -> Level:
    """Above 0.95 ``overflow``, above 0.80 ``critical``, above 0.50 ``warning``, else ``ok``."""
    if ratio > 0.95:
        return "overflow"
    if ratio > 0.80:
        return "critical"
    return "warning" if ratio > 0.50 else "ok"


def context_alert(full: ContextBreakdown) -> ContextWarning | ContextCritical | None:
    """What is to be told of *full*: critical from 90 %, a warning from 70 %, in whole per cent."""
    return alert_of(full.total_tokens, full.context_window)


def alert_of(tokens: int, context_window: int) -> ContextWarning | ContextCritical | None:
    """The same of a request of *tokens*; None where the window is not known, which 0 says."""
    band = band_of(tokens, context_window)
    if not band:
        return None
    kind = ContextCritical if band == CRITICAL_PERCENT else ContextWarning
    return kind(tokens, context_window, percent_of(tokens, context_window))


def band_of(tokens: int, context_window: int) -> int:
    """The per cent at which the band begins that *tokens* are in: 90, 70, or 0 below both."""
    percent = percent_of(tokens, context_window)
    return next((band for band in (CRITICAL_PERCENT, WARNING_PERCENT) if percent >= band), 0)


def percent_of(tokens: int, context_window: int) -> int:
    """*tokens* in whole per cent of the window, rounded down; 0 for a window of 0."""
    return tokens * 100 // context_window if context_window > 0 else 0
