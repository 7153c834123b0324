"""Writes a message as lines for people and models."""

from __future__ import annotations

from siltstone.messages.json_text import encode
from siltstone.messages.message import Message, Part

__all__ = ["in_words"]


def in_words(message: Message) -> str:
    """The lines of *message*, one for each part, with names of calls; its JSON if there is no line."""
    return "\n".join(filter(None, map(_part, message.parts))) or encode(message.raw)


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
