"""The contract of a policy: when to act, and what to give up of a history."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, runtime_checkable

from siltstone.compaction.checkpoint import Checkpoint
from siltstone.errors import ConfigError, SiltstoneError
from siltstone.tokens import TokenRule
from siltstone.usage import UsageRecord
from siltstone.values import dataclass, field

if TYPE_CHECKING:
    from siltstone.llm import Flow, ToolCall
    from siltstone.messages import Message, RequestRule

__all__ = [
    "SAID",
    "BackgroundCompactor",
    "Checkpoint",
    "CheckpointKeeper",
    "Compaction",
    "CompactionContext",
    "CompactionError",
    "Compactor",
    "ForkFitter",
    "MemoryReport",
    "MemoryReporter",
    "OverflowRetrier",
    "OverheadChecker",
    "Range",
    "Reason",
    "RequestReader",
    "RequestShaper",
    "Resummarizer",
    "Skip",
    "State",
    "Substitute",
    "Trigger",
    "check_pin_budget",
    "check_shrunk",
    "request_rule_of",
    "rules_in_force",
    "shapes_request",
    "summaries",
]

Range: TypeAlias = tuple[int, int]
"""A half-open range of absolute sequence numbers."""

State: TypeAlias = Mapping[str, Any]
"""The state that a policy keeps with the session: small JSON, without the text of any message.

What is forgotten leaves messages and summaries; a state that quoted them would keep it.
"""

Reason: TypeAlias = Literal[
    "input_tokens",
    "history_tokens",
    "bytes",
    "forecast",
    "fraction",
    "count",
    "overflow",
    "manual",
    "model",
]


@dataclass(frozen=True, slots=True)
class CompactionContext:
    """The figures that a policy gets at a boundary, just before a model call.

    Attributes:
        boundary: The boundary's number, from 0 for the life of the session.
        last_compaction_boundary: Of the last compaction that was committed.
        last_attempt_boundary: Of the last attempt, whatever came of it.
        last_input_tokens: Input tokens of the last model call as the provider counted them; 0 where
            unknown or when a compaction was committed since.
        estimated_history_tokens: The current view by the policy's own rule.
        request_bytes: Bytes of the whole request, 0 where unknown.
        reserved_tokens: Tokens of what is sent beside the history (tool definitions and the like).
        context_window: The model's window in tokens, None where unknown.
        message_count: Messages in the current view.
        low_yield_attempts: Attempts in a row that failed, reclaimed less than a twentieth, or had to do
            without the model that was asked.
        forecast_tokens: The whole next request: what the provider counted last, and an estimate of what
            came since. 0 where the caller named no ``reserved_tokens``, or the provider's count is unknown.
        next_seq: Messages ever appended; 0 where unknown, and then the view's are counted.
        fixed_count: Those of the view that no policy gives up: system messages, summaries, pinned ones.
        failed_at: ``next_seq`` at the last attempt, where it failed; None after one that did not.
        failed_threshold: The threshold of the trigger of that attempt; 0 where it had none.
        policy_state: The ``state`` of the last compaction by this policy that had one.
        turn_start: The number of the first message of the turn in flight; ``next_seq`` where none is; None
            where unknown.
        settled_tokens: Tokens of the view before that message.
        cached_tokens: Tokens at the beginning of the next request that the provider has in its cache: what a
            rewrite may cost; 0 where nothing is, where that is not known, or where it has lapsed.
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


