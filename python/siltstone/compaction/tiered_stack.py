"""The stack of summaries before the live messages of a view: their numbers, their turns, and their end."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeGuard

from siltstone.compaction.base import State, Trigger
from siltstone.compaction.rewrite import joined
from siltstone.messages import History, opens_turn, unmarked

__all__ = ["Layer", "Stack", "live_start"]

_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Layer:
    """A summary of the stack.

    Attributes:
        seq: The first message that it covers; it identifies the summary.
        numbers: Its first and last number; they differ for a summary that was folded from several. (0, 0)
            for a marker.
        turns: The first and last turn in it, from 1; (0, 0) if unknown.
    """

    seq: int
    numbers: tuple[int, int] = (0, 0)
    turns: tuple[int, int] = (0, 0)

    @property
    def is_marker(self) -> bool:
        """Whether it is a line that tells only the number of its messages."""
        return self.numbers == (0, 0) != self.turns


@dataclass(frozen=True, slots=True)
class Stack:
    """The summaries of a view in order, and counters of the messages before the live ones.

    Attributes:
        positions: The positions of the summaries.
        layers: The layer of each summary.
        start: The position of the first live message: after the last summary, else after the leading rules.
        number: The highest number that a summary ever had.
        turns: The number of turns that began before ``start``.
    """

    positions: tuple[int, ...]
    layers: tuple[Layer, ...]
    start: int
    number: int
    turns: int

    @classmethod
    def of(cls, read: History, trigger: Trigger, heading: str) -> Stack:
        """The stack of *read*, from the stored state, else from the headings of the summaries."""
        positions = tuple(read.summaries)
        start = live_start(read)
        known = _Kept.read(trigger.policy_state)
        layers = tuple(_layer(read, at, known, heading) for at in positions)
        said = max((layer.turns[1] for layer in layers), default=0)
        if known is not None:
            number, turns = known.number, known.turns + _turns_since(read, trigger, start, known.end)
        else:
            number = max((layer.numbers[1] for layer in layers), default=0)
            turns = said or _turns_since(read, trigger, start, 0)
        return cls(positions, layers, start, number, max(turns, said))

    def state(self, *, end: int) -> dict[str, object]:
        """The state that the session keeps; *end* is the number of the first live message."""
        layers = [[layer.seq, *layer.numbers, *layer.turns] for layer in self.layers]
        return {"number": self.number, "turns": self.turns, "end": end, "stack": layers}


def live_start(read: History) -> int:
    """The position of the first live message: after the last summary, else after the leading rules."""
    if read.summaries:
        return read.summaries[-1] + 1
    rules = set(read.rules)
    return next((at for at in range(len(read)) if at not in rules), len(read))


@dataclass(frozen=True, slots=True)
class _Kept:
    """A stored state: layers by their first message, the highest number, the turns up to message *end*."""

    layers: dict[int, Layer]
    number: int
    turns: int
    end: int

    @classmethod
    def read(cls, state: State | None) -> _Kept | None:
        """Reads *state*; None if it is the state of another policy, or empty."""
        if not isinstance(state, dict):
            return None
        number, turns, end = (state.get(name) for name in ("number", "turns", "end"))
        rows = state.get("stack")
        if not (_is_count(number) and _is_count(turns) and _is_count(end) and isinstance(rows, list)):
            return None
        if not all(isinstance(row, list) and len(row) == 5 and all(map(_is_count, row)) for row in rows):
            return None
        layers = {row[0]: Layer(row[0], (row[1], row[2]), (row[3], row[4])) for row in rows}
        return cls(layers, number, turns, end)


def _is_count(value: object) -> TypeGuard[int]:
    return type(value) is int and value >= 0


def _layer(read: History, at: int, known: _Kept | None, heading: str) -> Layer:
    message = read[at]
    if known is not None and message.seq in known.layers:
        return known.layers[message.seq]
    first_line = unmarked(message.text).partition("\n")[0]
    head = heading.partition("{")[0]
    found = [int(number) for number in _NUMBER.findall(first_line)] if head else []
    if not first_line.startswith(head) or len(found) not in (3, 4):
        return Layer(message.seq)
    return Layer(message.seq, (found[0], found[-3]), (found[-2], found[-1]))


def _turns_since(read: History, trigger: Trigger, start: int, end: int) -> int:
    """The number of requests before position *start* that the count up to message *end* does not have.

    Another policy has compacted them since. Their messages are read from the log, if the caller can.
    """
    shown = sum(1 for at in read.outline.requests if at < start and read[at].seq >= end)
    if trigger.originals is None:
        return shown
    spans = joined(span for at in read.summaries for span in read[at].covers)
    unseen = [(max(first, end), last) for first, last in spans if last > end]
    return shown + sum(map(opens_turn, trigger.originals(unseen))) if unseen else shown
