"""Recall at work: one block a turn, the same bytes through the steps of its tool loop."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from math import ceil
from typing import Final, Protocol, TypeAlias, runtime_checkable

from siltstone.messages import Message, opens_turn
from siltstone.recall.base import Detail, FactLine, RecallBlock, RecallConfig
from siltstone.recall.block import BlockOptions, block_options, written
from siltstone.recall.query import LEAST, Query, last_query, queries_of
from siltstone.tokens import TextMeasure
from siltstone.values import dataclass, field

__all__ = ["FACT_LIMIT", "NEIGHBOUR", "WITH_THE_BEST", "BlockSources", "Excerpt", "Recall", "Sources"]

FACT_LIMIT = 10  #: facts that are looked for
_WITH_NEIGHBOURS: Final = 1  #: hits, the best ones, that those beside them come with: more find no more
WITH_THE_BEST: Final = 0.5  #: of the least score: what comes with a hit that has it
NEIGHBOUR: Final = 0.15  #: what a step away from a hit takes of its score

_set: Final = object.__setattr__

Excerpt: TypeAlias = Callable[[str, str, int], str]
"""The stretch of a text that says most of what a query asks: of the query, the text, and the most tokens."""


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


@runtime_checkable
class BlockSources(Protocol):
    """Sources that search and write in one step, by the measured rule."""

    def block(
        self, query: str, limit: int, facts: Sequence[FactLine], options: BlockOptions
    ) -> RecallBlock | None:
        """The block of *facts*, of those of *limit* hits that are relevant, and of what is beside the best.

        None where each is to be asked for.
        """


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
        measure: What *count* does, where the core can do it too.
    """

    def __init__(
        self,
        config: RecallConfig,
        sources: Sources,
        count: Callable[[str], int],
        excerpt: Excerpt | None = None,
        measure: TextMeasure | None = None,
    ) -> None:
        self.config = config
        self._sources = sources
        self._count = count
        self._excerpt, self._measure = excerpt, measure
        self._worked: _Worked | None = None
        self._made: tuple[int, BlockOptions] | None = None
        self._writes = sources if isinstance(sources, BlockSources) else None

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
        limit = max(8, ceil(cap / 500))
        options = self._options(cap)
        block = RecallBlock(reason="short_query")
        seqs: tuple[int, ...] = ()
        for each in self._queries(history, query):
            asked, seqs = each
            if len(asked.strip()) >= LEAST:
                facts = self._sources.facts(asked, FACT_LIMIT)
                block = self._block(asked, limit, facts, options)
                if block.reason != "no_hits":
                    break
        _set(block, "query", seqs)  # nobody else has seen it
        return block

    def _block(self, query: str, limit: int, facts: Sequence[FactLine], options: BlockOptions) -> RecallBlock:
        sources = self._sources
        if self._writes is not None:
            block = self._writes.block(query, limit, facts, options)
            if block is not None:
                return block
        hits = sources.details(query, limit)
        relevant = self._relevant(hits)
        found = self._with_neighbours(relevant)
        return written(facts, found, query, options, len(hits) - len(relevant))

    def _options(self, cap: int) -> BlockOptions:
        known = self._made
        if known is None or known[0] != cap:
            options = block_options(
                cap,
                self._count,
                framed=self.config.recall_frame,
                cut=self.config.cut,
                measure=self._measure,
                excerpt=self._excerpt if self.config.cut else None,
            )
            known = self._made = cap, options
        return known[1]

    def _queries(self, history: Sequence[Message], query: str | None) -> Iterable[Query]:
        if query is not None:
            return [Query(query, ())]
        return [last_query(history)] if self.config.score_filter == "documented" else queries_of(history)

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
        if not hits:
            return []
        best = {hit.entry_id or -place: hit for place, hit in enumerate(hits, 1)}  # 0 is that of many
        for hit in hits[:_WITH_NEIGHBOURS]:
            for distance, near in self._sources.neighbours(hit, self.config.expand_neighbors):
                score = hit.score * max(0.0, 1 - NEIGHBOUR * distance)
                known = best.get(near.entry_id)
                if known is None or known.score < score:
                    best[near.entry_id] = near._replace(score=score)
        return list(best.values())


def _turn(history: Sequence[Message], query: str | None, version: Hashable) -> Hashable:
    """What tells one turn from another: its request, and a query of the caller's own."""
    for message in reversed(history):
        if opens_turn(message):
            return message.seq, message.text, query, version
    return -1, "", query, version
