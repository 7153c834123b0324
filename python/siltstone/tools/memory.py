"""The tools ``memory_search``, ``memory_get``, ``memory_save`` and ``memory_forget``."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, tzinfo
from typing import Any, Final, Protocol, TypeAlias, TypedDict, Unpack

from siltstone import checks
from siltstone._native import matching_lines
from siltstone.errors import ConfigError, InvalidArgumentsError, InvalidEntryError, SecretRefusedError
from siltstone.knowledge import IMPORTANCE
from siltstone.memory.entry import SearchFilters, SearchHit, SearchOrder
from siltstone.messages.results import GET_NAME
from siltstone.tools import base
from siltstone.tools.base import shown
from siltstone.tools.periods import period

# The tool ``memory_forget``: a model deletes saved memories, if the host allows it.

FORGET_NAME: Final = "memory_forget"
MAX_IDS: Final = 20  #: memories of one call

FORGET_DESCRIPTION, FORGET_PARAMETERS = base.described(FORGET_NAME)


def memory_forget(forget: Callable[[Sequence[str]], int]) -> base.Tool:
    """The tool over *forget*, which takes ids of the session that it is bound to; how many were there.

    A model that may forget can be talked into it: a session offers this tool only where its host allows it.
    Its result is the JSON of ``{"forgotten"}``.
    """

    def run(arguments: Mapping[str, Any]) -> str:
        return json.dumps({"forgotten": forget(_ids(arguments))})

    return base.Tool(FORGET_NAME, FORGET_DESCRIPTION, FORGET_PARAMETERS, run)


def _ids(arguments: Mapping[str, Any]) -> list[str]:
    base.check_names(FORGET_NAME, arguments, FORGET_PARAMETERS["properties"])
    ids = arguments.get("ids")
    if not isinstance(ids, list | tuple) or not 1 <= len(ids) <= MAX_IDS:
        got = len(ids) if isinstance(ids, list | tuple) else type(ids).__name__
        raise base.refusal(FORGET_NAME, f"'ids' must be a list of 1 to {MAX_IDS} texts, got {got}")
    for each in ids:
        if not isinstance(each, str) or not each:
            raise base.refusal(FORGET_NAME, f"an id must be a text that is not empty, got {shown(each)}")
    return list(dict.fromkeys(ids))


# The tool ``memory_get``: a model reads a message that is cut or no longer shown, in pages.

GET_DESCRIPTION, GET_PARAMETERS = base.described(GET_NAME)

MOST_PATTERN = 1_000  #: characters of a pattern
LONGEST_LINE = 400  #: characters; a longer line counts as several
MOST: Final = 10**15  #: no message and no line has a number as large as this

_HANDLE: Final = re.compile(r"\[?m?([0-9]{1,15})\]?", re.IGNORECASE)
_LINES: Final = re.compile(r"([0-9]{1,15})(?:\s*(-)\s*([0-9]{1,15})?)?")


def handle_of(seq: int) -> str:
    """The handle of message *seq*."""
    return f"m{seq}"


def memory_get(
    read: Callable[[int], str | None],
    *,
    budget: int | None = None,
    count: base.Count = base.COUNT,
    said: Callable[[int], datetime] | None = None,
) -> base.Tool:
    """The tool over *read*, which gives the text of a message by its sequence number, None where it has none.

    Its result is a JSON object: ``handle``, ``said`` (day and time), ``lines`` (how many the message has;
    one of more than 400 characters counts as several), ``content`` (the lines that were asked for, each
    with its number), and ``next`` where more of them follow: what to ask for as ``lines``. With a
    ``pattern`` there is ``matches`` as well: how many of the lines asked for match.

    A pattern is an expression of the Rust crate ``regex``: its time is linear in the text, whatever a model
    may write.

    Args:
        read: Reads a message of the one session that the tool is bound to.
        budget: Tokens of an answer at most, 100 or more; None for :func:`answer_budget` of an unknown window.
        count: How they are counted.
        said: When a message was said, in the zone that is shown; None for an answer without it.

    Raises:
        ConfigError: *budget* is too small for an answer.
    """
    most = base.answer_budget(None) if budget is None else base.check_budget(budget)

    def run(arguments: Mapping[str, Any]) -> str:
        base.check_names(GET_NAME, arguments, GET_PARAMETERS["properties"])
        seq = _seq(arguments)
        first, last = _range(arguments)
        pattern = _text(arguments, "pattern")
        text = read(seq)
        if text is None:
            raise base.refusal(GET_NAME, f"this conversation has no message {handle_of(seq)!r}")
        lines = _lines_of(text)
        wanted = [number for number in _matching(lines, pattern) if first <= number + 1 <= last]
        told: dict[str, Any] = {"handle": handle_of(seq), "lines": len(lines)}
        if said is not None:
            told["said"] = f"{said(seq):%Y-%m-%d %H:%M}"
        if pattern is not None:
            told["matches"] = len(wanted)
        return _page(told, lines, wanted, last, most, count)

    return base.Tool(GET_NAME, GET_DESCRIPTION, GET_PARAMETERS, run)


def _page(
    told: dict[str, Any], lines: list[str], wanted: list[int], last: int, budget: int, count: base.Count
) -> str:
    """As many of the *wanted* lines as fit the budget; if the first line is too long, its beginning."""
    shown: list[str] = []
    room = budget - count(base.as_json({**told, "content": "", "next": f"{len(lines)}-{len(lines)}"})) - 1
    for place, number in enumerate(wanted):
        line = f"{number + 1}: {lines[number]}"
        size = count(base.as_json(line)) + 1
        if size > room and shown:
            following = f"{number + 1}-{'' if last >= len(lines) else last}"
            return base.as_json({**told, "content": "\n".join(shown), "next": following})
        if size > room:
            shown.append(_cut(line, room, count))
            if place + 1 == len(wanted):
                break
            following = f"{wanted[place + 1] + 1}-{'' if last >= len(lines) else last}"
            return base.as_json({**told, "content": "\n".join(shown), "next": following})
        shown.append(line)
        room -= size
    return base.as_json({**told, "content": "\n".join(shown)})


def _cut(line: str, room: int, count: base.Count) -> str:
    """As much of the beginning of *line* as *room* holds."""
    return base.beginning(line, lambda part: count(base.as_json(part)) <= room)


def _lines_of(text: str) -> list[str]:
    """The lines of *text*, longer ones in pieces of ``LONGEST_LINE``, so that each can be asked for."""
    return [
        line[start : start + LONGEST_LINE]
        for line in text.split("\n")
        for start in range(0, max(len(line), 1), LONGEST_LINE)
    ]


def _matching(lines: list[str], pattern: str | None) -> list[int] | range:
    if pattern is None:
        return range(len(lines))
    if len(pattern) > MOST_PATTERN:
        raise base.refusal(
            GET_NAME, f"'pattern' must have at most {MOST_PATTERN} characters, got {len(pattern)}"
        )
    try:
        return matching_lines("\n".join(lines), pattern)
    except ConfigError as error:
        raise base.refusal(GET_NAME, f"'pattern' is not a regular expression: {error}") from error


def _seq(arguments: Mapping[str, Any]) -> int:
    handle = arguments.get("handle")
    if handle is None:
        raise base.refusal(GET_NAME, "the argument 'handle' is missing")
    if type(handle) is int and 0 <= handle < MOST:
        return handle
    found = _HANDLE.fullmatch(handle.strip()) if isinstance(handle, str) else None
    if found is None:
        raise base.refusal(
            GET_NAME, f"'handle' must be the handle of a message, such as 'm42', got {shown(handle)}"
        )
    return int(found[1])


def _range(arguments: Mapping[str, Any]) -> tuple[int, int]:
    """The first and the last line that were asked for, from 1."""
    lines = arguments.get("lines")
    if type(lines) is int and 0 <= lines < MOST:
        lines = str(lines)
    if lines is None or lines == "":
        return 1, MOST
    found = _LINES.fullmatch(lines.strip()) if isinstance(lines, str) else None
    if found is None:
        raise base.refusal(GET_NAME, f"'lines' must be a range such as '100-180', got {shown(lines)}")
    first, last = int(found[1]), int(found[3] or (MOST if found[2] else found[1]))
    if not 1 <= first <= last:
        raise base.refusal(GET_NAME, f"'lines' must ascend from 1, got {shown(lines)}")
    return first, last


def _text(arguments: Mapping[str, Any], name: str) -> str | None:
    value = arguments.get(name)
    if value is not None and not isinstance(value, str):
        raise base.refusal(GET_NAME, f"{name!r} must be a string, got {type(value).__name__}")
    return value or None


# The tool ``memory_save``: a model saves a text that it will need later.

SAVE_NAME: Final = "memory_save"
MAX_BYTES: Final = 50_000  #: bytes of one memory, as UTF-8
_DEFAULT_TYPE: Final = "fact"

SAVE_DESCRIPTION, SAVE_PARAMETERS = base.described(SAVE_NAME)
SAVE: Final = base.Tool(SAVE_NAME, SAVE_DESCRIPTION, SAVE_PARAMETERS, str)  # its form, without a session


@dataclass(frozen=True, slots=True)
class SavedMemory:
    """A memory that a model wants to save, checked.

    Attributes:
        content: 1 to 50,000 bytes.
        memory_type: One of the nine documented types.
        importance: 0..1.
        source: The person or system that stated it; empty if the model names none.
        associations: ``(id, relation)`` of related memories.
    """

    content: str
    memory_type: str
    importance: float
    source: str = ""
    associations: tuple[tuple[str, str], ...] = ()


def memory_save(save: Callable[[SavedMemory], str], *, max_saves: int | None = None) -> base.Tool:
    """The tool over *save*, which keeps a memory in the session that it is bound to, and gives its id.

    Its result is the JSON of ``{"id", "memory_type", "importance"}``.

    Args:
        save: Keeps a memory in its session. No argument of a call names another session.
        max_saves: Calls that are carried out; later ones are refused. None for any number.

    Raises:
        ConfigError: *max_saves* is below 1.
    """
    if max_saves is not None:
        checks.at_least("max_saves", max_saves, 1, "None or ")
    saved = 0

    def run(arguments: Mapping[str, Any]) -> str:
        nonlocal saved
        memory = read_memory(arguments)
        if max_saves is not None and saved >= max_saves:
            raise base.refusal(
                SAVE_NAME, f"at most {max_saves} memories may be saved now, and all of them were"
            )
        saved += 1
        try:
            name = save(memory)
        except (ConfigError, InvalidEntryError, SecretRefusedError) as error:  # of what the model wrote
            saved -= 1
            raise base.refusal(SAVE_NAME, str(error)) from error
        except BaseException:
            saved -= 1
            raise
        return json.dumps(
            {"id": name, "memory_type": memory.memory_type, "importance": memory.importance},
            ensure_ascii=False,
        )

    return replace(SAVE, run=run)


def read_memory(arguments: str | Mapping[str, Any] | None) -> SavedMemory:
    """*arguments* as a memory.

    Raises:
        InvalidArgumentsError: no JSON object, an unknown argument or type, an empty or too large content, or
            an importance out of its range; the message says what is valid.
    """
    arguments = SAVE.read(arguments)
    base.check_names(SAVE_NAME, arguments, SAVE_PARAMETERS["properties"])
    content = arguments.get("content")
    if not isinstance(content, str) or not content.strip():
        raise base.refusal(
            SAVE_NAME, f"'content' must be a text of 1 to {MAX_BYTES:,} bytes, got {_shown(content)}"
        )
    size = len(content.encode("utf-8", "surrogatepass"))
    if size > MAX_BYTES:
        raise base.refusal(
            SAVE_NAME, f"'content' must be a text of 1 to {MAX_BYTES:,} bytes, got {size:,} bytes"
        )
    kind = arguments.get("memory_type")
    kind = _DEFAULT_TYPE if kind is None else kind
    if not isinstance(kind, str) or kind not in IMPORTANCE:
        valid = ", ".join(map(repr, IMPORTANCE))
        raise base.refusal(SAVE_NAME, f"'memory_type' must be one of {valid}, got {shown(kind)}")
    importance = arguments.get("importance")
    if importance is None:
        importance = IMPORTANCE[kind]
    if isinstance(importance, bool) or not isinstance(importance, int | float) or not 0 <= importance <= 1:
        raise base.refusal(SAVE_NAME, f"'importance' must be a number from 0 to 1, got {shown(importance)}")
    source = arguments.get("source")
    if source is not None and not isinstance(source, str):
        raise base.refusal(SAVE_NAME, f"'source' must be a string, got {_shown(source)}")
    return SavedMemory(
        content, kind, float(importance), source or "", tuple(_associations(arguments.get("associations")))
    )


def _associations(given: object) -> list[tuple[str, str]]:
    if given is None:
        return []
    if not isinstance(given, list | tuple):
        raise base.refusal(SAVE_NAME, f"'associations' must be a list, got {_shown(given)}")
    return [_association(item) for item in given]


def _association(item: object) -> tuple[str, str]:
    if isinstance(item, str) and item:
        return item, ""
    target = item.get("target_id") if isinstance(item, Mapping) else None
    if not isinstance(target, str) or not target:
        raise _no_association(item)
    relation = item.get("relation") if isinstance(item, Mapping) else None
    if relation is not None and not isinstance(relation, str):
        raise _no_association(item)
    return target, relation or ""


def _no_association(item: object) -> InvalidArgumentsError:
    return base.refusal(SAVE_NAME, f"an association must be an object with 'target_id', got {_shown(item)}")


def _shown(value: object) -> str:
    return "an empty text" if isinstance(value, str) else type(value).__name__


# The tool ``memory_search``: a model searches for earlier messages and saved memories.

SEARCH_NAME = "memory_search"
DEFAULT_LIMIT = 5  #: hits, by default
#: Times as the model may write them; ``siltstone.tools.periods`` reads them.
FORMS = '"2026-03-05", "yesterday", "last Tuesday", "in March", "5 March 2026", "3 days ago"'
_PLAIN = frozenset({"query", "limit"})  #: arguments that ask for nothing but the best hits
_NOT_GIVEN = (None, "")  #: values of an argument that a model fills in because it is in the schema
MAX_LIMIT = 20  #: the maximum number of hits, for any request of the model

SEARCH_DESCRIPTION, SEARCH_PARAMETERS = base.described(SEARCH_NAME)

CROSS_SESSION_DESCRIPTION = f"{SEARCH_DESCRIPTION[:-1]} or from previous sessions."

Writer: TypeAlias = Callable[[list[str], list[SearchHit]], str]
"""A function of the contents of the first hits, cut to fit, and all hits: the text of an answer."""
_Now: TypeAlias = Callable[[], datetime]  # the current time, in the zone in which days begin

_PROPERTIES: Final[dict[str, Any]] = SEARCH_PARAMETERS["properties"]


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
    count: base.Count = base.COUNT,
    cross_session: bool = False,
    now: _Now = _local_time,
) -> base.Tool:
    """The tool over *search*.

    Its result is a JSON array of ``{"content", "score", "source_range": {"start", "end"}, "said"}`` in one
    line, best first, or with ``order="time"`` in the order in which they were said. ``said`` is the day and
    time in the zone of *now*; a text that was said several times has ``first``, ``last`` and ``times``.
    Where it would have more than *budget* tokens, long contents are cut to their best passages, each with
    60 tokens at least; only where that is too much, too, the last hits are left out, and the last result has
    their number as ``left_out``.

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
    count: base.Count,
    cross_session: bool,
    now: _Now,
    direct: Direct | None = None,
    is_plain: bool = False,
    write: Writer | None = None,
) -> base.Tool:
    """As :func:`memory_search`; *direct* answers calls with query and limit alone, *write* writes answers.

    The model of a tool that *is_plain* is told of these two arguments alone, and not when something was said.
    """
    properties = {name: told for name, told in _PROPERTIES.items() if not is_plain or name in _PLAIN}
    most = base.answer_budget(None) if budget is None else base.check_budget(budget)

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
            raise base.refusal(SEARCH_NAME, str(error)) from error
        zone = now().tzinfo if hits else None

        def array(contents: list[str], hits: list[SearchHit]) -> str:
            pairs = zip(hits, contents, strict=False)
            said = (("" if is_plain else _times(hit, zone), hit, text) for hit, text in pairs)
            results = ", ".join(_result(hit, text, times, across=cross_session) for times, hit, text in said)
            left_out = len(hits) - len(contents)
            return f'[{results[:-1]}, "left_out": {left_out}}}]' if left_out else f"[{results}]"

        return _answer(hits, query, most, count, write or array)

    return base.Tool(
        SEARCH_NAME,
        CROSS_SESSION_DESCRIPTION if cross_session else SEARCH_DESCRIPTION,
        {**SEARCH_PARAMETERS, "properties": properties},
        run,
    )


