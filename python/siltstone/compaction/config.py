"""The settings of threshold compaction, each checked when it is set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal, NoReturn

from siltstone.compaction.prompts import SUMMARY_PREFIX
from siltstone.errors import ConfigError
from siltstone.tokens import TokenRule, rule

__all__ = ["CompactionConfig"]

AUTO: Final = "auto"  # of a budget: half the effective threshold
SHORTEST_SUMMARY = 1  # tokens: what a window of less than eight still asks for


@dataclass(frozen=True, slots=True)
class CompactionConfig:
    """When :class:`ThresholdCompactor` acts, and how much it retains.

    Attributes:
        auto_compact_threshold: Tokens at which a compaction is due. Where the window is known, four
            fifths of it are the most: see :meth:`effective_threshold`.
        recent_turn_budget: The most complete turns retained; 0 retains none.
        max_summary_tokens: The most tokens a summary has; an eighth of a known window at most.
        min_turns_between_compactions: Boundaries (calls of ``prepare``) between two attempts.
        retained_token_budget: Tokens of retained turns. ``"auto"``: half the effective threshold.
            None: no bound, so exactly ``recent_turn_budget`` turns and the whole turn in flight stay.
        strict_guard: The spacing holds for every trigger, also where the history itself is over.
        max_request_bytes: The provider's cap on a request; four fifths of it are a trigger, and a
            quarter of it bounds the retained turns.
        min_reduction: A compaction that reclaims less than this share, 0..1, is refused.
        estimator: How tokens are counted: ``"blocks"``, ``"bytes/4"`` or ``"chars/3"``.
        summary_prefix: What a summary message begins with, before a blank line.

    Raises:
        ConfigError: a setting is out of its bounds. Carries ``field`` and ``value``.
    """

    auto_compact_threshold: int = 100_000
    recent_turn_budget: int = 4
    max_summary_tokens: int = 4096
    min_turns_between_compactions: int = 3
    retained_token_budget: int | Literal["auto"] | None = AUTO
    strict_guard: bool = False
    max_request_bytes: int | None = None
    min_reduction: float = 0.0
    estimator: str = "blocks"
    summary_prefix: str = SUMMARY_PREFIX

    def __post_init__(self) -> None:
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
        share = self.min_reduction
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
            _refuse("min_reduction", "a number in 0..1", share)
        if not isinstance(self.summary_prefix, str) or not self.summary_prefix.strip():
            _refuse("summary_prefix", "a text that is not blank", self.summary_prefix)
        try:
            self.token_rule()
        except ConfigError as error:
            raise ConfigError(f"estimator: {error}", field="estimator", value=self.estimator) from None

    def token_rule(self) -> TokenRule:
        """The rule that ``estimator`` names."""
        return rule(self.estimator)

    def effective_threshold(self, context_window: int | None) -> int:
        """``min(auto_compact_threshold, window * 4 / 5)``; the setting itself where no window is known."""
        if context_window is None:
            return self.auto_compact_threshold
        return min(self.auto_compact_threshold, context_window * 4 // 5)

    def summary_cap(self, context_window: int | None) -> int:
        """``min(max_summary_tokens, window / 8)``; the setting itself where no window is known."""
        if context_window is None:
            return self.max_summary_tokens
        return max(SHORTEST_SUMMARY, min(self.max_summary_tokens, context_window // 8))

    def retained_tokens(self, threshold: int) -> int | None:
        """The budget of retained turns under an effective *threshold*; None where there is no bound."""
        return threshold // 2 if self.retained_token_budget == AUTO else self.retained_token_budget


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _positive(field: str, value: Any, or_else: str = "") -> None:
    if not _is_int(value):
        _refuse(field, f"{or_else}an int", value)
    if value <= 0:
        _refuse(field, f"{or_else}> 0", value)


def _refuse(field: str, bound: str, value: object) -> NoReturn:
    raise ConfigError(f"{field} must be {bound}, got {value!r}", field=field, value=value)
