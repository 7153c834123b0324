"""A provider on 127.0.0.1. It answers the real SDKs, and refuses requests as OpenAI and Anthropic do.

Its rules are written from the documents and errors of the providers, and share no code with the package. So
it can check the package's own validators.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import groupby
from typing import Any

from loopback_answers import Said, answer, events, genuine

__all__ = ["Provider", "Refusal", "provider", "size_of"]

BYTES_PER_TOKEN = 4


class Refusal(Exception):  # noqa: N818 - an answer, and no error of ours
    """The error that the provider sends instead of an answer."""

    def __init__(
        self, message: str, code: str | None = None, kind: str = "invalid_request_error", status: int = 400
    ) -> None:
        super().__init__(message)
        self.message, self.code, self.kind, self.status = message, code, kind, status


def judge_chat(body: dict[str, Any], limit: int) -> None:
    """The rules of ``/v1/chat/completions``."""
    waiting: dict[str, int] = {}
    for at, message in enumerate(body["messages"]):
        role, content = message.get("role"), message.get("content")
        if role not in ("system", "developer", "user", "assistant", "tool", "function"):
            raise Refusal(f"Invalid value: '{role}'. Supported values are: 'system', 'assistant', 'user' ...")
        calls = message.get("tool_calls") or []
        thinks = "reasoning_content" in message  # of servers that speak like OpenAI's
        if content is None and not (role == "assistant" and (calls or thinks)):
            raise Refusal(f"Invalid value for 'content': expected a string, got null. (messages[{at}])")
        if role == "tool":
            if message["tool_call_id"] not in waiting:
                raise Refusal(
                    "Invalid parameter: messages with role 'tool' must be a response to a preceeding "
                    "message with 'tool_calls'."
                )
            del waiting[message["tool_call_id"]]
            continue
        _answered(waiting)
        waiting = {call["id"]: at for call in calls}
    _answered(waiting)
    _fits(
        body,
        limit,
        lambda size: Refusal(
            f"This model's maximum context length is {limit} tokens. However, your messages resulted in "
            f"{size} tokens. Please reduce the length of the messages.",
            "context_length_exceeded",
        ),
    )


def _answered(waiting: dict[str, int]) -> None:
    if waiting:
        raise Refusal(
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
            "'tool_call_id'. The following tool_call_ids did not have response messages: "
            + ", ".join(waiting)
        )


def judge_responses(body: dict[str, Any], limit: int) -> None:
    """The rules of ``/v1/responses``."""
    items = body["input"]
    ids = [item["id"] for item in items if item.get("id")]
    for each in ids:
        if ids.count(each) > 1:
            raise Refusal(f"Duplicate item found with id {each}. Remove duplicate items from your input.")
    called: dict[str, str] = {}
    for at, item in enumerate(items):
        kind, call_id = item.get("type", "message"), item.get("call_id")
        if kind.endswith("_call") and call_id:
            called[call_id] = kind
        elif kind.endswith("_call_output"):
            if called.pop(call_id, None) != kind.removesuffix("_output"):
                raise Refusal(f"No tool call found for {kind.replace('_', ' ')} with call_id {call_id}.")
        elif kind == "reasoning":
            after = items[at + 1] if at + 1 < len(items) else {}
            if after.get("role", "assistant") != "assistant" or after.get("type", "").endswith("_output"):
                raise Refusal(
                    f"Item '{item['id']}' of type 'reasoning' was provided without its required "
                    "following item."
                )
    for call_id, kind in called.items():
        raise Refusal(f"No tool output found for {kind.replace('_', ' ')} {call_id}.")
    _fits(
        body,
        limit,
        lambda size: Refusal(
            "Your input exceeds the context window of this model. Please adjust your input and try again.",
            "context_length_exceeded",
        ),
    )


def judge_anthropic(body: dict[str, Any], limit: int) -> None:
    """The rules of ``/v1/messages``: consecutive messages of one role are one."""
    messages = body["messages"]
    for message in messages:
        if message["role"] not in ("user", "assistant"):
            raise Refusal(f'messages: Unexpected role "{message["role"]}".')
    if messages[0]["role"] != "user":
        raise Refusal('messages: first message must use the "user" role')
    turns = [
        (role, [block for message in run for block in _blocks(message)])
        for role, run in groupby(messages, lambda message: message["role"])
    ]
    asked: list[str] = []
    used: set[str] = set()
    for at, (role, blocks) in enumerate(turns):
        if not blocks and not (role == "assistant" and at == len(turns) - 1):
            raise Refusal(f"messages.{at}: all messages must have non-empty content")
        if any(block["type"] == "text" and not block["text"].strip() for block in blocks):
            raise Refusal("messages: text content blocks must be non-empty")
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        leading = [block["type"] == "tool_result" for block in blocks][: len(results)]
        for call_id in results:
            if call_id not in asked:
                raise Refusal(
                    f"messages.{at}: unexpected `tool_use_id` found in `tool_result` blocks: {call_id}. Each "
                    "`tool_result` block must have a corresponding `tool_use` block in the previous message."
                )
        missing = [call for call in asked if call not in results]
        if missing or (asked and not all(leading)):
            raise Refusal(
                f"messages.{at}: `tool_use` ids were found without `tool_result` blocks immediately after: "
                f"{', '.join(missing or asked)}. Each `tool_use` block must have a corresponding "
                "`tool_result` block in the next message."
            )
        for block in blocks:
            if block["type"] == "thinking" and not genuine(block["thinking"], block["signature"]):
                raise Refusal(f"messages.{at}.content: Invalid `signature` in `thinking` block")
        if len(results) != len(set(results)):
            raise Refusal(f"messages.{at}: each tool_use must have a single result.")
        asked = [block["id"] for block in blocks if block["type"] == "tool_use"]
        if used & set(asked) or len(asked) != len(set(asked)):
            raise Refusal("messages: `tool_use` ids must be unique")
        used.update(asked)
    _thinks(turns, body)
    if asked:
        raise Refusal(
            f"messages.{len(turns)}: `tool_use` ids were found without `tool_result` blocks immediately "
            f"after: {', '.join(asked)}."
        )
    _fits(body, limit, lambda size: Refusal(f"prompt is too long: {size} tokens > {limit} maximum"))


def _thinks(turns: list[tuple[str, list[dict[str, Any]]]], body: dict[str, Any]) -> None:
    """With thinking, the thought must stand before the calls that are being answered."""
    if body.get("thinking", {}).get("type") != "enabled" or len(turns) < 2:
        return
    (_, called), (_, answered) = turns[-2:]
    if answered[0]["type"] == "tool_result" and called[0]["type"] != "thinking":
        raise Refusal(
            f"messages.{len(turns) - 2}.content.0.type: Expected `thinking` or `redacted_thinking`, but "
            f"found `{called[0]['type']}`. When `thinking` is enabled, a final `assistant` message must "
            "start with a thinking block (preceeding the lastmost set of `tool_use` and `tool_result` "
            "blocks)."
        )


def _blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def size_of(body: dict[str, Any]) -> int:
    """The tokens of a request: its messages, the system prompt, and the definitions of tools."""
    counted = [body[key] for key in ("system", "tools", "messages", "input") if key in body]
    return sum(len(json.dumps(each, ensure_ascii=False).encode()) for each in counted) // BYTES_PER_TOKEN


def _fits(body: dict[str, Any], limit: int, refusal: Callable[[int], Refusal]) -> None:
    size = size_of(body)
    if size > limit:
        raise refusal(size)


DOORS: dict[str, Callable[[dict[str, Any], int], None]] = {
    "/v1/chat/completions": judge_chat,
    "/v1/responses": judge_responses,
    "/v1/messages": judge_anthropic,
}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else the body waits for an acknowledgement of the head, some 40 ms
    server: Provider

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        door = self.path.partition("?")[0]
        self.server.requests += 1
        try:
            said = self.server.said(door, body)
        except Refusal as refusal:
            self.server.refused.append(refusal)
            error = {"type": refusal.kind, "message": refusal.message, "code": refusal.code, "param": None}
            self._send(
                refusal.status, "application/json", json.dumps({"type": "error", "error": error}).encode()
            )
            return
        tokens = size_of(body)
        if body.get("stream"):
            self._send(200, "text/event-stream", b"".join(events(door, said, tokens)))
        else:
            self._send(200, "application/json", json.dumps(answer(door, said, tokens)).encode())

    def _send(self, status: int, kind: str, payload: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)

    def log_message(self, *args: object) -> None:
        """Says nothing."""


class Provider(ThreadingHTTPServer):
    """The server.

    Attributes:
        limit: Tokens that a request may have, four bytes each.
        requests: How many it has judged.
        refused: Its refusals instead of answers, in order.
        model: Answers a request that was judged; it may raise a :class:`Refusal`.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.limit = 10**9
        self.requests = 0
        self.refused: list[Refusal] = []
        self.model: Callable[[dict[str, Any]], Said] = lambda body: Said("m")

    def said(self, door: str, body: dict[str, Any]) -> Said:
        """The answer to *body*.

        Raises:
            Refusal: it breaks a rule of the provider, or is too large.
        """
        DOORS[door](body, self.limit)
        return self.model(body)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_address[1]}"


@contextmanager
def provider() -> Iterator[Provider]:
    """A server that listens until the end of the block."""
    with Provider() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