def _answer(hits: list[SearchHit], query: str, budget: int, count: base.Count, write: Writer) -> str:
    whole = write([hit.content for hit in hits], hits)
    if not hits or count(whole) <= budget:
        return whole
    kept, room = _kept(hits, budget, count, write)
    share = base.shares([count(base.as_json(hit.content)) for hit in hits[:kept]], room)

    def written(text: str) -> int:
        return count(base.as_json(text))  # escapes are sent, too

    return write([base.best_part(hit.content, query, share, written) for hit in hits[:kept]], hits)


def _kept(hits: list[SearchHit], budget: int, count: base.Count, write: Writer) -> tuple[int, int]:
    """How many hits fit *budget* with their contents cut to the floor, one at least; the room for those."""
    for kept in range(len(hits), 0, -1):
        room = budget - count(write([""] * kept, hits)) - kept  # roundings
        least = sum(min(count(base.as_json(hit.content)), base.FLOOR) for hit in hits[:kept])
        if least <= room:
            return kept, room
    return 1, max(room, 1)


def _query(arguments: Mapping[str, Any]) -> str:
    query = arguments.get("query")
    if query is None:
        raise base.refusal(SEARCH_NAME, "the argument 'query' is missing")
    if not isinstance(query, str):
        raise base.refusal(SEARCH_NAME, f"'query' must be a string, got {type(query).__name__}")
    return query


