"""The fill of a context: its tokens by category, and the bands at which a warning is due."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from siltstone.compaction.base import summaries
from siltstone.messages import Message
from siltstone.tokens import TokenRule, rule

if TYPE_CHECKING:
    from siltstone.events import ContextCritical, ContextWarning


Level: TypeAlias = Literal["ok", "warning", "critical", "overflow"]

WARNING_PERCENT, CRITICAL_PERCENT = 70, 90  # whole per cent: from here on an event tells


@dataclass(frozen=True, slots=True)
class ContextBreakdown:
    """The tokens of a context, by category.

    Attributes:
        summary_tokens: The summaries in view.
        message_tokens: The other messages in view.
        total_tokens: All together, the summaries and messages counted once.
        context_window: The window; 0 if unknown.
        remaining_tokens: The free part of the window, at least 0.
        message_count: Messages in view, without summaries.
        messages_seen: Messages ever appended.
        pinned_count: Pinned messages in view.
        has_summary: Whether a summary is in view.
        facts_count: Facts that the host keeps outside the context.
        rules_count: Rules that the host keeps outside the context.
        recalled_tokens: The blocks of recall and of wishes in the request.
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
    recalled_tokens: int = 0

    @property
    def ratio(self) -> float:
        """The share of the window that is used, 0..1; 0 for a window of 0."""
        if self.context_window <= 0:
            return 0.0
        return min(1.0, self.total_tokens / self.context_window)

    @property
    def is_warning(self) -> bool:
        """Whether seven tenths of the window are used."""
        return self.percent >= WARNING_PERCENT

    @property
    def percent(self) -> int:
        """The share in whole per cent, rounded down; above 100 if the context is larger than the window."""
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
    recalled_tokens: int = 0,
) -> ContextBreakdown:
    """The tokens of the context *view*, by category.

    Args:
        view: The messages in view.
        context_window: The window in tokens; None if unknown.
        estimator: The token rule.
        pins: Sequence numbers of pinned messages.
        messages_seen: Messages ever appended. None: the messages in view and the messages that its summaries
            cover are counted.
        facts_count: Facts that the host keeps.
        rules_count: Rules that the host keeps.
        recalled_tokens: The blocks beside *view* in the request.
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
        total_tokens=total + recalled_tokens,
        context_window=window,
        remaining_tokens=max(0, window - total - recalled_tokens),
        message_count=len(own),
        messages_seen=len(own) + covered if messages_seen is None else messages_seen,
        pinned_count=sum(message.seq in pins for message in own),
        has_summary=bool(made),
        facts_count=facts_count,
        rules_count=rules_count,
        recalled_tokens=recalled_tokens,
    )


def level_of_ratio(ratio: float) -> Level:
    """Above 0.95 ``overflow``, above 0.80 ``critical``, above 0.50 ``warning``, else ``ok``."""
    if ratio > 0.95:
        return "overflow"
    if ratio > 0.80:
        return "critical"
    return "warning" if ratio > 0.50 else "ok"


def alert_of(tokens: int, context_window: int) -> ContextWarning | ContextCritical | None:
    """The event for a request of *tokens*: critical from 90 %, a warning from 70 %; else None."""
    band = band_of(tokens, context_window)
    if not band:
        return None
    from siltstone.events import ContextCritical, ContextWarning

    kind = ContextCritical if band == CRITICAL_PERCENT else ContextWarning
    return kind(tokens, context_window, percent_of(tokens, context_window))


def band_of(tokens: int, context_window: int) -> int:
    """The lower end of the band of *tokens*, in per cent: 90, 70, or 0 below both."""
    percent = percent_of(tokens, context_window)
    if percent >= CRITICAL_PERCENT:
        return CRITICAL_PERCENT
    return WARNING_PERCENT if percent >= WARNING_PERCENT else 0


def percent_of(tokens: int, context_window: int) -> int:
    """*tokens* in whole per cent of the window, rounded down; 0 for a window of 0."""
    return tokens * 100 // context_window if context_window > 0 else 0
