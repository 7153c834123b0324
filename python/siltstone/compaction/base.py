"""The contract of a policy: when it compacts, and which messages it discards."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Generic, Literal, Protocol, TypeAlias, TypeVar

from siltstone.errors import ConfigError, SiltstoneError, refuse
from siltstone.llm import Flow, ToolCall, UsageRecord
from siltstone.messages import Excerpt, KeyedSystemMessage, Message, RequestRule, as_history, is_request
from siltstone.messages.message import RawMessage
from siltstone.tokens import TokenRule, rule

# A checkpoint: a summary of a part of a session, written once and never changed.


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint of a session's chronicle, or a roll-up of several.

    Attributes:
        first: Its number, from 1; for a roll-up, the number of its first checkpoint.
        last: The same number; for a roll-up, the number of its last checkpoint.
        level: 0 for a checkpoint of messages, 1 for a roll-up of these, and so on.
        kind: ``interval``, ``bootstrap``, ``pressure``, ``emergency`` or ``rollup``.
        start: The first message that it covers.
        end: The number after its last message. The checkpoints of level 0 are contiguous from message 0 on.
        messages: The number of its messages.
        tokens: Their size by the policy's rule.
        said_from: The time of the first message, in seconds since 1970; None if unknown.
        said_to: The time of the last message.
        title: Its subject, in one line; empty if it was forgotten.
        summary: The summary; empty for an emergency, or if it was forgotten.
        is_rolled_up: Whether a roll-up covers it. The checkpoint itself stays in the log.
    """

    first: int
    last: int
    level: int
    kind: str
    start: int
    end: int
    messages: int
    tokens: int
    said_from: float | None = None
    said_to: float | None = None
    title: str = ""
    summary: str = ""
    is_rolled_up: bool = False

    def __repr__(self) -> str:
        number = str(self.first) if self.first == self.last else f"{self.first}-{self.last}"
        return f"<Checkpoint {number}: {self.kind}, messages {self.start}-{self.end - 1}, {self.title!r}>"


State: TypeAlias = Mapping[str, Any]
"""The state that a policy keeps with the session: small JSON, without the text of any message.

A forgotten text leaves messages and summaries; a state that quotes them would keep it.
"""

Reason: TypeAlias = Literal[
    "input_tokens", "history_tokens", "bytes", "forecast", "fraction", "count", "overflow", "manual", "model"
]

Curator: TypeAlias = Callable[[list[RawMessage]], str]
"""A function that writes a summary of discarded messages, which may include earlier summaries."""


Range: TypeAlias = tuple[int, int]
"""A half-open range of absolute sequence numbers."""


