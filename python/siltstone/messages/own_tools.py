"""Finds the calls and answers of siltstone's own tools.

Their answers quote what was said before. Were they remembered in turn, a search would find the answers of
earlier searches in the place of what was said, and each answer would hold the former ones.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable
from typing import Final

from siltstone.messages.groups import call_key
from siltstone.messages.message import Message, Part
from siltstone.patterns import pattern

__all__ = ["OWN_TOOLS", "OwnTools", "names_own_tool"]

OWN_TOOLS: Final = frozenset(
    {
        "chronicle",
        "context_compact",
        "memory_forget",
        "memory_get",
        "memory_save",
        "memory_search",
        "memory_stats",
        "summary_expand",
    }
)
"""The names of the tools that a session offers, and those that the MCP server has beside them."""

# What a host puts before a name: `mcp__siltstone__memory_search`, `siltstone.memory_search`,
# `siltstone_memory_search`. A single underscore separates words of a name as well, so our name must be in it.
_PREFIX: Final = pattern(r"(?:.*(?:__|[.:/-])|.*siltstone_)", re.DOTALL | re.IGNORECASE)


def names_own_tool(name: str | None, tools: Iterable[str] = OWN_TOOLS) -> bool:
    """Whether *name* is the name of one of *tools*, possibly with a prefix of the host."""
    if not name:
        return False
    return any(name.endswith(tool) and _is_prefix(name[: -len(tool)]) for tool in tools if tool)


def _is_prefix(text: str) -> bool:
    return not text or _PREFIX.fullmatch(text) is not None


class OwnTools:
    """Walks over messages in their order, and tells which of their parts are calls and answers of *tools*.

    A call is known by its tool's name; an answer by its call, the latest before it that has its id, as in
    :func:`~siltstone.messages.groups`. Where no call was seen, the name that an answer may have decides.
    """

    def __init__(self, tools: Iterable[str] = OWN_TOOLS) -> None:
        self._tools = frozenset(tools)
        self._calls: dict[Hashable, bool] = {}  # key of a call, to whether its tool is ours

    def parts_of(self, message: Message) -> frozenset[int]:
        """The places of the parts of the next message that belong to *tools*."""
        if not any(part.kind in _TIED for part in message.parts):
            return frozenset()
        return frozenset(place for place, part in enumerate(message.parts) if self._is_own(part))

    def _is_own(self, part: Part) -> bool:
        judge = _TIED.get(part.kind)
        return judge is not None and judge(self, part)

    def _called(self, part: Part) -> bool:
        own = self._calls[call_key(part)] = names_own_tool(part.name, self._tools)
        return own

    def _answered(self, part: Part) -> bool:
        known = self._calls.get(call_key(part))
        return names_own_tool(part.name, self._tools) if known is None else known

    def _shared(self, part: Part) -> bool:
        return part.call_id is not None and self._calls.get(part.call_id, False)


_TIED: Final[dict[str, Callable[[OwnTools, Part], bool]]] = {
    "tool_call": OwnTools._called,
    "tool_result": OwnTools._answered,
    "other": OwnTools._shared,
    "blob": OwnTools._shared,  # media in an answer
}
