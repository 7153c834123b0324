"""What every format of transcripts has: a contract, and what their readers share."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, TypeAlias

from siltstone.messages import Part, read_message, well_formed
from siltstone.transcripts.files import Told

Values: TypeAlias = Iterable[tuple[str, Any]]

_LONGEST_NAME: Final = 200  #: characters of a session's name
_EARLIEST: Final = 1e8  #: the first time of a message, in seconds since 1970: smaller numbers are no times
_LATEST: Final = 4_102_444_800


@dataclass(frozen=True, slots=True)
class Record:
    """A message of a transcript.

    Attributes:
        session: The name of its session.
        message: The message, in the dialect of its file or the nearest one.
        id: Its id; None where the file has none.
        parent: The id of the record before it; None where the file has none.
        time: When it was said; None where the file has no time. A time without a zone is one of UTC.
        where: The file, and the place in it.
        project: The folder of the project; empty if unknown.
        pieces: For an answer of several lines, the id of each line and the number of its blocks.
        is_left: Whether its branch was left, so that it is not of the conversation. ``read`` gives no such.
    """

    session: str
    message: dict[str, Any]
    id: str | None = None
    parent: str | None = None
    time: datetime | None = None
    where: str = ""
    project: str = ""
    pieces: tuple[tuple[str, int], ...] = ()
    is_left: bool = False

    @property
    def role(self) -> str:
        """Who said it: ``user``, ``assistant``, ``tool``, ``system`` or ``developer``."""
        return read_message(self.message, 0).role

    @property
    def blocks(self) -> tuple[Part, ...]:
        """Its parts: texts, calls, results and so on, alike for every dialect."""
        return read_message(self.message, 0).parts


class Format(NamedTuple):
    """A format: its name, whether a value of a file is of it, its reader, and whether records have ids."""

    name: str
    knows: Callable[[Any], bool]
    read: Callable[[Values, Told, str], Iterator[Record]]
    has_ids: bool = True


def seen(sample: list[tuple[str, Any]]) -> str:
    """What a file begins with, in words."""
    where, first = sample[0]
    if isinstance(first, dict):
        keys = ", ".join(
            f"{key}={value!r}" if key in ("type", "role") else str(key) for key, value in first.items()
        )
        return f"at {where} an object with {keys[:200] or 'nothing'}"
    return f"at {where} not a message but {type(first).__name__}"


def when(*given: Any) -> datetime | None:
    """The first of *given* that is a time from 1973 to 2099: ISO 8601, or a number since 1970, also as text.

    A number is one of seconds, milliseconds, microseconds or nanoseconds, by its size.
    """
    for value in given:
        try:
            if isinstance(value, str) and re.fullmatch(r"[0-9]{9,19}(\.[0-9]*)?", value):
                value = float(value)
            if isinstance(value, str):
                said = datetime.fromisoformat(value)
                said = said if said.tzinfo else said.replace(tzinfo=UTC)
            elif isinstance(value, int | float) and not isinstance(value, bool):
                unit = next((each for each in (1e9, 1e6, 1e3) if value > each * _EARLIEST), 1)
                said = datetime.fromtimestamp(value / unit, UTC)
            else:
                continue
            if _EARLIEST <= said.timestamp() < _LATEST:
                return said
        except (ValueError, OverflowError, OSError):
            continue
    return None


def as_text(value: Any) -> str:
    """*value*, or an empty text for another kind."""
    return value if isinstance(value, str) else ""


def as_dict(value: Any) -> dict[str, Any]:
    """*value*, or an empty object for another kind."""
    return value if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    """*value*, or an empty list for another kind."""
    return value if isinstance(value, list) else []


def name_of(value: Any, other: str) -> str:
    """A name that a session may have."""
    said = well_formed(str(value)) if isinstance(value, str | int) and str(value).strip() else other
    return said[:_LONGEST_NAME]


def called(call_id: str, name: str, arguments: Any) -> dict[str, Any]:
    """A call of a tool in the dialect of OpenAI chat."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": text}}


def conversations(values: Values) -> Iterator[tuple[str, Any]]:
    """The conversations of a file; an object may hold a list of them."""
    for where, value in values:
        inner = as_dict(value).get("conversations")
        if isinstance(inner, list):
            yield from ((f"{where}, conversation {place}", each) for place, each in enumerate(inner))
        else:
            yield where, value


def worded(content: Any) -> Any:
    """*content* without texts that are empty, which providers refuse."""
    if not isinstance(content, list):
        return content
    return [each for each in content if str(as_dict(each).get("text", "x")).strip()]


def line_to(nodes: Mapping[str, dict[str, Any]], current: Any) -> list[str]:
    """The keys from the first node to the node *current*; without one, to the newest leaf."""
    if not isinstance(current, str) or current not in nodes:
        inner = {node.get("parent") for node in nodes.values() if isinstance(node.get("parent"), str)}
        leaves = [key for key in nodes if key not in inner] or list(nodes)
        said = {key: when(as_dict(nodes[key].get("message")).get("create_time")) for key in leaves}
        first = datetime.min.replace(tzinfo=UTC)
        current = max(reversed(leaves), key=lambda key: said[key] or first)
    found: dict[str, None] = {}
    while isinstance(current, str) and current in nodes and current not in found:
        found[current] = None
        current = nodes[current].get("parent")
    return list(found)[::-1]
