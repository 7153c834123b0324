"""Reads and writes messages of pydantic-ai."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any, Final

from siltstone.adapters.base import requires
from siltstone.adapters.host import HostDialect
from siltstone.messages import Provenance
from siltstone.messages.message import RULE_ROLES

with requires("pydantic-ai"):
    from pydantic_ai.messages import (
        BinaryContent,
        CompactionPart,
        DocumentUrl,
        ImageUrl,
        ModelMessage,
        ModelMessagesTypeAdapter,
        ModelRequest,
        ModelResponse,
        NativeToolCallPart,
        NativeToolReturnPart,
        SystemPromptPart,
        TextContent,
        TextPart,
        ThinkingPart,
        ToolCallPart,
        ToolReturnPart,
        UploadedFile,
        UserPromptPart,
    )

__all__ = ["ORIGIN", "PydanticAIDialect"]

_PARTS: Final = attrgetter("parts")
ORIGIN: Final = {"origin": "siltstone"}  #: metadata of parts that siltstone wrote; it is not sent to a model

#: Fields of a part that a provider needs beside its content.
_BOUND: Final = ("id", "provider_name", "provider_details")
_ERRORS: Final = frozenset({"failed", "retried"})
_MEDIA: Final = {"image-url": "image", "audio-url": "audio", "video-url": "video", "document-url": "document"}


class PydanticAIDialect(HostDialect[ModelMessage]):
    """Messages of pydantic-ai in Anthropic's dialect, with the parts that are sent to a model.

    A request may hold a system prompt, a summary, results of tools and texts of the user together. They leave
    a history separately, so each is a piece. The framework also merges two requests in a row, when it is
    given its messages again: the pieces stay the same. Timestamps, usage, ids of runs and ``metadata`` belong
    to the host, and stay with the host's object, and with its form in the log.
    """

    name = "pydantic-ai"

    def read(self, message: ModelMessage) -> Sequence[dict[str, Any]]:
        """A response as one dict; a request as one dict for each run of parts of one kind."""
        if isinstance(message, ModelResponse):
            blocks = [block for part in message.parts for block in _response_block(part)]
            return ({"role": "assistant", "content": blocks},)
        found = [_request_piece(kind, parts) for kind, parts in _runs(message)]
        return found or ({"role": "user", "content": ""},)  # a run that continues without a prompt

    def write(
        self, fields: Mapping[str, Any], provenance: Provenance, original: ModelMessage | None
    ) -> ModelMessage:
        """A request or a response with *fields*."""
        content = fields.get("content")
        if provenance == "compaction_summary":
            return ModelRequest(parts=[CompactionPart(content=_text(content), metadata=dict(ORIGIN))])
        if fields.get("role") == "assistant":
            return ModelResponse(parts=[_response_part(block) for block in _blocks(content)])
        if fields.get("role") in RULE_ROLES:
            return ModelRequest(parts=[SystemPromptPart(_text(content), metadata=dict(ORIGIN))])
        if provenance == "substitute" and isinstance(original, ModelRequest):
            return _with_results(original, _blocks(content))
        if provenance == "original" or any(block.get("type") == "tool_result" for block in _blocks(content)):
            return ModelRequest(parts=_request_parts(content))
        return ModelRequest(parts=[UserPromptPart([TextContent(_text(content), metadata=dict(ORIGIN))])])

    def part(self, message: ModelMessage, pieces: Sequence[int]) -> ModelMessage:
        """*message* with only some of its runs of parts."""
        runs = list(_runs(message)) if isinstance(message, ModelRequest) else []
        return replace(message, parts=[part for place in pieces for part in runs[place][1]])

    def joined(self, parts: Sequence[ModelMessage]) -> ModelMessage:
        """One message with the parts of all."""
        return replace(parts[0], parts=[part for each in parts for part in each.parts])

    def kept(self, message: ModelMessage) -> Any:
        """pydantic-ai's own form of *message*."""
        (form,) = ModelMessagesTypeAdapter.dump_python([message], mode="json", exclude_none=True)
        return form

    def restored(self, kept: Any) -> ModelMessage:
        """The message of pydantic-ai's own form."""
        (message,) = ModelMessagesTypeAdapter.validate_python([kept])
        return message

    def said(self, messages: Sequence[ModelMessage]) -> list[Any]:
        """For each part the values that are read from it, if they are few; else all its fields."""
        return [
            _said_by(parts[0]) if len(parts) == 1 else [_said_by(part) for part in parts]
            for parts in map(_PARTS, messages)
        ]

    def usage(self, message: ModelMessage) -> Any:
        """The usage of a response; None if the provider counted nothing."""
        if isinstance(message, ModelResponse) and message.usage.input_tokens:
            return message.usage
        return None


