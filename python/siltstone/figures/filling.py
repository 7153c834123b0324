"""What fills a context, by category."""

from __future__ import annotations

from collections.abc import Sequence

from siltstone.messages import Message, summary_level
from siltstone.tokens import TokenRule

__all__ = ["categories"]

_SYSTEM = ("system", "developer")


def categories(view: Sequence[Message], rule: TokenRule) -> dict[str, int]:
    """The tokens of *view* by what they are, in the order in which a request has them; none is empty."""
    groups: dict[str, list[Message]] = {}
    for message in view:
        groups.setdefault(_category(message), []).append(message)
    order = sorted(groups, key=lambda name: (_place(name), name))
    return {name: rule.count(groups[name]) for name in order}


def _category(message: Message) -> str:
    if message.provenance == "compaction_summary":
        return f"summaries, level {summary_level(message)}"
    if message.role in _SYSTEM:
        return "system"
    if any(part.kind == "tool_result" for part in message.parts):
        return "tool results"
    if any(part.kind == "tool_call" for part in message.parts):
        return "tool calls"
    return message.role


def _place(name: str) -> int:
    order = ("system", "summaries", "user", "assistant", "tool calls", "tool results")
    return next((place for place, each in enumerate(order) if name.startswith(each)), len(order))
