"""Writes a message as lines for people and models."""

from __future__ import annotations

from siltstone.messages.json_text import encode
from siltstone.messages.message import Message, Part

__all__ = ["in_words", "is_hidden"]


def in_words(message: Message) -> str:
    """The lines of *message*, one for each part, with names of calls; its JSON if there is no line."""
    return "\n".join(filter(None, map(_part, message.parts))) or encode(message.raw)


def is_hidden(char: str) -> bool:
    """Whether *char* shows as nothing, steers a terminal, or turns the direction of the text after it.

    Tabs and breaks of lines do not count.
    """
    code = ord(char)
    return (
        (code < 32 and char not in "\t\n\r")
        or 0x7F <= code < 0xA0
        or 0x202A <= code <= 0x202E
        or 0x2066 <= code <= 0x2069
    )


def _part(part: Part) -> str:
    match part.kind:
        case "tool_call":
            return f"[call {part.call_id or '-'}: {part.name or '-'}({part.arguments or ''})]"
        case "tool_result":
            return f"[result {part.call_id or '-'}: {part.text}]"
        case "reasoning":
            return f"[reasoning: {part.text}]" if part.text else "[reasoning]"
        case _:
            return part.text or f"[{part.modality or part.kind}]"
