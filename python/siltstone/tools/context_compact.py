"""The tool ``context_compact``: a model asks for a compaction, for example at the end of a task."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from siltstone.tools.base import Tool, check_names, refusal

__all__ = ["DESCRIPTION", "MAX_FOCUS", "NAME", "context_compact"]

NAME = "context_compact"
MAX_FOCUS = 2_000  #: characters: a focus is a few words, and goes into the request for the summary

DESCRIPTION = (
    "Ask for a compaction of this conversation: before your next step, older messages are replaced by a "
    "summary. Call it when a piece of work is finished and its details are no longer needed, not in the "
    "middle of one."
)

PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "focus": {
            "type": "string",
            "description": "What the summary should keep in particular, in a few words.",
        }
    },
    "required": [],
}


def context_compact(ask: Callable[[str | None], Mapping[str, Any]]) -> Tool:
    """The tool over *ask*, which takes the focus, notes the request, and returns its status.

    The result of the tool is this status as JSON.
    """

    def run(arguments: Mapping[str, Any]) -> str:
        check_names(NAME, arguments, PARAMETERS["properties"])
        return json.dumps(ask(_focus(arguments)), ensure_ascii=False)

    return Tool(NAME, DESCRIPTION, PARAMETERS, run)


def _focus(arguments: Mapping[str, Any]) -> str | None:
    focus = arguments.get("focus")
    if focus is not None and not isinstance(focus, str):
        raise refusal(NAME, f"'focus' must be a string, got {type(focus).__name__}")
    focus = focus.strip() if focus else ""
    if len(focus) > MAX_FOCUS:
        raise refusal(NAME, f"'focus' must have at most {MAX_FOCUS} characters, got {len(focus)}")
    return focus or None
