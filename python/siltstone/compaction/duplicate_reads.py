"""Keeps a text that was read several times only once in the view, at its last reading."""

from __future__ import annotations

import re
from typing import Final

from siltstone.compaction.base import Trigger
from siltstone.compaction.cheap_config import DuplicatesConfig
from siltstone.compaction.in_place import InPlace, receipt
from siltstone.compaction.tool_results import ToolResult
from siltstone.messages import Message, read_substitute, with_results

__all__ = ["SUPERSEDED", "DropDuplicateReads"]

SUPERSEDED = "superseded"  #: the kind of a substitute for a result that a later result replaces

_READS: Final = re.compile(
    r"(?:^|[_\W])(?:read|cat|view|open|get|fetch|list|ls|glob|grep|search|find|show|load|notebookread)"
    r"(?:[_\W]|file|files|dir|directory|$)",
    re.IGNORECASE,
)


class DropDuplicateReads(InPlace):
    """Replaces a result that was read again later by a receipt, which names the later result.

    Two results belong together if a reading tool was called with the same arguments, or if they have the
    same text. The last result stays whole. A failed result replaces no other. So the old content of a file
    that has changed leaves the view; ``memory_get`` still reads it.

    Args:
        config: When the step is due, and which tools are reading tools.
    """

    def __init__(self, config: DuplicatesConfig | None = None) -> None:
        self.config = config or DuplicatesConfig()
        super().__init__(self.config)

    @property
    def name(self) -> str:
        """``drop-duplicate-reads``."""
        return "drop-duplicate-reads"

    def replaced(self, results: list[ToolResult], trigger: Trigger) -> list[tuple[ToolResult, Message]]:
        """The results that a later result repeats, or has read again."""
        later: dict[object, int] = {}  # a tool with its arguments, or a text: the last message with it
        found = []
        for result in reversed(results):
            message = self._superseded(result, later, trigger)
            if message is not None:
                found.append((result, message))
            self._remember(result, later)
        found.reverse()
        return found

    def _remember(self, result: ToolResult, later: dict[object, int]) -> None:
        for part in result.message.parts:
            if part.kind != "tool_result" or part.is_error or result.message.provenance != "original":
                continue
            if self._token_rule.count_text(part.text) >= self.config.least_tokens:
                later.setdefault(part.text, result.message.seq)
            asked = result.asked(part.call_id)
            if asked is not None and self._reads(asked[0]):
                later.setdefault(asked, result.message.seq)

    def _superseded(self, result: ToolResult, later: dict[object, int], trigger: Trigger) -> Message | None:
        message = result.message
        errors = {part.call_id for part in message.parts if part.is_error}

        def change(text: str, call_id: str | None) -> str:
            if self._token_rule.count_text(text) < self.config.least_tokens or call_id in errors:
                return text
            asked = result.asked(call_id)
            seq = later.get(text, None if asked is None else later.get(asked))
            if seq is None:
                return text
            said = "the same text" if text in later else "read again"
            return receipt(text, f"{said} in m{seq}", message, self._token_rule, trigger.reader)

        fields = with_results(message, change)
        return None if fields is None else read_substitute(message, fields, SUPERSEDED)

    def _reads(self, tool: str) -> bool:
        if self.config.tools is not None:
            return tool in self.config.tools
        return _READS.search(tool) is not None
