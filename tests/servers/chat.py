"""Chat Completions of OpenAI, by its reference and by the words of its refusals."""

import json
import re
from collections.abc import Iterator
from typing import Any

from servers.provider import CUT, Api, Counted, Event, Said
from servers.sizes import judge_parameters, refuse

PARTS = {"user": {"text", "image_url", "input_audio", "file"}, "assistant": {"text", "refusal"}}
ROLES = ("system", "assistant", "user", "function", "tool", "developer")
FIELDS = {"role", "content", "name"}
MORE_FIELDS = {
    "assistant": {"tool_calls", "function_call", "refusal", "audio", "annotations", "reasoning_content"},
    "tool": {"tool_call_id"},
}  # `reasoning_content` is of servers that speak like OpenAI's
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
LONGEST_ID = 40


def judge_sampling(body: dict[str, Any]) -> None:
    """Models that reason take neither a temperature nor stop sequences, and no ``max_tokens``."""
    if str(body["model"]).startswith(("o1", "o3", "o4", "gpt-5")):
        for name in ("temperature", "top_p"):
            if body.get(name, 1) != 1:
                refuse("chat.sampling", name=name, value=body[name])
        for name in ("stop", "max_tokens"):
            if body.get(name) is not None:
                refuse(f"chat.{name}")


def judge_choice(body: dict[str, Any]) -> None:
    """What is said about tools needs tools, and a chosen tool is one of them."""
    tools = body.get("tools") or ()
    for name in ("tool_choice", "parallel_tool_calls"):
        if not tools and body.get(name, "none") not in ("none", None):
            refuse("chat.choice", name=name)
    chosen = body.get("tool_choice")
    if isinstance(chosen, dict) and chosen.get("type") == "function":
        name = chosen.get("function", chosen).get("name")
        if name not in [tool.get("function", tool).get("name") for tool in tools]:
            refuse("chat.no_such_tool", name=name)


def judge_function(function: dict[str, Any], place: str) -> None:
    """The definition of a function: its name and its schema."""
    if "name" not in function:
        refuse("chat.missing", name=f"{place}.name")
    name, schema = function["name"], function.get("parameters")
    if not NAME.fullmatch(name):
        refuse("chat.name", name=f"{place}.name")
    if schema is not None and schema.get("type") != "object":
        refuse("chat.schema", name=name, kind=schema.get("type"))
    for key, each in (schema or {}).get("properties", {}).items():
        if each.get("type") == "array" and "items" not in each:
            refuse("chat.items", name=name, property=key)
    if function.get("strict") and (schema or {}).get("additionalProperties") is not False:
        refuse("chat.strict", name=name)


def function_of(name: str, arguments: Any) -> dict[str, str]:
    """A call, as both APIs of OpenAI have it; arguments that are a text are sent as they are."""
    return {"name": name, "arguments": arguments if isinstance(arguments, str) else json.dumps(arguments)}


def pieces(text: str) -> Iterator[str]:
    """*text* as a stream sends it."""
    for at in range(0, len(text), CUT):
        yield text[at : at + CUT]


