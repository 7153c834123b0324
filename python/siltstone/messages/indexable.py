"""The text of a message that is indexed for search."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from siltstone.messages.message import RULE_ROLES, Message, Part
from siltstone.messages.own_tools import OWN_TOOLS, OwnTools

__all__ = ["indexable_text", "indexable_texts"]


def indexable_text(message: Message, *, index_tools: bool = True, own: Collection[int] | None = None) -> str:
    """The text of a message that is indexed: its texts, and the names, arguments and results of tools.

    Reasoning and media are not indexed. System messages and messages that are not original (summaries,
    injected and recalled text) give ``""``. Calls and results of siltstone's own tools are left out.

    Args:
        message: The message.
        index_tools: Whether calls and results are indexed.
        own: The places of its parts that belong to siltstone's own tools. None: they are found by the names
            in this message only. Most dialects name a tool in the call and not in the result, so use
            :func:`indexable_texts` for a whole history.
    """
    if message.provenance != "original" or message.role in RULE_ROLES:
        return ""
    if message.said is not None:
        return message.said
    if own is None:
        own = OwnTools().parts_of(message)
    said = (part for place, part in enumerate(message.parts) if place not in own)
    return "\n".join(filter(None, (_passage(part, index_tools) for part in said)))


def indexable_texts(
    messages: Iterable[Message], *, index_tools: bool = True, own_tools: Iterable[str] = OWN_TOOLS
) -> Iterator[str]:
    """:func:`indexable_text` of each message. A result of siltstone's own tools is known by its call.

    Args:
        messages: Messages in their order; calls stand before their results.
        index_tools: As for :func:`indexable_text`.
        own_tools: The names of siltstone's own tools. Hosts may put a prefix before them.
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
