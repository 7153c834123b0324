"""Replaces old tool results in the view by receipts."""

from __future__ import annotations

from siltstone.compaction.base import Trigger
from siltstone.compaction.cheap_config import ClearConfig
from siltstone.compaction.in_place import InPlace, receipt
from siltstone.compaction.tool_results import ToolResult
from siltstone.messages import Message, read_substitute, with_results

__all__ = ["CLEARED", "ClearToolResults"]

CLEARED = "cleared"  #: the kind of a substitute that is a receipt


class ClearToolResults(InPlace):
    """Replaces old results by receipts. A receipt tells the size of the result and the handle that reads it.

    The newest results, results still in use, pinned results and small results stay. Calls keep their
    arguments. Nothing is lost: ``memory_get`` reads a result by range or pattern, a search finds it, and an
    undo brings it back.

    Args:
        config: When the step is due, and which results it spares.
    """

    def __init__(self, config: ClearConfig | None = None) -> None:
        self.config = config or ClearConfig()
        super().__init__(self.config)

    @property
    def name(self) -> str:
        """``clear-tool-results``."""
        return "clear-tool-results"

    def replaced(self, results: list[ToolResult], trigger: Trigger) -> list[tuple[ToolResult, Message]]:
        """All results except the newest ones and the results of excluded tools."""
        spared = set(self.config.exclude_tools)
        old = results[: len(results) - self.config.keep_results] if self.config.keep_results else results
        found = []
        for result in old:
            if spared.isdisjoint(result.tools):
                message = self._cleared(result, trigger)
                if message is not None:
                    found.append((result, message))
        return found

    def _cleared(self, result: ToolResult, trigger: Trigger) -> Message | None:
        message = result.message

        def change(text: str, call_id: str | None) -> str:
            if self._token_rule.count_text(text) < self.config.least_tokens:
                return text
            asked = result.asked(call_id)
            what = f"result of {asked[0]} cleared" if asked is not None else "result cleared"
            return receipt(text, what, message, self._token_rule, trigger.reader)

        fields = with_results(message, change)
        return None if fields is None else read_substitute(message, fields, CLEARED)
