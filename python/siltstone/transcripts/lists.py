"""Messages of OpenAI, Anthropic, LangChain and ShareGPT: alone, in lists, in objects with a list."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from siltstone.messages import detect
from siltstone.messages.dialects import openai_chat, openai_responses
from siltstone.transcripts import base
from siltstone.transcripts.base import Format, Record, Values, as_dict, as_list, as_text, name_of, when
from siltstone.transcripts.files import Told

_TIMES: Final = ("timestamp", "created_at", "createdAt", "create_time", "created", "time", "date", "at", "ts")
_LISTS: Final = ("messages", "conversations", "conversation", "input", "output", "items")
_NAMES: Final = ("id", "session_id", "sessionId", "conversation_id", "thread_id")
#: The keys of a message. A recorded one may also have times, ids and costs, which no provider takes.
_KEYS: Final = frozenset({
    "role", "content", "name", "tool_calls", "tool_call_id", "function_call", "refusal", "audio",
    "reasoning_content", "toolCallId", "toolUseId", "toolName", "isError",
})  # fmt: skip
_SPEAKERS: Final = {
    "human": "user", "user": "user", "gpt": "assistant", "ai": "assistant", "assistant": "assistant",
    "chatgpt": "assistant", "bing": "assistant", "bard": "assistant", "claude": "assistant",
    "model": "assistant", "system": "system", "tool": "tool", "function": "tool", "observation": "tool",
    "function_call": "assistant", "function_response": "tool", "developer": "developer",
}  # fmt: skip


def _of_langchain(value: dict[str, Any]) -> dict[str, Any] | None:
    """A message that LangChain has dumped in one of its three forms, as one of OpenAI chat."""
    path = value.get("id")
    if (
        value.get("type") == "constructor"
        and isinstance(path, list)
        and path
        and isinstance(value.get("kwargs"), dict)
    ):
        kind = str(path[-1]).lower().partition("message")[0]
        data = value["kwargs"]
    elif isinstance(value.get("data"), dict) and "content" in value["data"]:
        kind, data = as_text(value.get("type")), value["data"]
    elif (
        "content" in value
        and "role" not in value
        and ("additional_kwargs" in value or "response_metadata" in value)
    ):
        kind, data = as_text(value.get("type")), value
    else:
        return None
    role = (
        as_text(data.get("role"))
        if kind == "chat"
        else _SPEAKERS.get(kind.lower().removesuffix("messagechunk"))
    )
    if role is None:
        return None
    message = {"role": role, "content": data.get("content")}
    calls = [
        base.called(as_text(each.get("id")), as_text(each.get("name")), each.get("args", {}))
        for each in map(as_dict, as_list(data.get("tool_calls")))
    ] or as_list(as_dict(data.get("additional_kwargs")).get("tool_calls"))
    if role == "assistant" and calls:
        message["tool_calls"] = calls
        if isinstance(message["content"], list):
            message["content"] = [
                each for each in message["content"] if as_dict(each).get("type") != "tool_use"
            ]
        message["content"] = message["content"] or None
    if role == "tool":
        message["tool_call_id"] = as_text(data.get("tool_call_id")) or as_text(data.get("name"))
    stamped = as_dict(data.get("response_metadata")) | as_dict(data.get("additional_kwargs"))
    return message | {key: stamped[key] for key in _TIMES if key in stamped}


def _of_sharegpt(value: dict[str, Any]) -> dict[str, Any] | None:
    """A message of ShareGPT as one of OpenAI chat. Its calls have no ids: the name is the id."""
    said, role = value.get("value"), _SPEAKERS.get(as_text(value.get("from")))
    if role is None or not isinstance(said, str):
        return None
    if value["from"] == "function_call":
        try:
            call = as_dict(json.loads(said))
        except (ValueError, RecursionError):
            call = {}
        calls = [base.called("call", as_text(call.get("name")) or "function", call.get("arguments", said))]
        return {"role": role, "content": None, "tool_calls": calls}
    return {"role": role, "content": said, **({"tool_call_id": "call"} if role == "tool" else {})}


def is_said(value: Any) -> bool:
    """Whether *value* is a message by its role and content, or an item by its type and its id."""
    if not isinstance(value, dict):
        return False
    role, kind = value.get("role"), value.get("type")
    if isinstance(role, str) and role in openai_chat.OWN:
        return openai_chat.OWN[role] in value
    if isinstance(role, str):
        return role in openai_chat.ROLES and not {"content", "tool_calls", "function_call"}.isdisjoint(value)
    if role is None and isinstance(kind, str) and kind in openai_responses.ITEMS:
        if kind == "reasoning":
            return isinstance(value.get("summary"), list) or "encrypted_content" in value
        return isinstance(value.get("call_id", value.get("id")), str) and len(value) > 2
    return False


def _said(value: Any) -> dict[str, Any] | None:
    """*value* as a message, if it is one."""
    if is_said(value):
        return dict(value)
    return (_of_langchain(value) or _of_sharegpt(value)) if isinstance(value, dict) else None


def _held(value: Any) -> list[Any] | None:
    """The messages of a list, or of an object with a list of messages or with choices."""
    if isinstance(value, list):
        return value if any(_said(each) is not None for each in value) else None
    if not isinstance(value, dict) or _said(value) is not None:
        return None
    for key in _LISTS:
        if isinstance(value.get(key), list):
            found: list[Any] = value[key]
            if any(_said(each) is not None for each in found) or (not found and key == "messages"):
                rules = value.get("system", value.get("instructions"))
                return (
                    [{"role": "system", "content": rules}] if isinstance(rules, str | list) and rules else []
                ) + found
    chosen = [as_dict(each).get("message") for each in as_list(value.get("choices"))[:1]]
    return chosen if any(map(is_said, chosen)) else None


def _read(values: Values, told: Told, stem: str) -> Iterator[Record]:
    sessions, loose, counts = 0, "", Counter[str]()
    for where, value in values:
        held = _held(value)
        outer = as_dict(value)
        if held is None:
            if not loose:
                sessions, loose = sessions + 1, f"{stem}-{sessions + 1}"
            found, name = [(where, value)], loose
            outer = {}
        else:
            sessions, loose = sessions + 1, ""
            name = (
                next((name_of(outer[key], "") for key in _NAMES if key in outer), "") or f"{stem}-{sessions}"
            )
            found = [(f"{where}, message {place}", each) for place, each in enumerate(held)]
        for at, each in found:
            message = _said(each)
            if message is None:
                fields = as_dict(each)
                role = (
                    f"unknown role {fields['role']!r}"
                    if "role" in fields
                    else f"unknown type {fields.get('type')!r}"
                )
                told.bad(at, role if fields else f"not a message but {type(each).__name__}")
                continue
            counts[name] += 1
            own = each if isinstance(each, dict) else {}
            time = when(*(own.get(key) for key in _TIMES), *(message.get(key) for key in _TIMES))
            time = time or when(*(outer.get(key) for key in _TIMES))
            is_item = detect(message) == "openai.responses" or message.get("role") in openai_chat.OWN
            foreign = message.keys() & set(_TIMES) if is_item else message.keys() - _KEYS
            message = {key: part for key, part in message.items() if key not in foreign}
            yield Record(name, message, time=time, where=at)


FORMAT: Final = Format(
    "messages of OpenAI, Anthropic, LangChain or ShareGPT",
    lambda value: _said(value) is not None or _held(value) is not None,
    _read,
    has_ids=False,
)