@dataclass(frozen=True, slots=True)
class CompactionContext:
    """The figures that a policy gets at a boundary, just before a model call.

    Attributes:
        boundary: The boundary's number, from 0 for the life of the session.
        last_compaction_boundary: The boundary of the last committed compaction.
        last_attempt_boundary: The boundary of the last attempt, successful or not.
        last_input_tokens: Input tokens of the last model call, by the provider's count; 0 if unknown, or if a
            compaction was committed since.
        estimated_history_tokens: The size of the current view, by the policy's own rule, times *factor*.
        factor: How many tokens the provider counts for one of the policy's own rule.
        request_bytes: Bytes of the whole request, 0 if unknown.
        max_request_bytes: The most that the provider of the agent's model documents; None if unknown.
        reserved_tokens: Tokens that are sent beside the history (tool definitions and the like).
        recall_tokens: Tokens that are kept free for a recalled block; 0 without recall.
        context_window: The model's window in tokens, None if unknown.
        message_count: Messages in the current view.
        low_yield_attempts: Attempts in a row that failed, reclaimed less than a twentieth, or used the
            fallback because the model failed.
        forecast_tokens: The estimated next request: the provider's last count, and an estimate of newer
            messages. 0 without ``reserved_tokens``, or without a provider's count.
        next_seq: Messages ever appended; 0 if unknown, and then the messages of the view are counted.
        fixed_count: System messages, summaries and pinned messages in the view. Limits by the number of
            messages leave them out.
        failed_at: ``next_seq`` at the last attempt, if it failed; else None.
        failed_threshold: The threshold of that failed attempt; 0 if it had none.
        policy_state: The ``state`` of the last compaction by this policy that had one.
        turn_start: The number of the first message of the turn in flight; ``next_seq`` if there is none; None
            if unknown.
        settled_tokens: Tokens of the view before that message.
        cached_tokens: Tokens at the beginning of the next request that are in the provider's cache, which a
            rewrite may lose; 0 if there are none, if that is unknown, or if the cache has lapsed.
    """

    boundary: int
    last_compaction_boundary: int | None = None
    last_attempt_boundary: int | None = None
    last_input_tokens: int = 0
    estimated_history_tokens: int = 0
    request_bytes: int = 0
    reserved_tokens: int = 0
    context_window: int | None = None
    message_count: int = 0
    low_yield_attempts: int = 0
    forecast_tokens: int = 0
    next_seq: int = 0
    fixed_count: int = 0
    failed_at: int | None = None
    failed_threshold: int = 0
    policy_state: State | None = None
    cached_tokens: int = 0
    turn_start: int | None = None
    settled_tokens: int = 0
    max_request_bytes: int | None = None
    recall_tokens: int = 0
    factor: float = 1.0

    @property
    def tokens(self) -> int:
        """The size of the next request: the estimate of the history, and the reserved tokens."""
        return self.estimated_history_tokens + self.reserved_tokens

    def trigger(self, reason: Reason, action: str, tokens: int, threshold: int | None = None) -> Trigger:
        """A trigger with the window, the reserved tokens and the policy's state of these figures."""
        return Trigger(
            reason,
            action,
            tokens,
            threshold,
            context_window=self.context_window,
            reserved_tokens=self.reserved_tokens,
            policy_state=self.policy_state,
            max_request_bytes=self.max_request_bytes,
            factor=self.factor,
        )


# The circuit breaker: after several attempts of low yield in a row, the pauses between attempts grow.

#: Attempts in a row of low yield after which the breaker opens.
BREAKER_ATTEMPTS: Final = 3
#: Boundaries between two attempts while it is open, and the doublings of that number: 10, 20, 40, 40 ...
BREAKER_PAUSE: Final = 10
MOST_DOUBLINGS: Final = 2


def breaker_pauses(context: CompactionContext) -> bool:
    """Whether the breaker is open and it is too early to ask a model again.

    A compaction without a model is not an attempt, and does not count.
    """
    if context.low_yield_attempts < BREAKER_ATTEMPTS or context.last_attempt_boundary is None:
        return False
    doublings = min(context.low_yield_attempts - BREAKER_ATTEMPTS, MOST_DOUBLINGS)
    return context.boundary - context.last_attempt_boundary < BREAKER_PAUSE << doublings


