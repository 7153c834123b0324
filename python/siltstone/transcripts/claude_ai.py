"""The export of claude.ai: lists of messages, with calls and results inside of answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from siltstone.transcripts import base
from siltstone.transcripts.base import Format, Record, Values, as_dict, as_list, as_text, name_of, when
from siltstone.transcripts.files import Told


def _knows(value: Any) -> bool:
    fields = as_dict(value)
    if isinstance(fields.get("conversations"), list):
        return any(map(_knows, fields["conversations"]))
    said = fields.get("chat_messages")
    return isinstance(said, list) and isinstance(fields.get("uuid"), str) and (
        not said or any("sender" in as_dict(each) for each in said)
    )  # fmt: skip


def _read(values: Values, told: Told, stem: str) -> Iterator[Record]:
    for number, (where, value) in enumerate(base.conversations(values), 1):
        fields = as_dict(value)
        found = fields.get("chat_messages")
        if not isinstance(found, list):
            told.bad(where, "no conversation of claude.ai")
            continue
        name = name_of(fields.get("uuid"), f"{stem}-{number}")
        nodes = {
            as_text(each.get("uuid")) or str(place): each
            | {"parent": as_text(each.get("parent_message_uuid")) or None}
            for place, each in enumerate(map(as_dict, found))
        }
        path = list(nodes)
        if any(node["parent"] in nodes for node in nodes.values()):
            path = base.line_to(nodes, fields.get("current_leaf_message_uuid") or path[-1])
            told.left_out["messages of left branches"] += len(nodes) - len(path)
        kept = set(path)
        for key in [*path, *(nodes.keys() - kept)]:
            said, is_left = nodes[key], key not in kept
            time = when(said.get("created_at"), fields.get("created_at"))
            told_of = Told() if is_left else told
            role = {"human": "user", "assistant": "assistant"}.get(as_text(said.get("sender")))
            at = f"{where}, message {key}"
            if role is None:
                told_of.bad(at, f"unknown sender {said.get('sender')!r}")
                continue
            for place, message in enumerate(_messages(said, role, told_of)):
                each_id = f"{key}#{place}" if place else key
                yield Record(name, message, each_id, said["parent"], time, at, is_left=is_left)
        told.left_out += Counter()


def _messages(said: dict[str, Any], role: str, told: Told) -> Iterator[dict[str, Any]]:
    """The messages of one: results stand inside of an answer, and are of the user in every dialect."""
    blocks, whose = list[dict[str, Any]](), role
    given = as_list(said.get("content")) or [{"type": "text", "text": as_text(said.get("text"))}]
    for each in map(as_dict, as_list(said.get("attachments"))):
        if text := as_text(each.get("extracted_content")):
            given = [*given, {"type": "text", "text": f"{as_text(each.get('file_name'))}\n{text}".strip()}]
        else:
            told.left_out["files"] += 1
    told.left_out["files"] += len(as_list(said.get("files")))
    for block in map(as_dict, given):
        kind = as_text(block.get("type")).replace("voice_note", "text")
        if kind == "text" and not as_text(block.get("text")).strip():
            continue
        if kind not in ("text", "tool_use", "tool_result"):
            told.left_out[f"blocks {kind or 'without a type'}"] += 1
            continue
        speaker = "user" if kind == "tool_result" else role
        if speaker != whose and blocks:
            yield {"role": whose, "content": blocks}
            blocks = []
        whose = speaker
        name = as_text(block.get("name"))
        made: dict[str, Any] = {"type": kind}
        if kind == "text":
            made["text"] = block["text"]
        elif kind == "tool_use":
            made |= {"id": as_text(block.get("id")) or name, "name": name}
            made["input"] = as_dict(block.get("input"))
        else:
            made["tool_use_id"] = as_text(block.get("tool_use_id")) or name
            made["content"] = _results(block, told)
        blocks.append(made)
    if blocks:
        is_text = len(blocks) == 1 and blocks[0]["type"] == "text"
        yield {"role": whose, "content": blocks[0]["text"] if is_text else blocks}
    else:
        told.left_out["empty messages"] += 1


def _results(block: dict[str, Any], told: Told) -> str:
    content = block.get("content")
    found = [{"text": content}] if isinstance(content, str) else [*map(as_dict, as_list(content))]
    for each in found:
        if not isinstance(each.get("text"), str):
            told.left_out[f"blocks {as_text(each.get('type')) or 'without a type'}"] += 1
    return "\n".join(as_text(each.get("text")) for each in found)


FORMAT: Final = Format("claude.ai", _knows, _read)
