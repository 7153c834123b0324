"""The material of a summary request in pieces that can be selected, each with its speaker.

An earlier summary may be a selection itself: then its lines begin with the names of their speakers.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

from reference.tokenize import lower, repaired, words

LONGEST_UNIT = 300  # code points: longer lines are cut between words, so that a choice stays fine-grained
LONGEST_LINE = 120  # code points: up to here a line is one unit, longer ones are parted into sentences

_SELECTED = re.compile(r"(User|Assistant|System|Tool|Tool call|Tool result|Tool error|Context|Earlier): ")
_SPEAKERS = {"system": "System", "developer": "System", "assistant": "Assistant", "tool": "Tool"}
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=\S)|(?<=[。！？；])")


@dataclass(frozen=True, slots=True)
class Unit:
    """A line or a sentence of the material.

    Attributes:
        item: Which item it belongs to; items are numbered in order.
        speaker: The speaker: ``User``, ``Tool result`` …
        text: The text, on one line.
        is_first: The item begins with it.
        is_last: The item ends with it.
        is_earlier: It comes from an earlier summary.
    """

    item: int
    speaker: str
    text: str
    is_first: bool
    is_last: bool
    is_earlier: bool


@dataclass(frozen=True, slots=True)
class _Item:
    speaker: str
    text: str
    is_earlier: bool = False
    continues: bool = False


def read_items(items: Iterable[Any], leave_out: str) -> list[Unit]:
    """The units of *items* in order, each text once; the line *leave_out* is no material."""
    units: list[Unit] = []
    seen = {_key(leave_out)}
    for number, item in enumerate(chain.from_iterable(map(_spoken, items))):
        texts = []
        for text in _pieces(item):
            if (key := _key(text)) not in seen:
                seen.add(key)
                texts.append(text)
        last = len(texts) - 1
        units += [
            Unit(number, item.speaker, text, at == 0 and not item.continues, at == last, item.is_earlier)
            for at, text in enumerate(texts)
        ]
    return units


def _key(text: str) -> str:
    return "".join(map(lower, text))


def _spoken(item: Any) -> Iterator[_Item]:
    """*item* under the name of who speaks; an earlier summary by the names that its lines have."""
    text = repaired(item.text)
    continues = item.shown is not None and item.shown.startswith("  ")
    match item.kind:
        case "text":
            yield _Item(_SPEAKERS.get(item.role, "User"), text, continues=continues)
        case "tool_call":
            called = f"{repaired(item.name) or '-'}({text}" + (")" if item.shown is None else "")
            yield _Item("Tool call", text if continues else called, continues=continues)
        case "tool_result":
            yield _Item("Tool error" if item.is_error else "Tool result", text, continues=continues)
        case "context":
            yield _Item("Context", text, continues=continues)
        case "summary":
            yield from _selected(text)


def _selected(summary: str) -> Iterator[_Item]:
    """The items of an earlier summary: with their speakers where the lines name them."""
    speaker, lines = "Earlier", list[str]()
    for line in summary.split("\n"):
        match = _SELECTED.match(line)
        if match is None:
            lines.append(line)
            continue
        if lines:
            yield _Item(speaker, "\n".join(lines), is_earlier=True)
        speaker, lines = match[1], [line[match.end() :]]
    yield _Item(speaker, "\n".join(lines), is_earlier=True)


def _pieces(item: _Item) -> Iterator[str]:
    """Lines, sentences of long lines, and stretches of long sentences; those without a word left out."""
    text = item.text.replace("\\n", "\n") if item.speaker == "Tool call" else item.text
    for line in text.split("\n"):
        line = " ".join(line.split())
        sentences = _SENTENCE.split(line) if len(line) > LONGEST_LINE else [line]
        for sentence in sentences:
            for piece in _stretches(sentence):
                if words(piece):
                    yield piece


def _stretches(text: str) -> Iterator[str]:
    """*text* in stretches of at most ``LONGEST_UNIT``, cut after a space or a comma where there is one."""
    start = 0
    while len(text) - start > LONGEST_UNIT:
        end = start + LONGEST_UNIT
        middle = start + LONGEST_UNIT // 2
        cut = max(text.rfind(" ", middle, end), text.rfind(",", middle, end))
        end = cut + 1 if cut > 0 else end
        yield text[start:end].strip()
        start = end
    yield text[start:].strip()
