"""Choosing lines within a room: the best first, none that says again what was chosen, all in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from siltstone._native import text_size

if TYPE_CHECKING:
    from siltstone.models.salience import Scored
    from siltstone.models.units import Unit


__all__ = ["Measure", "Picks"]

LEAST_NOVELTY = 0.4  # share of a line's word weight that the lines already chosen must not have
SHORTEST = 40  # bytes or code points: below this a request in short form says nothing
ELLIPSIS: Final = "…"


class Measure:
    """The size of a text in what a token rule counts: code points for ``chars/3``, else bytes."""

    def __init__(self, rule: str) -> None:
        self._index, self._per_token = (1, 3) if rule == "chars/3" else (0, 4)

    def __call__(self, text: str) -> int:
        """The size of *text*."""
        return text_size(text)[self._index]

    def line(self, unit: Unit, text: str) -> int:
        """The size of *unit* as a line that says *text*: at most, as one that goes on is without a name."""
        return self(f"{unit.speaker}: {text}\n")

    def room(self, tokens: int) -> int:
        """The largest size that counts as no more than *tokens*."""
        return tokens * self._per_token

    def short(self, text: str, room: int) -> str:
        """*text*, or its beginning and an ellipsis, at most *room* in size; a word is cut only in need."""
        if self(text) <= room:
            return text
        low, high = 0, len(text)
        while low < high:
            middle = (low + high + 1) // 2
            if self(text[:middle] + ELLIPSIS) <= room:
                low = middle
            else:
                high = middle - 1
        space = text.rfind(" ", low * 2 // 3, low)
        return text[: space if space > 0 else low].rstrip() + ELLIPSIS if low else ""


class Picks:
    """Lines that were chosen, and the room they take with their speakers' names."""

    def __init__(self, measure: Measure, room: int) -> None:
        self._measure = measure
        self._room = room
        self._chosen: dict[int, tuple[Unit, str]] = {}
        self._said: set[str] = set()
        self.used = 0

    @property
    def text(self) -> str:
        """The chosen lines in order, each with its speaker; those of one item stand together."""
        from siltstone.messages import INDENT

        lines, item = [], -1
        for _, (unit, text) in sorted(self._chosen.items()):
            lines.append(f"{INDENT}{text}" if unit.item == item else f"{unit.speaker}: {text}")
            item = unit.item
        return "\n".join(lines)

    def take(self, candidates: Sequence[Scored], room: int | None = None) -> None:
        """Chooses of *candidates*, best first, what is new and fits *room*, or all the room left.

        A line that was chosen in short form is given whole where that fits.
        """
        end = self._room if room is None else min(self._room, self.used + room)
        for line in candidates:
            held = self._chosen.get(line.at)
            more = self._measure.line(line.unit, line.unit.text) - (self._measure.line(*held) if held else 0)
            if more > 0 and self.used + more <= end and (held or self._is_new(line)):
                self._choose(line, line.unit.text, more)

    def take_short(self, requests: Sequence[Scored], room: int) -> None:
        """Chooses *requests*, cut to one length so that all fit *room*.

        Where they are too many for that, the newest and the first are chosen, and the others are lines
        like any other.
        """
        room = min(room, self._room - self.used)
        longest = _common_length([self._measure.line(line.unit, line.unit.text) for line in requests], room)
        if longest < SHORTEST:
            requests, longest = [*requests[-1:], *requests[:-1][:1]], room // 2
        for line in requests:
            text = self._measure.short(line.unit.text, longest - self._measure.line(line.unit, ""))
            if text:
                self._choose(line, text, self._measure.line(line.unit, text))

    def _choose(self, line: Scored, text: str, more: int) -> None:
        self._chosen[line.at] = (line.unit, text)
        self._said.update(line.weights)
        self.used += more

    def _is_new(self, line: Scored) -> bool:
        new = sum(weight for word, weight in line.weights.items() if word not in self._said)
        return new >= LEAST_NOVELTY * sum(line.weights.values())


def _common_length(sizes: Sequence[int], room: int) -> int:
    """The largest length at which all texts, each cut to it, fit *room* together."""
    left = room
    for rank, size in enumerate(sorted(sizes)):
        share = left // (len(sizes) - rank)
        if size > share:
            return share
        left -= size
    return room
