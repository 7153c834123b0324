"""Reads and writes messages of LangChain."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from math import isfinite
from operator import attrgetter
from typing import Any, Final
from uuid import uuid4

from siltstone.adapters.base import requires
from siltstone.adapters.host import HostDialect
from siltstone.messages import Provenance
from siltstone.messages.message import RULE_ROLES

with requires("langchain"):
    from langchain_core.messages import (
        AIMessage,
        AnyMessage,
        BaseMessage,
        ChatMessage,
        FunctionMessage,
        HumanMessage,
        SystemMessage,
        ToolMessage,
        messages_from_dict,
    )

__all__ = ["RECALLED", "SOURCE", "SUMMARY", "LangChainDialect"]

SOURCE: Final = "lc_source"  #: the key by which LangChain itself marks a summary
SUMMARY: Final = "summarization"
RECALLED: Final = "siltstone.recalled_context"

_SOURCES: Final[dict[Provenance, str]] = {
    "compaction_summary": SUMMARY,
    "recalled_context": RECALLED,
    "injected_context": "siltstone.injected_context",
}
_KINDS: Final = (
    (HumanMessage, "user"),
    (AIMessage, "assistant"),
    (ToolMessage, "tool"),
    (SystemMessage, "system"),
    (FunctionMessage, "function"),
)
_ROLES: Final = {"user": "user", "human": "user", "assistant": "assistant", "ai": "assistant"}
_FIELDS: Final = attrgetter("__dict__")

#: Types of blocks that repeat a call in ``tool_calls``, each with its key for the id of the call.
_CALL_BLOCKS: Final = {
    **dict.fromkeys(("tool_use", "tool_call", "tool_call_chunk", "invalid_tool_call"), "id"),
    **dict.fromkeys(("function_call", "custom_tool_call"), "call_id"),
}
_NOT_SENT: Final = frozenset({SOURCE, "tool_calls"})  # keys of additional_kwargs


class LangChainDialect(HostDialect[BaseMessage]):
    """Messages of langchain-core, with the parts that are sent to a model.

    Ids, ``response_metadata``, ``usage_metadata`` and artifacts belong to the host: no model sees them, and a
    framework may set them at any time. They stay with the host's object, and with its form in the log.
    """

    name = "langchain"

    def read(self, message: BaseMessage) -> Sequence[dict[str, Any]]:
        """*message* in the dialect of OpenAI's chat API; blocks of content stay as they are."""
        fields: dict[str, Any] = {"role": _role(message)}
        if isinstance(message, ToolMessage):
            fields["tool_call_id"] = message.tool_call_id
        if message.name:
            fields["name"] = message.name
        calls = _calls(message) if isinstance(message, AIMessage) else []
        fields["content"] = _content(message.content, {call["id"] for call in calls})
        if calls:
            fields["tool_calls"] = calls
        if isinstance(message, ToolMessage) and message.status == "error":
            fields["status"] = "error"
        sent = {
            key: _plain(value) for key, value in message.additional_kwargs.items() if key not in _NOT_SENT
        }
        if sent:
            fields["additional_kwargs"] = sent
        return (fields,)

    def write(
        self, fields: Mapping[str, Any], provenance: Provenance, original: BaseMessage | None
    ) -> AnyMessage:
        """A message with *fields* and a new id. A cut result keeps the artifact of its original."""
        content = fields.get("content")
        if isinstance(original, ToolMessage):
            return original.model_copy(update={"content": content, "id": str(uuid4())})
        beside = dict(fields.get("additional_kwargs") or {})
        if provenance in _SOURCES:
            beside[SOURCE] = _SOURCES[provenance]
        named: dict[str, Any] = {
            "content": "" if content is None else content,
            "additional_kwargs": beside,
            "id": str(uuid4()),
        }
        if fields.get("name"):
            named["name"] = fields["name"]
        match fields.get("role"):
            case "assistant":
                valid, invalid = _written_calls(fields.get("tool_calls") or ())
                return AIMessage(**named, tool_calls=valid, invalid_tool_calls=invalid)
            case "tool":
                status = "error" if fields.get("status") == "error" else "success"
                return ToolMessage(**named, tool_call_id=fields.get("tool_call_id") or "", status=status)
            case "function":
                return FunctionMessage(**named)
            case "system":
                return SystemMessage(**named)
            case "developer":
                beside["__openai_role__"] = "developer"  # langchain-openai's own mark of the role
                return SystemMessage(**named)
        return HumanMessage(**named)

    def kept(self, message: BaseMessage) -> Any:
        """LangChain's own form of *message*, without empty fields or an artifact that is no JSON."""
        fields = {**_FIELDS(message), **(message.__pydantic_extra__ or {})}  # model_dump takes 200 us
        data = {key: value for key, value in fields.items() if value or value == 0}
        artifact = data.pop("artifact", None)
        if artifact is not None and _plain(artifact) == artifact:
            data["artifact"] = artifact
        return {"type": message.type, "data": _plain(data)}

    def restored(self, kept: Any) -> BaseMessage:
        """The message of LangChain's own form."""
        (message,) = messages_from_dict([{**kept, "data": {"content": "", **kept["data"]}}])
        return message

    def identity(self, message: BaseMessage) -> str | None:
        """The id by which LangGraph knows the message."""
        known: str | None = message.id
        return known

    def said(self, messages: Sequence[BaseMessage]) -> list[Any]:
        """The fields of each message, without the artifact of a tool, which no model sees."""
        return [
            fields if fields.get("artifact") is None else {**fields, "artifact": None}
            for fields in map(_FIELDS, messages)
        ]

    def usage(self, message: BaseMessage) -> Any:
        """The ``usage_metadata`` of an answer."""
        return message.usage_metadata if isinstance(message, AIMessage) else None


