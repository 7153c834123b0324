"""Reads and writes messages of Agent Framework."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from siltstone.adapters.base import requires
from siltstone.adapters.host import HostDialect
from siltstone.messages import Provenance
from siltstone.messages.message import RULE_ROLES

with requires("agent-framework"):
    from agent_framework import Content, Message

__all__ = ["ORIGIN", "AgentFrameworkDialect"]

ORIGIN: Final = {"origin": "siltstone"}  #: in ``additional_properties`` of messages that siltstone wrote


class AgentFrameworkDialect(HostDialect[Message]):
    """Messages of Agent Framework in Anthropic's dialect.

    Ids of messages, ``additional_properties`` and raw representations belong to the host. They are not sent
    to a model, and stay with the host's object; its form in the log has them too, without the raw
    representations.
    """

    name = "agent-framework"

    def read(self, message: Message) -> Sequence[dict[str, Any]]:
        """*message* in Anthropic's dialect."""
        role = message.role if message.role in ("assistant", *RULE_ROLES) else "user"
        # The framework sets the agent's name on its messages only at the end of the run.
        named = {"name": message.author_name} if message.author_name and message.role == "user" else {}
        content = message.contents
        if role in RULE_ROLES or (role == "user" and len(content) == 1 and content[0].type == "text"):
            return ({"role": role, **named, "content": message.text},)
        return ({"role": role, **named, "content": [_read(each) for each in content]},)

    def write(self, fields: Mapping[str, Any], provenance: Provenance, original: Message | None) -> Message:
        """A message with *fields*."""
        blocks = _blocks(fields.get("content"))
        if provenance == "substitute" and original is not None:
            return _with_results(original, blocks)
        role = str(fields.get("role") or "user")
        if any(each.get("type") == "tool_result" for each in blocks):
            role = "tool"
        beside = None if provenance == "original" else dict(ORIGIN)
        contents = [_written(each) for each in blocks]
        return Message(role, contents, author_name=fields.get("name"), additional_properties=beside)

    def kept(self, message: Message) -> Any:
        """The framework's own form of *message*."""
        return message.to_dict(exclude_none=True)

    def restored(self, kept: Any) -> Message:
        """The message of the framework's own form."""
        return Message.from_dict(kept)

    def identity(self, message: Message) -> str | None:
        """The id of the message, if its service gave it one."""
        known: str | None = message.message_id
        return known

    def said(self, messages: Sequence[Message]) -> list[Any]:
        """The fields of the contents of each message, without raw representations of the provider's SDK."""
        return [
            (
                each.role,
                each.role == "user" and each.author_name,
                [_said(content) for content in each.contents],
            )
            for each in messages
        ]


def _said(content: Content) -> Any:
    """The fields of *content* that are sent to a model. The most frequent types are read cheaply."""
    match content.type:
        case "text" | "text_reasoning":
            return content.type, content.text, content.protected_data
        case "function_call":
            return content.type, content.call_id, content.name, content.arguments
        case "function_result":
            items = [(each.type, each.text, each.uri) for each in content.items or ()]
            return content.type, content.call_id, items, content.exception is None
    return content.to_dict()


def _read(content: Content) -> dict[str, Any]:
    match content.type:
        case "text":
            return {"type": "text", "text": content.text or ""}
        case "text_reasoning":
            signed = {} if content.protected_data is None else {"signature": content.protected_data}
            return {"type": "thinking", "thinking": content.text or "", **signed}
        case "function_call":
            called = {"id": content.call_id or "", "name": content.name or ""}
            return {"type": "tool_use", **called, "input": _arguments(content.arguments)}
        case "function_result":
            return _result(content)
        case "data" | "uri" if (medium := _medium(content)) is not None:
            return medium
    return {"type": content.type, "text": content.text or "", "value": content.to_dict()}


def _arguments(given: Any) -> Any:
    """The arguments of a call as an object; broken JSON of the model stays as a text under ``input``."""
    if not isinstance(given, str):
        return dict(given or {})
    try:
        found = json.loads(given)
    except ValueError:
        return {"input": given}
    return found if isinstance(found, dict) else {"input": given}


def _result(content: Content) -> dict[str, Any]:
    items = [_read(each) for each in content.items or ()]
    is_text = len(items) == 1 and items[0].keys() == {"type", "text"}
    block = {"type": "tool_result", "tool_use_id": content.call_id or ""}
    error = {} if content.exception is None else {"is_error": True}
    return {**block, "content": items[0]["text"] if is_text else items, **error}


def _medium(content: Content) -> dict[str, Any] | None:
    """An image or a document; None for a medium of another kind."""
    kind = (content.media_type or "").split("/")[0]
    if kind not in ("image", "audio", "video", "application", "text"):
        return None
    uri = content.uri or ""
    head, comma, data = uri.partition(";base64,")
    if head.startswith("data:") and comma:
        source = {"type": "base64", "media_type": content.media_type, "data": data}
    else:
        source = {"type": "url", "url": uri, "media_type": content.media_type}
    return {"type": kind if kind in ("image", "audio", "video") else "document", "source": source}


def _blocks(content: Any) -> list[Mapping[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [{"type": "text", "text": each} if isinstance(each, str) else each for each in content or ()]


def _written(block: Mapping[str, Any]) -> Content:
    source = block.get("source")
    match block.get("type"):
        case "thinking":
            return Content.from_text_reasoning(
                text=block.get("thinking") or "", protected_data=block.get("signature")
            )
        case "tool_use":
            name = block.get("name") or ""
            return Content.from_function_call(block.get("id") or "", name, arguments=block.get("input"))
        case "tool_result":
            items = [_written(each) for each in _blocks(block.get("content"))]
            failed = "the tool failed" if block.get("is_error") else None
            return Content.from_function_result(
                block.get("tool_use_id") or "", result=items, exception=failed
            )
        case _ if isinstance(source, Mapping) and "data" in source:
            uri = f"data:{source.get('media_type')};base64,{source['data']}"
            return Content.from_uri(uri, media_type=source.get("media_type"))
        case _ if isinstance(source, Mapping):
            return Content.from_uri(source.get("url") or "", media_type=source.get("media_type"))
        case _ if isinstance(block.get("value"), Mapping):
            return Content.from_dict(block["value"])
    return Content.from_text(str(block.get("text", "")))


def _with_results(original: Message, blocks: Sequence[Mapping[str, Any]]) -> Message:
    """*original* with the changed results in *blocks*."""
    changed = {each["tool_use_id"]: each for each in blocks if each.get("type") == "tool_result"}
    contents = [_written(each) for each in blocks]  # without results only the words stay
    if changed:
        contents = [_replaced(each, changed.get(each.call_id or "")) for each in original.contents]
    return Message(
        original.role,
        contents,
        author_name=original.author_name,
        additional_properties=original.additional_properties,
    )


def _replaced(content: Content, block: Mapping[str, Any] | None) -> Content:
    if content.type != "function_result" or block is None or block == _result(content):
        return content
    written = _written(block)
    written.id, written.exception = content.id, content.exception
    written.additional_properties = content.additional_properties
    return written
