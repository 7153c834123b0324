"""The settings of checkpoint mode, each checked when it is set."""

from __future__ import annotations

from dataclasses import dataclass

from siltstone.compaction import checks

__all__ = ["ChronicleConfig"]


@dataclass(frozen=True, slots=True)
class ChronicleConfig:
    """The settings of checkpoint mode: when a checkpoint is written, and how many are in view.

    Attributes:
        interval_messages: Messages since the last checkpoint at which the next one is due.
        interval_token_fraction: The same interval as a share of the window, 0.01..0.9.
        recent_window_hours: Checkpoints that ended within this number of hours are recent, 1..8760. If the
            times of messages are unknown, all checkpoints are recent.
        max_recent: The maximum number of recent checkpoints in view, 1..100.
        max_older: The maximum number of older checkpoints and roll-ups in view, 0..100. The newest
            checkpoint stays in view in any case.
        context_token_budget: The maximum tokens of the chronicle in view, 200..32,000; never more than
            ``summary_stack_fraction`` of the window.
        expand_message_limit: The maximum messages of a page when a checkpoint is expanded, 1..500.
        max_messages_per_checkpoint: The maximum messages of one checkpoint, 1..5,000. A longer history
            without checkpoints is split into several.
        rollup_threshold: The number of checkpoints of one level, at least 2, at which the oldest are rolled
            up.
        rollup_batch: The number of checkpoints in one roll-up, at most ``rollup_threshold``.
        whole_turns: Whether a checkpoint never ends inside a turn (the documented form). If False, it may end
            inside the turn in flight when that turn fills the window.

    Raises:
        ConfigError: a setting is out of its bounds. Carries ``field`` and ``value``.
    """

    interval_messages: int = 40
    interval_token_fraction: float = 0.12
    recent_window_hours: int = 24
    max_recent: int = 8
    max_older: int = 12
    context_token_budget: int = 2000
    expand_message_limit: int = 100
    max_messages_per_checkpoint: int = 400
    rollup_threshold: int = 12
    rollup_batch: int = 8
    whole_turns: bool = False

    def __post_init__(self) -> None:
        checks.positive("interval_messages", self.interval_messages)
        share = self.interval_token_fraction
        if not checks.is_number(share) or not 0.01 <= share <= 0.9:
            checks.refuse("interval_token_fraction", "a number in 0.01..0.9", share)
        checks.within("recent_window_hours", self.recent_window_hours, 1, 8_760)
        checks.within("max_recent", self.max_recent, 1, 100)
        checks.within("max_older", self.max_older, 0, 100)
        checks.within("context_token_budget", self.context_token_budget, 200, 32_000)
        checks.within("expand_message_limit", self.expand_message_limit, 1, 500)
        checks.within("max_messages_per_checkpoint", self.max_messages_per_checkpoint, 1, 5_000)
        checks.positive("rollup_threshold", self.rollup_threshold)
        checks.within("rollup_batch", self.rollup_batch, 1, self.rollup_threshold)
        checks.boolean("whole_turns", self.whole_turns)