@dataclass(frozen=True, slots=True)
class Trigger:
    """The reason why a compaction is due, and its figures.

    Attributes:
        reason: The figure that crossed its threshold, or another cause.
        action: The action that the policy plans; most policies know only ``compact``.
        tokens: The figure that was compared; for ``bytes`` the history's estimate.
        threshold: The effective threshold in tokens; None for a call without a threshold.
        focus: A subject that the summary should keep in particular, for a manual call.
        instructions: Further instructions for the model that writes the summary, from a hook.
        reader: The tool by which the agent can read the cut part of a message, such as ``memory_get``; empty
            if there is none.
        originals: A function that reads the remaining messages of ranges of sequence numbers; None if the
            caller cannot read them.
        fold: Whether only the earlier summaries are written again, from the originals, and no message leaves.
        model_calls: The maximum calls of the caller's models in this compaction, failed ones included; None
            for no limit. 0: the policy works without a model.
        keeps_substitutes: Whether the caller stores the substitutes of a rewrite. If not, a rewrite has none:
            a caller that reads the original again would have another view, perhaps a result without its call.
        context_window: The model's window in tokens, None if unknown.
        reserved_tokens: Tokens that are sent beside the history, and are part of the window.
        recall_tokens, factor: As in ``CompactionContext``.
        pins: Sequence numbers of messages that always stay.
        policy_state: As in ``CompactionContext``.
        past: Earlier summaries of this policy that left the view, oldest first, as far as the caller keeps
            them; a session reads them on demand.
        written: A function that reads every summary of this policy that led to the view, newest first, on
            demand; None if the caller cannot read them.
        unplaced: Summaries that found no place, because the view had changed while a model wrote them.
        said_at: A function: the time of the message with a number, in seconds since 1970, or None.
        now: The current time, in the same seconds.
        max_request_bytes: As in ``CompactionContext``.
    """

    reason: Reason
    action: str = "compact"
    tokens: int = 0
    threshold: int | None = None
    focus: str | None = None
    context_window: int | None = None
    reserved_tokens: int = 0
    pins: frozenset[int] = frozenset()
    instructions: str = ""
    policy_state: State | None = None
    past: Sequence[Message] = ()
    written: Callable[[], Iterable[Message]] | None = None
    unplaced: tuple[Message, ...] = ()
    said_at: Callable[[int], float | None] | None = None
    now: float | None = None
    reader: str = ""
    keeps_substitutes: bool = False
    model_calls: int | None = None
    originals: Callable[[Sequence[Range]], Sequence[Message]] | None = None
    fold: bool = False
    max_request_bytes: int | None = None
    recall_tokens: int = 0
    factor: float = 1.0

    def by_own_rule(self) -> Trigger:
        """The trigger with sizes by the policy's own rule, as a flow counts."""
        if self.factor == 1:
            return self
        names = ("tokens", "threshold", "context_window", "reserved_tokens")
        sizes = {name: getattr(self, name) for name in names}
        own: Any = {name: size and int(size / self.factor) for name, size in sizes.items()}
        return replace(self, factor=1.0, **own)

    def holds(self, message: Message) -> bool:
        """Whether *message* is pinned. A summary never is."""
        return message.seq in self.pins and message.provenance != "compaction_summary"


@dataclass(frozen=True, slots=True)
class Skip:
    """A policy found that there is nothing to do.

    Attributes:
        reason: ``nothing_to_discard``, ``in_flight``, ``not_due``, ``no_policy`` …
        message: The compared numbers, in one sentence.
    """

    reason: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class Substitute:
    """A shorter message that replaces a larger one, and has its number.

    Either it answers and calls as its original does, or it does neither and the rest of its group left.

    Attributes:
        original: The message of the history.
        message: Its replacement, with the provenance ``substitute`` and a ``SubstituteMessage`` as its raw
            message.
    """

    original: Message
    message: Message


