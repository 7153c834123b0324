"""A loop over Anthropic's SDK that remembers. It needs no key; SILTSTONE_MODEL names a real model.

pip install '.[anthropic]'  # in a checkout
python examples/anthropic_loop.py
SILTSTONE_MODEL=claude-sonnet-4-5 ANTHROPIC_API_KEY=... python examples/anthropic_loop.py
"""

from __future__ import annotations

import json
import os
import tempfile
from typing import Any

import anthropic
import httpx2

from siltstone import CompactionConfig, Session, ThresholdCompactor
from siltstone.adapters.anthropic import SiltstoneMiddleware
from siltstone.tools.base import dispatch

PORTS = ["Antwerp", "Bilbao", "Cork", "Delfzijl", "Esbjerg", "Faro"]
DETAILS = "It came by ship, was weighed and opened, was found dry, and was closed again. " * 6
QUESTION = "On which quay does the crate of the port of Antwerp stand?"
NAME = os.environ.get("SILTSTONE_MODEL")


def fake_api(request: httpx2.Request) -> httpx2.Response:
    """Takes notes; asked for what it no longer sees, it searches the memory, and repeats what that found."""
    said = json.loads(request.content)["messages"][-1]["content"]
    block: dict[str, Any] = {"type": "text", "text": "Noted."}
    if said == QUESTION:
        block = {"type": "tool_use", "id": "toolu_1", "name": "memory_search", "input": {"query": QUESTION}}
    elif isinstance(said, list):
        block["text"] = f"My memory says: {said[0]['content'][:70]} ..."
    head = {"id": "m", "type": "message", "role": "assistant", "model": "fake", "stop_reason": "end_turn"}
    usage = {"input_tokens": len(request.content) // 4, "output_tokens": 1}
    return httpx2.Response(200, json={**head, "content": [block], "usage": usage})


def main() -> None:
    """Six notes through a small window, then a question about the first."""
    config = CompactionConfig(
        auto_compact_threshold=1_200, recent_turn_budget=1, min_turns_between_compactions=1
    )
    policy = ThresholdCompactor(config)
    with (
        tempfile.TemporaryDirectory() as folder,
        Session.open(folder, "chat-1", policy=policy, context_window=8_000) as session,
    ):
        middleware = SiltstoneMiddleware(session)
        if NAME:
            client = anthropic.Anthropic(middleware=[middleware])
        else:
            http = httpx2.Client(transport=httpx2.MockTransport(fake_api))
            client = anthropic.Anthropic(api_key="none", http_client=http, middleware=[middleware])
        tools: Any = middleware.tools
        messages: list[Any] = []

        def turn(text: str) -> str:
            messages.append({"role": "user", "content": text})
            while True:
                answer = client.messages.create(
                    model=NAME or "fake", max_tokens=500, messages=messages, tools=tools
                )
                messages.append({"role": "assistant", "content": answer.content})
                calls = [block for block in answer.content if block.type == "tool_use"]
                if not calls:
                    return "".join(block.text for block in answer.content if block.type == "text")
                results = [
                    {
                        "type": "tool_result",
                        "tool_use_id": call.id,
                        "content": dispatch(session.tools, call.name, call.input),
                    }
                    for call in calls
                ]
                messages.append({"role": "user", "content": results})

        for place, port in enumerate(PORTS):
            turn(f"The crate of the port of {port} stands on quay {place}. {DETAILS}")
        print(f"{len(messages)} messages were said, {len(session.history())} are in the request.")
        print(f"The agent: {turn(QUESTION)}")


if __name__ == "__main__":
    main()
