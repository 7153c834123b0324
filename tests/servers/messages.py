"""Messages of Anthropic, by its reference and by the words of its refusals."""

import json
import re
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from servers.chat import pieces
from servers.provider import Api, Counted, Event, Refusal, Said
from servers.sizes import Prefixes, judge_parameters, refuse

TOOL_FIELDS = {"name", "description", "input_schema", "cache_control", "type", "strict"}
ID, TOOL_NAME = "[a-zA-Z0-9_-]+", "[a-zA-Z0-9_-]{1,128}"
SIGNED = "signed-"
LEAST_THINKING = 1_024
MOST_MARKS = 4


class Messages(Api):
    counts_answers = True

    def words(self, alone: bool) -> str:
        return "anthropic" if alone else "anthropic.answer"

    def error(self, refusal: Refusal) -> dict[str, Any]:
        error = {"type": refusal.kind, "message": refusal.message}
        return {"type": "error", "error": error, "request_id": "req_1"}

    def judge(self, body: dict[str, Any]) -> None:
        judge_parameters("messages", body, "messages.extra")
        if "max_tokens" not in body:
            refuse("messages.required", name="max_tokens")
        _judge_sampling(body)
        _judge_tools(body.get("tools") or ())
        _judge_choice(body)
        found = json.dumps([body.get(key) for key in ("tools", "system", "messages")]).count(
            '"cache_control"'
        )
        if found > MOST_MARKS:
            refuse("messages.marks", most=MOST_MARKS, found=found)
        _judge_messages(body)

    def cached(self, cache: Prefixes, tokens: list[str], marks: list[int]) -> tuple[int, int]:
        return cache.marked(tokens, marks)

    def answer(self, said: Said, counted: Counted) -> dict[str, Any]:
        head = {"id": f"msg_{said.id}", "type": "message", "role": "assistant", "model": "m"}
        reason = "max_tokens" if said.is_cut else "tool_use" if said.calls else "end_turn"
        usage = {
            "input_tokens": counted.request - counted.read - counted.written,
            "output_tokens": counted.answer,
            "cache_read_input_tokens": counted.read,
            "cache_creation_input_tokens": counted.written,
        }
        return {**head, "content": _said(said), "stop_reason": reason, "stop_sequence": None, "usage": usage}

    def events(self, said: Said, counted: Counted) -> Iterator[Event]:
        def event(kind: str, **data: Any) -> Event:
            return kind, {"type": kind, **data}

        whole = self.answer(said, counted)
        yield event("message_start", message={**whole, "content": [], "stop_reason": None})
        for at, block in enumerate(whole["content"]):
            match block["type"]:
                case "thinking":
                    empty = {"type": "thinking", "thinking": "", "signature": ""}
                    thoughts = pieces(block["thinking"])
                    deltas = [{"type": "thinking_delta", "thinking": each} for each in thoughts]
                    deltas.append({"type": "signature_delta", "signature": block["signature"]})
                case "text":
                    empty = {"type": "text", "text": ""}
                    deltas = [{"type": "text_delta", "text": each} for each in pieces(block["text"])]
                case _:
                    empty = {**block, "input": {}}
                    told = pieces(json.dumps(block["input"]))
                    deltas = [{"type": "input_json_delta", "partial_json": each} for each in told]
            yield event("content_block_start", index=at, content_block=empty)
            for delta in deltas:
                yield event("content_block_delta", index=at, delta=delta)
            yield event("content_block_stop", index=at)
        stop = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
        yield event("message_delta", delta=stop, usage={"output_tokens": counted.answer})
        yield event("message_stop")


def _judge_sampling(body: dict[str, Any]) -> None:
    thinking = body.get("thinking") or {}
    if thinking.get("type") == "enabled":
        if thinking["budget_tokens"] < LEAST_THINKING:
            refuse("messages.budget", least=LEAST_THINKING)
        if thinking["budget_tokens"] >= body["max_tokens"]:
            refuse("messages.budget_above")
        if body.get("temperature", 1) != 1:
            refuse("messages.thinking_temperature")
    if body.get("temperature", 0) > 1:
        refuse("messages.temperature")
    if any(not each.strip() for each in body.get("stop_sequences") or ()):
        refuse("messages.stop")


