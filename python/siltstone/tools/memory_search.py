"""The tool ``memory_search``: a model searches for earlier messages and saved memories."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, Protocol, TypeAlias, TypedDict, Unpack

from siltstone.errors import InvalidEntryError
from siltstone.memory.entry import SearchFilters, SearchHit, SearchOrder
from siltstone.tokens import estimate_tokens
from siltstone.tools.base import Tool, refusal, shown
from siltstone.tools.budget import FLOOR, Count, answer_budget, as_json, best_part, check_budget, shares

__all__ = [
    "CROSS_SESSION_DESCRIPTION",
    "DEFAULT_LIMIT",
    "DESCRIPTION",
    "MAX_LIMIT",
    "NAME",
    "Direct",
    "memory_search",
    "searching_tool",
]

NAME = "memory_search"
DEFAULT_LIMIT = 5  #: hits, by default
#: Times as the model may write them; ``siltstone.tools.periods`` reads them.
FORMS = '"2026-03-05", "yesterday", "last Tuesday", "in March", "5 March 2026", "3 days ago"'
_PLAIN = frozenset({"query", "limit"})  #: arguments that ask for nothing but the best hits
_NOT_GIVEN = (None, "")  #: values of an argument that a model fills in because it is in the schema
MAX_LIMIT = 20  #: the maximum number of hits, for any request of the model

DESCRIPTION = (
    "Search semantic memory for past conversation content. Memory contains text from earlier "
    "conversation turns that were compacted away to save context space. Use this to recall information "
    "from earlier in the conversation."
)

CROSS_SESSION_DESCRIPTION = f"{DESCRIPTION[:-1]} or from previous sessions."

_Result: TypeAlias = Callable[[SearchHit, str], str]  # the JSON text of a hit with that content

PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "description": "Natural language: what to recall."},
        "limit": {
            "type": "integer",
            "minimum": 0,
            "default": DEFAULT_LIMIT,
            "description": f"The most results to return; at most {MAX_LIMIT}.",
        },
        "since": {"type": "string", "description": f"Only what was said then or later: {FORMS}."},
        "until": {"type": "string", "description": "Only what was said then or before, in the same forms."},
        "order": {
            "type": "string",
            "enum": ["score", "time"],
            "default": "score",
            "description": (
                "'score': the best match first. 'time': mentions of a topic in the order in which they were "
                "said, spread over the conversation; for what came first, what changed, or all of a topic."
            ),
        },
    },
    "required": ["query"],
}


class Search(Protocol):
    """A search that is bound to a session, or to its namespace."""

    def __call__(
        self, query: str, limit: int, /, *, order: SearchOrder = ..., **filters: Unpack[SearchFilters]
    ) -> list[SearchHit]:
        """At most *limit* hits, best first, or in the order of the messages.

        An order or a filter is given only where the model asked for it.
        """


Direct: TypeAlias = Callable[[str, int], str | list[SearchHit] | None]
"""A function of a query and a limit: the answer, or the hits; None where only the search has them."""


def _local_time() -> datetime:
    return datetime.now().astimezone()


def memory_search(
    search: Search,
    *,
    budget: int | None = None,
    count: Count = estimate_tokens,
    cross_session: bool = False,
    now: Callable[[], datetime] = _local_time,
) -> Tool:
    """The tool over *search*.

    Its result is a JSON array of ``{"content", "score", "source_range": {"start", "end"}}`` in one line, best
    first, or with ``order="time"`` in the order in which they were said. Where it would have more than
    *budget* tokens, long contents are cut to their best passages, each with 60 tokens at least; only where
    that is too much, too, the last hits are left out, and a second line says how many.

    The model may say from when on and until when. Both take a time as ISO 8601 has it, or in the English
    words of ``siltstone.tools.periods``; *since* is from the first moment of a period that words name,
    *until* goes up to its end. Words that name no period, or more than one, are refused: nothing is guessed.

    Args:
        search: Gives the hits.
        budget: Tokens of an answer at most, 100 or more; None for :func:`answer_budget` of an unknown window.
        count: How they are counted.
        cross_session: *search* finds what other sessions said, too. The description says so, and each result
            has the ``session_id`` it is of.
        now: The current time, in the zone in which days begin.

    Raises:
        ConfigError: *budget* is too small for an answer.
    """
    return searching_tool(search, budget=budget, count=count, cross_session=cross_session, now=now)


def searching_tool(
    search: Search,
    *,
    budget: int | None,
    count: Count,
    cross_session: bool,
    now: Callable[[], datetime],
    direct: Direct | None = None,
) -> Tool:
    """As :func:`memory_search`; *direct* answers calls with a query and a limit alone."""
    most = answer_budget(None) if budget is None else check_budget(budget)

    def run(arguments: Mapping[str, Any]) -> str:
        query, limit = _query(arguments), _limit(arguments)
        hits: list[SearchHit] | None = None if limit and query.strip() else []
        try:
            if hits is None and direct is not None and arguments.keys() <= _PLAIN:
                answer = direct(query, limit)
                if isinstance(answer, str):
                    return answer
                hits = answer
            filters, order = _filters(arguments, now), _order(arguments)
            if hits is None:
                hits = search(query, limit, **order, **filters)
        except InvalidEntryError as error:  # a query over the store's limit
            raise refusal(NAME, str(error)) from error
        return _answer(hits, query, most, count, _across if cross_session else _result)

    return Tool(NAME, CROSS_SESSION_DESCRIPTION if cross_session else DESCRIPTION, PARAMETERS, run)


def _answer(hits: list[SearchHit], query: str, budget: int, count: Count, result: _Result) -> str:
    whole = _array([hit.content for hit in hits], hits, result)
    if not hits or count(whole) <= budget:
        return whole
    kept, room = _kept(hits, budget, count, result)
    share = shares([count(as_json(hit.content)) for hit in hits[:kept]], room)

    def written(text: str) -> int:
        return count(as_json(text))  # escapes are sent, too

    contents = [best_part(hit.content, query, share, written) for hit in hits[:kept]]
    answer = _array(contents, hits, result)
    left_out = len(hits) - kept
    return f"{answer}\n{_left_out(left_out)}" if left_out else answer


def _kept(hits: list[SearchHit], budget: int, count: Count, result: _Result) -> tuple[int, int]:
    """How many hits fit *budget* with their contents cut to the floor, one at least; the room for those."""
    for kept in range(len(hits), 0, -1):
        note = count(_left_out(len(hits) - kept)) + 1 if kept < len(hits) else 0
        room = budget - note - count(_array([""] * kept, hits, result)) - kept  # roundings
        least = sum(min(count(as_json(hit.content)), FLOOR) for hit in hits[:kept])
        if least <= room:
            return kept, room
    return 1, max(room, 1)


def _left_out(number: int) -> str:
    hits = "hit was" if number == 1 else "hits were"
    return f"({number} more {hits} found and left out for their length.)"


def _array(contents: list[str], hits: list[SearchHit], result: _Result) -> str:
    return f"[{', '.join(map(result, hits, contents))}]"


def _query(arguments: Mapping[str, Any]) -> str:
    query = arguments.get("query")
    if query is None:
        raise refusal(NAME, "the argument 'query' is missing")
    if not isinstance(query, str):
        raise refusal(NAME, f"'query' must be a string, got {type(query).__name__}")
    return query


def _limit(arguments: Mapping[str, Any]) -> int:
    limit = arguments.get("limit", DEFAULT_LIMIT)
    if limit is None:
        return DEFAULT_LIMIT
    if isinstance(limit, float) and limit.is_integer():
        limit = int(limit)  # JSON has one kind of number
    if type(limit) is not int or limit < 0:
        raise refusal(NAME, f"'limit' must be an integer >= 0, got {shown(limit)}")
    return min(limit, MAX_LIMIT)


class _Order(TypedDict, total=False):
    """The order that the model asks for, if it is not best first."""

    order: SearchOrder


def _order(arguments: Mapping[str, Any]) -> _Order:
    order = arguments.get("order")
    if order in (None, "", "score"):
        return {}
    if order != "time":
        raise refusal(NAME, f"'order' must be 'score' or 'time', got {shown(order)}")
    return {"order": "time"}


def _filters(arguments: Mapping[str, Any], now: Callable[[], datetime]) -> SearchFilters:
    """The filters ``since`` and ``until``, if the model gives them."""
    filters = SearchFilters()
    if (words := arguments.get("since")) not in _NOT_GIVEN:
        filters["since"], _ = _period("since", words, now)
    if (words := arguments.get("until")) not in _NOT_GIVEN:
        first, after = _period("until", words, now)
        # A message of exactly that moment is included, to the millisecond.
        filters["until"] = after if first < after else after + timedelta(milliseconds=1)
    return filters


def _period(argument: str, words: object, now: Callable[[], datetime]) -> tuple[datetime, datetime]:
    from siltstone.tools.periods import period  # few searches name a time

    said = shown(words) if type(words) is int else words  # a year, or seconds since 1970
    found = period(said, now()) if isinstance(said, str) else None
    if found is None:
        raise refusal(NAME, f"{argument!r} must be a time such as {FORMS}, got {shown(words)}")
    return found


def _result(hit: SearchHit, content: str) -> str:
    """The hit as JSON text: to write it here takes a third of the time of a dict and an encoder."""
    start, end = hit.source_range
    score = repr(hit.score) if type(hit.score) is float else as_json(hit.score)
    place = f'{{"start": {start}, "end": {end}}}'
    return f'{{"content": {as_json(content)}, "score": {score}, "source_range": {place}}}'


def _across(hit: SearchHit, content: str) -> str:
    return f'{_result(hit, content)[:-1]}, "session_id": {as_json(hit.session_id)}}}'
