"""Codex: lines with an envelope, or bare items behind a line about the session."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from siltstone.transcripts.base import Format, Record, Values, as_dict, as_list, as_text, name_of, when
from siltstone.transcripts.files import Told
from siltstone.transcripts.lists import is_said

_ENVELOPES: Final = frozenset({"session_meta", "response_item", "event_msg", "turn_context", "compacted"})
_INJECTED: Final = (
    "<environment_context>",
    "<user_instructions>",
    "# AGENTS.md instructions",
    "<turn_aborted>",
)


def _knows(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    if isinstance(value.get("payload"), dict):
        return str(value.get("type")) in _ENVELOPES and isinstance(value.get("timestamp"), str)
    return {"id", "timestamp", "instructions"} <= value.keys() and not {"role", "type"} & value.keys()


def _read(values: Values, told: Told, stem: str) -> Iterator[Record]:
    name, project, begun = "", "", None
    for where, value in values:
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
        if isinstance(item.get("output"), dict):
            item = {**item, "output": as_text(item["output"].get("content"))}
        is_message = item.get("type") == "message" and isinstance(item.get("role"), str)
        if not is_message and not is_said(item):
            if fields:
                told.left_out[f"items {as_text(item.get('type')) or 'without a type'}"] += 1
            else:
                told.bad(where, f"not a message but {type(value).__name__}")
            continue
        texts = [as_text(as_dict(each).get("text")) for each in as_list(item.get("content"))]
        if item.get("role") == "user" and texts and all(each.startswith(_INJECTED) for each in texts):
            told.left_out["texts that the program put in"] += 1
            continue
        time = when(fields.get("timestamp")) or begun
        record = Record(name or stem, item, time=time, where=where, project=project)
        yield record


FORMAT: Final = Format("Codex", _knows, _read)
