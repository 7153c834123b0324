"""A checkpoint: a summary of a part of a session, written once and never changed."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Checkpoint"]


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
