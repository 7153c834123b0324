"""Responses of OpenAI, by its reference and by the words of its refusals."""

from collections.abc import Iterator
from typing import Any

from servers.chat import function_of, judge_choice, judge_function, judge_sampling, pieces
from servers.provider import Api, Counted, Event, Said
from servers.sizes import judge_parameters, refuse

PARTS = {
    "assistant": ("output_text", "refusal"),
    **dict.fromkeys(("user", "system", "developer"), ("input_text", "input_image", "input_file")),
}
LEAST_ANSWER = 16  #: tokens


class Responses(Api):
    def words(self, alone: bool) -> str:
        return "openai.responses"

    def judge(self, body: dict[str, Any]) -> None:
        if "messages" in body:
            refuse("responses.moved")
        judge_parameters("responses", body, "chat.parameter")
        judge_sampling(body)
        judge_choice(body)
        if (most := body.get("max_output_tokens") or LEAST_ANSWER) < LEAST_ANSWER:
            refuse("responses.least", least=LEAST_ANSWER, most=most)
        for at, tool in enumerate(body.get("tools") or ()):
            if tool.get("type") == "function":
                judge_function(tool, f"tools[{at}]")
        items = [] if isinstance(body["input"], str) else body["input"]
        ids = [item["id"] for item in items if item.get("id")]
        for each in ids:
            if ids.count(each) > 1:
                refuse("responses.duplicate", id=each)
        called: dict[str, str] = {}
        for at, item in enumerate(items):
            kind, call_id = item.get("type", "message"), item.get("call_id")
            if kind == "message":
                _judge_message(item)
            elif kind.endswith("_call") and call_id:
                called[call_id] = kind
            elif kind.endswith("_call_output"):
                if called.pop(call_id, None) != kind.removesuffix("_output"):
                    refuse("responses.orphan", kind=kind.replace("_", " "), id=call_id)
            elif kind == "reasoning":
                after = items[at + 1] if at + 1 < len(items) else {}
                if after.get("role", "assistant") != "assistant" or after.get("type", "").endswith("_output"):
                    refuse("responses.reasoning", id=item["id"])
        for call_id, kind in called.items():
            refuse("responses.unanswered", kind=kind.replace("_", " "), id=call_id)

    def answer(self, said: Said, counted: Counted) -> dict[str, Any]:
        usage = {
            "input_tokens": counted.request,
            "input_tokens_details": {"cached_tokens": counted.read, "cache_write_tokens": 0},
            "output_tokens": counted.answer,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": counted.request + counted.answer,
        }
        status = "incomplete" if said.is_cut else "completed"
        return {**_head(said.id, status), "output": _items(said), "usage": usage}

    def events(self, said: Said, counted: Counted) -> Iterator[Event]:
        whole = self.answer(said, counted)
        order = iter(range(10**6))

        def event(kind: str, **data: Any) -> Event:
            return kind, {"type": kind, "sequence_number": next(order), **data}

        yield event("response.created", response={**whole, "status": "in_progress", "output": []})
        for at, item in enumerate(whole["output"]):
            place = {"output_index": at}
            yield event("response.output_item.added", item={**item, "status": "in_progress"}, **place)
            if item["type"] == "message":
                for piece in pieces(said.text):
                    text = {"content_index": 0, "delta": piece, "logprobs": []}
                    yield event("response.output_text.delta", item_id=item["id"], **place, **text)
            elif item["type"] == "function_call":
                for piece in pieces(item["arguments"]):
                    named = {"item_id": item["id"], "delta": piece}
                    yield event("response.function_call_arguments.delta", **place, **named)
            yield event("response.output_item.done", item=item, **place)
        yield event(f"response.{whole['status']}", response=whole)


def _judge_message(item: dict[str, Any]) -> None:
    role, content = item.get("role"), item.get("content")
    if role not in PARTS:
        refuse("chat.value", value=role, supported=", ".join(f"'{each}'" for each in PARTS))
    for part in content if isinstance(content, list) else ():
        if part["type"] not in PARTS[role]:
            refuse("chat.value", value=part["type"], supported=", ".join(f"'{each}'" for each in PARTS[role]))


def _head(name: str, status: str) -> dict[str, Any]:
    rest = {"created_at": 0, "model": "m", "parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    return {"id": f"resp_{name}", "object": "response", "status": status, **rest}


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
        items.append({**call, **function_of(name, arguments), "status": "completed"})
    return items
