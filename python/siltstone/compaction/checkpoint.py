"""A checkpoint: what a stretch of a session was about, written once and never changed."""

from __future__ import annotations

from siltstone.values import dataclass

__all__ = ["Checkpoint"]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint of a session's chronicle, or a roll-up of several.

    Attributes:
        first: Its number, from 1; of a roll-up the number of the first checkpoint in it.
        last: The number of the last checkpoint in it.
        level: 0 for one of messages, 1 for a roll-up of those, and so on.
        kind: ``interval``, ``bootstrap``, ``pressure``, ``emergency`` or ``rollup``.
        start: The first message that it covers.
        end: One more than the last. The checkpoints of level 0 are contiguous from message 0 on.
        messages: How many messages it was made of.
        tokens: Their size by the policy's rule.
        said_from: When the first of them was said, in seconds since 1970; None where unknown.
        said_to: When the last of them was.
        title: What it was about, in a line; empty where it was forgotten.
        summary: What was said; empty of an emergency, and where it was forgotten.
        is_rolled_up: Whether a roll-up covers it. It stays all the same.
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
