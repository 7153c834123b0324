"""Finds the calls and results of siltstone's own tools.

Their results quote earlier messages. If they were indexed too, a search would find the results of earlier
searches instead of the messages, and each result would contain the results before it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable
from typing import Final

from siltstone.messages.groups import call_key
from siltstone.messages.message import Message, Part

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
"""The names of the tools of a session, and of the further tools of the MCP server."""

# The prefix of a host: `mcp__siltstone__memory_search`, `siltstone.memory_search`, `siltstone_memory_search`.
# A single underscore also separates the words of a name, so there the prefix must end with `siltstone_`.
_PREFIX: Final = re.compile(r"(?:.*(?:__|[.:/-])|.*siltstone_)", re.DOTALL | re.IGNORECASE)


def names_own_tool(name: str | None, tools: Iterable[str] = OWN_TOOLS) -> bool:
    """Whether *name* is the name of one of *tools*, possibly with a prefix of the host."""
    if not name:
        return False
    return any(name.endswith(tool) and _is_prefix(name[: -len(tool)]) for tool in tools if tool)


def _is_prefix(text: str) -> bool:
    return not text or _PREFIX.fullmatch(text) is not None


_NO_PLACES: Final[frozenset[int]] = frozenset()


class OwnTools:
    """Walks over messages in their order, and finds the parts that are calls and results of *tools*.

    A call is known by its tool's name; a result by its call, which is the latest call before it with its id,
    as in :func:`~siltstone.messages.groups`. If no call was seen, the name in the result decides.
    """

    def __init__(self, tools: Iterable[str] = OWN_TOOLS) -> None:
        self._tools = frozenset(tools)
        self._calls: dict[Hashable, bool] = {}  # key of a call: whether its tool is ours

    def parts_of(self, message: Message) -> frozenset[int]:
        """The places of the parts of the next message that belong to *tools*."""
        if message.said is not None or not any(part.kind in _TIED for part in message.parts):
            return _NO_PLACES
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
    "blob": OwnTools._shared,  # media in a result
}
