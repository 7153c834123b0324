"""The settings and the prompts of tiered compaction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final, Literal

from siltstone import checks
from siltstone.checks import reached_at, setting, share_of
from siltstone.messages import SUMMARY_ROLES, SummaryRole
from siltstone.tokens import TokenRule

# The settings of checkpoint mode, each checked when it is set.


@dataclass(frozen=True, slots=True)
class ChronicleConfig(checks.Settings):
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

    interval_messages: int = setting(40, checks.positive)
    interval_token_fraction: float = setting(0.12, checks.between, 0.01, 0.9)
    recent_window_hours: int = setting(24, checks.within, 1, 8_760)
    max_recent: int = setting(8, checks.within, 1, 100)
    max_older: int = setting(12, checks.within, 0, 100)
    context_token_budget: int = setting(2000, checks.within, 200, 32_000)
    expand_message_limit: int = setting(100, checks.within, 1, 500)
    max_messages_per_checkpoint: int = setting(400, checks.within, 1, 5_000)
    rollup_threshold: int = setting(12, checks.positive)
    rollup_batch: int = 8
    whole_turns: bool = False

    def _check_together(self) -> None:
        checks.within("rollup_batch", self.rollup_batch, 1, self.rollup_threshold)


# The texts of tiered compaction: prompts of the summariser, headings of summaries, and markers.

# The documented prompt of a worker with a tool that saves memories, word for word.
WORKER_PROMPT: Final = """\
You are a compaction worker.
Your job:
1. Summarize the provided conversation turns into a cohesive narrative
2. Extract any memorable facts, decisions, or preferences
3. Save them using memory_save

Guidelines:
- Preserve important context
- Maintain chronological flow
- Don't lose critical information
- Extract structured memories for anything worth remembering"""

# The prompt of a worker without tools.
SUMMARY_PROMPT: Final = """\
You are a compaction worker. Summarize the conversation turns above into a cohesive narrative of 2 to 5 \
paragraphs: plain text, past tense, third person.

Guidelines:
- Keep decisions with their reasons, live topics, commitments, the user's emotional state and running tasks
- Keep names, figures, paths and errors as they were said
- Maintain chronological flow
- Leave out greetings, tool mechanics and intermediate reasoning"""

META_NOTE: Final = (
    "The turns above were summarised before, in several summaries that have become too long together. Your "
    "summary takes the place of all of them."
)

# The prompt of a checkpoint.
CHECKPOINT_PROMPT: Final = """\
You are keeping the chronicle of a session. Summarize the messages above, and only these, into a checkpoint: \
plain text, past tense, third person.

