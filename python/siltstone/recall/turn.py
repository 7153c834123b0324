"""Runs recall: one block for each turn, unchanged through the steps of its tool loop."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Final, Protocol, TypeAlias, runtime_checkable

from siltstone.messages import Message, opens_turn
from siltstone.recall.base import Detail, FactLine, RecallBlock, RecallConfig
from siltstone.recall.block import BlockOptions, block_options, written
from siltstone.recall.query import LEAST, Query, last_query, queries_of
from siltstone.tokens import TextMeasure

__all__ = ["FACT_LIMIT", "NEIGHBOUR", "WITH_THE_BEST", "BlockSources", "Excerpt", "Recall", "Sources"]

FACT_LIMIT = 10  #: facts that are looked for
_WITH_NEIGHBOURS: Final = 1  #: the best hits whose neighbours come with them: more find no more
WITH_THE_BEST: Final = 0.5  #: the share of the least score that the other hits need
NEIGHBOUR: Final = 0.15  #: the share of a hit's score that each step away from it costs

Excerpt: TypeAlias = Callable[[str, str, int], str]
"""Returns the part of a text that best matches a query: takes the query, the text and the most tokens."""


class Sources(Protocol):
    """The sources of a session's recall, bound to the session or to its namespace."""

    def details(self, query: str, limit: int) -> Sequence[Detail]:
        """The stored messages that fit *query* and are not in context, best first.

        With ``score_filter="documented"``, only those that pass the documented filter.
        """

    def neighbours(self, detail: Detail, distance: int) -> Sequence[tuple[int, Detail]]:
        """The entries up to *distance* before and after *detail*, each with its distance."""

    def facts(self, query: str, limit: int) -> Sequence[FactLine]:
        """The facts that fit *query*, best first."""


@runtime_checkable
class BlockSources(Protocol):
    """Sources that search and write the block in one step, by the measured rule."""

    def block(
        self, query: str, limit: int, facts: Sequence[FactLine], options: BlockOptions
    ) -> RecallBlock | None:
        """The block of *facts*, of the relevant ones among *limit* hits, and of the neighbours of the best.

        None if the sources have to be asked one by one.
        """


@dataclass(frozen=True, slots=True)
class _Worked:
    """The block of one turn."""

    turn: Hashable
    block: RecallBlock
    left_out: RecallBlock = field(default_factory=lambda: RecallBlock(reason="no_room"))


class Recall:
    """The recall of one session. Not safe for several threads at once: a session calls it under its lock.

    Args:
        config: The settings.
        sources: The sources to search.
        count: Counts the tokens of a text, by the session's own counter.
        excerpt: Cuts a detail that is larger than its share, if ``config.cut`` is set. Without it the
            beginning is kept.
        measure: The rule that *count* implements, if the core knows it.
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
        """The block for the next call: made once for each turn, and returned unchanged until the next turn.

        During a turn it is the same object.

        Args:
            history: The view, without blocks of earlier calls.
            context_window: The window in tokens, if known: the cap is at most a tenth of it.
            room: The tokens that are left in the request. A block that does not fit is left out of this call,
                and returns in the next one with enough room.
            query: The query; None takes the last user messages.
            version: The version of the stored data. With another version the block is made anew.
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
        """Continues the turn of *history* without a block: the provider found the request too large."""
        self._worked = _Worked(_turn(history, None, version), RecallBlock(reason="no_room"))

    def forget(self) -> None:
        """Makes the next call build its block anew, since the stored data has changed."""
        self._worked = None

    def search(
        self, history: Sequence[Message], *, context_window: int | None = None, query: str | None = None
    ) -> RecallBlock:
        """A new block for *query*, or for the last user messages. Safe to call from any thread."""
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
        return replace(block, query=seqs)

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
        """The hits that may be placed.

        By the measured rule, the best hit decides whether any is placed, and the others need a share of the
        same score: a detail of an answer says less of the question than the sentence that names it. By the
        documented rule, the search has decided already, as it knows which ranker found each hit.
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
        best = {hit.entry_id or -place: hit for place, hit in enumerate(hits, 1)}  # 0: no id of its own
        for hit in hits[:_WITH_NEIGHBOURS]:
            for distance, near in self._sources.neighbours(hit, self.config.expand_neighbors):
                score = hit.score * max(0.0, 1 - NEIGHBOUR * distance)
                known = best.get(near.entry_id)
                if known is None or known.score < score:
                    best[near.entry_id] = near._replace(score=score)
        return list(best.values())


def _turn(history: Sequence[Message], query: str | None, version: Hashable) -> Hashable:
    """The key of a turn: its request, the caller's own query, and the version of the data."""
    for message in reversed(history):
        if opens_turn(message):
            return message.seq, message.text, query, version
    return -1, "", query, version