@dataclass(frozen=True, slots=True)
class Compaction:
    """A rewrite of a history: the whole of it is in ``retained`` and ``discarded``.

    Most policies leave one summary in the view. A ``layered`` rewrite may leave several summaries, earlier
    ones included, or none. The messages that its new summaries cover are discarded; further messages may be
    discarded without a summary. A rewrite with substitutes may discard nothing; then it has no summary, and
    covers nothing.

    Attributes:
        messages: The new view: the retained messages in order, and the summary at the place of the first
            discarded message.
        retained: The messages that stay, the same objects; for a substituted message, the original.
        discarded: The messages that leave, including earlier summaries, in order.
        summary: The summary's text from the model, without the frame; the last of several new ones; empty if
            there is none.
        covers: The ranges of all discarded messages, including the ranges of discarded summaries; ascending
            and disjoint.
        level: 1 for a summary of messages, else one more than the highest level among the summaries that it
            replaces; 0 without a summary.
        usage: Every model call that was made.
        degraded: Whether the summary was made without a model of the caller.
        suspect: Whether the summary is very short for the size of the replaced messages.
        injected: The messages that ``on_after_compact`` added to the end of ``messages``.
        layered: Whether the view may have several summaries, or none.
        state: The policy's state to store, for its next run; None keeps the earlier one.
        asides: Further summaries that are stored and not shown.
        tool_calls: The tools that the model called while it summarised; they run after the commit.
        requests_left: The number of user messages that left because their budget was full, under a policy
            that keeps user messages.
        substitutes: The messages of the view with which this rewrite replaced larger ones, in order.
    """

    messages: Sequence[Message]
    retained: Sequence[Message]
    discarded: Sequence[Message]
    summary: str
    covers: tuple[Range, ...]
    level: int = 1
    usage: tuple[UsageRecord, ...] = field(default=())
    degraded: bool = False
    suspect: bool = False
    injected: tuple[Message, ...] = ()
    layered: bool = False
    state: State | None = None
    asides: tuple[Message, ...] = ()
    substitutes: tuple[Substitute, ...] = ()
    requests_left: int = 0
    tool_calls: tuple[ToolCall, ...] = ()

    @property
    def new_summaries(self) -> tuple[Message, ...]:
        """The new summaries of this rewrite in the view, in order."""
        stay = {id(message) for message in summaries(self.retained)}
        return tuple(message for message in summaries(self.messages) if id(message) not in stay)


class CompactionError(SiltstoneError, RuntimeError):
    """An attempt failed. Carries ``reason`` (as in ``CompactionFailed``) and ``usage``.

    With the reason ``llm_failed`` it also carries ``error_class``, the name of the exception that the model
    raised.

    Policies raise it inside a flow; the drivers turn it into the outcome ``Failed``.
    """

    reason: str
    usage: tuple[UsageRecord, ...]

    def __init__(
        self, message: str, *, reason: str = "internal", usage: tuple[UsageRecord, ...] = (), **fields: Any
    ) -> None:
        super().__init__(message, reason=reason, usage=usage, **fields)


@dataclass(frozen=True, slots=True)
class MemoryStatus:
    """The state of a session's memory, and its faults. Ranges are half-open.

    Attributes:
        entries: The number of messages ever appended.
        longterm: The range of the long-term summary; None if there is none.
        recent: The range of the recent summary; None if there is none.
        pending: The range of messages that wait for the next run.
        immediate: The range of the newest messages, which stay as they are.
        last_run: The number of messages when the last run began; 0 before the first.
        next_run: The number of messages at which the next run is due.
        warnings: Possible faults.
        errors: Faults: messages that are neither shown nor summarised.
    """

    entries: int
    longterm: Range | None
    recent: Range | None
    pending: Range
    immediate: Range
    last_run: int
    next_run: int
    warnings: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        """``[Memory: OK]``, or the number of faults."""
        issues = len(self.warnings) + len(self.errors)
        return f"[Memory: WARNING - {issues} issues]" if issues else "[Memory: OK]"

    @property
    def markdown(self) -> str:
        """A report for people, in Markdown."""
        rows = (
            ("Entries", str(self.entries)),
            ("Long-term summary", _words(self.longterm)),
            ("Recent summary", _words(self.recent)),
            ("Pending", _words(self.pending)),
            ("Immediate", _words(self.immediate)),
            ("Last run", f"at {self.last_run} entries" if self.last_run else "never"),
            ("Next run", f"at {self.next_run} entries"),
        )
        lines = ["# Memory Status", "", self.line, "", *(f"- **{name}**: {value}" for name, value in rows)]
        if self.errors or self.warnings:
            lines += ["", "## Issues", ""]
            lines += [f"- ERROR: {issue}" for issue in self.errors]
            lines += [f"- WARNING: {issue}" for issue in self.warnings]
        return "\n".join(lines) + "\n"


def _words(span: Range | None) -> str:
    if span is None:
        return "none"
    start, end = span
    return f"{end - start} entries ({start} to {end - 1})" if end > start else "0 entries"


PIN_SHARE = 4  # pinned messages have at most a quarter of the window


