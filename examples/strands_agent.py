"""An agent of Strands that remembers. It needs no key; SILTSTONE_MODEL names a real model of Bedrock.

pip install '.[strands]'  # in a checkout
python examples/strands_agent.py
SILTSTONE_MODEL=us.anthropic.claude-sonnet-4-5-20250929-v1:0 python examples/strands_agent.py
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import AsyncIterator
from typing import Any

from strands import Agent
from strands.agent.conversation_manager import NullConversationManager
from strands.models import BedrockModel, Model

from siltstone import CompactionConfig, Session, ThresholdCompactor
from siltstone.adapters.strands import SiltstonePlugin

PORTS = ["Antwerp", "Bilbao", "Cork", "Delfzijl", "Esbjerg", "Faro"]
DETAILS = "It came by ship, was weighed and opened, was found dry, and was closed again. " * 6
QUESTION = "On which quay does the crate of the port of Antwerp stand?"


class FakeModel(Model):
    """Answers by a script, and asks the memory when it is asked for what it no longer sees."""

    def __init__(self) -> None:
        self.replies = ["Noted."] * len(PORTS)
        self.replies += ["", "On quay 0, as you told me at the beginning."]

    def update_config(self, **_config: Any) -> None:
        """It has nothing to set."""

    def get_config(self) -> Any:
        """It has nothing to tell."""
        return {}

    def structured_output(self, *_args: Any, **_kwargs: Any) -> Any:
        """Nobody asks for one here."""
        raise NotImplementedError("the model of this example answers in text alone")

    async def stream(self, *_args: Any, **_kwargs: Any) -> AsyncIterator[Any]:
        """The events of the next reply; an empty one is a call of memory_search."""
        text = self.replies.pop(0)
        yield {"messageStart": {"role": "assistant"}}
        use = {"toolUse": {"name": "memory_search", "toolUseId": "call-1"}}
        yield {"contentBlockStart": {"start": {} if text else use}}
        arguments = {"toolUse": {"input": json.dumps({"query": QUESTION})}}
        yield {"contentBlockDelta": {"delta": {"text": text} if text else arguments}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn" if text else "tool_use"}}


def main() -> None:
    """Six notes through a small window, then a question about the first."""
    config = CompactionConfig(
        auto_compact_threshold=600, recent_turn_budget=1, min_turns_between_compactions=1
    )
    name = os.environ.get("SILTSTONE_MODEL")
    with tempfile.TemporaryDirectory() as folder:
        policy = ThresholdCompactor(config)
        with Session.open(folder, "chat-1", policy=policy, context_window=8_000) as session:
            agent = Agent(
                BedrockModel(model_id=name) if name else FakeModel(),
                system_prompt="You keep a list.",
                plugins=[SiltstonePlugin(session)],
                conversation_manager=NullConversationManager(),
                callback_handler=None,
            )
            for place, port in enumerate(PORTS):
                agent(f"The crate of the port of {port} stands on quay {place}. {DETAILS}")
            view = session.prepare().messages
            print(f"{len(session.log())} messages were said, {len(view)} are in the request.")
            answer = agent(QUESTION)
            blocks = (block for each in agent.messages for block in each["content"])
            found = [block["toolResult"]["content"][0] for block in blocks if "toolResult" in block]
            print(f"memory_search found: {found[0].get('text', '')[:90] if found else 'nothing was asked'}")
            print(f"The agent: {answer}")


if __name__ == "__main__":
    main()
