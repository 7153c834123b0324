"""The settings of the smart trim, each checked when it is set."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from siltstone.compaction import checks
from siltstone.errors import ConfigError
from siltstone.messages import RawMessage
from siltstone.tokens import TokenRule

__all__ = ["SmartTrimConfig"]

SCOPES = ("request", "history")
HARD_CAP_TENTHS = 10  # recalled context has at most a tenth of the window


@dataclass(frozen=True, slots=True)
class SmartTrimConfig:
    """The settings of :class:`SmartTrim`: when it trims, and which messages it protects.

    Attributes:
        reserve_tokens: Tokens left free for the answer. None: 4,000, or the part of the window outside
            ``max_history_share``.
        hard_cap_tokens: The maximum tokens of recalled context; never more than a tenth of the window.
        max_history_share: The share of the window that the history may have, 0..1; it counts only if
            ``reserve_tokens`` is None.
        protected_recent: The number of newest messages of user and assistant that stay. Messages with only
            tool results are not counted.
        query: The text against which messages are scored. None: the newest three requests.
        shortest_query: The minimum characters of a query; with a shorter one nothing is trimmed.
        is_summary: A function that tells whether a message among the first three is the host's own summary;
            such a message stays.
        target_share: Share of the safe limit that a trim aims at, above 0. Below 1, the next message does not
            need a trim again, and the provider's cache stays valid for a while.
        trim_scope: ``"history"``: trimmed messages stay out of view, as after any compaction. ``"request"``:
            they are missing in this request only, and the next request begins with the whole history again; a
            session indexes them first, and leaves its history as it is.
        documented: Whether to use the documented tokenizer and scores, in Python; else those of the core.
        estimator: The token rule, as in :class:`CompactionConfig`.

    Raises:
        ConfigError: a setting is out of its bounds. Carries ``field`` and ``value``.
    """

    reserve_tokens: int | None = None
    hard_cap_tokens: int = 4000
    max_history_share: float | None = None
    protected_recent: int = 6
    query: str | None = None
    shortest_query: int = 3
    is_summary: Callable[[RawMessage], bool] | None = None
    target_share: float = 0.8
    trim_scope: Literal["request", "history"] = "history"
    documented: bool = False
    estimator: str | TokenRule = "chars/3"

    def __post_init__(self) -> None:
        if self.reserve_tokens is not None:
            checks.at_least("reserve_tokens", self.reserve_tokens, 0, or_else="None or ")
        checks.at_least("hard_cap_tokens", self.hard_cap_tokens, 0)
        if self.max_history_share is not None:
            checks.share("max_history_share", self.max_history_share)
        checks.at_least("protected_recent", self.protected_recent, 0)
        if self.query is not None and not isinstance(self.query, str):
            checks.refuse("query", "None or a text", self.query)
        checks.at_least("shortest_query", self.shortest_query, 0)
        if self.is_summary is not None and not callable(self.is_summary):
            checks.refuse("is_summary", "None or a function of a message", self.is_summary)
        checks.share("target_share", self.target_share, above_zero=True)
        checks.one_of("trim_scope", self.trim_scope, SCOPES)
        checks.boolean("documented", self.documented)
        checks.estimator(self.estimator)

    def hard_cap(self, context_window: int) -> int:
        """The maximum tokens of recalled context in a window."""
        return min(self.hard_cap_tokens, context_window // HARD_CAP_TENTHS)

    def safe_limit(self, context_window: int) -> int:
        """The maximum tokens of a history: the window minus the reserve and minus the hard cap.

        Raises:
            ConfigError: the result is 0 or less.
        """
        reserve = self.reserve_tokens
        if reserve is None:
            reserve = 4000
            if self.max_history_share is not None:
                from fractions import Fraction  # slow to import: it imports decimal

                share = 1 - Fraction(str(self.max_history_share))
                reserve = int(context_window * share + Fraction(1, 2))  # a half is rounded up
        cap = self.hard_cap(context_window)
        limit = context_window - reserve - cap
        if limit <= 0:
            raise ConfigError(
                f"the safe limit must be > 0, got {limit}: a window of {context_window}, less reserve_tokens "
                f"{reserve}, less {cap} for recalled context",
                field="reserve_tokens",
                value=reserve,
            )
        return limit
