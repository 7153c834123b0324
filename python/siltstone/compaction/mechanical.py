"""The summary without a model: a note, the earlier summary, and excerpts of the newest discarded messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby

from siltstone.compaction.base import Range
from siltstone.compaction.clip import MARK, head_and_tail
from siltstone.compaction.prompts import unframed
from siltstone.compaction.render import render
from siltstone.messages import INDENT, Message

__all__ = ["mechanical_summary", "note", "roomiest_note"]

SHORTEST_DETAIL = 80  # code points: a shorter excerpt is of no use
MOST_EXCERPTS = 4  # the number of newest discarded messages that are quoted

_NOTE = "Earlier messages no longer shown:"
_EARLIER = "Before them:"
_NEWEST = "The newest of them, cut:"
_HEADINGS = frozenset({_EARLIER, _NEWEST})


def note(covers: Sequence[Range]) -> str:
    """The note: the number of discarded messages, their sequence numbers, and how to find them."""
    count = sum(end - start for start, end in covers)
    return _note(count, covers[0][0], covers[-1][1] - 1)


def roomiest_note(covers: Sequence[Range]) -> str:
    """A note at least as long as the note on any part of *covers*."""
    last = covers[-1][1] - 1
    return _note(last + 1, last, last)


def mechanical_summary(
    discarded: Sequence[Message],
    covers: Sequence[Range],
    prefix: str,
    length: int,
    fits: Callable[[str], bool],
) -> str:
    """The note with as many details as *fits* allows, about *length* code points at most.

    If no detail fits, the note stands alone, even if it does not fit.
    """
    head = note(covers)
    while length >= SHORTEST_DETAIL:
        text = "\n\n".join([head, *_details(discarded, prefix, length)])
        if fits(text):
            return text
        length = length * 3 // 4
    return head


def _note(count: int, first: int, last: int) -> str:
    return (
        f"{_NOTE} {count} (numbers {first} to {last}). The context window was full, and no model has "
        "summarised them. Where this session has memory, memory_search finds their text."
    )


def _details(discarded: Sequence[Message], prefix: str, length: int) -> list[str]:
    """Paragraphs of *length* code points together: half of it for an earlier summary, if there is one."""
    summaries = [message for message in discarded if message.provenance == "compaction_summary"]
    others = [message for message in discarded if message.provenance != "compaction_summary"]
    earlier = "\n".join(_substance(message, prefix) for message in summaries).strip()
    paragraphs = []
    if earlier:
        quoted = head_and_tail(earlier, length // 2, INDENT)
        paragraphs.append(f"{_EARLIER}\n{quoted}")
        length -= len(quoted)
    excerpts = _excerpts(others, prefix, length)
    if excerpts:
        paragraphs.append("\n".join([_NEWEST, *excerpts]))
    return paragraphs


def _excerpts(messages: Sequence[Message], prefix: str, length: int) -> list[str]:
    """Excerpts of the newest messages, oldest first. Each has twice the room of the message before it."""
    excerpts: list[str] = []
    for message in reversed(messages):
        share = length // 2
        if share < SHORTEST_DETAIL or len(excerpts) == MOST_EXCERPTS:
            break
        text = render([message], prefix)
        if text:
            excerpts.append(head_and_tail(text, share, INDENT))
            length -= len(excerpts[-1])
    return excerpts[::-1]


def _substance(message: Message, prefix: str) -> str:
    """The text of an earlier summary. A mechanical summary gives only its quotations, not its own words.

    So the notes of several emergencies do not add up.
    """
    summary = unframed(message.text, prefix)
    if not summary.startswith(_NOTE):
        return summary
    lines = summary.partition("\n\n")[2].split("\n")
    quoted = [
        MARK if line.lstrip().startswith(MARK) else line for line in lines if line and line not in _HEADINGS
    ]
    return "\n".join(line for line, _ in groupby(quoted))
