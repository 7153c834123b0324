"""The summary of the window policy if the model fails: deterministic, in labelled lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from siltstone.messages import Message, opens_turn

__all__ = ["size", "smart_fallback_summary"]

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
    texts = [(message, text) for message in messages if (text := _text(message))]
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


def _text(message: Message) -> str:
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