def _said_by(part: Any) -> Any:
    if type(part) is UserPromptPart:
        return part.content
    if type(part) is TextPart:
        return part.content, part.id, part.provider_name, part.provider_details
    return part.__dict__


def _runs(message: ModelRequest) -> Iterable[tuple[str, list[Any]]]:
    """The parts of *message* as runs: system prompts, results of tools, or a single other part."""
    kind, run = "", list[Any]()
    for part in message.parts:
        of = _kind(part)
        if run and (of != kind or of in ("summary", "said")):
            yield kind, run
            run = []
        kind = of
        run.append(part)
    if run:
        yield kind, run


def _kind(part: Any) -> str:
    if isinstance(part, CompactionPart):
        return "summary"
    if isinstance(part, SystemPromptPart):
        return "rule" if getattr(part, "scope", "conversation") == "conversation" else "said"
    if _is_result(part):
        return "results"
    if part.part_kind in ("user-prompt", "retry-prompt", "retry-feedback", "speech"):
        return "said"
    return "rule"  # instructions, and changes of tools and capabilities: the framework reads them again


def _is_result(part: Any) -> bool:
    """Whether *part* answers a call."""
    return part.part_kind == "tool-return" or (part.part_kind == "retry-prompt" and bool(part.tool_name))


def _request_piece(kind: str, parts: Sequence[Any]) -> dict[str, Any]:
    if kind == "rule":
        texts = [each.content for each in parts if isinstance(getattr(each, "content", None), str)]
        return {"role": "system", "content": "\n\n".join(texts)}
    if kind == "summary":
        return {"role": "user", "content": parts[0].content or ""}
    if isinstance(parts[0], UserPromptPart) and isinstance(parts[0].content, str):
        return {"role": "user", "content": parts[0].content}
    return {"role": "user", "content": [block for part in parts for block in _request_block(part)]}


def _request_block(part: Any) -> Iterable[dict[str, Any]]:
    if isinstance(part, UserPromptPart):
        for item in [part.content] if isinstance(part.content, str) else part.content:
            yield from _user_block(item)
    elif _is_result(part):
        yield _result(part)
    elif part.part_kind in ("retry-prompt", "retry-feedback"):
        yield _said(part.model_response())
    else:
        yield _said(getattr(part, "content", None) or getattr(part, "transcript", None) or "")


def _result(part: Any) -> dict[str, Any]:
    is_return = isinstance(part, ToolReturnPart)
    text = part.model_response_str(wrap_if_error=False) if is_return else part.model_response()
    media = [block for each in (part.files if is_return else ()) for block in _user_block(each)]
    block: dict[str, Any] = {
        "type": "tool_result",
        "tool_use_id": part.tool_call_id,
        "content": [_said(text), *media] if media else text,
        "name": part.tool_name,
    }
    if not is_return or part.outcome in _ERRORS:
        block["is_error"] = True
    return block


def _user_block(item: Any) -> Iterable[dict[str, Any]]:
    if isinstance(item, str):
        yield _said(item)
    elif isinstance(item, TextContent):
        yield _said(item.content)
    elif isinstance(item, BinaryContent):
        yield _inline(item)
    elif item.kind in _MEDIA:
        yield {"type": _MEDIA[item.kind], "source": {"type": "url", "url": item.url}}
    elif isinstance(item, UploadedFile):
        yield {"type": "document", "source": {"type": "file", "file_id": item.file_id}}
    # A cache point has no content, and moves from turn to turn.


def _inline(item: BinaryContent) -> dict[str, Any]:
    kind = item.media_type.split("/")[0]
    return {
        "type": kind if kind in ("image", "audio", "video") else "document",
        "source": {
            "type": "base64",
            "media_type": item.media_type,
            "data": base64.b64encode(item.data).decode(),
        },
    }


