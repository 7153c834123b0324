"""The pairs of items of the Responses API: calls and their answers.

An item of a type that is not here groups by its ``call_id`` all the same; only whether it is still
waiting for an answer cannot be known.
"""

from __future__ import annotations

from typing import Final

from siltstone.values import dataclass

__all__ = ["BY_PROVIDER", "CALLS", "OUTPUTS", "CallType"]


@dataclass(frozen=True, slots=True)
class CallType:
    """How an item that calls a tool is read.

    Attributes:
        output: The type of the item that answers it.
        name: The tool's name; None where the item states it.
        arguments: The keys that may hold the arguments, the first that is there counts.
        call_id: The key of its id.
        answered_by: The keys of the output that may hold that id, the first that is there counts.
    """

    output: str
    name: str | None
    arguments: tuple[str, ...]
    call_id: str = "call_id"
    answered_by: tuple[str, ...] = ("call_id",)


#: Calls that the host answers with an item of its own.
CALLS: Final[dict[str, CallType]] = {
    "function_call": CallType("function_call_output", None, ("arguments",)),
    "custom_tool_call": CallType("custom_tool_call_output", None, ("input",)),
    "computer_call": CallType("computer_call_output", "computer", ("actions", "action")),
    "shell_call": CallType("shell_call_output", "shell", ("action",)),
    # The output of the older shell has no call_id: its own id is that of the call.
    "local_shell_call": CallType(
        "local_shell_call_output", "local_shell", ("action",), answered_by=("call_id", "id")
    ),
    "apply_patch_call": CallType("apply_patch_call_output", "apply_patch", ("operation",)),
    "tool_search_call": CallType("tool_search_output", "tool_search", ("arguments",)),
    "program": CallType("program_output", "program", ("code",)),
    "mcp_approval_request": CallType(
        "mcp_approval_response", None, ("arguments",), "id", ("approval_request_id",)
    ),
}

#: The same calls by the type that answers them.
OUTPUTS: Final[dict[str, CallType]] = {call.output: call for call in CALLS.values()}

#: Calls that the provider runs itself: the item holds its result, and nothing else answers it. Each with
#: the tool's name (None where the item states it) and the keys of its arguments.
BY_PROVIDER: Final[dict[str, tuple[str | None, tuple[str, ...]]]] = {
    "web_search_call": ("web_search", ("action",)),
    "file_search_call": ("file_search", ("queries",)),
    "code_interpreter_call": ("code_interpreter", ("code",)),
    "image_generation_call": ("image_generation", ("revised_prompt",)),
    "mcp_call": (None, ("arguments",)),
}
