"""The answers of the tool ``memory_search``, where one step of the store searches and writes them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Protocol, runtime_checkable

from siltstone.memory.entry import SearchHit
from siltstone.session.core import SessionCore
from siltstone.tools.base import Tool
from siltstone.tools.budget import AnswerLimit
from siltstone.tools.memory_search import Search, searching_tool

__all__ = ["AnswerStore", "Answering", "search_tool"]


@runtime_checkable
class AnswerStore(Protocol):
    """A store that searches a session and writes the answer of ``memory_search`` in one step."""

    def answer(
        self, session_id: str, query: str, limit: int, most: AnswerLimit
    ) -> tuple[str | list[SearchHit], int, str | None] | None:
        """The text, or the hits where it is too long; the number of damaged entries; the facts' revision."""


class Answering:
    """Answers the calls of one tool.

    Args:
        core: The session.
        store: Its store.
        limit: The limit of an answer.
        most_hits: The most hits of any search of the session; None for no such limit.
    """

    def __init__(
        self, core: SessionCore, store: AnswerStore, limit: AnswerLimit, most_hits: int | None
    ) -> None:
        self._core, self._store, self._limit, self._most_hits = core, store, limit, most_hits

    def __call__(self, query: str, limit: int) -> str | list[SearchHit] | None:
        """The answer, or the hits where it would be too long.

        None if hits must be compared with the last request, or put beside facts: a search has them.
        """
        core = self._core
        core.check_open()
        if core.requests.last is not None or core.knowing.had_facts():
            return None
        wanted = limit if self._most_hits is None else min(limit, self._most_hits)
        found = self._store.answer(core.session_id, query, wanted, self._limit)
        if found is None:
            return None
        answer, damaged, facts = found
        core.tell_damage(damaged)
        return answer if core.knowing.is_without_facts(facts) else None


def search_tool(
    search: Search, core: SessionCore, budget: int, most_hits: int | None, now: Callable[[], datetime]
) -> Tool:
    """The tool of the session over *search*, whose answers have at most *budget* tokens.

    Its store writes most answers, unless the tool searches a namespace, or Python counts the tokens.
    """
    rule, direct = core.view.rule, None
    if not core.cross_session and rule.text_measure is not None and isinstance(core.store, AnswerStore):
        direct = Answering(core, core.store, AnswerLimit(budget, rule.text_measure), most_hits)
    return searching_tool(
        search,
        budget=budget,
        count=rule.count_text,
        cross_session=core.cross_session,
        now=now,
        direct=direct,
    )
