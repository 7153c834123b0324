"""A session at its three scales, for a host that writes its own prompt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from siltstone.compaction.base import State, Trigger
from siltstone.compaction.keeping import originals
from siltstone.compaction.waterfall_state import Memory
from siltstone.messages import Message, as_history

__all__ = ["RecentContext", "recent_context"]


@dataclass(frozen=True, slots=True)
class RecentContext:
    """The texts of a session that a prompt shows: the long-term summary, the recent summary, the messages.

    Attributes:
        immediate: The newest messages, oldest first.
        recent_summary: The text of the recent summary; empty while there is none.
        longterm_summary: The text of the long-term summary; empty while there is none.
    """

    immediate: tuple[Message, ...]
    recent_summary: str
    longterm_summary: str

    @property
    def has_summaries(self) -> bool:
        """Whether there is a summary at all."""
        return bool(self.recent_summary or self.longterm_summary)


def recent_context(
    view: Sequence[Message], state: State | None, immediate_window: int, count: int | None = None
) -> RecentContext:
    """The context that *view* shows, with the newest *count* messages; None: with all of the view."""
    read = as_history(view)
    memory = Memory.of(read, Trigger("manual", policy_state=state), immediate_window)
    shown = originals(read)
    newest = shown if count is None else shown[max(0, len(shown) - count) :]
    return RecentContext(tuple(read[at] for at in newest), memory.recent, memory.longterm)
