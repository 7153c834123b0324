"""The tool ``memory_get``: a model reads a message that is cut or no longer shown, in pages."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from siltstone._native import matching_lines
from siltstone.errors import ConfigError
from siltstone.tokens import estimate_tokens
from siltstone.tools.base import Tool, check_names, refusal, shown
from siltstone.tools.budget import Count, answer_budget, as_json, beginning, check_budget

__all__ = ["DESCRIPTION", "NAME", "handle_of", "memory_get"]

NAME = "memory_get"

DESCRIPTION = (
    "Read a message of this conversation in full, by its handle: one that was cut, or that memory_search "
    "has found (what begins with source_range 42 has the handle m42). Long messages come in pages: ask for "
    "further lines, or for the lines that match a pattern."
)

PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "handle": {"type": "string", "description": "Which message: m42, or 42."},
        "lines": {
            "type": "string",
            "description": 'Which of its lines, numbered from 1: "7", "100-180" or "100-".',
        },
        "pattern": {
            "type": "string",
            "description": "Only the lines that match this regular expression. No look-around, no back "
            "references; (?i) at its beginning ignores case.",
        },
    },
    "required": ["handle"],
}

MOST_PATTERN = 1_000  #: characters of a pattern
LONGEST_LINE = 400  #: characters; a longer line counts as several
MOST: Final = 10**15  #: no message and no line has a number as large as this

_HANDLE: Final = re.compile(r"\[?m?([0-9]{1,15})\]?", re.IGNORECASE)
_LINES: Final = re.compile(r"([0-9]{1,15})(?:\s*(-)\s*([0-9]{1,15})?)?")


def handle_of(seq: int) -> str:
    """The handle of message *seq*."""
    return f"m{seq}"


def memory_get(
    read: Callable[[int], str | None], *, budget: int | None = None, count: Count = estimate_tokens
) -> Tool:
    """The tool over *read*, which gives the text of a message by its sequence number, None where it has none.

    Its result is a JSON object: ``handle``, ``lines`` (how many the message has; one of more than 400
    characters counts as several), ``content`` (the lines that
    were asked for, each with its number), and ``next`` where more of them follow: what to ask for as
    ``lines``. With a ``pattern`` there is ``matches`` as well: how many of the lines asked for match.

    A pattern is an expression of the Rust crate ``regex``: its time is linear in the text, whatever a model
    may write.

    Args:
        read: Reads a message of the one session that the tool is bound to.
        budget: Tokens of an answer at most, 100 or more; None for :func:`answer_budget` of an unknown window.
        count: How they are counted.

    Raises:
        ConfigError: *budget* is too small for an answer.
    """
    most = answer_budget(None) if budget is None else check_budget(budget)

    def run(arguments: Mapping[str, Any]) -> str:
        check_names(NAME, arguments, PARAMETERS["properties"])
        seq = _seq(arguments)
        first, last = _range(arguments)
        pattern = _text(arguments, "pattern")
        text = read(seq)
        if text is None:
            raise refusal(NAME, f"this conversation has no message {handle_of(seq)!r}")
        lines = _lines_of(text)
        wanted = [number for number in _matching(lines, pattern) if first <= number + 1 <= last]
        told: dict[str, Any] = {"handle": handle_of(seq), "lines": len(lines)}
        if pattern is not None:
            told["matches"] = len(wanted)
        return _page(told, lines, wanted, last, most, count)

    return Tool(NAME, DESCRIPTION, PARAMETERS, run)


def _page(
    told: dict[str, Any], lines: list[str], wanted: list[int], last: int, budget: int, count: Count
) -> str:
    """As many of the *wanted* lines as fit the budget; if the first line is too long, its beginning."""
    shown: list[str] = []
    room = budget - count(as_json({**told, "content": "", "next": f"{len(lines)}-{len(lines)}"})) - 1
    for place, number in enumerate(wanted):
        line = f"{number + 1}: {lines[number]}"
        size = count(as_json(line)) + 1
        if size > room and shown:
            following = f"{number + 1}-{'' if last >= len(lines) else last}"
            return as_json({**told, "content": "\n".join(shown), "next": following})
        if size > room:
            shown.append(_cut(line, room, count))
            if place + 1 == len(wanted):
                break
            following = f"{wanted[place + 1] + 1}-{'' if last >= len(lines) else last}"
            return as_json({**told, "content": "\n".join(shown), "next": following})
        shown.append(line)
        room -= size
    return as_json({**told, "content": "\n".join(shown)})


def _cut(line: str, room: int, count: Count) -> str:
    """As much of the beginning of *line* as *room* holds."""
    return beginning(line, lambda part: count(as_json(part)) <= room)


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
        raise refusal(NAME, f"'pattern' must have at most {MOST_PATTERN} characters, got {len(pattern)}")
    try:
        return matching_lines("\n".join(lines), pattern)
    except ConfigError as error:
        raise refusal(NAME, f"'pattern' is not a regular expression: {error}") from error


def _seq(arguments: Mapping[str, Any]) -> int:
    handle = arguments.get("handle")
    if handle is None:
        raise refusal(NAME, "the argument 'handle' is missing")
    if type(handle) is int and 0 <= handle < MOST:
        return handle
    found = _HANDLE.fullmatch(handle.strip()) if isinstance(handle, str) else None
    if found is None:
        raise refusal(NAME, f"'handle' must be the handle of a message, such as 'm42', got {shown(handle)}")
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
        raise refusal(NAME, f"'lines' must be a range such as '100-180', got {shown(lines)}")
    first, last = int(found[1]), int(found[3] or (MOST if found[2] else found[1]))
    if not 1 <= first <= last:
        raise refusal(NAME, f"'lines' must ascend from 1, got {shown(lines)}")
    return first, last


def _text(arguments: Mapping[str, Any], name: str) -> str | None:
    value = arguments.get(name)
    if value is not None and not isinstance(value, str):
        raise refusal(NAME, f"{name!r} must be a string, got {type(value).__name__}")
    return value or None
