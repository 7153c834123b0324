"""What of a message can be found again?"""

from __future__ import annotations

from siltstone.messages.message import Message, Part

__all__ = ["indexable_text"]

_RULES = frozenset({"system", "developer"})


def indexable_text(message: Message, *, index_tools: bool = True) -> str:
    """The text of a message that is indexed: what was said, and the tools' names, arguments and results.

    Reasoning and media are not indexed. System messages, and everything that is not original
    (summaries, injected and recalled text), give ``""``.

    Args:
        message: The message.
        index_tools: False leaves calls and results out.
    """
    if message.provenance != "original" or message.role in _RULES:
        return ""
    return "\n".join(filter(None, (_passage(part, index_tools) for part in message.parts)))


def _passage(part: Part, index_tools: bool) -> str:
    if part.kind == "text" or (part.kind == "other" and part.call_id is None):
        return part.text
    if not index_tools or part.kind not in ("tool_call", "tool_result", "other"):
        return ""
    body = part.arguments if part.kind == "tool_call" else part.text
    return " ".join(filter(None, (part.name, body)))