def check_shrunk(
    token_rule: TokenRule, history: Sequence[Message], compaction: Compaction, min_reduction: float = 0.0
) -> None:
    """Checks that a rewrite is smaller than *history*, by at least the share *min_reduction*.

    Raises:
        CompactionError: ``no_reduction``.
    """
    before, after = token_rule.count(history), token_rule.count(compaction.messages)
    if after < before and before - after >= min_reduction * before:
        return
    least = f", and by {min_reduction:.0%} at least" if min_reduction else ""
    raise CompactionError(
        f"the rewrite has {after} tokens, the history {before}: it must be smaller{least}",
        reason="no_reduction",
        usage=compaction.usage,
        before=before,
        after=after,
    )


def check_pin_budget(
    pinned: Iterable[Message], token_rule: TokenRule, context_window: int | None, budget: int | None = None
) -> None:
    """Checks that pinned messages leave room for others, since they are never cut or summarised.

    Args:
        pinned: All messages to be pinned.
        token_rule: The token rule.
        context_window: The model's window in tokens, None if unknown.
        budget: Their maximum tokens. None: a quarter of a known window; no bound if the window is unknown.

    Raises:
        ConfigError: they are larger. Carries ``field``, and their tokens as ``value``.
    """
    if budget is None:
        budget = None if context_window is None else context_window // PIN_SHARE
    tokens = token_rule.count(list(pinned))
    if budget is not None and tokens > budget:
        raise ConfigError(
            f"pinned messages must have <= {budget} tokens together, got {tokens}: they are never summarised",
            "pins",
            tokens,
        )


def summaries(messages: Sequence[Message]) -> list[Message]:
    """The summaries among *messages*, in order."""
    if isinstance(messages, Excerpt):
        return messages.summaries
    return [message for message in messages if message.provenance == "compaction_summary"]


def rules_in_force(history: Sequence[Message]) -> set[int]:
    """The positions of the messages that carry rules, without superseded versions."""
    read = as_history(history)
    rules = set(read.rules)
    newest: dict[str, int] = {}
    for at in read.rules:
        raw = read.raws[at]
        if not isinstance(raw, KeyedSystemMessage):
            continue
        other = newest.setdefault(raw.key, at)
        if other != at:
            older = at if raw.version <= read.raws[other].version else other  # type: ignore[union-attr]
            rules.discard(older)
            newest[raw.key] = other if older == at else at
    return rules


