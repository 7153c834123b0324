"""Discarded messages as items, and as the plain lines of those items, which a summariser reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, Final, overload

from siltstone.compaction.prompts import unframed
from siltstone.messages import (
    Excerpt,
    MaterialItem,
    Message,
    Part,
    Role,
    message_items,
    render_messages,
)
from siltstone.messages.material_item import spoken
from siltstone.messages.message import SAID

__all__ = ["LazyItems", "RequestMessages", "earlier_summary", "items_of", "lines", "render"]

_SUMMARY: Final = "compaction_summary"

_ROLES: Final[dict[str, Role]] = {
    "system": "system",
    "developer": "developer",
    "user": "user",
    "assistant": "assistant",
}


def render(messages: Sequence[Message], summary_prefix: str) -> str:
    """All of *messages* as lines, earlier summaries first. A message with only reasoning gives no line."""
    if isinstance(messages, Excerpt):
        return "\n".join(_excerpt_lines(messages, summary_prefix))
    summaries = (_summary(each, summary_prefix).line for each in messages if each.provenance == _SUMMARY)
    return "\n".join(chain(summaries, (line for each in messages for line in _lines_of(each))))


def items_of(messages: Sequence[Message], summary_prefix: str) -> list[MaterialItem]:
    """The items of *messages* in the order of their lines."""
    found = _in_excerpt if isinstance(messages, Excerpt) else _listed
    return list(found(messages, summary_prefix))  # type: ignore[arg-type]


def lines(items: Iterable[MaterialItem]) -> str:
    """The text that shows *items*."""
    return "\n".join(item.line for item in items)


def earlier_summary(covers: Sequence[tuple[int, int]], text: str) -> MaterialItem:
    """The item of a summary that stands for *covers*."""
    return MaterialItem("summary", text, covers=tuple(covers))


def _listed(messages: Sequence[Message], prefix: str) -> Iterator[MaterialItem]:
    for message in messages:
        if message.provenance == _SUMMARY:
            yield _summary(message, prefix)
    for message in messages:
        yield from _of_one(message)


def _in_excerpt(messages: Excerpt, prefix: str) -> Iterator[MaterialItem]:
    """The items of messages that nobody has looked at yet: no :class:`Message` is made of most."""
    history = messages.history
    for message in messages.summaries:
        yield _summary(message, prefix)
    for piece in messages.pieces:
        if isinstance(piece, Message):
            yield from _of_one(piece)
            continue
        at, end = piece
        while at < end:
            rows, stop = message_items(history.raws, at, end)
            seqs = [seq for span in history.numbers(at, stop) for seq in range(*span)]
            for position, kind, role, call_id, name, text, failed in rows:
                of = _ROLES.get(role or "", "assistant" if kind == "tool_call" else "tool")
                yield MaterialItem(kind, text, of, name or "", call_id or "", failed, seqs[position - at])
            at = stop
            if at < end:  # a message that the core does not read
                yield from _of_one(history[at])
                at += 1


def _excerpt_lines(messages: Excerpt, prefix: str) -> Iterator[str]:
    """The lines of the same items, which the core writes for the messages that it reads."""
    for message in messages.summaries:
        yield _summary(message, prefix).line
    for piece in messages.pieces:
        if isinstance(piece, Message):
            yield from _lines_of(piece)
            continue
        at, end = piece
        while at < end:
            text, at = render_messages(messages.history.raws, at, end)
            if text:
                yield text
            if at < end:  # a message that the core does not read
                yield from _lines_of(messages.history[at])
                at += 1


def _summary(message: Message, prefix: str) -> MaterialItem:
    return earlier_summary(message.covers, unframed(message.text, prefix))


def _lines_of(message: Message) -> Iterable[str]:
    """The lines of the items of a message. Most messages are one text, and need no item for its line."""
    said = message.said
    if said is None:
        return (item.line for item in _of_one(message))
    return (spoken(message.role, said),) if said else ()


def _of_one(message: Message) -> Iterator[MaterialItem]:
    """The items of a message; a summary has none here, since summaries come first."""
    if message.provenance == _SUMMARY:
        return
    role, seq = message.role, message.seq
    for part, media in _with_media(message.parts):
        name, call_id = part.name or "", part.call_id or ""
        match part.kind:
            case "reasoning":
                continue
            case "tool_call":
                yield MaterialItem("tool_call", part.arguments or "", role, name, call_id, seq=seq)
            case "tool_result":
                text = _with_lines(part.text, media)
                yield MaterialItem("tool_result", text, role, name, call_id, bool(part.is_error), seq)
            case _:
                if part.text:
                    said = message.provenance in SAID
                    yield MaterialItem("text" if said else "context", part.text, role, seq=seq)


def _with_lines(text: str, lines: Iterable[str]) -> str:
    """*text* with *lines* behind it. A carriage return at its end is a line end, and stays one of its own."""
    behind = "\n".join(filter(None, lines))
    between = "\n" if text and behind and not text.endswith("\r") else ""
    return text + between + behind


def _with_media(parts: Iterable[Part]) -> list[tuple[Part, list[str]]]:
    """The parts, each with the placeholders of the media in it.

    The media of a result belong to it: in some dialects its message has the role of the user.
    """
    found: list[tuple[Part, list[str]]] = []
    results: dict[str, list[str]] = {}
    for part in parts:
        media: list[str] = []
        if part.call_id is not None:
            if part.kind == "blob" and part.call_id in results:
                results[part.call_id].append(part.text)
                continue
            if part.kind == "tool_result":
                results[part.call_id] = media
        found.append((part, media))
    return found


class LazyItems(Sequence[MaterialItem]):
    """The items of a summary request, made when they are first read: a model that reads text needs none."""

    __slots__ = ("_items", "_make")

    def __init__(self, make: Callable[[], Sequence[MaterialItem]]) -> None:
        self._make = make
        self._items: Sequence[MaterialItem] | None = None

    def __len__(self) -> int:
        return len(self._made())

    @overload
    def __getitem__(self, index: int) -> MaterialItem: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[MaterialItem]: ...
    def __getitem__(self, index: int | slice) -> MaterialItem | Sequence[MaterialItem]:
        return self._made()[index]

    def __iter__(self) -> Iterator[MaterialItem]:
        return iter(self._made())

    def __repr__(self) -> str:
        return "<items>" if self._items is None else repr(self._items)

    def _made(self) -> Sequence[MaterialItem]:
        if self._items is None:
            self._items = self._make()
        return self._items


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
