"""The pairs of items of the Responses API: calls and their answers.

An item of another type is still grouped by its ``call_id``; but it is unknown whether it waits for an answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["BY_PROVIDER", "CALLS", "OUTPUTS", "CallType"]


@dataclass(frozen=True, slots=True)
class CallType:
    """The keys of one type of call, and the type of its answer.

    Attributes:
        output: The type of the item that answers it.
        name: The tool's name; None if the item has it.
        arguments: The keys that may hold the arguments; the first present key counts.
        call_id: The key of its id.
        answered_by: The keys of the output that may hold that id; the first present key counts.
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
    # The output of the older shell has no call_id: its own id is the id of the call.
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

#: The same calls by the type of their answer.
OUTPUTS: Final[dict[str, CallType]] = {call.output: call for call in CALLS.values()}

#: Calls that the provider runs itself; the item has its own result, and no other item answers it. Each has
#: the tool's name (None if the item has it) and the keys of its arguments.
BY_PROVIDER: Final[dict[str, tuple[str | None, tuple[str, ...]]]] = {
    "web_search_call": ("web_search", ("action",)),
    "file_search_call": ("file_search", ("queries",)),
    "code_interpreter_call": ("code_interpreter", ("code",)),
    "image_generation_call": ("image_generation", ("revised_prompt",)),
    "mcp_call": (None, ("arguments",)),
}