@dataclass(frozen=True, slots=True)
class Trigger:
    """Why a compaction is due.

    Attributes:
        reason: What crossed its threshold.
        action: What the policy means to do; most know only ``compact``.
        tokens: The figure that was compared; for ``bytes`` the history's estimate.
        threshold: The effective threshold in tokens; None for a call that asked for none.
        focus: What the summary should look at in particular, for a manual call.
        instructions: What the summariser is told beside its prompt: the word of a hook.
        reader: The tool by which the agent can read what was cut from a message, such as ``memory_get``;
            empty where there is none.
        originals: Reads the messages of ranges of sequence numbers, as far as they are left, so that a
            summary can be written anew from what it stands for; None where nobody has them.
        fold: Nothing more leaves: the earlier summaries alone are written anew, from the originals.
        model_calls: The most calls of the caller's models; None for as many as it takes. 1 is a probe: the
            last attempts came to nothing. 0: the policy does without them.
        keeps_substitutes: The caller keeps the substitutes of a rewrite. Without that a rewrite has none:
            whoever reads the original again has another view, and perhaps a result without its call.
        context_window: The model's window in tokens, None where unknown.
        reserved_tokens: Tokens of what is sent beside the history, which the window has to hold too.
        pins: Sequence numbers of messages that stay whatever happens.
        policy_state: As in the context that it was due in.
        past: Summaries that this policy wrote before and that left the view, oldest first, as far as the
            caller keeps them.
        written: Reads every summary that this policy ever wrote on the way to the view, the newest first, as
            long as somebody asks for the next; None where nobody has them.
        said_at: When the message of that number was said, in seconds since 1970; None where nobody knows.
        now: The present, in the same seconds.
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
    past: tuple[Message, ...] = ()
    written: Callable[[], Iterable[Message]] | None = None
    said_at: Callable[[int], float | None] | None = None
    now: float | None = None
    reader: str = ""
    keeps_substitutes: bool = False
    model_calls: int | None = None
    originals: Callable[[Sequence[Range]], Sequence[Message]] | None = None
    fold: bool = False

    def holds(self, message: Message) -> bool:
        """Whether *message* is pinned. A summary never is."""
        return message.seq in self.pins and message.provenance != "compaction_summary"


@dataclass(frozen=True, slots=True)
class Skip:
    """A policy found that there is nothing to do.

    Attributes:
        reason: ``nothing_to_discard``, ``in_flight``, ``not_due``, ``no_policy`` …
        message: The numbers that were compared, in a sentence.
    """

    reason: str
    message: str = ""


SAID = frozenset({"original", "substitute"})
"""The provenances of what somebody said, whole or cut."""


@dataclass(frozen=True, slots=True)
class Substitute:
    """A message that stands in the place of a larger one, and has its number.

    Either it answers and calls as its original does, or it does neither and the rest of its group left.

    Attributes:
        original: The message of the history.
        message: What stands in its place: of the provenance ``substitute``, its raw message a
            ``SubstituteMessage``.
    """

    original: Message
    message: Message


@dataclass(frozen=True, slots=True)
class Compaction:
    """A rewrite of a history: the whole of it is in ``retained`` and ``discarded``.

    Most policies leave one summary in the view. A ``layered`` rewrite may leave several, old ones among
    them, or none; what its new ones cover is discarded, and what else is discarded no summary stands for.
    A rewrite that has substitutes may discard nothing; then it has no summary, and covers nothing.

    Attributes:
        messages: The new view: what is retained, in order, and the summary at the place of the first
            message that was discarded.
        retained: The messages that stay, the same objects; of a message that a substitute stands for,
            the original.
        discarded: Those that leave, earlier summaries included, in order.
        summary: The summary's text as the model gave it, without the frame; of several new ones the
            last, empty where there is none.
        covers: The ranges of original messages that the summary stands for, those of the summaries it
            replaces included; ascending and disjoint.
        level: 1 for a summary of messages, one more than the highest it replaces otherwise.
        usage: Every model call that was made.
        degraded: No model that the caller named made the summary.
        suspect: The summary is remarkably short for what it stands for.
        injected: What ``on_after_compact`` added to the end of ``messages``.
        layered: The view may have several summaries, or none.
        state: What the policy wants to have kept, and handed back; None leaves what was kept before.
        asides: Summaries that were made on the way and are not shown: to be kept with the others.
        tool_calls: The tools that the model called while it summarised; carried out with the commit.
        requests_left: User messages that the policy keeps and that left all the same, for want of room.
        substitutes: The messages of the view that this rewrite put in the place of larger ones, in order.
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
        """The summaries of the view that this rewrite brought, in order."""
        stay = {id(message) for message in summaries(self.retained)}
        return tuple(message for message in summaries(self.messages) if id(message) not in stay)


