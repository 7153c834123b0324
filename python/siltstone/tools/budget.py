"""The largest answer of a tool, and the part of a long text that it shows."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from siltstone._native import AnswerLimit, best_window
from siltstone.errors import ConfigError
from siltstone.tokens import estimate_tokens

__all__ = [
    "CUT",
    "FLOOR",
    "LEAST_BUDGET",
    "AnswerLimit",
    "Count",
    "answer_budget",
    "as_json",
    "beginning",
    "best_part",
    "check_budget",
    "shares",
]

Count: TypeAlias = Callable[[str], int]
"""A function that counts the tokens of a text."""

FLOOR: Final = 60  #: the minimum tokens of a cut text
LEAST_BUDGET: Final = 100  #: the minimum budget: room for one text and the JSON around it
CUT: Final = "…"  #: marks a cut

_WRITER: Final = json.JSONEncoder(ensure_ascii=False)
_LEAST, _MOST, _PERCENT = 600, 2_000, 5
_BYTES_PER_TOKEN = 4  # a first guess; the count has the last word


def answer_budget(context_window: int | None) -> int:
    """The maximum tokens of a tool's answer: 5 % of the window, from 600 to 2,000.

    For an unknown window it is 2,000.
    """
    if context_window is None:
        return _MOST
    return min(max(context_window * _PERCENT // 100, _LEAST), _MOST)


def check_budget(tokens: int, field: str = "budget") -> int:
    """*tokens*, if a tool can answer within so many.

    Raises:
        ConfigError: it is no integer, or under ``LEAST_BUDGET``.
    """
    if type(tokens) is not int or tokens < LEAST_BUDGET:
        raise ConfigError(
            f"{field}, what a tool answers at most, must be an integer >= {LEAST_BUDGET} tokens, "
            f"got {tokens!r}",
            field=field,
            value=tokens,
        )
    return tokens


def shares(sizes: Sequence[int], room: int) -> int:
    """The largest size to which *sizes* can be cut so that all of them fit *room* together."""
    left, waiting = room, len(sizes)
    for size in sorted(sizes):
        if size * waiting > left:
            return max(left // waiting, 0)
        left -= size
        waiting -= 1
    return max(sizes, default=0)


def as_json(value: object) -> str:
    """*value* as JSON text, which a model reads as it is: only escapes that JSON demands are in it."""
    return _WRITER.encode(value)


def beginning(text: str, fits: Callable[[str], bool]) -> str:
    """As much of the beginning of *text* as *fits*, and an ellipsis; found by halving."""
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        if fits(f"{text[:middle]} {CUT}"):
            low = middle
        else:
            high = middle - 1
    return f"{text[:low]} {CUT}"


def best_part(text: str, query: str, tokens: int, count: Count = estimate_tokens) -> str:
    """*text*, or its passage that matches *query* best, of at most *tokens* by *count*.

    An ellipsis marks a cut. If no passage is short enough, the result is the ellipsis alone.
    """
    if count(text) <= tokens:
        return text
    size = tokens * _BYTES_PER_TOKEN
    while size > 0:
        start, end = best_window(text, query, size)
        part = f"{f'{CUT} ' if start else ''}{text[start:end].strip()}{f' {CUT}' if end < len(text) else ''}"
        if count(part) <= tokens:
            return part
        size = size * 7 // 8
    return CUT
