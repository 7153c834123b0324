"""The tool ``memory_forget``: a model deletes saved memories, if the host allows it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from siltstone.tools.base import Tool, check_names, refusal, shown

__all__ = ["DESCRIPTION", "MAX_IDS", "NAME", "memory_forget"]

NAME: Final = "memory_forget"
MAX_IDS: Final = 20  #: memories of one call

DESCRIPTION: Final = (
    "Forget memories for good, by the ids that memory_save gave. Call it only when the user asks for "
    "something to be forgotten, or when a memory of yours was wrong. It cannot be undone."
)

PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "ids": {
            "type": "array",
            "items": {"type": "string"},
            "minItems": 1,
            "maxItems": MAX_IDS,
            "description": f"The ids of the memories; at most {MAX_IDS}.",
        }
    },
    "required": ["ids"],
}


def memory_forget(forget: Callable[[Sequence[str]], int]) -> Tool:
    """The tool over *forget*, which takes ids of the session that it is bound to; how many were there.

    A model that may forget can be talked into it: a session offers this tool only where its host allows it.
    Its result is the JSON of ``{"forgotten"}``.
    """

    def run(arguments: Mapping[str, Any]) -> str:
        return json.dumps({"forgotten": forget(_ids(arguments))})

    return Tool(NAME, DESCRIPTION, PARAMETERS, run)


def _ids(arguments: Mapping[str, Any]) -> list[str]:
    check_names(NAME, arguments, PARAMETERS["properties"])
    ids = arguments.get("ids")
    if not isinstance(ids, list | tuple) or not 1 <= len(ids) <= MAX_IDS:
        got = len(ids) if isinstance(ids, list | tuple) else type(ids).__name__
        raise refusal(NAME, f"'ids' must be a list of 1 to {MAX_IDS} texts, got {got}")
    for each in ids:
        if not isinstance(each, str) or not each:
            raise refusal(NAME, f"an id must be a text that is not empty, got {shown(each)}")
    return list(dict.fromkeys(ids))
