"""Choosing lines within a room: the best first, none that says again what was chosen, all in order."""

from collections.abc import Iterable, Sequence
from typing import Any

from reference.salience import Scored, score
from reference.tokens import text_size
from reference.units import Unit, read_items

HEADER = "Lines selected from those messages, oldest first:"
NOTHING_SAID = "The messages held no text."
ELLIPSIS = "…"
INDENT = "  "

REQUEST_SHARE = 3  # of the room, at most a third goes to the user's requests as such
EARLIER_SHARE = 85  # hundredths of the room that an earlier summary may take before new lines are chosen
LEAST_NOVELTY = 4  # tenths of a line's word weight that the lines already chosen must not have
SHORTEST = 40  # bytes or code points: below this a request in short form says nothing


class Selection:
    """Lines of *items*, from which summaries of any size are selected."""

    def __init__(self, items: Iterable[Any], code_points: bool) -> None:
        self._code_points = code_points
        self.lines = score(read_items(items, leave_out=HEADER))
        self.earlier_size = sum(self.line(each.unit) for each in self.lines if each.unit.is_earlier)

    def within(self, room: int) -> str:
        """A summary of at most *room* in size."""
        picks = Picks(self, room - self.size(HEADER) - 1)
        requests = [line for line in self.lines if line.unit.speaker == "User" and line.unit.is_first]
        picks.take_short(requests, room // REQUEST_SHARE)
        best = sorted(self.lines, key=lambda line: (-line.salience, line.at))
        earlier = [line for line in best if line.unit.is_earlier]
        picks.take(earlier, room * EARLIER_SHARE // 100)
        picks.take([line for line in best if not line.unit.is_earlier])
        picks.take(earlier)
        if picks.text:
            return f"{HEADER}\n{picks.text}"
        if best:
            return self.short(f"{best[0].unit.speaker}: {best[0].unit.text}", room)
        return self.short(NOTHING_SAID, room)

    def size(self, text: str) -> int:
        """Code points, or else bytes."""
        return text_size(text)[self._code_points]

    def line(self, unit: Unit, text: str | None = None) -> int:
        """The size of *unit* as a line, of *text* if it is given."""
        return self.size(f"{unit.speaker}: {unit.text if text is None else text}\n")

    def short(self, text: str, room: int) -> str:
        """*text*, or its beginning and an ellipsis, at most *room* in size; a word is cut only in need."""
        if self.size(text) <= room:
            return text
        fitting = (n for n in range(len(text), 0, -1) if self.size(text[:n] + ELLIPSIS) <= room)
        length = next(fitting, 0)
        space = text.rfind(" ", length * 2 // 3, length)
        return text[: space if space > 0 else length].rstrip() + ELLIPSIS if length else ""


class Picks:
    """Lines that were chosen, and the room they take with their speakers' names."""

    def __init__(self, of: Selection, room: int) -> None:
        self._of = of
        self._room = room
        self._chosen: dict[int, tuple[Unit, str]] = {}
        self._said: set[str] = set()
        self._used = 0

    @property
    def text(self) -> str:
        """The chosen lines in order, each with its speaker; those of one item stand together."""
        lines, item = [], -1
        for _, (unit, text) in sorted(self._chosen.items()):
            lines.append(f"{INDENT}{text}" if unit.item == item else f"{unit.speaker}: {text}")
            item = unit.item
        return "\n".join(lines)

    def take(self, candidates: Sequence[Scored], end: int | None = None) -> None:
        """Chooses of *candidates*, best first, what is new and fits, while no more than *end* is used.

        A line that was chosen in short form is given whole where that fits.
        """
        end = self._room if end is None else min(self._room, end)
        for line in candidates:
            held = self._chosen.get(line.at)
            more = self._of.line(line.unit) - (self._of.line(*held) if held else 0)
            if more > 0 and self._used + more <= end and (held or self._is_new(line)):
                self._choose(line, line.unit.text, more)

    def take_short(self, requests: Sequence[Scored], room: int) -> None:
        """Chooses *requests*, cut to one length so that all fit *room*.

        Where they are too many for that, the newest and the first are chosen, and the others are lines
        like any other.
        """
        room = min(room, self._room)
        longest = _common_length([self._of.line(line.unit) for line in requests], room)
        if longest < SHORTEST:
            requests, longest = [*requests[-1:], *requests[:-1][:1]], room // 2
        for line in requests:
            text = self._of.short(line.unit.text, longest - self._of.line(line.unit, ""))
            if text:
                self._choose(line, text, self._of.line(line.unit, text))

    def _choose(self, line: Scored, text: str, more: int) -> None:
        self._chosen[line.at] = (line.unit, text)
        self._said.update(line.weights)
        self._used += more

    def _is_new(self, line: Scored) -> bool:
        new = sum(weight for word, weight in line.weights.items() if word not in self._said)
        return 10 * new >= LEAST_NOVELTY * sum(line.weights.values())


def _common_length(sizes: Sequence[int], room: int) -> int:
    """The largest length at which all texts, each cut to it, fit *room* together."""
    left = room
    for rank, size in enumerate(sorted(sizes)):
        share = left // (len(sizes) - rank)
        if size > share:
            return share
        left -= size
    return room
