"""The export of ChatGPT: conversations as trees of messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from siltstone.transcripts import base
from siltstone.transcripts.base import Format, Record, Values, as_dict, as_list, as_text, name_of, when
from siltstone.transcripts.files import Told

_THOUGHTS: Final = frozenset({"thoughts", "reasoning_recap"})
_PROFILES: Final = frozenset({"user_editable_context", "model_editable_context"})


def _knows(value: Any) -> bool:
    fields = as_dict(value)
    if isinstance(fields.get("conversations"), list):
        return any(map(_knows, fields["conversations"]))
    nodes = as_dict(fields.get("mapping")).values()
    return any(isinstance(node, dict) and {"message", "parent"} <= node.keys() for node in nodes)


def _read(values: Values, told: Told, stem: str) -> Iterator[Record]:
    for number, (where, value) in enumerate(base.conversations(values), 1):
        fields = as_dict(value)
        nodes = {key: node for key, node in as_dict(fields.get("mapping")).items() if isinstance(node, dict)}
        if not nodes:
            told.bad(where, "no conversation of ChatGPT")
            continue
        names = (fields.get("conversation_id"), fields.get("id"), fields.get("title"))
        name = name_of(next((each for each in names if each), None), f"{stem}-{number}")
        path = base.line_to(nodes, fields.get("current_node"))
        if not any(_role(as_dict(nodes[key].get("message"))) in ("user", "assistant") for key in path):
            path = base.line_to(nodes, None)  # the node is the root
        beside, calls = dict.fromkeys(nodes), dict[Any, str]()  # the last call before each node
        for key in path:
            del beside[key]
        told.left_out["messages of left branches"] += sum(bool(nodes[key].get("message")) for key in beside)
        for key in [*path, *beside]:
            node, is_left = nodes[key], key in beside
            said, parent = as_dict(node.get("message")), node.get("parent")
            call = calls.get(parent, "") if isinstance(parent, str) else ""
            message = _message(said, key, call, Told() if is_left else told) if said else None
            calls[key] = key if message and "tool_calls" in message else call
            if message is None:
                continue
            time = when(said.get("create_time"), said.get("update_time"), fields.get("create_time"))
            before = parent if isinstance(parent, str) else None
            yield Record(name, message, key, before, time, where, is_left=is_left)
        told.left_out += Counter()


def _role(said: dict[str, Any]) -> Any:
    author = said.get("author")
    return author if isinstance(author, str) else as_dict(author).get("role")


def _message(said: dict[str, Any], key: str, call: str, told: Told) -> dict[str, Any] | None:
    role, content = _role(said), said.get("content")
    told.left_out["files"] += len(as_list(as_dict(said.get("metadata")).get("attachments")))
    kind = as_text(as_dict(content).get("content_type"))
    left = (
        "hidden messages" if as_dict(said.get("metadata")).get("is_visually_hidden_from_conversation")
        else "profiles of the user" if kind in _PROFILES
        else "thoughts of the model" if kind in _THOUGHTS
        else f"messages of the role {role!r}" if role not in ("user", "assistant", "system", "tool")
        else ""
    )  # fmt: skip
    texts = [content] if isinstance(content, str) else list(_texts(as_dict(content), told))
    text = "\n".join(each for each in texts if each.strip())
    if left or not text:
        told.left_out[left or "empty messages"] += 1
        return None
    recipient = as_text(said.get("recipient"))
    if role == "assistant" and recipient not in ("", "all"):
        return {"role": role, "content": None, "tool_calls": [base.called(key, recipient, {"input": text})]}
    return {"role": role, "content": text, **({"tool_call_id": call or key} if role == "tool" else {})}


def _texts(content: dict[str, Any], told: Told) -> Iterator[str]:
    for part in as_list(content.get("parts")):
        text = part if isinstance(part, str) else as_text(as_dict(part).get("text"))
        if text or part in ("", None):
            yield text
        else:
            told.left_out[f"parts {as_text(as_dict(part).get('content_type')) or type(part).__name__}"] += 1
    for key in ("title", "url", "text", "result", "summary"):
        yield as_text(content.get(key))


FORMAT: Final = Format("ChatGPT", _knows, _read)
