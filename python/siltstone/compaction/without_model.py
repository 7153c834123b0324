"""Summaries without a model: excerpts of discarded messages, and labelled lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from siltstone.compaction.base import Range
from siltstone.compaction.material import render
from siltstone.compaction.prompts import LEFT_OUT, head_and_tail, unframed
from siltstone.messages import INDENT, Message, opens_turn

# The summary without a model: a note, the earlier summary, and excerpts of the newest discarded messages.

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
        "summarised them. Where this session has memory, a search finds their text."
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
        LEFT_OUT if line.lstrip().startswith(LEFT_OUT) else line
        for line in lines
        if line and line not in _HEADINGS
    ]
    return "\n".join(line for line, _ in groupby(quoted))


# The summary of the window policy if the model fails: deterministic, in labelled lines.

RESULT_BYTES = 80  # the bytes of a tool result that its line shows
END = "..."  # the mark of a cut text


def smart_fallback_summary(messages: Sequence[Message], max_bytes: int) -> str:
    """The texts of *messages*, in at most ``max_bytes + 3`` bytes of UTF-8, without a model.

    It has a line with the first request, a line for each tool call (its name) and each result (its first 80
    bytes), and a line with the latest text. The text of the first line and of the last line has at most a
    quarter of the bytes each. If the whole is too long, the lines between them are cut, and end with
    ``...``. No messages give ``""``.

    Args:
        messages: The messages to summarise, in order. All parts of each are read.
        max_bytes: The maximum bytes, without the three dots; 0 or more.
    """
    if not messages:
        return ""
    texts = [(message, text) for message in messages if (text := _own_text(message))]
    first = next((text for message, text in texts if opens_turn(message)), "")
    latest = texts[-1][1] if texts and (len(messages) > 1 or not first) else ""
    quarter = max_bytes // 4
    head = _line("Request", first, quarter)
    tail = _line("Latest", latest, quarter)
    middle = "\n".join(_tools(messages))
    whole = "\n".join(filter(None, (head, middle, tail)))
    if size(whole) <= max_bytes:
        return whole
    ends = "\n".join(filter(None, (head, tail)))
    room = max_bytes - size(ends) - 2  # the two line breaks around the middle
    if not middle or room < 1:
        return ends if size(ends) <= max_bytes else f"{_cut(ends, max_bytes)}{END}"
    return "\n".join(filter(None, (head, f"{_cut(middle, room)}{END}", tail)))


def _line(label: str, text: str, most: int) -> str:
    """A labelled line with at most *most* bytes of *text*."""
    line = " ".join(text.split())
    if not line or most <= len(END):
        return ""
    shown = line if size(line) <= most else f"{_cut(line, most - len(END))}{END}"
    return f"{label}: {shown}"


def _tools(messages: Sequence[Message]) -> Iterator[str]:
    for message in messages:
        for part in message.parts:
            if part.kind == "tool_call":
                yield f"Tool: {part.name or '-'}"
            elif part.kind == "tool_result":
                label = "Failed" if part.is_error else "Result"
                yield f"{label}: {_cut(' '.join(part.text.split()), RESULT_BYTES)}"


def _own_text(message: Message) -> str:
    if message.provenance == "compaction_summary":
        return ""
    return message.text.strip()


def size(text: str) -> int:
    """The length of *text* in bytes of UTF-8; a lone surrogate has three."""
    return len(text.encode("utf-8", "surrogatepass"))


def _cut(text: str, size: int) -> str:
    """The longest beginning of *text* of at most *size* bytes, in whole characters."""
    data = text.encode("utf-8", "surrogatepass")
    if len(data) <= size:
        return text
    while size > 0 and data[size] & 0xC0 == 0x80:  # inside a character
        size -= 1
    return data[:size].decode("utf-8", "surrogatepass")
