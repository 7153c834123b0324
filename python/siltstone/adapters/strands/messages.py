"""Reads and writes messages of Strands."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from siltstone.adapters.base import requires
from siltstone.adapters.host import HostDialect
from siltstone.messages import Provenance

with requires("strands"):
    from strands.types.session import decode_bytes_values, encode_bytes_values

__all__ = ["Message", "StrandsDialect", "alternating"]

Message = dict[str, Any]

_MEDIA: Final = frozenset({"image", "document", "video", "audio"})


class StrandsDialect(HostDialect[Message]):
    """Messages of Strands, which have the form of Bedrock, in Anthropic's dialect.

    ``metadata`` and ``tracking_id`` belong to the host, and cache points have no content. They stay with the
    host's object, and with its form in the log.
    """

    name = "strands"

    def read(self, message: Message) -> Sequence[dict[str, Any]]:
        """*message* in Anthropic's dialect."""
        blocks = [block for each in message["content"] for block in _read(each)]
        if len(blocks) == 1 and blocks[0].keys() == {"type", "text"} and message["role"] == "user":
            return ({"role": "user", "content": blocks[0]["text"]},)
        return ({"role": message["role"], "content": blocks},)

    def write(self, fields: Mapping[str, Any], provenance: Provenance, original: Message | None) -> Message:
        """A message with *fields*."""
        blocks = _blocks(fields.get("content"))
        if provenance == "substitute" and original is not None:
            return _with_results(original, blocks)
        role = "assistant" if fields.get("role") == "assistant" else "user"
        return {"role": role, "content": [_written(each) for each in blocks]}

    def kept(self, message: Message) -> Any:
        """*message* as Strands' own session managers write it, with bytes in base64."""
        return encode_bytes_values(message)

    def restored(self, kept: Any) -> Message:
        """The message that was written."""
        message: Message = decode_bytes_values(kept)
        return message

    def identity(self, message: Message) -> str | None:
        """The ``tracking_id``."""
        return message.get("tracking_id")

    def said(self, messages: Sequence[Message]) -> list[Any]:
        """The role and the blocks of each message."""
        return [(each["role"], each["content"]) for each in messages]

    def usage(self, message: Message) -> Any:
        """The provider's usage for an answer; None if it is unknown."""
        used = (message.get("metadata") or {}).get("usage") or {}
        if not used.get("inputTokens"):
            return None
        return {
            "input_tokens": used["inputTokens"],
            "output_tokens": used.get("outputTokens", 0),
            "cache_read_input_tokens": used.get("cacheReadInputTokens", 0),
            "cache_creation_input_tokens": used.get("cacheWriteInputTokens", 0),
        }


def alternating(messages: Iterable[Message]) -> list[Message]:
    """*messages* with consecutive messages of one role joined, because Bedrock requires alternating roles."""
    found = list[Message]()
    for each in messages:
        if found and found[-1]["role"] == each["role"]:
            found[-1] = {"role": each["role"], "content": [*found[-1]["content"], *each["content"]]}
        else:
            found.append(each)
    return found


