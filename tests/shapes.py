"""Short functions that make messages, one for each shape, for tests that write a history by hand.

``call`` and ``result`` are of the OpenAI chat dialect, ``use``, ``results`` and ``thought`` of Anthropic's
dialect, ``fc``, ``out`` and ``rs`` of the Responses API; ``ask`` and ``say`` have the same form in all.
"""

from typing import Any


def ask(text: str = "go") -> dict[str, Any]:
    return {"role": "user", "content": text}


def say(text: str = "done") -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def blocks(role: str, *content: dict[str, Any]) -> dict[str, Any]:
    return {"role": role, "content": [*content]}


def call(*ids: str, text: str | None = None) -> dict[str, Any]:
    calls = [{"id": i, "type": "function", "function": {"name": "ls", "arguments": "{}"}} for i in ids]
    return {"role": "assistant", "content": text, "tool_calls": calls}


def result(call_id: str, text: str = "ok") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": text}


def use(*ids: str) -> dict[str, Any]:
    """An assistant message with a ``tool_use`` block for each id."""
    blocks = [{"type": "tool_use", "id": i, "name": "ls", "input": {}} for i in ids]
    return {"role": "assistant", "content": blocks}


def results(*ids: str, text: str | None = None) -> dict[str, Any]:
    """A user message with a ``tool_result`` block for each id, and *text* beside them."""
    blocks = [{"type": "tool_result", "tool_use_id": i, "content": "ok"} for i in ids]
    beside = [{"type": "text", "text": text}] if text is not None else []
    return {"role": "user", "content": [*blocks, *beside]}


def thought() -> dict[str, Any]:
    """An assistant message that has only signed reasoning."""
    return {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "c2ln"}]}


def fc(call_id: str, **more: Any) -> dict[str, Any]:
    """An item that calls a function."""
    return {"type": "function_call", "call_id": call_id, "name": "ls", "arguments": "{}", **more}


def out(call_id: str, **more: Any) -> dict[str, Any]:
    """The item with the output of a call."""
    return {"type": "function_call_output", "call_id": call_id, "output": "ok", **more}


def rs(item_id: str = "rs_1") -> dict[str, Any]:
    """An item of reasoning."""
    return {"type": "reasoning", "id": item_id, "summary": []}
