"""The settings and the prompts of tiered compaction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from siltstone import checks
from siltstone.checks import reached_at, share_of
from siltstone.messages import SUMMARY_ROLES, SummaryRole
from siltstone.tokens import TokenRule

# The settings of checkpoint mode, each checked when it is set.


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
        checks.each(self, "interval_messages rollup_threshold", checks.positive)
        checks.between("interval_token_fraction", self.interval_token_fraction, 0.01, 0.9)
        checks.within("recent_window_hours", self.recent_window_hours, 1, 8_760)
        checks.within("max_recent", self.max_recent, 1, 100)
        checks.within("max_older", self.max_older, 0, 100)
        checks.within("context_token_budget", self.context_token_budget, 200, 32_000)
        checks.within("expand_message_limit", self.expand_message_limit, 1, 500)
        checks.within("max_messages_per_checkpoint", self.max_messages_per_checkpoint, 1, 5_000)
        checks.within("rollup_batch", self.rollup_batch, 1, self.rollup_threshold)
        checks.boolean("whole_turns", self.whole_turns)


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
    summary_role: SummaryRole = "user"
    summary_heading: str = SUMMARY_HEADING
    summary_stack_fraction: float = 0.15
    emergency_marker: str = EMERGENCY_MARKER
    attempts: int = 2
    max_turns: int = 8
    summary_timeout: float | None = 30.0
    retry_delay: float = 0.5
    on_model_failure: Literal["fail", "fallback_summary"] = "fallback_summary"
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
        checks.each(self, "context_window", checks.positive, unless=(None,))
        checks.one_of("mode", self.mode, ("rolling", "chronicle"))
        if not isinstance(self.chronicle, ChronicleConfig):
            checks.refuse("chronicle", "a ChronicleConfig", self.chronicle)
        self._check_thresholds()
        fractions = "background_fraction aggressive_fraction emergency_fraction fork_reserve fork_fraction"
        checks.each(self, f"{fractions} overflow_fraction worker_fraction", checks.fraction)
        checks.each(self, "fork_usage_threshold worker_threshold", checks.share, above_zero=True)
        counts = "retain_floor max_turns max_summary_tokens fork_floor worker_turns_per_segment"
        checks.each(self, f"{counts} worker_max_segments", checks.positive)
        checks.each(self, "retry_after_turns overflow_retries", checks.at_least, 0)
        checks.one_of("summary_role", self.summary_role, SUMMARY_ROLES)
        _check_template("summary_heading", self.summary_heading, {"n": "1", "first": 1, "last": 2})
        checks.between("summary_stack_fraction", self.summary_stack_fraction, 0.01, 0.5)
        _check_template("emergency_marker", self.emergency_marker, {"n": 1})
        checks.one_of("fork_preflight", self.fork_preflight, ("budget", "usage"))
        checks.boolean("worker_strict", self.worker_strict)
        tools = checks.names("superseding_tools", self.superseding_tools, "names of tools")
        object.__setattr__(self, "superseding_tools", tools)
        checks.summariser(self)

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
