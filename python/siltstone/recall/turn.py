"""Recall at work: one block a turn, the same bytes through the steps of its tool loop."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Protocol

from siltstone.messages import Message, opens_turn
from siltstone.recall.base import Detail, FactLine, RecallBlock, RecallConfig
from siltstone.recall.block import build_block
from siltstone.recall.query import LEAST, query_of

__all__ = ["FACT_LIMIT", "Recall", "Sources"]

FACT_LIMIT = 10  #: facts that are looked for
_NEIGHBOUR = 0.15  #: what a step away from a hit takes of its score


class Sources(Protocol):
    """Where a session looks: bound to it, or to its namespace."""

    def details(self, query: str, limit: int) -> Sequence[Detail]:
        """What was said that fits *query* and is not in context, best first."""

    def neighbours(self, detail: Detail, distance: int) -> Sequence[tuple[int, Detail]]:
        """The entries up to *distance* before and after *detail*, each with how far away it stands."""

    def facts(self, query: str, limit: int) -> Sequence[FactLine]:
        """What is known that fits *query*, best first."""


@dataclass(frozen=True, slots=True)
class _Worked:
    """The block of one turn."""

    turn: Hashable
    block: RecallBlock


class Recall:
    """The recall of one session. Not for several threads at once: a session calls it under its lock.

    Args:
        config: How much, of what, where.
        sources: Where to look.
        count: The tokens of a text, by the session's own counter.
    """

    def __init__(self, config: RecallConfig, sources: Sources, count: Callable[[str], int]) -> None:
        self.config = config
        self._sources = sources
        self._count = count
        self._worked: _Worked | None = None

    def block(
        self,
        history: Sequence[Message],
        *,
        context_window: int | None = None,
        room: int | None = None,
        query: str | None = None,
    ) -> RecallBlock:
        """The block for the next call: worked out once a turn, and given back until the next one begins.

        Args:
            history: The view, without blocks of earlier calls.
            context_window: The window in tokens, where known: the cap is a tenth of it at most.
            room: Tokens that are left in the request. A block that does not fit is left out of this call,
                and comes back in the next one that has room.
            query: What to search for; else the last user messages.
        """
        turn = _turn(history, query)
        if self._worked is None or self._worked.turn != turn:
            self._worked = _Worked(turn, self._work(history, context_window, query))
        block = self._worked.block
        if room is not None and block.tokens > room:
            return RecallBlock(reason="no_room")
        return block

    def forget(self) -> None:
        """The next call works its block out anew: what is in memory has changed."""
        self._worked = None

    def _work(self, history: Sequence[Message], window: int | None, query: str | None) -> RecallBlock:
        cap = self.config.cap(window)
        if not self.config.enabled or cap == 0:
            return RecallBlock(reason="off")
        asked = query_of(history) if query is None else query
        if len(asked.strip()) < LEAST:
            return RecallBlock(reason="short_query")
        limit = max(8, ceil(cap / 500))
        floor = self.config.min_score
        hits = [hit for hit in self._sources.details(asked, limit) if hit.score >= floor]
        facts = self._sources.facts(asked, FACT_LIMIT)
        return build_block(
            facts,
            self._with_neighbours(hits),
            cap,
            self._count,
            framed=self.config.recall_frame,
            cut=self.config.cut,
        )

    def _with_neighbours(self, hits: Sequence[Detail]) -> list[Detail]:
        if not self.config.expand_neighbors:
            return list(hits)
        best = {hit.entry_id: hit for hit in hits}
        for hit in hits:
            for distance, near in self._sources.neighbours(hit, self.config.expand_neighbors):
                score = hit.score * max(0.0, 1 - _NEIGHBOUR * distance)
                known = best.get(near.entry_id)
                if known is None or known.score < score:
                    best[near.entry_id] = replace(near, score=score)
        return list(best.values())


def _turn(history: Sequence[Message], query: str | None) -> Hashable:
    """What tells one turn from another: its request, and a query of the caller's own."""
    for message in reversed(history):
        if opens_turn(message):
            return message.seq, message.text, query
    return -1, "", query
