"""Makes messages of a user, a model and its tools in each dialect. Every text has a unique word."""

import json
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from conversations import Raw

Dialect: TypeAlias = Literal["openai.chat", "anthropic", "openai.responses"]
DIALECTS: tuple[Dialect, ...] = ("openai.chat", "anthropic", "openai.responses")


@dataclass(frozen=True)
class Speaker:
    dialect: Dialect

    def request(self, text: str) -> Raw:
        return {"role": "user", "content": text}

    def answer(self, text: str) -> Raw:
        content: dict[str, Any] = {
            "openai.chat": text,
            "anthropic": [{"type": "text", "text": text}],
            "openai.responses": [{"type": "output_text", "text": text, "annotations": []}],
        }
        raw: Raw = {"role": "assistant", "content": content[self.dialect]}
        return {"type": "message", **raw} if self.dialect == "openai.responses" else raw

    def call(self, call_id: str, text: str) -> Raw:
        if self.dialect == "anthropic":
            used = {"type": "tool_use", "id": call_id, "name": "run", "input": {"query": text}}
            return {"role": "assistant", "content": [used]}
        function = {"name": "run", "arguments": json.dumps({"query": text})}
        if self.dialect == "openai.responses":
            return {"type": "function_call", "call_id": call_id, **function}
        call = {"id": call_id, "type": "function", "function": function}
        return {"role": "assistant", "content": None, "tool_calls": [call]}

    def result(self, call_id: str, text: str) -> Raw:
        if self.dialect == "anthropic":
            block = {"type": "tool_result", "tool_use_id": call_id, "content": text}
            return {"role": "user", "content": [block]}
        if self.dialect == "openai.responses":
            return {"type": "function_call_output", "call_id": call_id, "output": text}
        return {"role": "tool", "tool_call_id": call_id, "content": text}
