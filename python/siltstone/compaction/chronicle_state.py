"""The state of a chronicle that the session keeps. It has only numbers, because the texts are in the log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from siltstone.compaction.base import State
from siltstone.compaction.checkpoint import Checkpoint

__all__ = ["ChronicleState", "Known", "chronicle_in", "key_of", "listed"]

MODE: Final = "chronicle"
KINDS: Final = ("interval", "bootstrap", "pressure", "emergency", "rollup")

Known = dict[tuple[int, int, int], Checkpoint]
"""Checkpoints with their texts, by level and range."""


@dataclass(frozen=True, slots=True)
class ChronicleState:
    """The end of a chronicle, and its checkpoints that no roll-up covers.

    Attributes:
        number: The highest number of a checkpoint; 0 before the first.
        end: The first message that no checkpoint covers.
        fixed: Tokens of the view after the last run, without the messages that no checkpoint covers.
        open: The checkpoints that no roll-up covers, in order, without their texts. Each level has fewer of
            them than the threshold of a roll-up, so their number stays small.
        made: The checkpoints that the last run wrote.
    """

    number: int = 0
    end: int = 0
    fixed: int = 0
    open: tuple[Checkpoint, ...] = ()
    made: tuple[Checkpoint, ...] = ()

    @classmethod
    def read(cls, state: State | None) -> ChronicleState | None:
        """Reads *state*; None if it is the state of another policy, or empty."""
        state = chronicle_in(state)
        if state is None:
            return None
        numbers = [state.get(name) for name in ("number", "end", "fixed")]
        opened, made = _rows(state.get("open")), _rows(state.get("made"))
        if opened is None or made is None or not all(type(each) is int and each >= 0 for each in numbers):
            return None
        return cls(numbers[0], numbers[1], numbers[2], opened, made)  # type: ignore[arg-type]

    def to_json(self) -> dict[str, Any]:
        """The state as stored JSON."""
        return {
            "mode": MODE,
            "number": self.number,
            "end": self.end,
            "fixed": self.fixed,
            "open": [_row(each) for each in self.open],
            "made": [_row(each) for each in self.made],
        }

    def with_new(self, made: Checkpoint) -> ChronicleState:
        """The state after *made* was written; the checkpoints that a roll-up covers are no longer open."""
        left = [each for each in self.open if not _covers(made, each)]
        opened = tuple(sorted([*left, made], key=lambda each: each.start))
        return replace(
            self,
            number=max(self.number, made.last),
            end=max(self.end, made.end),
            open=opened,
            made=(*self.made, made),
        )


def chronicle_in(state: State | None) -> dict[str, Any] | None:
    """The chronicle in *state*, or None. A state of the rolling mode keeps the chronicle as a part."""
    if not isinstance(state, dict):
        return None
    found = state if state.get("mode") == MODE else state.get(MODE)
    return found if isinstance(found, dict) and found.get("mode") == MODE else None


def key_of(checkpoint: Checkpoint) -> tuple[int, int, int]:
    """The key of a checkpoint: its level and its range of messages."""
    return checkpoint.level, checkpoint.start, checkpoint.end


def listed(states: Iterable[State], known: Known) -> list[Checkpoint]:
    """Every checkpoint in *states*, in order, with its text if it is *known*.

    Checkpoints of level 0 stand in the order of their messages; a roll-up stands after its last checkpoint.
    """
    found: Known = {}
    for state in states:
        read = ChronicleState.read(state)
        for each in read.made if read is not None else ():
            text = known.get(key_of(each), each)
            found[key_of(each)] = replace(each, title=text.title, summary=text.summary)
    rollups = [each for each in found.values() if each.level]
    return [
        replace(each, is_rolled_up=any(_covers(rollup, each) for rollup in rollups))
        for each in sorted(found.values(), key=lambda each: (each.last, each.level))
    ]


def _covers(rollup: Checkpoint, other: Checkpoint) -> bool:
    return other.level < rollup.level and rollup.first <= other.first and other.last <= rollup.last


def _row(each: Checkpoint) -> list[int]:
    times = [0 if at is None else int(at) for at in (each.said_from, each.said_to)]
    kind = KINDS.index(each.kind)
    return [
        each.level, each.first, each.last, kind, each.start, each.end, each.messages, each.tokens, *times,
    ]  # fmt: skip


def _rows(rows: object) -> tuple[Checkpoint, ...] | None:
    if not isinstance(rows, Sequence) or not all(map(_is_row, rows)):
        return None
    return tuple(
        Checkpoint(
            row[1],
            row[2],
            row[0],
            KINDS[row[3]],
            row[4],
            row[5],
            row[6],
            row[7],
            row[8] or None,
            row[9] or None,
        )
        for row in rows
    )


def _is_row(row: object) -> bool:
    return (
        isinstance(row, list)
        and len(row) == 10
        and all(type(each) is int and each >= 0 for each in row)
        and row[3] < len(KINDS)
    )