def _judge_tools(tools: Any) -> None:
    for at, tool in enumerate(tools):
        kind = tool.get("type", "custom")
        if re.search(r"_\d{8}$", kind):  # one of the provider's own
            continue
        if kind != "custom":
            refuse("messages.tool", at=at, kind=kind)
        for name in ("name", "input_schema"):
            if name not in tool:
                refuse("messages.required", name=f"tools.{at}.custom.{name}")
        for name in tool.keys() - TOOL_FIELDS:
            refuse("messages.extra", name=f"tools.{at}.custom.{name}")
        if not re.fullmatch(TOOL_NAME, tool["name"]):
            refuse("messages.pattern", name=f"tools.{at}.custom.name", pattern=f"^{TOOL_NAME}$")
        if tool["input_schema"].get("type") != "object":
            refuse("messages.schema", at=at)
    if len({tool.get("name") for tool in tools}) < len(tools):
        refuse("messages.names")


def _judge_choice(body: dict[str, Any]) -> None:
    choice = body.get("tool_choice") or {}
    if choice and not body.get("tools"):
        refuse("messages.choice")
    if choice.get("type") in ("any", "tool") and (body.get("thinking") or {}).get("type") == "enabled":
        refuse("messages.forced")
    if choice.get("type") == "tool" and choice["name"] not in [each["name"] for each in body["tools"]]:
        refuse("messages.no_such_tool", name=choice["name"])


def _judge_messages(body: dict[str, Any]) -> None:
    messages = body["messages"]
    if not messages:
        refuse("messages.none")
    for at, message in enumerate(messages):
        if message["role"] not in ("user", "assistant"):
            refuse("messages.role", role=message["role"])
        for name in message.keys() - {"role", "content"}:
            refuse("messages.extra", name=f"messages.{at}.{name}")
    if messages[0]["role"] != "user":
        refuse("messages.first")
    turns = [
        (role, [block for message in run for block in _blocks(message)])
        for role, run in groupby(messages, lambda message: message["role"])
    ]
    asked: list[str] = []
    used: set[str] = set()
    for at, (role, blocks) in enumerate(turns):
        if not blocks and not (role == "assistant" and at == len(turns) - 1):
            refuse("messages.empty", at=at)
        for index, block in enumerate(blocks):
            _judge_block(f"{at}.content.{index}", block)
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        leading = [block["type"] == "tool_result" for block in blocks][: len(results)]
        for call_id in results:
            if call_id not in asked:
                refuse("messages.orphan", at=at, id=call_id)
        missing = [call for call in asked if call not in results]
        if missing or (asked and not all(leading)):
            refuse("messages.unanswered", at=at, ids=", ".join(missing or asked))
        if len(results) != len(set(results)):
            refuse("messages.twice", at=at)
        asked = [block["id"] for block in blocks if block["type"] == "tool_use"]
        if used & set(asked) or len(asked) != len(set(asked)):
            refuse("messages.ids")
        used.update(asked)
    if asked:
        refuse("messages.unanswered", at=len(turns), ids=", ".join(asked))
    if body.get("thinking", {}).get("type") == "enabled" and len(turns) > 1:
        (_, called), (_, answered) = turns[-2:]
        if answered[0]["type"] == "tool_result" and "thinking" not in called[0]["type"]:
            refuse("messages.thinks", at=len(turns) - 2, kind=called[0]["type"])
    role, last = turns[-1]
    if role == "assistant" and last and last[-1].get("text", "").endswith((" ", "\n")):
        refuse("messages.trailing")


def _judge_block(place: str, block: dict[str, Any]) -> None:
    match block["type"]:
        case "text" if not block["text"].strip():
            refuse("messages.text")
        case "tool_use" if not re.fullmatch(ID, block["id"]):
            refuse("messages.pattern", name=f"messages.{place}.tool_use.id", pattern=f"^{ID}$")
        case "tool_use" if not isinstance(block["input"], dict):
            refuse("messages.input", place=place)
        case "thinking" if "cache_control" in block:
            refuse("messages.extra", name=f"messages.{place}.thinking.cache_control")
        case "thinking" if not _genuine(block["thinking"], block["signature"]):
            refuse("messages.signature", place=place)


def _blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _signature(thinking: str) -> str:
    return f"{SIGNED}{len(thinking)}-{sum(thinking.encode()):x}"


def _genuine(thinking: str, signed: str) -> bool:
    """Whether a signature fits the thought. Signatures that another test made up are accepted."""
    return not signed.startswith(SIGNED) or signed == _signature(thinking)


def _said(said: Said) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    if said.thinking:
        blocks.append({"type": "thinking", "thinking": said.thinking, "signature": _signature(said.thinking)})
    if said.text:
        blocks.append({"type": "text", "text": said.text})
    for at, (name, arguments) in enumerate(said.calls):
        blocks.append({"type": "tool_use", "id": said.call_id(at), "name": name, "input": arguments})
    return blocks
