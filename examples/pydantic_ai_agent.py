"""An agent of pydantic-ai that remembers. It needs no key; SILTSTONE_MODEL names a real model.

pip install '.[pydantic-ai]'  # in a checkout
python examples/pydantic_ai_agent.py
pip install 'pydantic-ai-slim[openai]'
SILTSTONE_MODEL=openai:gpt-5 OPENAI_API_KEY=... python examples/pydantic_ai_agent.py
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Iterator

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from siltstone import AsyncSession, CompactionConfig, ThresholdCompactor
from siltstone.adapters.pydantic_ai import SiltstoneCapability

PORTS = ["Antwerp", "Bilbao", "Cork", "Delfzijl", "Esbjerg", "Faro"]
DETAILS = "It came by ship, was weighed and opened, was found dry, and was closed again. " * 6
QUESTION = "On which quay does the crate of the port of Antwerp stand?"


def fake_model() -> FunctionModel:
    """Answers by a script, and asks the memory when it is asked for what it no longer sees."""

    def script() -> Iterator[ModelResponse]:
        for _ in PORTS:
            yield ModelResponse(parts=[TextPart("Noted.")])
        yield ModelResponse(parts=[ToolCallPart("memory_search", {"query": QUESTION})])
        yield ModelResponse(parts=[TextPart("On quay 0, as you told me at the beginning.")])

    replies = script()

    def answer(_messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
        return next(replies)

    return FunctionModel(answer)


async def main() -> None:
    """Six notes through a small window, then a question about the first."""
    config = CompactionConfig(
        auto_compact_threshold=600, recent_turn_budget=1, min_turns_between_compactions=1
    )
    with tempfile.TemporaryDirectory() as folder:
        policy = ThresholdCompactor(config)
        async with AsyncSession.open(folder, "chat-1", policy=policy, context_window=8_000) as session:
            agent = Agent(
                os.environ.get("SILTSTONE_MODEL") or fake_model(),
                instructions="You keep a list.",
                capabilities=[SiltstoneCapability(session)],
            )
            history: list[ModelMessage] = []
            for place, port in enumerate(PORTS):
                said = f"The crate of the port of {port} stands on quay {place}. {DETAILS}"
                history = (await agent.run(said, message_history=history)).all_messages()
            view = (await session.prepare()).messages
            print(f"{len(await session.log())} messages were said, {len(view)} are in the request.")
            result = await agent.run(QUESTION, message_history=history)
            parts = [part for each in result.all_messages() for part in each.parts]
            found = [part.content for part in parts if isinstance(part, ToolReturnPart)]
            print(f"memory_search found: {str(found[0])[:90] if found else 'nothing was asked'}")
            print(f"The agent: {result.output}")


if __name__ == "__main__":
    asyncio.run(main())
