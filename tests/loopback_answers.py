"""Answers of a provider's model, in the form of each API: as one JSON object, and as a stream of events."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

__all__ = ["Said", "answer", "events", "genuine"]

Event = tuple[str, dict[str, Any]]  # its name, and its data

SIGNED = "signed-"
CUT = 24  #: characters of a piece of a stream


@dataclass(frozen=True, slots=True)
class Said:
    """One answer of the model.

    Attributes:
        id: Names it; ids of calls and items are made of it.
        text: The text of the answer.
        thinking: The thought before it.
        calls: The tools that it calls, with their arguments; a text is sent as it is.
    """

    id: str
    text: str = "ok"
    thinking: str = ""
    calls: tuple[tuple[str, Any], ...] = ()

    def call_id(self, at: int) -> str:
        """The id of its call number *at*."""
        return f"call_{self.id}_{at}"


def signature(thinking: str) -> str:
    """The provider's signature of a thought."""
    return f"{SIGNED}{len(thinking)}-{sum(thinking.encode()):x}"


def genuine(thinking: str, signed: str) -> bool:
    """Whether a signature fits the thought. Signatures that another test made up are accepted."""
    return not signed.startswith(SIGNED) or signed == signature(thinking)


def answer(door: str, said: Said, tokens: int) -> dict[str, Any]:
    """The body of the answer *said* for the API *door*, to a request of *tokens*."""
    return {"/v1/chat/completions": _chat, "/v1/responses": _response, "/v1/messages": _anthropic}[door](
        said, tokens
    )


def events(door: str, said: Said, tokens: int) -> Iterator[bytes]:
    """The same as server-sent events."""
    stream = {
        "/v1/chat/completions": _chat_events,
        "/v1/responses": _response_events,
        "/v1/messages": _anthropic_events,
    }[door](said, tokens)
    for name, data in stream:
        head = f"event: {name}\n" if name else ""
        yield f"{head}data: {json.dumps(data)}\n\n".encode()
    if door == "/v1/chat/completions":
        yield b"data: [DONE]\n\n"


def _pieces(text: str) -> Iterator[str]:
    for at in range(0, len(text), CUT):
        yield text[at : at + CUT]


# Chat completions.


def _chat(said: Said, tokens: int) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": said.text or None}
    if said.thinking:
        message["reasoning_content"] = said.thinking
    if said.calls:
        message["tool_calls"] = [
            {"id": said.call_id(at), "type": "function", "function": _function(name, arguments)}
            for at, (name, arguments) in enumerate(said.calls)
        ]
    choice = {"index": 0, "finish_reason": "tool_calls" if said.calls else "stop", "message": message}
    head = {"id": said.id, "object": "chat.completion", "created": 0, "model": "m"}
    return {**head, "choices": [choice], "usage": _chat_usage(tokens)}


def _chat_usage(tokens: int) -> dict[str, int]:
    return {"prompt_tokens": tokens, "completion_tokens": 1, "total_tokens": tokens + 1}


def _function(name: str, arguments: Any) -> dict[str, str]:
    return {"name": name, "arguments": arguments if isinstance(arguments, str) else json.dumps(arguments)}


def _chat_events(said: Said, tokens: int) -> Iterator[Event]:
    def chunk(delta: dict[str, Any], finish: str | None = None) -> Event:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        head = {"id": said.id, "object": "chat.completion.chunk", "created": 0, "model": "m"}
        return "", {**head, "choices": [choice]}

    yield chunk({"role": "assistant"})
    for piece in _pieces(said.thinking):
        yield chunk({"reasoning_content": piece})
    for piece in _pieces(said.text):
        yield chunk({"content": piece})
    for at, (name, arguments) in enumerate(said.calls):
        function = _function(name, arguments)
        begun = {"index": at, "id": said.call_id(at), "type": "function"}
        yield chunk({"tool_calls": [{**begun, "function": {"name": name, "arguments": ""}}]})
        for piece in _pieces(function["arguments"]):
            yield chunk({"tool_calls": [{"index": at, "function": {"arguments": piece}}]})
    yield chunk({}, "tool_calls" if said.calls else "stop")
    head = {"id": said.id, "object": "chat.completion.chunk", "created": 0, "model": "m"}
    yield "", {**head, "choices": [], "usage": _chat_usage(tokens)}


