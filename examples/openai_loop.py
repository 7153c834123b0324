"""A loop over OpenAI's SDK that remembers. It needs no key; SILTSTONE_MODEL names a real model.

pip install '.[openai]'  # in a checkout
python examples/openai_loop.py
SILTSTONE_MODEL=gpt-5 OPENAI_API_KEY=... python examples/openai_loop.py
"""

from __future__ import annotations

import json
import os
import tempfile
from typing import Any

import httpx2
import openai

from siltstone import CompactionConfig, Session, ThresholdCompactor
from siltstone.adapters.openai import prepared
from siltstone.tools.base import dispatch

PORTS = ["Antwerp", "Bilbao", "Cork", "Delfzijl", "Esbjerg", "Faro"]
DETAILS = "It came by ship, was weighed and opened, was found dry, and was closed again. " * 6
QUESTION = "On which quay does the crate of the port of Antwerp stand?"
NAME = os.environ.get("SILTSTONE_MODEL")


def fake_api(request: httpx2.Request) -> httpx2.Response:
    """Takes notes; asked for what it no longer sees, it searches the memory, and repeats what that found."""
    said = json.loads(request.content)["messages"]
    message: dict[str, Any] = {"role": "assistant", "content": "Noted."}
    if said[-1]["content"] == QUESTION:
        function = {"name": "memory_search", "arguments": json.dumps({"query": QUESTION})}
        call = {"id": "call_1", "type": "function", "function": function}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
    elif said[-1]["role"] == "tool":
        message["content"] = f"My memory says: {said[-1]['content'][:70]} ..."
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    head = {"id": "c", "object": "chat.completion", "created": 0, "model": "fake"}
    return httpx2.Response(200, json={**head, "choices": [choice]})


def main() -> None:
    """Six notes through a small window, then a question about the first."""
    if NAME:
        client = openai.OpenAI()
    else:
        transport = httpx2.MockTransport(fake_api)
        client = openai.OpenAI(api_key="none", http_client=httpx2.Client(transport=transport))
    config = CompactionConfig(
        auto_compact_threshold=600, recent_turn_budget=1, min_turns_between_compactions=1
    )
    policy = ThresholdCompactor(config)
    with (
        tempfile.TemporaryDirectory() as folder,
        Session.open(folder, "chat-1", policy=policy, context_window=8_000) as session,
    ):
        create = prepared(session, client.chat.completions.create)
        messages: list[Any] = []

        def turn(text: str) -> str:
            messages.append({"role": "user", "content": text})
            while True:
                answer = create(model=NAME or "fake", messages=messages, tools=create.tools())
                message = answer.choices[0].message
                messages.append(message.model_dump(exclude_none=True))
                if not message.tool_calls:
                    return message.content or ""
                for call in message.tool_calls:
                    assert call.type == "function"
                    found = dispatch(session.tools, call.function.name, call.function.arguments)
                    messages.append({"role": "tool", "tool_call_id": call.id, "content": found})

        for place, port in enumerate(PORTS):
            turn(f"The crate of the port of {port} stands on quay {place}. {DETAILS}")
        print(f"{len(messages)} messages were said, {len(session.history())} are in the request.")
        print(f"The agent: {turn(QUESTION)}")


if __name__ == "__main__":
    main()
