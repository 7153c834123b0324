"""The settings of tiered compaction, each checked when it is set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from siltstone.compaction import checks
from siltstone.compaction.chronicle_config import ChronicleConfig
from siltstone.compaction.share import reached_at, share_of
from siltstone.compaction.tiered_prompts import DOCUMENTED_MARKER, EMERGENCY_MARKER, SUMMARY_HEADING
from siltstone.tokens import TokenRule

__all__ = ["FALLBACK_WINDOW", "LEAST_SUMMARY", "Tier", "TieredConfig"]

Tier = Literal["background", "aggressive", "emergency"]

FALLBACK_WINDOW: Final = 200_000
"""The window in tokens that is assumed for an unknown model."""

LEAST_SUMMARY: Final = 16  # tokens: the minimum of a cap, enough for one sentence

_SHARES: Final = (
    "background_fraction",
    "aggressive_fraction",
    "emergency_fraction",
    "fork_reserve",
    "fork_fraction",
    "overflow_fraction",
    "worker_fraction",
)


@dataclass(frozen=True, slots=True)
class TieredConfig:
    """The settings of :class:`TieredCompactor` and :class:`WorkerCompactor`.

    A share of the window is reached at ``>=``. A fraction is of the messages after the summaries, rounded
    down.

    Attributes:
        context_window: The window in tokens, for callers that name none; if both are known, the smaller one
            counts. If neither is known: 200,000, and a warning is logged.
        background_threshold: Share of the window at which the oldest messages are summarised in the
            background.
        aggressive_threshold: Share at which more of them are summarised.
        emergency_threshold: Share at which the oldest half leaves at once, without a model.
        background_fraction: The fraction that leaves in the first tier, above 0 and below 1.
        aggressive_fraction: The fraction in the second tier, and for a call of ``compact``.
        emergency_fraction: The fraction in the third tier.
        retain_floor: The minimum number of messages that stay.
        estimator: The token rule: ``"bytes_total"``, ``"flat_tools"`` or another rule.
        max_summary_tokens: The maximum tokens of a summary; at most a quarter of the room for all summaries,
            but at least 16.
        summary_heading: The first line of a summary, with the places ``{n}``, ``{first}`` and ``{last}``:
            its number, and the first and last turn.
        summary_stack_fraction: Share of the window that all summaries together may have, 0.01..0.5. Above it
            the oldest summaries become one summary.
        emergency_marker: The text that replaces messages in an emergency; ``{n}`` is their number.
        attempts: Calls of one model for one answer.
        call_timeout: Seconds that a call may take; None for no limit.
        retry_delay: Seconds before the second call for one answer; each further call waits twice as long.
        summarizer_window: The window of the model that writes summaries, in tokens; None: the session's.
        retry_after_turns: Boundaries between a failed job and the next job; a higher tier does not wait.
        fork_preflight: The compaction of a fork before its first call. ``"budget"``: the oldest messages
            leave until it fits. ``"usage"``: half of it is summarised once, above a share of the window (the
            documented form).
        fork_reserve: Share of the window that a fork leaves free; also the distance between the
            ``background_threshold`` and the tokens at which a chronicle acts.
        fork_floor: The minimum number of messages that a fork keeps.
        fork_fraction: The fraction that a fork discards in one step.
        fork_usage_threshold: The share of ``"usage"``, above 0; a fork is compacted above it, not at it.
        overflow_retries: The maximum number of retries of a request that the provider found too large.
        overflow_fraction: The fraction discarded before each retry.
        worker_turns_per_segment: Model calls in a segment of a worker.
        worker_max_segments: The maximum number of segments of a worker.
        worker_threshold: Share of the window at which messages are discarded at the end of a segment.
        worker_fraction: The fraction discarded then.
        worker_strict: Whether the window must be fuller than ``worker_threshold``, not just as full (the
            documented form).
        superseding_tools: Names of tools of which only the newest result is useful.
        mode: ``"rolling"``: summaries that stack and fold. ``"chronicle"``: checkpoints, each written once,
            and one message in view that shows them.
        chronicle: The settings of checkpoints.

    Raises:
        ConfigError: a setting is out of its bounds. Carries ``field`` and ``value``.
    """

    context_window: int | None = None
    background_threshold: float = 0.80
    aggressive_threshold: float = 0.85
    emergency_threshold: float = 0.95
    background_fraction: float = 0.30
    aggressive_fraction: float = 0.50
    emergency_fraction: float = 0.50
    retain_floor: int = 2
    estimator: str | TokenRule = "bytes_total"
    max_summary_tokens: int = 2048
    summary_heading: str = SUMMARY_HEADING
    summary_stack_fraction: float = 0.15
    emergency_marker: str = EMERGENCY_MARKER
    attempts: int = 2
    call_timeout: float | None = 120.0
    retry_delay: float = 0.5
    summarizer_window: int | None = None
    retry_after_turns: int = 2
    fork_preflight: Literal["budget", "usage"] = "budget"
    fork_reserve: float = 0.15
    fork_floor: int = 4
    fork_fraction: float = 0.50
    fork_usage_threshold: float = 0.6
    overflow_retries: int = 2
    overflow_fraction: float = 0.75
    worker_turns_per_segment: int = 15
    worker_max_segments: int = 10
    worker_threshold: float = 0.70
    worker_fraction: float = 0.50
    worker_strict: bool = False
    superseding_tools: tuple[str, ...] = ()
    mode: Literal["rolling", "chronicle"] = "rolling"
    chronicle: ChronicleConfig = field(default_factory=ChronicleConfig)

    def __post_init__(self) -> None:
        if self.context_window is not None:
            checks.positive("context_window", self.context_window, or_else="None or ")
        checks.one_of("mode", self.mode, ("rolling", "chronicle"))
        if not isinstance(self.chronicle, ChronicleConfig):
            checks.refuse("chronicle", "a ChronicleConfig", self.chronicle)
        self._check_thresholds()
        for name in _SHARES:
            value = getattr(self, name)
            if not checks.is_number(value) or not 0 < value < 1:
                checks.refuse(name, "a number > 0 and < 1", value)
        checks.share("fork_usage_threshold", self.fork_usage_threshold, above_zero=True)
        checks.share("worker_threshold", self.worker_threshold, above_zero=True)
        checks.positive("retain_floor", self.retain_floor)
        checks.estimator(self.estimator)
        checks.positive("max_summary_tokens", self.max_summary_tokens)
        _check_template("summary_heading", self.summary_heading, {"n": "1", "first": 1, "last": 2})
        share = self.summary_stack_fraction
        if not checks.is_number(share) or not 0.01 <= share <= 0.5:
            checks.refuse("summary_stack_fraction", "a number in 0.01..0.5", share)
        _check_template("emergency_marker", self.emergency_marker, {"n": 1})
        checks.positive("attempts", self.attempts)
        checks.seconds("call_timeout", self.call_timeout)
        checks.pause("retry_delay", self.retry_delay)
        checks.summarizer_window(self.summarizer_window)
        checks.at_least("retry_after_turns", self.retry_after_turns, 0)
        checks.one_of("fork_preflight", self.fork_preflight, ("budget", "usage"))
        checks.positive("fork_floor", self.fork_floor)
        checks.at_least("overflow_retries", self.overflow_retries, 0)
        checks.boolean("worker_strict", self.worker_strict)
        checks.positive("worker_turns_per_segment", self.worker_turns_per_segment)
        checks.positive("worker_max_segments", self.worker_max_segments)
        tools = checks.names("superseding_tools", self.superseding_tools, "names of tools")
        object.__setattr__(self, "superseding_tools", tools)

    @classmethod
    def documented(cls, **settings: Any) -> TieredConfig:
        """The documented form. *settings* override it.

        It differs from the defaults in these points: flat sizes of calls and results, a marker without the
        number, one step for a fork, segments of 25 calls with a strict threshold, and checkpoints that never
        split a turn.
        """
        form: Mapping[str, Any] = {
            "estimator": "flat_tools",
            "emergency_marker": DOCUMENTED_MARKER,
            "fork_preflight": "usage",
            "worker_turns_per_segment": 25,
            "worker_strict": True,
            "chronicle": ChronicleConfig(whole_turns=True),
        }
        return cls(**{**form, **settings})

    def _check_thresholds(self) -> None:
        """Checks that 0 < background <= aggressive <= emergency <= 1."""
        least, name = 0.0, "0"
        for tier in ("background", "aggressive", "emergency"):
            field = f"{tier}_threshold"
            value = getattr(self, field)
            checks.share(field, value, above_zero=True)
            if value < least:
                checks.refuse(field, f">= {name}, {least}", value)
            least, name = value, field

    def window(self, named: int | None) -> int:
        """The window in tokens, for a caller that names *named*: the smaller known one, else the fallback."""
        known = [window for window in (self.context_window, named) if window is not None]
        return min(known, default=FALLBACK_WINDOW)

    def threshold(self, tier: Tier, window: int) -> int:
        """The tokens at which *tier* is due."""
        return reached_at(window, getattr(self, f"{tier}_threshold"))

    def tier(self, tokens: int, window: int) -> Tier | None:
        """The highest tier that *tokens* reach; None below all tiers."""
        tiers: tuple[Tier, ...] = ("emergency", "aggressive", "background")
        return next((tier for tier in tiers if tokens >= self.threshold(tier, window)), None)

    def worker_tokens(self, window: int) -> int:
        """The tokens at which messages are discarded at the end of a worker's segment."""
        if self.worker_strict:
            return share_of(window, self.worker_threshold) + 1
        return reached_at(window, self.worker_threshold)

    def stack_budget(self, window: int) -> int:
        """The maximum tokens of all summaries together."""
        return share_of(window, self.summary_stack_fraction)

    def summary_cap(self, window: int) -> int:
        """The maximum tokens of one summary: a quarter of the stack's budget at most, but at least 16."""
        return max(LEAST_SUMMARY, min(self.max_summary_tokens, self.stack_budget(window) // 4))


def _check_template(field: str, value: object, places: Mapping[str, object]) -> None:
    """Refuses a value that is not one line of text, or that has other places than *places*."""
    said = ", ".join(f"{{{name}}}" for name in places)
    if not isinstance(value, str) or not value.strip() or "\n" in value:
        checks.refuse(field, "a line of text that is not blank", value)
    try:
        value.format(**places)
    except (KeyError, IndexError, ValueError):
        checks.refuse(field, f"a line of text with no places but {said}", value)
