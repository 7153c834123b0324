"""Recall at work: one block a turn, the same bytes through the steps of its tool loop."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from math import ceil
from typing import Final, Protocol, TypeAlias

from siltstone.messages import Message, opens_turn
from siltstone.recall.base import Detail, FactLine, RecallBlock, RecallConfig
from siltstone.recall.block import KNOWLEDGE_PERCENT, build_block
from siltstone.recall.query import LEAST, queries_of, query_of
from siltstone.values import dataclass, field

__all__ = ["FACT_LIMIT", "Excerpt", "Recall", "Sources"]

FACT_LIMIT = 10  #: facts that are looked for
_WITH_NEIGHBOURS: Final = 1  #: hits, the best ones, that those beside them come with: more find no more
WITH_THE_BEST: Final = 0.5  #: of the least score: what comes with a hit that has it
_NEIGHBOUR = 0.15  #: what a step away from a hit takes of its score
_HEADER: Final = 12  #: tokens of what stands before the text of a detail
_SHORTEST: Final = 240  #: tokens of a detail that is cut, where there is room for them

Excerpt: TypeAlias = Callable[[str, str, int], str]
"""Of a text the stretch that says most of what a query asks, in so many tokens at most."""


class Sources(Protocol):
    """Where a session looks: bound to it, or to its namespace."""

    def details(self, query: str, limit: int) -> Sequence[Detail]:
        """What was said that fits *query* and is not in context, best first.

        With ``score_filter="documented"`` only what passes the documented filter.
        """

    def neighbours(self, detail: Detail, distance: int) -> Sequence[tuple[int, Detail]]:
        """The entries up to *distance* before and after *detail*, each with how far away it stands."""

    def facts(self, query: str, limit: int) -> Sequence[FactLine]:
        """What is known that fits *query*, best first."""


@dataclass(frozen=True, slots=True)
class _Worked:
    """The block of one turn."""

    turn: Hashable
    block: RecallBlock
    left_out: RecallBlock = field(default_factory=lambda: RecallBlock(reason="no_room"))


class Recall:
    """The recall of one session. Not for several threads at once: a session calls it under its lock.

    Args:
        config: How much, of what, where.
        sources: Where to look.
        count: The tokens of a text, by the session's own counter.
        excerpt: How a detail is cut that is larger than its share, where ``config.cut`` says so. Without it
            its beginning stays.
    """

    def __init__(
        self,
        config: RecallConfig,
        sources: Sources,
        count: Callable[[str], int],
        excerpt: Excerpt | None = None,
    ) -> None:
        self.config = config
        self._sources = sources
        self._count = count
        self._excerpt = excerpt
        self._worked: _Worked | None = None

    def block(
        self,
        history: Sequence[Message],
        *,
        context_window: int | None = None,
        room: int | None = None,
        query: str | None = None,
        version: Hashable = None,
    ) -> RecallBlock:
        """The block for the next call: worked out once a turn, and given back until the next one begins.

        Through a turn it is the same object.

        Args:
            history: The view, without blocks of earlier calls.
            context_window: The window in tokens, where known: the cap is a tenth of it at most.
            room: Tokens that are left in the request. A block that does not fit is left out of this call,
                and comes back in the next one that has room.
            query: What to search for; else the last user messages.
            version: Of what is stored. With another one the block is worked out anew.
        """
        turn = _turn(history, query, version)
        worked = self._worked
        if worked is None or worked.turn != turn:
            worked = _Worked(turn, self.search(history, context_window=context_window, query=query))
            self._worked = worked
        if room is not None and worked.block.tokens > room:
            return worked.left_out
        return worked.block

    def leave_out(self, history: Sequence[Message], version: Hashable = None) -> None:
        """The turn of *history* goes on without a block: the provider found its request too large."""
        self._worked = _Worked(_turn(history, None, version), RecallBlock(reason="no_room"))

    def forget(self) -> None:
        """The next call works its block out anew: what is in memory has changed."""
        self._worked = None

    def search(
        self, history: Sequence[Message], *, context_window: int | None = None, query: str | None = None
    ) -> RecallBlock:
        """The block for *query*, or for the last user messages, worked out now. Any thread may ask."""
        cap = self.config.cap(context_window)
        if not self.config.enabled or cap == 0:
            return RecallBlock(reason="off")
        queries = [each for each in self._queries(history, query) if len(each.strip()) >= LEAST]
        if not queries:
            return RecallBlock(reason="short_query")
        limit = max(8, ceil(cap / 500))
        for asked in queries:
            hits = self._relevant(self._sources.details(asked, limit))
            facts = self._sources.facts(asked, FACT_LIMIT)
            if hits or facts:
                break
        return build_block(
            facts,
            self._fitted(self._with_neighbours(hits), asked, cap),
            cap,
            self._count,
            framed=self.config.recall_frame,
            cut=self.config.cut,
        )

    def _queries(self, history: Sequence[Message], query: str | None) -> Sequence[str]:
        if query is not None:
            return [query]
        return [query_of(history)] if self.config.score_filter == "documented" else queries_of(history)

    def _relevant(self, hits: Sequence[Detail]) -> list[Detail]:
        """Those of *hits* that may be placed.

        By the measured rule the best hit decides whether any is, and what comes with it has at least a share
        of the same score: a detail of an answer says less of the question than the sentence that names it.
        By the documented rule the search has decided, which knows what found each.
        """
        if self.config.score_filter == "documented":
            return list(hits)
        least = self.config.min_score
        if any(hit.score >= least for hit in hits):
            least *= WITH_THE_BEST
        return [hit for hit in hits if hit.score >= least]

    def _with_neighbours(self, hits: Sequence[Detail]) -> list[Detail]:
        if not self.config.expand_neighbors:
            return list(hits)
        best = {hit.entry_id or -place: hit for place, hit in enumerate(hits, 1)}  # 0 is that of many
        for hit in hits[:_WITH_NEIGHBOURS]:
            for distance, near in self._sources.neighbours(hit, self.config.expand_neighbors):
                score = hit.score * max(0.0, 1 - _NEIGHBOUR * distance)
                known = best.get(near.entry_id)
                if known is None or known.score < score:
                    best[near.entry_id] = _scored(near, near.content, score)
        return list(best.values())

    def _fitted(self, details: Sequence[Detail], query: str, cap: int) -> Sequence[Detail]:
        """*details*, the best first: none takes more than half of what those before it have left."""
        if self._excerpt is None or not self.config.cut:
            return details
        room = cap - cap * KNOWLEDGE_PERCENT // 100
        fitted: list[Detail] = []
        for detail in sorted(details, key=lambda each: -each.score):
            if room <= _HEADER:
                break
            share = max(room // 2, min(room, _SHORTEST))
            size = self._count(detail.content) + _HEADER
            if size > share:
                cut = self._excerpt(detail.content, query, share - _HEADER)
                detail, size = _scored(detail, cut, detail.score), share
            fitted.append(detail)
            room -= size
        return fitted


def _scored(detail: Detail, content: str, score: float) -> Detail:
    return Detail(content, score, detail.role, detail.created_at, detail.entry_id)


def _turn(history: Sequence[Message], query: str | None, version: Hashable) -> Hashable:
    """What tells one turn from another: its request, and a query of the caller's own."""
    for message in reversed(history):
        if opens_turn(message):
            return message.seq, message.text, query, version
    return -1, "", query, version