class CompactionError(SiltstoneError, RuntimeError):
    """An attempt came to nothing. Carries ``reason`` (as in ``CompactionFailed``) and ``usage``.

    ``llm_failed`` carries ``error_class``, the name of what the model raised, as well.

    Policies raise it inside a flow; the drivers turn it into the outcome ``Failed``.
    """

    reason: str
    usage: tuple[UsageRecord, ...]

    def __init__(
        self, message: str, *, reason: str = "internal", usage: tuple[UsageRecord, ...] = (), **fields: Any
    ) -> None:
        super().__init__(message, reason=reason, usage=usage, **fields)


PIN_SHARE = 4  # of the window, pinned messages have at most a quarter


def check_shrunk(
    token_rule: TokenRule, history: Sequence[Message], compaction: Compaction, min_reduction: float = 0.0
) -> None:
    """Refuses a rewrite that is not smaller than *history*, by *min_reduction* (a share) of it at least.

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
    """Refuses pins that would take the room of everything else: they are never cut and never summarised.

    Args:
        pinned: All messages that shall be pinned.
        token_rule: How tokens are counted.
        context_window: The model's window in tokens, None where unknown.
        budget: The most tokens of them; None for a quarter of a known window, and no bound without one.

    Raises:
        ConfigError: they have more. Carries ``field`` and ``value``, the tokens they have.
    """
    if budget is None:
        budget = None if context_window is None else context_window // PIN_SHARE
    tokens = token_rule.count(list(pinned))
    if budget is not None and tokens > budget:
        raise ConfigError(
            f"pinned messages must have <= {budget} tokens together, got {tokens}: they are never summarised",
            field="pins",
            value=tokens,
        )


RULE_ROLES = frozenset({"system", "developer"})
"""Roles that carry rules: their messages are never discarded while they are in force."""


def summaries(messages: Sequence[Message]) -> list[Message]:
    """The summaries among *messages*, in order."""
    from siltstone.messages import Excerpt

    if isinstance(messages, Excerpt):
        return messages.summaries
    return [message for message in messages if message.provenance == "compaction_summary"]


def rules_in_force(history: Sequence[Message]) -> set[int]:
    """The positions of the messages that carry rules, without versions that a later one has superseded."""
    from siltstone.messages import KeyedSystemMessage, as_history

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


@runtime_checkable
class Compactor(Protocol):
    """A policy. It is pure: it holds no history, calls no model and knows no store."""

    @property
    def name(self) -> str:
        """A short name, for events and rows: ``threshold``."""

    @property
    def token_rule(self) -> TokenRule:
        """How this policy counts."""

    def should_compact(self, context: CompactionContext) -> Trigger | None:
        """The trigger, if a compaction is due at this boundary."""

    def flow(self, history: Sequence[Message], trigger: Trigger) -> Flow[Compaction | Skip]:
        """The compaction itself: yields a request for each summary it wants, returns the rewrite.

        Raises:
            CompactionError: the attempt came to nothing.
        """


@runtime_checkable
class RequestReader(Protocol):
    """A policy that knows which text beside tool results is a request."""

    @property
    def request_rule(self) -> RequestRule:
        """Whether such a text is the user's."""


def request_rule_of(policy: Compactor) -> RequestRule:
    """The rule of *policy* for requests among texts beside tool results; the default, if it has none."""
    from siltstone.messages import is_request

    return policy.request_rule if isinstance(policy, RequestReader) else is_request


@runtime_checkable
class RequestShaper(Protocol):
    """A policy that may make a request smaller, and leave the history as it is."""

    @property
    def shapes_request(self) -> bool:
        """Whether it does, by its settings: the next request begins with the whole history again."""