def _read(block: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """*block* in Anthropic's dialect; nothing for a cache point."""
    for kind, value in block.items():
        if kind == "text":
            yield _said(value)
        elif kind == "toolUse":
            bound = {key: each for key, each in value.items() if key not in ("toolUseId", "name", "input")}
            called = {"id": value["toolUseId"], "name": value["name"], "input": value["input"]}
            yield {"type": "tool_use", **called, **({"provider": _plain(bound)} if bound else {})}
        elif kind == "toolResult":
            yield _result(value)
        elif kind == "reasoningContent":
            yield _thought(value)
        elif kind in _MEDIA:
            yield _medium(kind, value)
        elif kind != "cachePoint":
            yield {"type": kind, "text": _text_of(value), "value": _plain(value)}


def _said(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _result(result: Mapping[str, Any]) -> dict[str, Any]:
    content = list[dict[str, Any]]()
    for each in result["content"]:
        if "json" in each:
            said = _said(json.dumps(_plain(each["json"]), ensure_ascii=False))
            content.append({**said, "format": "json"})
        else:
            content += _read(each)
    is_text = len(content) == 1 and content[0].keys() == {"type", "text"}
    block = {"type": "tool_result", "tool_use_id": result["toolUseId"]}
    error = {"is_error": True} if result.get("status") == "error" else {}
    return {**block, "content": content[0]["text"] if is_text else content, **error}


def _thought(value: Mapping[str, Any]) -> dict[str, Any]:
    if "redactedContent" in value:
        return {"type": "redacted_thinking", "data": base64.b64encode(value["redactedContent"]).decode()}
    thought = value.get("reasoningText") or {}
    signed = {"signature": thought["signature"]} if thought.get("signature") else {}
    return {"type": "thinking", "thinking": thought.get("text") or "", **signed}


def _medium(kind: str, value: Mapping[str, Any]) -> dict[str, Any]:
    source, bound = value.get("source") or {}, {"format": value.get("format")}
    more = {key: _plain(each) for key, each in value.items() if key not in ("source", "format")}
    if "bytes" in source:
        said = {"type": "base64", "media_type": f"{kind}/{value.get('format')}"}
        said["data"] = base64.b64encode(source["bytes"]).decode()
    else:
        said = {"type": "url", "url": str((source.get("location") or {}).get("uri") or "")}
        bound["source"] = _plain(source)
    return {"type": kind, "source": said, "provider": {**bound, **more}}


def _text_of(value: Any) -> str:
    """The texts of a block of another kind."""
    if isinstance(value, Mapping):
        texts = [
            each if key == "text" and isinstance(each, str) else _text_of(each) for key, each in value.items()
        ]
        return "\n".join(each for each in texts if each)
    if isinstance(value, list):
        return "\n".join(text for each in value if (text := _text_of(each)))
    return ""


def _plain(value: Any) -> Any:
    """*value* as plain JSON, with bytes as base64."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value if value is None or isinstance(value, str | bool | int | float) else str(value)


def _blocks(content: Any) -> list[Mapping[str, Any]]:
    if isinstance(content, str):
        return [_said(content)]
    return [_said(each) if isinstance(each, str) else each for each in content or ()]


def _written(block: Mapping[str, Any]) -> dict[str, Any]:
    """*block* in the form of Strands."""
    match block.get("type"):
        case "tool_use":
            bound = dict(block.get("provider") or {})
            called = {"toolUseId": block.get("id") or "", "name": block.get("name") or ""}
            return {"toolUse": {**called, "input": block.get("input"), **bound}}
        case "tool_result":
            status = "error" if block.get("is_error") else "success"
            content = [_written_result(each) for each in _blocks(block.get("content"))]
            return {
                "toolResult": {
                    "toolUseId": block.get("tool_use_id") or "",
                    "status": status,
                    "content": content,
                }
            }
        case "thinking":
            signed = {"signature": block["signature"]} if "signature" in block else {}
            return {"reasoningContent": {"reasoningText": {"text": block.get("thinking") or "", **signed}}}
        case "redacted_thinking":
            return {"reasoningContent": {"redactedContent": _bytes(block.get("data"))}}
        case str() as kind if kind in _MEDIA and isinstance(block.get("source"), Mapping):
            source = block["source"]
            said = {"source": {"bytes": _bytes(source["data"])}} if "data" in source else {}
            return {kind: {**said, **dict(block.get("provider") or {})}}
        case str() as kind if "value" in block:
            return {kind: block["value"]}
    return {"text": str(block.get("text", ""))}


def _written_result(block: Mapping[str, Any]) -> dict[str, Any]:
    if block.get("format") == "json":
        return {"json": json.loads(block["text"])}
    return _written(block)


def _bytes(text: Any) -> bytes:
    try:
        return base64.b64decode(str(text))
    except binascii.Error:
        return b""


def _with_results(original: Message, blocks: Sequence[Mapping[str, Any]]) -> Message:
    """*original* with the changed results in *blocks*, and without its id."""
    anonymous = {key: each for key, each in original.items() if key != "tracking_id"}
    changed = {each["tool_use_id"]: each for each in blocks if each.get("type") == "tool_result"}
    if not changed:  # without results only the words stay
        return {**anonymous, "content": [_written(each) for each in blocks]}
    content = list[dict[str, Any]]()
    for block in original["content"]:
        result = block.get("toolResult")
        said = changed.get(result["toolUseId"]) if result else None
        content.append(block if said is None or said == _result(result) else _written(said))
    return {**anonymous, "content": content}
