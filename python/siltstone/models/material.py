"""Reading the material of a summary request: who said what, in pieces that can be selected.

It reads the lines that policies render (an item at the start of a line, its further lines indented by two
spaces), the lines that :class:`ExtractiveModel` itself writes, and plain text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from siltstone.patterns import pattern
from siltstone.values import dataclass

__all__ = ["Unit", "read_material"]

LONGEST_UNIT = 300  # code points: longer lines are cut between words, so that a choice stays fine-grained
LONGEST_LINE = 120  # code points: up to here a line is one unit, longer ones are parted into sentences

INDENT = "  "

_RENDERED = pattern(
    r"(?P<said>User|Assistant|System|Tool): "
    r"|\[(?P<call>Tool call) (?P<id>[^\n]*?): "
    r"|\[(?P<result>Tool result) [^\n]*?(?P<error>, error)?: "
    r"|\[(?P<earlier>Earlier summary) of messages [^\n]*?: "
    r"|\[(?P<injected>Injected context): "
)
_SELECTED = pattern(r"(User|Assistant|System|Tool|Tool call|Tool result|Tool error|Context|Earlier): ")
_SENTENCE = pattern(r"(?<=[.!?])\s+(?=\S)|(?<=[。！？；])")
_ROLES = {"user": "User", "assistant": "Assistant", "system": "System", "tool": "Tool"}


@dataclass(frozen=True, slots=True)
class Unit:
    """A line or a sentence of the material.

    Attributes:
        item: Which item it belongs to; items are numbered in order.
        speaker: Who said it: ``User``, ``Tool result`` …
        text: What was said, on one line.
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


def read_material(messages: Iterable[Mapping[str, Any]], leave_out: str) -> list[Unit]:
    """The units of *messages* in order, each text once; the line *leave_out* is no material."""
    units: list[Unit] = []
    seen = {leave_out.casefold()}
    for number, item in enumerate(item for message in messages for item in _items(message)):
        texts = []
        for text in _pieces(item):
            if (key := text.casefold()) not in seen:
                seen.add(key)
                texts.append(text)
        last = len(texts) - 1
        units += [
            Unit(number, item.speaker, text, at == 0, at == last, item.is_earlier)
            for at, text in enumerate(texts)
        ]
    return units


def _items(message: Mapping[str, Any]) -> Iterator[_Item]:
    speaker = _ROLES.get(str(message.get("role")), "User")
    for item in _rendered(str(message.get("content", "")), speaker):
        if item.is_earlier:
            yield from _selected(item.text)
        else:
            yield item


def _rendered(content: str, speaker: str) -> Iterator[_Item]:
    """The items of rendered lines; a text that begins without one is the *speaker*'s."""
    head, lines = _Item(speaker, ""), list[str]()
    for line in content.split("\n"):
        match = None if line.startswith(INDENT) else _RENDERED.match(line)
        if match is None:
            lines.append(line.removeprefix(INDENT))
            continue
        if lines:
            yield _closed(head, lines)
        head, lines = _head(match), [line[match.end() :]]
    yield _closed(head, lines)


def _head(match: re.Match[str]) -> _Item:
    """An item that begins; its text is ``]`` where a bracket is to be closed."""
    if match["said"]:
        return _Item(match["said"], "")
    if match["call"]:
        return _Item("Tool call", "]")
    if match["result"]:
        return _Item("Tool error" if match["error"] else "Tool result", "]")
    return _Item("Earlier", "]", is_earlier=True) if match["earlier"] else _Item("Context", "]")


def _closed(head: _Item, lines: list[str]) -> _Item:
    return _Item(head.speaker, "\n".join(lines).removesuffix(head.text), head.is_earlier)


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
    """Lines, sentences of long lines, and stretches of long sentences; blank ones left out."""
    text = item.text.replace("\\n", "\n") if item.speaker == "Tool call" else item.text
    for line in text.split("\n"):
        line = " ".join(line.split())
        sentences = _SENTENCE.split(line) if len(line) > LONGEST_LINE else [line]
        for sentence in sentences:
            for piece in _stretches(sentence):
                if any(map(str.isalnum, piece)):
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
