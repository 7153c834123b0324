"""Records of the recalls of a session, from its log: ids and figures, without any text of an entry."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, TypeAlias

from siltstone.memory.convert import datetime_from
from siltstone.memory.log import NewRecall

__all__ = ["MOST_RECALLS", "Placing", "RecallCandidate", "RecallRecord", "record_of"]

MOST_RECALLS: Final = 1_000  #: the maximum number of recalls in the log of a session; the oldest are deleted

Placing: TypeAlias = Literal["placed", "cut", "budget"]
"""``placed``: the whole entry was in the block. ``cut``: a part of it was. ``budget``: it had no room."""

_PLACINGS: Final[tuple[Placing, ...]] = ("placed", "cut", "budget")


@dataclass(frozen=True, slots=True)
class RecallCandidate:
    """An entry that a recall found, with a score above the limit.

    Attributes:
        entry_id: Its id in the store; 0 or less if it had none. The entry may be deleted since: ``store.get``
            then raises ``EntryNotFoundError``.
        score: 0..1, by the search that found it; for a neighbour of the best hit, a share of that hit's
            score.
        tokens: Its size in the block, or the size that it needed; None if it was left out before it was
            counted.
        placing: Whether the entry was placed, cut or left out.
    """

    entry_id: int
    score: float
    tokens: int | None
    placing: Placing

    @property
    def is_placed(self) -> bool:
        """Whether the block had it, or a part of it."""
        return self.placing != "budget"


@dataclass(frozen=True, slots=True)
class RecallRecord:
    """A recall: the entries in its block, and the entries that were left out.

    Attributes:
        position: The length of the log at that time.
        at: The time, in UTC.
        query: The sequence numbers of the messages that made the query, oldest first.
        candidates: The entries with a score above the limit, best first.
        facts: The number of facts in the block.
        below: The number of found entries with a score below the limit.
        tokens: The size of the block; 0 if there was none.
        cap: The largest allowed size.
        seconds: The time for the search and the block.
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
        """The entries in the block, best first."""
        return tuple(each for each in self.candidates if each.is_placed)

    @property
    def left_out(self) -> tuple[RecallCandidate, ...]:
        """The entries without room in the block, best first."""
        return tuple(each for each in self.candidates if not each.is_placed)


def record_of(row: NewRecall) -> RecallRecord:
    """The record of a row of the log."""
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
