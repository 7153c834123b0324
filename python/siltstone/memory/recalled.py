"""What a session recalled before its calls, as its log tells it: ids and figures, and no text of an entry."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Final, Literal, TypeAlias

from siltstone.memory.convert import datetime_from
from siltstone.memory.log import NewRecall
from siltstone.values import dataclass

__all__ = ["MOST_RECALLS", "Placing", "RecallCandidate", "RecallRecord", "record_of"]

MOST_RECALLS: Final = 1_000  #: recalls that the log of a session keeps; the oldest leave first

Placing: TypeAlias = Literal["placed", "cut", "budget"]
"""``placed``: the entry stood in the block, whole. ``cut``: a part of it did. ``budget``: it had no room."""

_PLACINGS: Final[tuple[Placing, ...]] = ("placed", "cut", "budget")


@dataclass(frozen=True, slots=True)
class RecallCandidate:
    """An entry that a recall found, and that scored enough.

    Attributes:
        entry_id: Its id in the store; 0 or less for one that had none. The entry may have left since:
            ``store.get`` raises ``EntryNotFoundError`` then.
        score: 0..1, by the search that found it; of an entry beside the best hit a share of that one's score.
        tokens: What it took, or would have taken; None where it was left out before it was counted.
        placing: What became of it.
    """

    entry_id: int
    score: float
    tokens: int | None
    placing: Placing

    @property
    def is_placed(self) -> bool:
        """Whether the model has read it, or a part of it."""
        return self.placing != "budget"


@dataclass(frozen=True, slots=True)
class RecallRecord:
    """A recall: what was placed before the model, and what was left out.

    Attributes:
        position: The number of messages that the log had.
        at: When, in UTC.
        query: The messages that the query was made of, by their sequence numbers, oldest first.
        candidates: The entries that scored enough, the best first.
        facts: Facts in the block.
        below: Entries that were found, and scored too little.
        tokens: What the block counts; 0 where there was none.
        cap: The most that it might have counted.
        seconds: How long the search and the writing of the block took.
        reason: Why there was no block: ``short_query``, ``no_hits``, ``no_room``; else empty.
    """

    position: int
    at: datetime
    query: tuple[int, ...]
    candidates: tuple[RecallCandidate, ...]
    facts: int
    below: int
    tokens: int
    cap: int
    seconds: float
    reason: str

    @property
    def placed(self) -> tuple[RecallCandidate, ...]:
        """The entries that stood in the block, the best first."""
        return tuple(each for each in self.candidates if each.is_placed)

    @property
    def left_out(self) -> tuple[RecallCandidate, ...]:
        """The entries that there was no room for, the best first."""
        return tuple(each for each in self.candidates if not each.is_placed)


def record_of(row: NewRecall) -> RecallRecord:
    """A recall as the log holds it, read."""
    body = json.loads(row.body)
    return RecallRecord(
        position=row.seq,
        at=datetime_from(row.created_at),
        query=tuple(body["q"]),
        candidates=tuple(
            RecallCandidate(entry, score / 1e6, tokens, _PLACINGS[placing])
            for entry, score, tokens, placing in body["e"]
        ),
        facts=body["f"],
        below=body["b"],
        tokens=body["t"],
        cap=body["c"],
        seconds=body["u"] / 1e6,
        reason=body["r"],
    )
