"""Servers of one's own that speak like OpenAI's: llama.cpp, vLLM, Ollama.

llama.cpp was asked: its server refuses few things, and each in its own words. vLLM and Ollama differ by what
they say or do of a request that is too large.
"""

from __future__ import annotations

import json
from typing import Any

from servers.chat import Chat
from servers.provider import Counted, Said
from servers.sizes import Prefixes, refuse

__all__ = ["Local"]

PARTS = {"image_url", "input_audio"}


class Local(Chat):
    """``/v1/chat/completions`` of a server that holds one model, with one slot."""

    def __init__(self, kind: str) -> None:
        self.kind, self.counts_answers = kind, kind == "vllm"

    def words(self, alone: bool) -> str:
        return self.kind

    def judge(self, body: dict[str, Any]) -> None:
        if "messages" not in body:
            refuse("local.messages")
        for tool in body.get("tools") or ():
            for name in ("type", "function"):
                if name not in tool:
                    refuse("local.tools", name=name, tool=json.dumps(tool))
        for message in body["messages"]:
            content = message.get("content")
            if message["role"] != "assistant" and "content" not in message:
                refuse("local.content")
            for part in content if isinstance(content, list) else ():
                if part["type"] != "text":
                    refuse("local.image" if part["type"] in PARTS else "local.part")
        if isinstance(body.get("temperature"), str):
            refuse("local.temperature")

    def cached(self, cache: Prefixes, tokens: list[str], marks: list[int]) -> tuple[int, int]:
        return cache.exact(tokens), 0

    def answer(self, said: Said, counted: Counted) -> dict[str, Any]:
        timings = {"cache_n": counted.read, "prompt_n": counted.request - counted.read}
        return {**super().answer(said, counted), "timings": timings}
