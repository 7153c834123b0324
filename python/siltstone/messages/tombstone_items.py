"""The tombstones of items of the OpenAI Responses API.

Each type of item has fields that the provider requires. They stay, with the smallest value that it accepts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from siltstone.messages.dialects.openai_responses import item_type

__all__ = ["FORGOTTEN", "emptied"]

FORGOTTEN = "[forgotten]"  #: the text that replaces a forgotten text

_PIXEL: Final = (  # 1 x 1, transparent: the provider accepts only a picture as the screen of a computer
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgAAIAAAUAAXpeqz8AAAAASUVORK5CYII="
)

# The required fields beside the type, the ids and the names, by type of item.
_DEMANDED: Final[Mapping[str, Mapping[str, Any]]] = {
    "function_call": {"arguments": "{}"},
    "function_call_output": {"output": FORGOTTEN},
    "custom_tool_call": {"input": ""},
    "custom_tool_call_output": {"output": FORGOTTEN},
    "computer_call": {"action": {"type": "screenshot"}, "pending_safety_checks": []},
    "computer_call_output": {"output": {"type": "computer_screenshot", "image_url": _PIXEL}},
    "shell_call": {"action": {"commands": []}},
    "shell_call_output": {
        "output": [{"stdout": FORGOTTEN, "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}]
    },
    "local_shell_call": {"action": {"type": "exec", "command": [], "env": {}}},
    "local_shell_call_output": {"output": FORGOTTEN},
    "apply_patch_call": {"operation": {"type": "delete_file", "path": FORGOTTEN}},
    "apply_patch_call_output": {"output": FORGOTTEN},
    "tool_search_call": {"arguments": {}},
    "tool_search_output": {"tools": []},
    "program": {"code": "", "fingerprint": ""},
    "program_output": {"result": FORGOTTEN},
    "mcp_approval_request": {"arguments": "{}"},
    "mcp_approval_response": {"approve": False},
    "mcp_list_tools": {"tools": []},
    "mcp_call": {"arguments": "{}", "output": FORGOTTEN},
    "web_search_call": {"action": {"type": "search", "query": FORGOTTEN}},
    "file_search_call": {"queries": []},
    "code_interpreter_call": {"code": "", "outputs": []},
    "image_generation_call": {"result": None},
    "reasoning": {"summary": []},
    "compaction": {"encrypted_content": ""},
    "compaction_summary": {"encrypted_content": ""},
    "additional_tools": {"tools": []},
}
_KEPT: Final = {  # words of the provider that tell nothing about the content
    "role": frozenset({"system", "developer", "user", "assistant"}),
    "status": frozenset({"completed", "failed", "in_progress", "incomplete"}),
    "execution": frozenset({"client", "server"}),
}


def emptied(item: Mapping[str, Any]) -> dict[str, Any]:
    """*item* without its texts: only its type, ids and names, and the fields that the provider requires."""
    kind = item_type(item)
    kept: dict[str, Any] = {key: item[key] for key in item if _stays(key, item[key])}
    if kind == "message":
        return {**kept, "content": _content(item, str(item.get("role")))}
    kept |= _DEMANDED.get(kind, {})
    if kind == "computer_call" and "actions" in item:
        kept["actions"] = [kept.pop("action")]
    if kind == "mcp_approval_response" and isinstance(item.get("approve"), bool):
        kept["approve"] = item["approve"]
    return kept


def _stays(key: str, value: object) -> bool:
    if key in _KEPT:
        return value in _KEPT[key] if isinstance(value, str) else False
    if key == "caller":  # the program that made the call
        return isinstance(value, Mapping) and value.keys() <= {"type", "caller_id"}
    names = ("type", "id", "name", "server_label")
    return isinstance(value, str) and (key in names or key.endswith("_id"))


def _content(item: Mapping[str, Any], role: str) -> Any:
    if not isinstance(item.get("content"), list | tuple):
        return FORGOTTEN
    if role == "assistant":
        return [{"type": "output_text", "text": FORGOTTEN, "annotations": []}]
    return [{"type": "input_text", "text": FORGOTTEN}]