class Chat(Api):
    ends = ("[DONE]",)

    def words(self, alone: bool) -> str:
        return "openai"

    def judge(self, body: dict[str, Any]) -> None:
        judge_parameters("chat", body, "chat.parameter")
        judge_sampling(body)
        judge_choice(body)
        for at, tool in enumerate(body.get("tools") or ()):
            if tool.get("type") != "function":
                refuse("chat.value", value=tool.get("type"), supported="'function' and 'custom'")
            if "function" not in tool:
                refuse("chat.missing", name=f"tools[{at}].function")
            judge_function(tool["function"], f"tools[{at}].function")
        if not body["messages"]:
            refuse("chat.empty", name="messages")
        waiting = list[str]()
        for at, message in enumerate(body["messages"]):
            self._judge_message(at, message)
            if message["role"] == "tool":
                if message["tool_call_id"] not in waiting:
                    refuse("chat.orphan")
                waiting.remove(message["tool_call_id"])
                continue
            if waiting:
                refuse("chat.unanswered", ids=", ".join(waiting))
            waiting = [call["id"] for call in message.get("tool_calls") or ()]
            for each in waiting:
                if waiting.count(each) > 1:
                    refuse("chat.twice", id=each, at=at)
        if waiting:
            refuse("chat.unanswered", ids=", ".join(waiting))

    def _judge_message(self, at: int, message: dict[str, Any]) -> None:
        role, content, calls = message.get("role"), message.get("content"), message.get("tool_calls")
        if role not in ROLES:
            refuse("chat.value", value=role, supported=", ".join(f"'{each}'" for each in ROLES))
        for name in message.keys() - FIELDS - MORE_FIELDS.get(role, set()):
            refuse("chat.parameter", name=f"messages[{at}].{name}")
        if calls == []:
            refuse("chat.empty", name=f"messages[{at}].tool_calls")
        for index, call in enumerate(calls or ()):
            place = f"messages[{at}].tool_calls[{index}]"
            if len(call["id"]) > LONGEST_ID:
                refuse("chat.long", name=f"{place}.id", most=LONGEST_ID, length=len(call["id"]))
            if not isinstance(call["function"]["arguments"], str):
                refuse("chat.type", name=f"{place}.function.arguments")
        if role == "tool" and "tool_call_id" not in message:
            refuse("chat.missing", name=f"messages[{at}].tool_call_id")
        said = calls or "reasoning_content" in message or message.get("refusal")
        if content is None and not (role == "assistant" and said):
            refuse("chat.null", at=at)
        if content == []:
            refuse("chat.empty", name=f"messages[{at}].content")
        for part in content if isinstance(content, list) else ():
            if part["type"] not in (supported := PARTS.get(role, {"text"})):
                refuse("chat.value", value=part["type"], supported=sorted(supported))

    def answer(self, said: Said, counted: Counted) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": said.text or None}
        if said.thinking:
            message["reasoning_content"] = said.thinking
        if said.calls:
            message["tool_calls"] = [
                {"id": said.call_id(at), "type": "function", "function": function_of(name, arguments)}
                for at, (name, arguments) in enumerate(said.calls)
            ]
        choice = {"index": 0, "finish_reason": _finish(said), "message": message}
        return {**_head(said, "chat.completion"), "choices": [choice], "usage": _usage(counted)}

    def events(self, said: Said, counted: Counted) -> Iterator[Event]:
        def chunk(delta: dict[str, Any], finish: str | None = None) -> Event:
            choice = {"index": 0, "delta": delta, "finish_reason": finish}
            return "", {**_head(said, "chat.completion.chunk"), "choices": [choice]}

        yield chunk({"role": "assistant"})
        for piece in pieces(said.thinking):
            yield chunk({"reasoning_content": piece})
        for piece in pieces(said.text):
            yield chunk({"content": piece})
        for at, (name, arguments) in enumerate(said.calls):
            function = function_of(name, arguments)
            begun = {"index": at, "id": said.call_id(at), "type": "function"}
            yield chunk({"tool_calls": [{**begun, "function": {"name": name, "arguments": ""}}]})
            for piece in pieces(function["arguments"]):
                yield chunk({"tool_calls": [{"index": at, "function": {"arguments": piece}}]})
        yield chunk({}, _finish(said))
        yield "", {**_head(said, "chat.completion.chunk"), "choices": [], "usage": _usage(counted)}


def _head(said: Said, kind: str) -> dict[str, Any]:
    return {"id": said.id, "object": kind, "created": 0, "model": "m"}


def _finish(said: Said) -> str:
    return "length" if said.is_cut else "tool_calls" if said.calls else "stop"


def _usage(counted: Counted) -> dict[str, Any]:
    return {
        "prompt_tokens": counted.request,
        "completion_tokens": counted.answer,
        "total_tokens": counted.request + counted.answer,
        "prompt_tokens_details": {"cached_tokens": counted.read},
    }
