"""The tool results in a history, with the calls that they answer, and a test whether they are in use."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from siltstone.compaction.base import Trigger
from siltstone.messages import Message, Part
from siltstone.messages.groups import call_key
from siltstone.messages.message import SAID
from siltstone.messages.plain import as_fields

__all__ = ["InUse", "ToolResult", "loads_what_is_used", "tool_results"]

LOADERS: Final = frozenset(
    {"skill", "load_skill", "use_skill", "tool_search", "toolsearch", "load_tool", "load_tools"}
)
"""Names of tools, in lower case, whose results stay in use: the text of a skill, the definition of a tool."""

_REFERENCE: Final = "tool_reference"
_DEEPEST: Final = 6  # the maximum depth of nested blocks that are searched


@dataclass(frozen=True, slots=True)
class ToolResult:
    """A message with tool results.

    Attributes:
        at: Its position in the history.
        message: The message.
        calls: The calls that it answers, by their ids, as far as they are in the history.
    """

    at: int
    message: Message
    calls: Mapping[str | None, Part] = field(default_factory=dict)

    @property
    def tools(self) -> tuple[str, ...]:
        """The names of the tools, each once, in order."""
        return tuple(dict.fromkeys(call.name for call in self.calls.values() if call.name))

    def asked(self, call_id: str | None) -> tuple[str, str] | None:
        """The tool and its arguments, with the keys in one order; None if the call is unknown."""
        call = self.calls.get(call_id)
        if call is None or not call.name:
            return None
        return call.name, _in_one_form(call.arguments or "")


InUse: TypeAlias = Callable[[ToolResult], bool]
"""A function that tells whether a result is still in use, and stays as it is.

The default is :func:`loads_what_is_used`.
"""


def tool_results(history: Sequence[Message], trigger: Trigger) -> list[ToolResult]:
    """The messages of *history* with results that may be changed: parts of the conversation, not pinned."""
    return [
        each
        for each in _results(history)
        if each.message.provenance in SAID and not trigger.holds(each.message)
    ]


def loads_what_is_used(result: ToolResult) -> bool:
    """Whether the result loaded a skill or the definition of a tool, which the next steps need."""
    if any(name.lower() in LOADERS for name in result.tools):
        return True
    fields = as_fields(result.message.raw)
    return fields is not None and _has_reference(fields.get("content"), _DEEPEST)


def _results(history: Sequence[Message]) -> Iterator[ToolResult]:
    calls: dict[Hashable, Part] = {}
    for at, message in enumerate(history):
        answered: dict[str | None, Part] = {}
        is_result = False
        for part in message.parts:
            if part.kind == "tool_call":
                calls[call_key(part)] = part
            elif part.kind == "tool_result":
                is_result = True
                call = calls.get(call_key(part))
                if call is not None:
                    answered[part.call_id] = call
        if is_result and message.role != "assistant":
            yield ToolResult(at, message, answered)


def _has_reference(value: Any, deepest: int) -> bool:
    """Whether a block of the type ``tool_reference`` is in *value*."""
    if deepest == 0:
        return False
    if isinstance(value, Mapping):
        return value.get("type") == _REFERENCE or _has_reference(value.get("content"), deepest - 1)
    return isinstance(value, list | tuple) and any(_has_reference(each, deepest - 1) for each in value)


def _in_one_form(arguments: str) -> str:
    try:
        return json.dumps(json.loads(arguments), sort_keys=True)
    except (ValueError, RecursionError):
        return arguments