def shapes_request(policy: Compactor | None) -> bool:
    """Whether what *policy* gives up is missing in one request alone, and stays in the history."""
    return isinstance(policy, RequestShaper) and policy.shapes_request


@runtime_checkable
class OverheadChecker(Protocol):
    """A policy that can tell beforehand whether it would work."""

    def check_overhead(self, reserved_tokens: int, context_window: int | None) -> None:
        """Refuses a set-up in which the policy would act never, or at every boundary.

        Raises:
            ConfigError: its threshold is larger than *context_window*, or *reserved_tokens* leave no room
                below it.
        """


@runtime_checkable
class BackgroundCompactor(Protocol):
    """A policy whose compactions may be made while the conversation goes on."""

    @property
    def kind(self) -> str:
        """What ``CompactionStarted`` says of its runs: ``rolling`` or ``chronicle``."""

    def runs_in_background(self, trigger: Trigger) -> bool:
        """Whether what is due may be made in the background and put in its place at a later boundary."""

    def usage_of(self, trigger: Trigger) -> float:
        """The share of the window that was in use at *trigger*; 1 is all of it."""


@runtime_checkable
class ForkFitter(Protocol):
    """A policy that knows what a fork gives up before its first call."""

    def fork_trigger(self, tokens: int, prompt_tokens: int, context_window: int | None) -> Trigger | None:
        """The trigger of what has to be done first; None where the fork fits as it is.

        Args:
            tokens: Of the history that it begins with, by the policy's rule.
            prompt_tokens: Of what it is told first, and of what is sent beside the history.
            context_window: The window in tokens, where it is known.
        """


@runtime_checkable
class CheckpointKeeper(Protocol):
    """A policy that writes checkpoints, each of which stays as it is."""

    @property
    def keeps_checkpoints(self) -> bool:
        """Whether it does, by its settings."""

    @property
    def expand_limit(self) -> int:
        """The most messages of a page when a checkpoint is expanded."""

    def checkpoints(self, written: Iterable[tuple[State | None, Sequence[Message]]]) -> Sequence[Checkpoint]:
        """All checkpoints, in order.

        Args:
            written: Of each of its compactions, oldest first, the state and the summaries that it left.
        """


class MemoryReport(Protocol):
    """How the memory of a session stands, and what is wrong with it."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What may be wrong."""

    @property
    def errors(self) -> tuple[str, ...]:
        """What is wrong: a message is neither shown nor summarised."""

    @property
    def line(self) -> str:
        """``[Memory: OK]``, or how many issues there are."""

    @property
    def markdown(self) -> str:
        """A report for people."""


@runtime_checkable
class MemoryReporter(Protocol):
    """A policy that can tell what each of its summaries stands for."""

    def status(
        self,
        view: Sequence[Message],
        state: State | None,
        *,
        next_seq: int | None = None,
        times: Sequence[float | None] | None = None,
        now: float | None = None,
    ) -> MemoryReport:
        """How the memory stands that *view* shows, by the counters in *state*.

        Args:
            view: The messages in view.
            state: What was kept of the last run.
            next_seq: How many messages there ever were.
            times: When each message of the view was said, in seconds since 1970, None where unknown.
            now: The present, in the same seconds; None: ages are not looked at.
        """


@runtime_checkable
class OverflowRetrier(Protocol):
    """A policy that is asked each time that a request is too large for the provider, not once alone."""

    @property
    def overflow_retries(self) -> int:
        """How often a request may be sent again."""


@runtime_checkable
class Resummarizer(Protocol):
    """A policy that can make a summary anew, of what is left of the messages it stood for."""

    def resummarize(
        self, messages: Sequence[Message], context_window: int | None
    ) -> Flow[tuple[str, tuple[UsageRecord, ...]]]:
        """The content of a summary message for *messages*, with its frame, and the model calls it cost.

        Raises:
            CompactionError: no model gave one.
        """
