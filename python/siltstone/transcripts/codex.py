"""Codex: lines with an envelope, or bare items behind a line about the session."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from siltstone.transcripts.base import Format, Record, Values, as_dict, as_list, as_text, name_of, when
from siltstone.transcripts.files import Told
from siltstone.transcripts.lists import is_said

_ENVELOPES: Final = frozenset({"session_meta", "response_item", "event_msg", "turn_context", "compacted"})
_INJECTED: Final = (
    "<environment_context>", "<user_instructions>", "# AGENTS.md instructions", "<turn_aborted>",
)  # fmt: skip


def _knows(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    if isinstance(value.get("payload"), dict):
        return str(value.get("type")) in _ENVELOPES and isinstance(value.get("timestamp"), str)
    return {"id", "timestamp", "instructions"} <= value.keys() and not {"role", "type"} & value.keys()


def _read(values: Values, told: Told, stem: str) -> Iterator[Record]:
    name, project, begun, left = "", "", None, _taken_back(values)
    for place, (where, value) in enumerate(values):
        fields = as_dict(value)
        kind, item = as_text(fields.get("type")), fields
        if isinstance(fields.get("payload"), dict) and kind:
            item = fields["payload"]
        is_meta = kind == "session_meta" or (_knows(value) and "payload" not in fields)
        if is_meta and not name:
            name, project = name_of(item.get("id"), stem), as_text(item.get("cwd"))
            begun = when(fields.get("timestamp"))  # lines of old rollouts have no time of their own
        if is_meta or (item is not fields and kind != "response_item") or "record_type" in fields:
            told.left_out[f"lines {kind or fields.get('record_type') or 'session_meta'}"] += 1
            continue
        item = _called(item)
        is_message = item.get("type") == "message" and isinstance(item.get("role"), str)
        if not is_message and not is_said(item):
            if fields:
                told.left_out[f"items {as_text(item.get('type')) or 'without a type'}"] += 1
            else:
                told.bad(where, f"not a message but {type(value).__name__}")
            continue
        if item.get("role") == "user" and not _opens_turn(item):
            told.left_out["texts that the program put in"] += 1
            continue
        time, is_left = when(fields.get("timestamp")) or begun, place in left
        told.left_out["messages of turns that were taken back"] += is_left
        yield Record(name or stem, item, str(place), None, time, where, project, is_left=is_left)
    told.left_out += Counter()


def _opens_turn(item: dict[str, Any]) -> bool:
    """Whether *item* has words of the user."""
    texts = [as_text(as_dict(each).get("text")) for each in as_list(item.get("content"))]
    return item.get("role") == "user" and not (texts and all(each.startswith(_INJECTED) for each in texts))


def _taken_back(values: Values) -> set[int]:
    """The places of the lines in turns that were taken back later."""
    turns, left = list[int](), set[int]()
    for place, (_, value) in enumerate(values):
        item = as_dict(as_dict(value).get("payload")) or as_dict(value)
        count = item.get("num_turns")
        if item.get("type") == "thread_rolled_back" and isinstance(count, int) and count > 0 and turns:
            left |= set(range(turns[-count] if count <= len(turns) else turns[0], place))
            del turns[-count:]
        elif _opens_turn(item):
            turns.append(place)
    return left


def _called(item: dict[str, Any]) -> dict[str, Any]:
    """*item*; a call of the local shell, or its output, as one of a function: every model takes these."""
    kind, call_id = as_text(item.get("type")), as_text(item.get("call_id")) or as_text(item.get("id"))
    output = item.get("output")
    output = as_text(output.get("content")) if isinstance(output, dict) else output
    if kind == "local_shell_call":
        arguments = json.dumps(item.get("action"))
        return {"type": "function_call", "call_id": call_id, "name": "local_shell", "arguments": arguments}
    if kind == "local_shell_call_output":
        return {"type": "function_call_output", "call_id": call_id, "output": output}
    return item | {"output": output} if "output" in item else item


FORMAT: Final = Format("Codex", _knows, _read)