def _limit(arguments: Mapping[str, Any]) -> int:
    limit = arguments.get("limit", DEFAULT_LIMIT)
    if limit is None:
        return DEFAULT_LIMIT
    if isinstance(limit, float) and limit.is_integer():
        limit = int(limit)  # JSON has one kind of number
    if type(limit) is not int or limit < 0:
        raise base.refusal(SEARCH_NAME, f"'limit' must be an integer >= 0, got {shown(limit)}")
    return min(limit, MAX_LIMIT)


class _Order(TypedDict, total=False):
    """The order that the model asks for, if it is not best first."""

    order: SearchOrder


def _order(arguments: Mapping[str, Any]) -> _Order:
    order = arguments.get("order")
    if order in (None, "", "score"):
        return {}
    if order != "time":
        raise base.refusal(SEARCH_NAME, f"'order' must be 'score' or 'time', got {shown(order)}")
    return {"order": "time"}


def _filters(arguments: Mapping[str, Any], now: _Now) -> SearchFilters:
    """The filters ``since`` and ``until``, if the model gives them."""
    filters = SearchFilters()
    if (words := arguments.get("since")) not in _NOT_GIVEN:
        filters["since"], _ = _period("since", words, now)
    if (words := arguments.get("until")) not in _NOT_GIVEN:
        first, after = _period("until", words, now)
        # A message of exactly that moment is included, to the millisecond.
        filters["until"] = after if first < after else after + timedelta(milliseconds=1)
    return filters


