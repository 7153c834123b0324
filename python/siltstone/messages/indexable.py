"""The text of a message that is indexed for search."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from siltstone.messages.message import Message, Part
from siltstone.messages.own_tools import OWN_TOOLS, OwnTools

__all__ = ["indexable_text", "indexable_texts"]

_RULES = frozenset({"system", "developer"})


def indexable_text(message: Message, *, index_tools: bool = True, own: Collection[int] | None = None) -> str:
    """The text of a message that is indexed: what was said, and the tools' names, arguments and results.

    Reasoning and media are not indexed. System messages, and everything that is not original
    (summaries, injected and recalled text), give ``""``. Calls and answers of siltstone's own tools are left
    out.

    Args:
        message: The message.
        index_tools: False leaves calls and results out.
        own: The places among its parts that are of our own tools. Left out, they are found by the names in
            the message alone; most dialects name a tool in the call and not in the answer, so for a whole
            history there is :func:`indexable_texts`.
    """
    if message.provenance != "original" or message.role in _RULES:
        return ""
    if own is None:
        own = OwnTools().parts_of(message)
    said = (part for place, part in enumerate(message.parts) if place not in own)
    return "\n".join(filter(None, (_passage(part, index_tools) for part in said)))


def indexable_texts(
    messages: Iterable[Message], *, index_tools: bool = True, own_tools: Iterable[str] = OWN_TOOLS
) -> Iterator[str]:
    """:func:`indexable_text` of each of *messages*. A result of siltstone's own tools is known by its call.

    Args:
        messages: Messages in the order in which they were said; calls stand before their answers.
        index_tools: As there.
        own_tools: The names of our own tools. Hosts may prefix them.
    """
    tools = OwnTools(own_tools)
    for message in messages:
        yield indexable_text(message, index_tools=index_tools, own=tools.parts_of(message))


def _passage(part: Part, index_tools: bool) -> str:
    if part.kind == "text" or (part.kind == "other" and part.call_id is None):
        return part.text
    if not index_tools or part.kind not in ("tool_call", "tool_result", "other"):
        return ""
    body = part.arguments if part.kind == "tool_call" else part.text
    return " ".join(filter(None, (part.name, body)))
