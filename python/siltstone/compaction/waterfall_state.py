"""The state of waterfall summaries: counters that are stored with the session, and texts in the view."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from siltstone.compaction.base import State, Trigger
from siltstone.compaction.keeping import end_of, summaries_of
from siltstone.compaction.prompts import unframed
from siltstone.compaction.waterfall_prompts import LONGTERM_PREFIX, RECENT_PREFIX
from siltstone.messages import History, Message, summary_level

__all__ = ["Memory", "WaterfallState"]


@dataclass(frozen=True, slots=True)
class WaterfallState:
    """The counters. Long-term covers messages [0, longterm_end), recent covers [longterm_end, covered).

    Attributes:
        last: The number of messages when the last complete run began; 0 before the first.
        covered: The end of the summarised messages. A run that stopped halfway advances it, but not ``last``.
        longterm_end: The first message of the recent summary.
        passes: The number of passes ever made; each makes one recent summary.
        failed_at: The number of messages at the last run, if it stopped halfway; else None.
    """

    last: int = 0
    covered: int = 0
    longterm_end: int = 0
    passes: int = 0
    failed_at: int | None = None

    @classmethod
    def read(cls, state: State | None) -> WaterfallState | None:
        """Reads *state*; None if it is the state of another policy, or empty."""
        if not isinstance(state, dict):
            return None
        known = {name: state.get(name, 0) for name in ("last", "covered", "longterm_end", "passes")}
        failed_at = state.get("failed_at")
        if not all(type(value) is int and value >= 0 for value in known.values()):
            return None
        if failed_at is not None and type(failed_at) is not int:
            return None
        if not known["longterm_end"] <= known["covered"]:
            return None
        return cls(**known, failed_at=failed_at)

    def to_json(self) -> dict[str, int | None]:
        """The counters as stored JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Memory:
    """The two summaries of a view, without their frames; an empty text if there is none."""

    state: WaterfallState
    longterm: str = ""
    recent: str = ""
    longterm_level: int = 0

    @classmethod
    def of(cls, read: History, trigger: Trigger, immediate: int) -> Memory:
        """The summaries in *read*, with the stored counters, or with counters derived from the summaries.

        A summary of another policy or of the emergency fit counts as long-term.
        """
        shown = summaries_of(read)
        state = WaterfallState.read(trigger.policy_state)
        if not shown:
            return cls(state or WaterfallState())
        is_alone = len(shown) == 1
        first_only = is_alone and (
            state.longterm_end == 0 and state.passes > 0 if state else summary_level(shown[0]) == 1
        )
        if state is None:
            state = _inferred(shown, first_only, immediate, end_of(read))
        if first_only:
            return cls(state, "", _text(shown[0], RECENT_PREFIX))
        older = shown if is_alone else shown[:-1]
        longterm = "\n\n".join(_text(message, LONGTERM_PREFIX) for message in older)
        recent = "" if is_alone else _text(shown[-1], RECENT_PREFIX)
        return cls(state, longterm, recent, max(summary_level(message) for message in older))


def _inferred(shown: list[Message], first_only: bool, immediate: int, end: int) -> WaterfallState:
    """The counters of a view without a stored state: a run covers all before the immediate window."""
    covered = min(max(span[1] for message in shown for span in message.covers), end)
    border = 0 if first_only else covered
    if len(shown) > 1:
        border = min(span[0] for span in shown[-1].covers)
    return WaterfallState(covered + immediate, covered, border, len(shown))


def _text(message: Message, prefix: str) -> str:
    return unframed(message.text, prefix).strip()
