"""Discarded messages as plain lines, which a summariser reads.

One item for each part of a message, in order, an earlier summary first::

    [Earlier summary of messages 1-40: …]
    User: …
    Assistant: …
    [Tool call <id>: name(arguments)]
    [Tool result <id>: …]
    [Tool result <id>, error: …]
    [Injected context: …]

An item begins at the start of a line, and its further lines are indented by two spaces; so no text can
pass for an item of its own. A line ends where any reader may see an end: at each of the line ends that
``str.splitlines`` knows, from a carriage return to U+2029.

Media stand as their placeholders; reasoning is left out. Nothing else is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, overload

from siltstone.compaction.base import SAID
from siltstone.compaction.prompts import unframed
from siltstone.messages import Excerpt, Message, Part, Role, ranges_in_words, render_messages

__all__ = ["INDENT", "RequestMessages", "earlier_summary", "indented", "render"]

INDENT = "  "

_SPEAKERS: Final[dict[Role, str]] = {
    "system": "System",
    "developer": "System",
    "user": "User",
    "assistant": "Assistant",
    "tool": "Tool",
}


def render(messages: Sequence[Message], summary_prefix: str) -> str:
    """All of *messages* as lines, earlier summaries first; reasoning alone leaves no line."""
    if isinstance(messages, Excerpt):
        return "\n".join(_excerpt_lines(messages, summary_prefix))
    summaries = [message for message in messages if message.provenance == "compaction_summary"]
    others = [message for message in messages if message.provenance != "compaction_summary"]
    lines = [_summary(message, summary_prefix) for message in summaries]
    lines += [indented(line) for message in others for line in _items(message)]
    return "\n".join(lines)


def indented(item: str) -> str:
    """*item* with every line after its first indented, whichever character ends a line."""
    lines = f"{item}.".splitlines(keepends=True)  # so what follows a line end is a line, at the end too
    return INDENT.join(lines)[:-1]


def _excerpt_lines(messages: Excerpt, summary_prefix: str) -> Iterator[str]:
    """The same of messages that nobody has looked at yet: no :class:`Message` is made of most."""
    for message in messages.summaries:
        yield _summary(message, summary_prefix)
    for piece in messages.pieces:
        if isinstance(piece, Message):
            yield from _of_one(piece)
            continue
        at, end = piece
        while at < end:
            lines, at = render_messages(messages.history.raws, at, end)
            if lines:
                yield lines
            if at < end:  # a message that the core does not read
                yield from _of_one(messages.history[at])
                at += 1


def _of_one(message: Message) -> Iterator[str]:
    if message.provenance != "compaction_summary":
        yield from map(indented, _items(message))


def earlier_summary(covers: Sequence[tuple[int, int]], text: str) -> str:
    """The item of a summary that stands for *covers*."""
    return indented(f"[Earlier summary of messages {ranges_in_words(covers)}: {text}]")


def _summary(message: Message, prefix: str) -> str:
    return earlier_summary(message.covers, unframed(message.text, prefix))


def _items(message: Message) -> Iterator[str]:
    for part in message.parts:
        match part.kind:
            case "reasoning":
                continue
            case "tool_call":
                yield f"[Tool call {part.call_id or '-'}: {part.name or '-'}({part.arguments or ''})]"
            case "tool_result":
                yield f"[Tool result {part.call_id or '-'}{', error' if part.is_error else ''}: {part.text}]"
            case _:
                yield from _said(message, part)


def _said(message: Message, part: Part) -> Iterator[str]:
    if not part.text:
        return
    if message.provenance in SAID:
        yield f"{_SPEAKERS[message.role]}: {part.text}"
    else:
        yield f"[Injected context: {part.text}]"


class RequestMessages(Sequence[dict[str, Any]]):
    """The messages of a summary request, rendered when they are first read, so that planning is free."""

    __slots__ = ("_count", "_instruction", "_material", "_messages")

    def __init__(self, count: int, material: Callable[[], str], instruction: str) -> None:
        self._count = count
        self._material = material
        self._instruction = instruction
        self._messages: list[dict[str, Any]] | None = None

    def __len__(self) -> int:
        return 2

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> list[dict[str, Any]]: ...
    def __getitem__(self, index: int | slice) -> dict[str, Any] | list[dict[str, Any]]:
        if self._messages is None:
            self._messages = [
                {"role": "user", "content": self._material()},
                {"role": "user", "content": self._instruction},
            ]
        return self._messages[index]

    def __repr__(self) -> str:
        return f"<{self._count} messages to summarise, and the instruction>"
