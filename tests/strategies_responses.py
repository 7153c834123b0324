"""Generates items of the Responses API for the property tests."""

from functools import cache
from typing import Any

from hypothesis import strategies as st

from strategies_values import PIXEL, Raw, json_objects, json_values, texts

PICTURE = f"data:image/png;base64,{PIXEL}"
KINDS = ["function_call"] * 4 + ["custom_tool_call", "shell_call", "apply_patch_call", "computer_call"]


@cache
def user_blocks() -> st.SearchStrategy[Raw]:
    media = [
        {"type": "input_image", "detail": "auto", "image_url": PICTURE},
        {"type": "input_image", "detail": "low", "file_id": "file_1"},
        {"type": "input_file", "filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PIXEL}"},
    ]
    said = texts().map(lambda text: {"type": "input_text", "text": text})
    unknown = json_objects().map(lambda extra: {**extra, "type": "block_of_tomorrow"})
    return st.one_of(said, st.sampled_from(media).map(dict), unknown)


def call_item(call_id: str, item_id: str, text: str) -> st.SearchStrategy[Raw]:
    """A call that the host answers, with *text* among its arguments."""
    return st.sampled_from(KINDS).map(lambda kind: _call(kind, call_id, item_id, text))


def _call(kind: str, call_id: str, item_id: str, text: str) -> Raw:
    item: Raw = {"type": kind, "id": item_id, "call_id": call_id}
    match kind:
        case "function_call":
            return {**item, "name": "read_file", "arguments": text}
        case "custom_tool_call":
            return {**item, "name": "grep", "input": text}
        case "shell_call":
            return {**item, "action": {"commands": [text]}, "status": "completed"}
        case "apply_patch_call":
            create = {"type": "create_file", "path": "a.py", "diff": text}
            return {**item, "operation": create, "status": "completed"}
        case _:
            click = {"type": "click", "button": "left", "x": 1, "y": 2}
            return {**item, "action": click, "pending_safety_checks": [], "status": "completed"}


def output_item(kind: str, call_id: str, item_id: str, text: str) -> st.SearchStrategy[Raw]:
    """What answers a call of type *kind*, in one of the forms it may have."""
    item: Raw = {"type": f"{kind}_output", "call_id": call_id, "id": item_id}
    said = {"type": "input_text", "text": text}
    picture = {"type": "input_image", "detail": "auto", "image_url": PICTURE}
    chunk = {"stdout": text, "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}
    forms: dict[str, list[Any]] = {
        "shell_call": [[chunk], [chunk, chunk]],
        "apply_patch_call": [text],
        "computer_call": [{"type": "computer_screenshot", "image_url": PICTURE}],
    }
    outputs = st.sampled_from(forms.get(kind, [text, [said], [said, picture]]))
    more = {"status": "completed"} if kind == "apply_patch_call" else {}
    return outputs.map(lambda output: {**item, "output": output, **more})


def hosted_items(item_id: str, text: str) -> st.SearchStrategy[Raw]:
    """Calls that the provider ran itself."""
    done: Raw = {"id": item_id, "status": "completed"}
    logs = [{"type": "logs", "logs": text}]
    return st.sampled_from([
        {**done, "type": "web_search_call", "action": {"type": "search", "query": text}},
        {**done, "type": "file_search_call", "queries": [text], "results": [{"text": text}]},
        {**done, "type": "code_interpreter_call", "code": text, "container_id": "c", "outputs": logs},
        {**done, "type": "image_generation_call", "result": PIXEL},
        {
            **done, "type": "mcp_call", "name": "ls", "server_label": "files", "arguments": text,
            "output": text, "approval_request_id": None, "error": None,
        },
    ])  # fmt: skip


@cache
def responses_items() -> st.SearchStrategy[Raw]:
    """Single items of every type; they need not make a history."""
    ids = texts(min_size=1, max_size=8)
    calls = st.tuples(ids, ids, texts()).flatmap(lambda drawn: call_item(*drawn))
    kinds = st.sampled_from(KINDS)
    outputs = st.tuples(kinds, ids, ids, texts()).flatmap(lambda drawn: output_item(*drawn))
    hosted = st.tuples(ids, texts()).flatmap(lambda drawn: hosted_items(*drawn))
    contents = st.one_of(texts(), st.lists(user_blocks(), max_size=3))
    roles = st.sampled_from(["system", "developer", "user", "assistant"])
    messages = st.fixed_dictionaries({"type": st.just("message"), "role": roles, "content": contents})
    unknown = st.fixed_dictionaries(
        {"type": st.just("item_of_tomorrow")}, optional={"call_id": ids, "extra": json_values()}
    )
    others: list[Raw] = [
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "Z3VhcmRlZA=="},
        {"type": "compaction", "id": "cmp_1", "encrypted_content": "Z3VhcmRlZA=="},
        {"type": "item_reference", "id": "msg_1"},
        {"id": "rs_1"},
        {"type": "mcp_list_tools", "id": "mcpl_1", "server_label": "files", "tools": []},
        {"type": "mcp_approval_request", "id": "r", "name": "ls", "server_label": "f", "arguments": "{}"},
        {"type": "mcp_approval_response", "approval_request_id": "r", "approve": True},
        {
            "type": "local_shell_call",
            "id": "l",
            "call_id": "c",
            "action": {"type": "exec", "command": ["ls"]},
        },
        {"type": "local_shell_call_output", "id": "c", "output": "{}"},
        {"type": "tool_search_call", "arguments": {"query": "x"}, "execution": "server"},
        {"type": "tool_search_output", "call_id": None, "tools": []},
        {"type": "program", "id": "p", "call_id": "c", "code": "ls()", "fingerprint": "f"},
        {"type": "program_output", "id": "q", "call_id": "c", "result": "ok", "status": "completed"},
    ]
    return st.one_of(calls, outputs, hosted, messages, unknown, st.sampled_from(others).map(dict))