class Compactor(ABC):
    """A policy. It is pure: it holds no history, calls no model and knows no store.

    Derive your own policy from it. It needs a name, a token rule, ``should_compact`` and ``flow``. Each other
    member is something that a policy can do; by default it does not do it.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """A short name, for events and rows: ``threshold``."""

    @property
    @abstractmethod
    def token_rule(self) -> TokenRule:
        """The token rule of this policy."""

    @abstractmethod
    def should_compact(self, context: CompactionContext) -> Trigger | None:
        """The trigger, if a compaction is due at this boundary."""

    @abstractmethod
    def flow(self, history: Sequence[Message], trigger: Trigger) -> Flow[Compaction | Skip]:
        """The compaction itself: yields a request for each summary, and returns the rewrite.

        Raises:
            CompactionError: the attempt failed.
        """

    def check_overhead(self, reserved_tokens: int, context_window: int | None) -> None:
        """Checks that the policy can act, and would not act at every boundary.

        Raises:
            ConfigError: its threshold is larger than *context_window*, or *reserved_tokens* leave no room
                below it.
        """

    @property
    def request_rule(self) -> RequestRule:
        """The rule that decides which text beside tool results is a request."""
        return is_request

    @property
    def keeps_task(self) -> bool:
        """Whether the first request stays, also in an emergency, as long as there is room for it."""
        return False

    @property
    def shapes_request(self) -> bool:
        """Whether it removes messages from single requests only, and leaves the history as it is."""
        return False

    def most_tokens(self, context_window: int) -> int:
        """The maximum tokens of a request in that window, with recalled context."""
        return context_window

    @property
    def overflow_retries(self) -> int | None:
        """The maximum number of retries of a too large request. The policy compacts at each of them.

        None: the session's number, and the policy compacts only at the first.
        """
        return None

    @property
    def kind(self) -> str:
        """The ``kind`` of its runs in ``CompactionStarted``, for a policy with tiers; else empty."""
        return ""

    def runs_in_background(self, trigger: Trigger) -> bool:
        """Whether the due compaction may run in the background, and be committed at a later boundary."""
        return False

    def usage_of(self, trigger: Trigger) -> float:
        """The share of the window that was in use at *trigger*; 1 is all of it, 0 also an unknown window."""
        return trigger.tokens / trigger.context_window if trigger.context_window else 0.0

    def fork_trigger(self, tokens: int, prompt_tokens: int, context_window: int | None) -> Trigger | None:
        """The trigger of the compaction that a fork needs before its first call; None if it fits as it is.

        Args:
            tokens: Tokens of the history that the fork begins with, by the policy's rule.
            prompt_tokens: Tokens of the fork's first prompt, and tokens that are sent beside the history.
            context_window: The window in tokens; None if unknown.
        """
        return None

    @property
    def keeps_checkpoints(self) -> bool:
        """Whether it writes checkpoints, which never change."""
        return False

    @property
    def expand_limit(self) -> int:
        """The maximum messages of a page when a checkpoint is expanded."""
        return 1

    def checkpoints(self, written: Iterable[tuple[State | None, Sequence[Message]]]) -> list[Checkpoint]:
        """All checkpoints, in order.

        Args:
            written: The state and the summaries of each compaction of this policy, oldest first.
        """
        return []

    def status(
        self,
        view: Sequence[Message],
        state: State | None,
        *,
        next_seq: int | None = None,
        times: Sequence[float | None] | None = None,
        now: float | None = None,
    ) -> MemoryStatus | None:
        """A report on the memory in *view*, and on missing messages; None if it keeps no such memory.

        Args:
            view: The messages in view.
            state: The state that the last run left.
            next_seq: The number of messages ever appended; None: the highest number that the view covers.
            times: The time of each message of the view, in seconds since 1970; None for an unknown time.
            now: The current time, in the same seconds; None: ages are not checked.
        """
        return None

    def resummarize(
        self, messages: Sequence[Message], context_window: int | None, model_calls: int | None
    ) -> Flow[tuple[str, tuple[UsageRecord, ...]]] | None:
        """The content of a summary message for *messages*, with its frame, and the model calls it cost.

        They are at most *model_calls*. None if it cannot write a summary again.

        Raises:
            CompactionError: no model gave an answer.
        """
        return None


class _Settings(Protocol):
    @property
    def estimator(self) -> str | TokenRule: ...


C = TypeVar("C", bound=_Settings)


class Configured(Compactor, Generic[C]):
    """A policy with a configuration, which names its token rule."""

    def __init__(self, config: C) -> None:
        if isinstance(config, type) or not hasattr(config, "estimator"):
            refuse("config", f"the settings of a {type(self).__name__}", config)
        self.config = config
        self._token_rule = rule(config.estimator)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.config!r})"

    @property
    def token_rule(self) -> TokenRule:
        """The rule that the configuration names."""
        return self._token_rule


def check_policy(policy: object) -> None:
    """Raises ConfigError if *policy* is no policy. Often it is a class in place of an instance, or a name."""
    if isinstance(policy, Compactor):
        return
    remedy = ""
    if isinstance(policy, str):
        remedy = f": find_settings().policy({policy!r}) of siltstone.config makes one by its name"
    elif hasattr(policy, "should_compact") and not isinstance(policy, type):
        remedy = ": derive it from siltstone.compaction.Compactor"
    raise ConfigError(
        f"policy must be a policy such as ThresholdCompactor(), got {policy!r}{remedy}", "policy", policy
    )