# Responses.


def _items(said: Said) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    if said.thinking:
        thought = {"type": "summary_text", "text": said.thinking}
        items.append({"type": "reasoning", "id": f"rs_{said.id}", "summary": [thought]})
    if said.text:
        text = {"type": "output_text", "text": said.text, "annotations": []}
        message = {"type": "message", "id": f"msg_{said.id}", "role": "assistant", "status": "completed"}
        items.append({**message, "content": [text]})
    for at, (name, arguments) in enumerate(said.calls):
        call = {"type": "function_call", "id": f"fc_{said.id}_{at}", "call_id": said.call_id(at)}
        items.append({**call, **_function(name, arguments), "status": "completed"})
    return items


def _response(said: Said, tokens: int) -> dict[str, Any]:
    usage = {
        "input_tokens": tokens,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": 1,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": tokens + 1,
    }
    head = {
        "id": f"resp_{said.id}",
        "object": "response",
        "created_at": 0,
        "model": "m",
        "status": "completed",
    }
    rest = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    return {**head, **rest, "output": _items(said), "usage": usage}


def _response_events(said: Said, tokens: int) -> Iterator[Event]:
    whole = _response(said, tokens)
    order = iter(range(10**6))

    def event(kind: str, **data: Any) -> Event:
        return kind, {"type": kind, "sequence_number": next(order), **data}

    yield event("response.created", response={**whole, "status": "in_progress", "output": []})
    for at, item in enumerate(whole["output"]):
        place = {"output_index": at}
        yield event("response.output_item.added", item={**item, "status": "in_progress"}, **place)
        if item["type"] == "message":
            for piece in _pieces(said.text):
                text = {"content_index": 0, "delta": piece, "logprobs": []}
                yield event("response.output_text.delta", item_id=item["id"], **place, **text)
        elif item["type"] == "function_call":
            for piece in _pieces(item["arguments"]):
                named = {"item_id": item["id"], "delta": piece}
                yield event("response.function_call_arguments.delta", **place, **named)
        yield event("response.output_item.done", item=item, **place)
    yield event("response.completed", response=whole)


# Anthropic.


def _blocks(said: Said) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    if said.thinking:
        blocks.append({"type": "thinking", "thinking": said.thinking, "signature": signature(said.thinking)})
    if said.text:
        blocks.append({"type": "text", "text": said.text})
    for at, (name, arguments) in enumerate(said.calls):
        blocks.append({"type": "tool_use", "id": said.call_id(at), "name": name, "input": arguments})
    return blocks


def _anthropic(said: Said, tokens: int) -> dict[str, Any]:
    head = {"id": f"msg_{said.id}", "type": "message", "role": "assistant", "model": "m"}
    stop = {"stop_reason": "tool_use" if said.calls else "end_turn", "stop_sequence": None}
    usage = {"input_tokens": tokens, "output_tokens": 1}
    return {**head, **stop, "content": _blocks(said), "usage": usage}


def _anthropic_events(said: Said, tokens: int) -> Iterator[Event]:
    def event(kind: str, **data: Any) -> Event:
        return kind, {"type": kind, **data}

    whole = _anthropic(said, tokens)
    yield event("message_start", message={**whole, "content": [], "stop_reason": None})
    for at, block in enumerate(whole["content"]):
        match block["type"]:
            case "thinking":
                empty = {"type": "thinking", "thinking": "", "signature": ""}
                deltas = [{"type": "thinking_delta", "thinking": each} for each in _pieces(block["thinking"])]
                deltas.append({"type": "signature_delta", "signature": block["signature"]})
            case "text":
                empty = {"type": "text", "text": ""}
                deltas = [{"type": "text_delta", "text": each} for each in _pieces(block["text"])]
            case _:
                empty = {**block, "input": {}}
                told = _pieces(json.dumps(block["input"]))
                deltas = [{"type": "input_json_delta", "partial_json": each} for each in told]
        yield event("content_block_start", index=at, content_block=empty)
        for delta in deltas:
            yield event("content_block_delta", index=at, delta=delta)
        yield event("content_block_stop", index=at)
    stop = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    yield event("message_delta", delta=stop, usage={"output_tokens": 1})
    yield event("message_stop")