def _role(message: BaseMessage) -> str:
    """The role of OpenAI's chat API."""
    for kind, role in _KINDS:
        if isinstance(message, kind):
            return role
    said = message.role if isinstance(message, ChatMessage) else message.type
    return said if said in RULE_ROLES else _ROLES.get(said, "user")


def _calls(message: AIMessage) -> list[dict[str, Any]]:
    calls = [
        _call(call["id"], call["name"], json.dumps(_plain(call["args"]), ensure_ascii=False))
        for call in message.tool_calls
    ]
    return calls + [
        _call(call["id"], call["name"], call["args"] or "") for call in message.invalid_tool_calls
    ]


def _call(call_id: str | None, name: str | None, arguments: str) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name or "", "arguments": arguments}}


def _content(content: Any, calls: set[Any]) -> Any:
    """*content* without the blocks that repeat a call."""
    if isinstance(content, str):
        return content
    return [_plain(each) for each in content if not _repeats(each, calls)]


def _repeats(block: Any, calls: set[Any]) -> bool:
    if not isinstance(block, Mapping):
        return False
    key = _CALL_BLOCKS.get(str(block.get("type")))
    return key is not None and block.get(key) in calls


def _plain(value: Any) -> Any:
    """*value* as plain JSON; a value that JSON cannot carry becomes its text."""
    if value is None or isinstance(value, str | bool | int) or (isinstance(value, float) and isfinite(value)):
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return str(value)


def _written_calls(calls: Sequence[Mapping[str, Any]]) -> tuple[list[Any], list[Any]]:
    """Calls whose arguments are an object, and the other calls. LangChain keeps them in two lists."""
    valid, invalid = list[Any](), list[Any]()
    for call in calls:
        function = call.get("function") or {}
        named = {"name": function.get("name"), "id": call.get("id")}
        text = function.get("arguments") or ""
        try:
            arguments = json.loads(text)
        except ValueError:
            arguments = None
        if isinstance(arguments, dict):
            valid.append({**named, "args": arguments, "type": "tool_call"})
        else:
            invalid.append({**named, "args": text, "error": None, "type": "invalid_tool_call"})
    return valid, invalid