def _period(argument: str, words: object, now: _Now) -> tuple[datetime, datetime]:

    said = shown(words) if type(words) is int else words  # a year, or seconds since 1970
    found = period(said, now()) if isinstance(said, str) else None
    if found is None:
        raise base.refusal(SEARCH_NAME, f"{argument!r} must be a time such as {FORMS}, got {shown(words)}")
    return found


def moment(at: datetime, zone: tzinfo | None) -> str:
    """Day and time, as a result shows them."""
    return at.astimezone(zone).isoformat(" ", "minutes")[:16]


def _times(hit: SearchHit, zone: tzinfo | None) -> str:
    said = f', "said": "{moment(hit.created_at, zone)}"'
    if hit.first_at and hit.last_at:
        first, last = moment(hit.first_at, zone), moment(hit.last_at, zone)
        said += f', "first": "{first}", "last": "{last}", "times": {hit.times}'
    return said


def _result(hit: SearchHit, content: str, said: str, *, across: bool) -> str:
    """The hit as JSON text: to write it here takes a third of the time of a dict and an encoder."""
    start, end = hit.source_range
    score = repr(hit.score) if type(hit.score) is float else base.as_json(hit.score)
    place = f'{{"start": {start}, "end": {end}}}'
    if across:
        said += f', "session_id": {base.as_json(hit.session_id)}'
    return f'{{"content": {base.as_json(content)}, "score": {score}, "source_range": {place}{said}}}'
