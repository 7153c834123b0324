"""The outcome of a compaction: compacted, skipped or failed, always with the numbers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from html import escape
from typing import Any, TypeAlias

from siltstone.events import Event, UsageRecord
from siltstone.hooks import Guidance
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
    "html_table",
]


@dataclass(frozen=True, slots=True)
class _Outcome(ABC):
    """The fields of every outcome.

    Attributes:
        messages: The rewritten history, or the one given, unchanged; the caller's own objects. Their type
            is open, so that the client of any SDK takes them.
        tokens_before: Tokens of the given history, by the policy's estimator.
        tokens_after: Tokens of ``messages``; equal to ``tokens_before`` if nothing changed.
        events: The events of the attempt, in order.
        usage: Every model call that was made, also by a failed attempt.
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
        discarded: The messages that the summary replaces, in order, including an earlier summary.
        covers: Half-open ranges of their positions (in a session: sequence numbers).
        level: 1 for a summary of messages alone, else one more than the highest summary it replaced.
        degraded: Whether the summary was made without a model of the caller.
        suspect: Whether the summary is very short for the messages that it replaces.
        compaction_id: In a session, the id of the committed compaction.
        injected: The messages that ``on_after_compact`` added to the end of ``messages``.
        summaries: The new summary messages in ``messages``, in order; most policies write one.
        state: The policy's own state, which it receives at its next run; None if it has none.
        substituted: The messages of ``retained`` that were too large, in order. ``messages`` has a shorter
            one in place of each.
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
    """Nothing was due, or nothing could be discarded.

    Attributes:
        reason: ``nothing_to_discard``, ``vetoed``, ``in_flight``, ``no_policy`` …
        message: The compared numbers, in one sentence.
    """

    reason: str = ""
    message: str = ""

    def _in_short(self) -> str:
        return f"{self.reason}: {self.message}" if self.message else self.reason


@dataclass(frozen=True, slots=True, repr=False)
class Failed(_Outcome):
    """The attempt failed; the history is unchanged.

    Attributes:
        reason: As in ``CompactionFailed``.
        message: A description in one sentence.
        cause: The exception behind it, if there was one.
        error_class: As in ``CompactionFailed``.
        attempted_entries: As in ``CompactionFailed``.
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
    """A dry run of a compaction, which calls no model and no curator, and changes nothing.

    Attributes:
        compacts: Whether messages would be discarded.
        reason: Why none would be discarded, else empty; for a session also ``not_due`` and ``no_policy``.
        retained: The number of messages that would stay.
        discarded: The number of messages that would leave.
        covers: Half-open ranges of the positions that the summary would replace.
        requests: The minimum number of model calls.
        tokens_before: Tokens of the history, by the policy's estimator.
        tokens_after: Tokens of the history after, if the summary fills its whole budget.
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

        return html_table(("plan", ""), rows)


BeforeCompact: TypeAlias = Callable[[Plan], "Guidance | None"]
"""A hook before a compaction. Returns None to go on, or a veto, more instructions, pins."""

AfterCompact: TypeAlias = Callable[[Compacted], "Sequence[RawMessage] | None"]
"""A hook before the commit of a compaction. Returns user messages for the end of the history, or None."""

AsyncBeforeCompact: TypeAlias = Callable[[Plan], "Awaitable[Guidance | None] | Guidance | None"]
AsyncAfterCompact: TypeAlias = Callable[
    [Compacted], "Awaitable[Sequence[RawMessage] | None] | Sequence[RawMessage] | None"
]


def html_table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """An HTML table: *head*, and *rows* with as many cells. The text of every cell is escaped."""

    def row(tag: str, cells: Sequence[object]) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(str(cell))}</{tag}>" for cell in cells) + "</tr>"

    lines = ["<table>", row("th", head), *(row("td", cells) for cells in rows), "</table>"]
    return "\n".join(lines)