def _response_block(part: Any) -> Iterable[dict[str, Any]]:
    bound = {key: value for key in _BOUND if (value := getattr(part, key, None)) is not None}
    if isinstance(part, TextPart):
        yield {**_said(part.content), **bound}
    elif isinstance(part, ThinkingPart):
        signed = {} if part.signature is None else {"signature": part.signature}
        yield {"type": "thinking", "thinking": part.content, **signed, **bound}
    elif isinstance(part, ToolCallPart):
        yield _call("tool_use", part, bound)
    elif isinstance(part, NativeToolCallPart):
        yield _call("server_tool_use", part, bound)
    elif isinstance(part, NativeToolReturnPart):
        kind = f"{part.tool_name}_tool_result"
        yield {"type": kind, "tool_use_id": part.tool_call_id, "content": part.model_response_str(), **bound}
    elif isinstance(part, CompactionPart):
        yield {"type": "compaction", "content": part.content, **bound}
    elif part.part_kind == "file":
        yield _inline(part.content)
    else:
        yield {"type": part.part_kind, "text": getattr(part, "transcript", None) or ""}


def _call(kind: str, part: Any, bound: Mapping[str, Any]) -> dict[str, Any]:
    called = part.args if isinstance(part.args, Mapping) else part.args_as_json_str()
    if isinstance(called, str):
        try:
            called = json.loads(called)
        except ValueError:  # broken JSON of the model stays as a text
            called = {"input": part.args}
    block = {"type": kind, "id": part.tool_call_id, "name": part.tool_name, "input": called}
    return {**block, **({"provider": dict(bound)} if bound else {})}


def _said(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _blocks(content: Any) -> list[Mapping[str, Any]]:
    if isinstance(content, str):
        return [_said(content)]
    return [_said(each) if isinstance(each, str) else each for each in content or ()]


def _text(content: Any) -> str:
    return "\n".join(str(each.get("text", "")) for each in _blocks(content))


def _request_parts(content: Any) -> list[Any]:
    parts: list[Any] = []
    said: list[Any] = []
    for block in _blocks(content):
        if block.get("type") == "tool_result":
            parts.append(
                ToolReturnPart(
                    tool_name=block.get("name") or "",
                    content=_text(block.get("content")),
                    tool_call_id=block.get("tool_use_id") or "",
                    outcome="failed" if block.get("is_error") else "success",
                )
            )
        else:
            said.append(_user_content(block))
    if isinstance(content, str):
        return [UserPromptPart(content)]
    if parts and len(said) == 1 and isinstance(said[0], str):
        return [*parts, UserPromptPart(said[0])]
    return [*parts, UserPromptPart(said)] if said else parts


def _user_content(block: Mapping[str, Any]) -> Any:
    source = block.get("source") or {}
    if source.get("type") == "base64":
        return BinaryContent(data=base64.b64decode(source["data"]), media_type=source["media_type"])
    if source.get("type") == "url" and block.get("type") == "image":
        return ImageUrl(source["url"])
    if source.get("type") == "url":
        return DocumentUrl(source["url"])
    return str(block.get("text", ""))


def _response_part(block: Mapping[str, Any]) -> Any:
    bound = {key: block[key] for key in _BOUND if key in block}
    match block.get("type"):
        case "thinking":
            return ThinkingPart(block.get("thinking") or "", signature=block.get("signature"), **bound)
        case "tool_use" | "server_tool_use" as kind:
            called = {"tool_name": block.get("name") or "", "args": block.get("input")}
            part = ToolCallPart if kind == "tool_use" else NativeToolCallPart
            return part(**called, tool_call_id=block.get("id") or "", **(block.get("provider") or {}))
        case "compaction":
            return CompactionPart(content=block.get("content"), **bound)
        case str() as kind if kind.endswith("_tool_result"):
            named = {"tool_name": kind.removesuffix("_tool_result"), "content": _parsed(block.get("content"))}
            return NativeToolReturnPart(**named, tool_call_id=block.get("tool_use_id") or "", **bound)
    return TextPart(str(block.get("text", "")), **bound)


def _parsed(content: Any) -> Any:
    """The value of JSON text, as the result of a provider's tool; any other text as it is."""
    try:
        value = json.loads(content)
    except (TypeError, ValueError):
        return content
    return value if isinstance(value, dict | list) else content


def _with_results(original: ModelRequest, blocks: Sequence[Mapping[str, Any]]) -> ModelRequest:
    """*original* with the texts of the results in *blocks*."""
    texts = {each["tool_use_id"]: _text(each.get("content")) for each in blocks if "tool_use_id" in each}
    if not texts:  # without results only the words stay
        return ModelRequest(parts=_request_parts(blocks))
    parts = [
        replace(part, content=texts[part.tool_call_id])
        if isinstance(part, ToolReturnPart) and part.tool_call_id in texts
        else part
        for part in original.parts
    ]
    return replace(original, parts=parts)
