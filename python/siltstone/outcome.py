"""The outcome of a compaction: compacted, skipped or failed, always with the numbers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from siltstone.hooks import Guidance
from siltstone.usage import UsageRecord
from siltstone.values import dataclass, fields

if TYPE_CHECKING:
    from siltstone.events import Event
    from siltstone.messages import RawMessage

__all__ = [
    "AfterCompact",
    "AsyncAfterCompact",
    "AsyncBeforeCompact",
    "BeforeCompact",
    "Compacted",
    "Failed",
    "Outcome",
    "Plan",
    "Skipped",
]


@dataclass(frozen=True, slots=True)
class _Outcome(ABC):
    """The fields of every outcome.

    Attributes:
        messages: The rewritten history, or the one given, unchanged; the caller's own objects. Their type
            is open, so that the client of any SDK takes them.
        tokens_before: The history given, by the policy's estimator.
        tokens_after: The history in ``messages``; equal to ``tokens_before`` where nothing changed.
        events: The events of the attempt, in order.
        usage: Every model call that was made, also where the attempt failed.
    """

    messages: list[Any]
    tokens_before: int
    tokens_after: int
    events: tuple[Event, ...] = ()
    usage: tuple[UsageRecord, ...] = ()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self._in_short()}>"

    @abstractmethod
    def _in_short(self) -> str:
        """The outcome in a few words."""


@dataclass(frozen=True, slots=True, repr=False)
class Compacted(_Outcome):
    """The history was rewritten.

    Attributes:
        summary: The summary's text, without its frame.
        retained: The messages that stay, in order.
        discarded: Those that the summary stands for, in order; an earlier summary among them.
        covers: Half-open ranges of the positions (of a session: sequence numbers) it stands for.
        level: 1 for a summary of messages alone, one more than the highest it replaced otherwise.
        degraded: No model that the caller named made the summary.
        suspect: The summary is remarkably short for what it stands for.
        compaction_id: In a session: the id of the committed compaction.
        injected: What ``on_after_compact`` added to the end of ``messages``.
        summaries: The summary messages that it brought into ``messages``, in order: most policies bring one.
        state: What the policy wants to be handed back at its next run, where it has such a state.
        substituted: Those of ``retained`` that were too large, in order: ``messages`` has a shorter one in
            the place of each.
    """

    summary: str = ""
    retained: tuple[Any, ...] = ()
    discarded: tuple[Any, ...] = ()
    covers: tuple[tuple[int, int], ...] = ()
    level: int = 1
    degraded: bool = False
    suspect: bool = False
    compaction_id: int | None = None
    injected: tuple[RawMessage, ...] = ()
    summaries: tuple[RawMessage, ...] = ()
    state: Mapping[str, Any] | None = None
    substituted: tuple[RawMessage, ...] = ()

    def _in_short(self) -> str:
        tokens = f"{self.tokens_before:,} to {self.tokens_after:,} tokens"
        return f"{tokens}, {len(self.discarded)} messages discarded, level {self.level}"


@dataclass(frozen=True, slots=True, repr=False)
class Skipped(_Outcome):
    """Nothing was due, or nothing could be given up.

    Attributes:
        reason: ``nothing_to_discard``, ``vetoed``, ``in_flight``, ``no_policy`` …
        message: The numbers that were compared, in a sentence.
    """

    reason: str = ""
    message: str = ""

    def _in_short(self) -> str:
        return f"{self.reason}: {self.message}" if self.message else self.reason


@dataclass(frozen=True, slots=True, repr=False)
class Failed(_Outcome):
    """The attempt came to nothing; the history is as it was.

    Attributes:
        reason: As in ``CompactionFailed``.
        message: What happened, in a sentence.
        cause: The error behind it, where there was one.
        error_class: As in ``CompactionFailed``.
        attempted_entries: As there.
    """

    reason: str = ""
    message: str = ""
    cause: BaseException | None = None
    error_class: str = ""
    attempted_entries: int = 0

    def _in_short(self) -> str:
        return f"{self.reason}: {self.message}" if self.message else self.reason


Outcome: TypeAlias = Compacted | Skipped | Failed


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of a compaction. No model and no curator was called, and nothing was changed.

    Attributes:
        compacts: Something would be discarded.
        reason: Why nothing would be, where nothing would be; of a session also ``not_due``, ``no_policy``.
        retained: Messages that would stay.
        discarded: Messages that would leave.
        covers: Half-open ranges of the positions that the summary would stand for.
        requests: Model calls it would take, at least.
        tokens_before: The history, by the policy's estimator.
        tokens_after: What would remain if the summary took its whole budget.
        policy: The policy's name.
        cause: Why it is due, as in ``Trigger.reason``.
    """

    compacts: bool
    reason: str
    retained: int
    discarded: int
    covers: tuple[tuple[int, int], ...]
    requests: int
    tokens_before: int
    tokens_after: int
    policy: str = ""
    cause: str = ""

    def _repr_html_(self) -> str:
        rows = [(field.name.replace("_", " "), getattr(self, field.name)) for field in fields(self)]
        from siltstone.html import table  # only a notebook needs it

        return table(("plan", ""), rows)


BeforeCompact: TypeAlias = Callable[[Plan], "Guidance | None"]
"""Asked before a compaction: None to go on, or a veto, more instructions, pins."""

AfterCompact: TypeAlias = Callable[[Compacted], "Sequence[RawMessage] | None"]
"""Asked before a compaction is committed: user messages that go to the end of the history, or None."""

AsyncBeforeCompact: TypeAlias = Callable[[Plan], "Awaitable[Guidance | None] | Guidance | None"]
AsyncAfterCompact: TypeAlias = Callable[
    [Compacted], "Awaitable[Sequence[RawMessage] | None] | Sequence[RawMessage] | None"
]
