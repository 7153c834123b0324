"""The tokens in context over a session, as the coordinates of a drawing.

Across, a place is a share of the width, so the drawing fits any window; upwards it is in units of 1,000.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

from siltstone.figures.turns import Mark, TurnTokens
from siltstone.memory import RecallRecord
from siltstone.session.branches import UNDO

__all__ = ["Chart", "ChartMark", "ChartRecall", "Tick", "chart", "level"]

_HIGH = 1_000  #: units from the floor to the top
_ROOM = 1.08  #: the height of the drawing, as a multiple of its highest value
_LABELS = 4  #: labels of an axis, about
_NEAR = 0.08  #: of the height: two labels that are nearer lie on one another
_MOST = 1_200  #: corners of a line: more are not seen
_RECALLS = 200  #: marks of recalls: more lie on one another
_DIGIT = 6  #: pixels of a digit beside a mark
_APART = 5  #: pixels between two numbers
_WIDTHS = (980, 330)  #: pixels of a wide drawing, and of a narrow one


@dataclass(frozen=True, slots=True)
class Tick:
    """A label of an axis: its place, and what it says."""

    at: float
    value: int


@dataclass(frozen=True, slots=True)
class ChartMark:
    """A compaction, a branch or an undo in the drawing.

    Attributes:
        mark: The compaction, branch or undo.
        x: Its place across, 0..100.
        top: The height of the context before it.
        bottom: The height of the context after it.
        numbered: Whether its number has room beside the other numbers: 0 never, 1 in a wide drawing, 2 in a
            narrow one too.
    """

    mark: Mark
    x: float
    top: float
    bottom: float
    numbered: int = 0


@dataclass(frozen=True, slots=True)
class ChartRecall:
    """A recall in the drawing, with its horizontal place, 0..100."""

    record: RecallRecord
    x: float


@dataclass(frozen=True, slots=True)
class Chart:
    """A drawing.

    Attributes:
        line: The corners of the line, for ``points``.
        area: The corners of the area below the line.
        marks: The compactions, branches and undos on the way.
        recalls: The recalls that placed a block; of several at one place, the recall with the most tokens.
        across: Labels below: numbers of messages.
        upwards: Labels at the side: tokens.
        window: The height of the window; None where it is not known.
        threshold: The corners of the line of the threshold, for ``points``; empty where none is known.
        last_threshold: Where that line ends: its height, and the tokens of a history that reach it.
    """

    line: str
    area: str
    marks: tuple[ChartMark, ...]
    recalls: tuple[ChartRecall, ...]
    across: tuple[Tick, ...]
    upwards: tuple[Tick, ...]
    window: float | None
    threshold: str = ""
    last_threshold: Tick | None = None


def level(mark: Mark) -> int | None:
    """The tokens of a history that reached the threshold of *mark*; None where there was none."""
    return None if mark.threshold is None else max(0, mark.threshold - mark.reserved_tokens)


def chart(
    turns: Sequence[TurnTokens],
    marks: Sequence[Mark],
    window: int | None,
    recalls: Iterable[RecallRecord] = (),
) -> Chart | None:
    """The drawing of a session; None where nothing was said."""
    end = max((turn.end for turn in turns), default=0)
    if not end:
        return None
    corners = _thinned(_corners(turns, marks))
    steps = _thresholds(marks, end)
    heights = (*corners, *steps, *((0, mark.tokens_before) for mark in marks))
    most = max(window or 0, 1, *(tokens for _, tokens in heights))
    high = most * _ROOM

    def x(seq: int) -> float:
        return round(100 * seq / end, 3)

    def y(tokens: int) -> float:
        return round(_HIGH - _HIGH * tokens / high, 2)

    lines = [each for each in (window, steps[-1][1] if steps else None) if each is not None]
    points = " ".join(f"{x(seq)},{y(tokens)}" for seq, tokens in corners)
    return Chart(
        points,
        f"0,{_HIGH} {points} {x(corners[-1][0])},{_HIGH}",
        tuple(
            ChartMark(mark, x(mark.seq), y(mark.tokens_before), y(mark.tokens_after), numbered)
            for mark, numbered in zip(marks, _numbered(marks, end), strict=True)
        ),
        tuple(ChartRecall(each, x(each.position)) for each in _seen(recalls, end)),
        tuple(Tick(x(value), value) for value in _steps(end)),
        tuple(Tick(y(value), value) for value in _steps(most) if _is_free(value, lines, most)),
        None if window is None else y(window),
        " ".join(f"{x(seq)},{y(tokens)}" for seq, tokens in steps),
        Tick(y(steps[-1][1]), steps[-1][1]) if steps else None,
    )


def _thresholds(marks: Sequence[Mark], end: int) -> list[tuple[int, int]]:
    """Where the line of the threshold turns: up to each compaction stands the threshold that it reached.

    The emergency fit acts at the window, not at the threshold: it counts if nothing else has acted.
    """
    known = [(mark, tokens) for mark in marks if (tokens := level(mark)) is not None]
    found = [(mark, tokens) for mark, tokens in known if mark.reason != "overflow"] or known
    corners: list[tuple[int, int]] = []
    at = 0
    for tokens, stretch in groupby(found, itemgetter(1)):
        last = [mark.seq for mark, _ in stretch][-1]
        corners += [(at, tokens), (last, tokens)]
        at = last
    return [*corners[:-1], (end, corners[-1][1])] if corners else []


def _numbered(marks: Sequence[Mark], end: int) -> list[int]:
    """Of each mark whether its number has room, as in ``ChartMark``. An undo has none in the list."""
    found = [0] * len(marks)
    for rank, width in enumerate(_WIDTHS, start=1):
        free = float("-inf")
        for place, mark in enumerate(marks):
            half, at = len(str(mark.id)) * _DIGIT / 2, width * mark.seq / end
            if mark.reason != UNDO and found[place] == rank - 1 and at - half >= free:
                found[place], free = rank, at + half + _APART
    return found


def _corners(turns: Sequence[TurnTokens], marks: Sequence[Mark]) -> list[tuple[int, int]]:
    """Where the line turns: at the end of each turn, and at each compaction."""
    found: list[tuple[int, int]] = [(0, 0)]
    waiting = list(marks)
    for turn in turns:
        while waiting and waiting[0].seq <= turn.end:
            mark = waiting.pop(0)
            found += [(mark.seq, mark.tokens_before), (mark.seq, mark.tokens_after)]
        found.append((turn.end, turn.context))
    for mark in waiting:
        found += [(mark.seq, mark.tokens_before), (mark.seq, mark.tokens_after)]
    return found


def _thinned(corners: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """At most so many corners: of a stretch its lowest and its highest."""
    if len(corners) <= _MOST:
        return corners
    step = -(-len(corners) * 2 // _MOST)
    found: list[tuple[int, int]] = []
    for start in range(0, len(corners), step):
        stretch = corners[start : start + step]
        ends = {stretch.index(min(stretch, key=_tokens)), stretch.index(max(stretch, key=_tokens))}
        found += [stretch[place] for place in sorted(ends)]
    return [corners[0], *found, corners[-1]]


def _seen(recalls: Iterable[RecallRecord], end: int) -> list[RecallRecord]:
    """Of each stretch of the drawing the recall that placed the most, in order."""
    found: dict[int, RecallRecord] = {}
    for each in recalls:
        place = each.position * _RECALLS // end
        if each.tokens and (place not in found or found[place].tokens < each.tokens):
            found[place] = each
    return [found[place] for place in sorted(found)]


def _tokens(corner: tuple[int, int]) -> int:
    return corner[1]


def _is_free(value: int, lines: Sequence[int], most: int) -> bool:
    """Whether a label has room beside the *lines* of the window and of the threshold."""
    return all(value == line or abs(value - line) > most * _NEAR for line in lines)


def _steps(most: int) -> Iterable[int]:
    """Round numbers up to *most*, about as many as there is room for."""
    raw = max(1, most / _LABELS)
    unit = 10 ** (len(str(int(raw))) - 1)
    step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= raw)
    return range(step, most + 1, step)