Guidelines:
- Keep decisions with their reasons, commitments, results of work and what was left open
- Keep names, figures, paths and errors as they were said
- Maintain chronological flow
- Leave out greetings, tool mechanics and intermediate reasoning"""

CHECKPOINT_NOTE: Final = (
    "Begin with a title of at most ten words on a line of its own, then a blank line, then the text."
)
EARLIER_NOTE: Final = (
    "What the checkpoints before said, so that the story goes on; do not summarize it again:"
)
ROLLUP_NOTE: Final = (
    "The summaries above are checkpoints of consecutive parts of one session, oldest first. Write one "
    "checkpoint of the whole. Keep every decision, path, figure and open task; where two of them disagree, "
    "the later one holds."
)

SUMMARY_HEADING: Final = "[Summary {n}: turns {first}-{last}]"

EMERGENCY_MARKER: Final = "[Emergency truncation: {n} oldest messages removed to prevent overflow]"
DOCUMENTED_MARKER: Final = "[Emergency truncation: oldest messages removed to prevent overflow]"
OVERFLOW_MARKER: Final = "[Context overflow: {n} oldest messages removed so that the request fits]"
WORKER_MARKER: Final = "[Worker history: {n} oldest messages removed]"
FORK_MARKER: Final = "[Fork: {n} oldest messages removed to fit the window; the parent still has them]"


# The settings of tiered compaction, each checked when it is set.

Tier = Literal["background", "aggressive", "emergency"]

FALLBACK_WINDOW: Final = 200_000
"""The window in tokens that is assumed for an unknown model."""

LEAST_SUMMARY: Final = 16  # tokens: the minimum of a cap, enough for one sentence


def _check_template(field: str, value: object, places: Mapping[str, object]) -> None:
    """Refuses a value that is not one line of text, or that has other places than *places*."""
    said = ", ".join(f"{{{name}}}" for name in places)
    if not isinstance(value, str) or not value.strip() or "\n" in value:
        checks.refuse(field, "a line of text that is not blank", value)
    try:
        value.format(**places)
    except (KeyError, IndexError, ValueError):
        checks.refuse(field, f"a line of text with no places but {said}", value)


@dataclass(frozen=True, slots=True)
class TieredConfig(checks.Summarising):
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
        summary_role: The role of summaries and markers: ``"user"``, or ``"assistant"`` (the documented form),
            which a provider may refuse as the first message of a request.
        summary_heading: The first line of a summary, with the places ``{n}``, ``{first}`` and ``{last}``:
            its number, and the first and last turn.
        summary_stack_fraction: Share of the window that all summaries together may have, 0.01..0.5. Above it
            the oldest summaries become one summary.
        emergency_marker: The text that replaces messages in an emergency; ``{n}`` is their number.
        attempts: Calls of one model for one answer.
        max_turns: The maximum answers of a worker with tools, for one summary.
        summary_timeout: Seconds for the whole of a summary, with all calls and pauses; None for no limit.
        retry_delay: Seconds before the second call for one answer; each further call waits twice as long.
        on_model_failure: As in :class:`CompactionConfig`. A checkpoint waits for a model.
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

    context_window: int | None = setting(None, checks.positive, unless=(None,))
    background_threshold: float = setting(0.80, checks.share, above_zero=True)
    aggressive_threshold: float = setting(0.85, checks.share, above_zero=True)
    emergency_threshold: float = setting(0.95, checks.share, above_zero=True)
    background_fraction: float = setting(0.30, checks.fraction)
    aggressive_fraction: float = setting(0.50, checks.fraction)
    emergency_fraction: float = setting(0.50, checks.fraction)
    retain_floor: int = setting(2, checks.positive)
    estimator: str | TokenRule = setting("bytes_total", checks.estimator)
    max_summary_tokens: int = setting(2048, checks.positive)
    summary_role: SummaryRole = setting("user", checks.one_of, SUMMARY_ROLES)
    summary_heading: str = setting(SUMMARY_HEADING, _check_template, {"n": "1", "first": 1, "last": 2})
    summary_stack_fraction: float = setting(0.15, checks.between, 0.01, 0.5)
    emergency_marker: str = setting(EMERGENCY_MARKER, _check_template, {"n": 1})
    max_turns: int = setting(8, checks.positive)
    on_model_failure: Literal["fail", "fallback_summary"] = "fallback_summary"
    retry_after_turns: int = setting(2, checks.at_least, 0)
    fork_preflight: Literal["budget", "usage"] = "budget"
    fork_reserve: float = setting(0.15, checks.fraction)
    fork_floor: int = setting(4, checks.positive)
    fork_fraction: float = setting(0.50, checks.fraction)
    fork_usage_threshold: float = setting(0.6, checks.share, above_zero=True)
    overflow_retries: int = setting(2, checks.at_least, 0)
    overflow_fraction: float = setting(0.75, checks.fraction)
    worker_turns_per_segment: int = setting(15, checks.positive)
    worker_max_segments: int = setting(10, checks.positive)
    worker_threshold: float = setting(0.70, checks.share, above_zero=True)
    worker_fraction: float = setting(0.50, checks.fraction)
    worker_strict: bool = False
    superseding_tools: tuple[str, ...] = setting((), checks.names, "names of tools")
    mode: Literal["rolling", "chronicle"] = "rolling"
    chronicle: ChronicleConfig = field(default_factory=ChronicleConfig)

    @classmethod
    def documented(cls, **settings: Any) -> TieredConfig:
        """The documented form. *settings* override it.

        It differs from the defaults in these points: flat sizes of calls and results, a marker without the
        number, one step for a fork, segments of 25 calls with a strict threshold, checkpoints that never
        split a turn, and no summary without a model.
        """
        form: Mapping[str, Any] = {
            "estimator": "flat_tools",
            "emergency_marker": DOCUMENTED_MARKER,
            "fork_preflight": "usage",
            "worker_turns_per_segment": 25,
            "worker_strict": True,
            "on_model_failure": "fail",
            "chronicle": ChronicleConfig(whole_turns=True),
        }
        return cls(**{**form, **settings})

    def _check_together(self) -> None:
        """Checks that background <= aggressive <= emergency, and the kind of the settings of checkpoints."""
        if not isinstance(self.chronicle, ChronicleConfig):
            checks.refuse("chronicle", "a ChronicleConfig", self.chronicle)
        for below, name in pairwise(("background_threshold", "aggressive_threshold", "emergency_threshold")):
            least, value = getattr(self, below), getattr(self, name)
            if value < least:
                checks.refuse(name, f">= {below}, {least}", value)

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
