"""An agent of the OpenAI Agents SDK that remembers. It needs no key; SILTSTONE_MODEL names a real model.

pip install '.[openai-agents]'  # in a checkout
python examples/openai_agents.py
SILTSTONE_MODEL=gpt-5 OPENAI_API_KEY=... python examples/openai_agents.py
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from typing import Any

from agents import Agent, Runner, set_tracing_disabled
from agents.testing import ScriptedModel, assistant_message, function_call

from siltstone import AsyncSession, CompactionConfig, ThresholdCompactor
from siltstone.adapters.openai_agents import RecoveringModel, SiltstoneSession

PORTS = ["Antwerp", "Bilbao", "Cork", "Delfzijl", "Esbjerg", "Faro"]
DETAILS = "It came by ship, was weighed and opened, was found dry, and was closed again. " * 6
QUESTION = "On which quay does the crate of the port of Antwerp stand?"


def fake_model() -> ScriptedModel:
    """Answers by a script, and asks the memory when it is asked for what it no longer sees."""
    steps: list[Any] = [[assistant_message("Noted.")] for port in PORTS]
    steps.append([function_call("memory_search", {"query": QUESTION}, call_id="call-1")])
    steps.append([assistant_message("On quay 0, as you told me at the beginning.")])
    return ScriptedModel(steps)


async def main() -> None:
    """Six notes through a small window, then a question about the first."""
    name = os.environ.get("SILTSTONE_MODEL")
    config = CompactionConfig(
        auto_compact_threshold=600, recent_turn_budget=1, min_turns_between_compactions=1
    )
    with tempfile.TemporaryDirectory() as folder:
        policy = ThresholdCompactor(config)
        async with await AsyncSession.open(folder, "chat-1", policy=policy, context_window=8_000) as session:
            memory = SiltstoneSession(session)
            model = name or RecoveringModel(fake_model(), memory)
            agent = Agent(name="Clerk", instructions="You keep a list.", model=model, tools=[*memory.tools])
            set_tracing_disabled(name is None)
            for place, port in enumerate(PORTS):
                said = f"The crate of the port of {port} stands on quay {place}. {DETAILS}"
                await Runner.run(agent, said, session=memory, run_config=memory.run_config())
            view = await memory.get_items()
            print(f"{len(await session.log())} items were said, {len(view)} are in the request.")
            result = await Runner.run(agent, QUESTION, session=memory, run_config=memory.run_config())
            found = [each.output for each in result.new_items if each.type == "tool_call_output_item"]
            print(f"memory_search found: {found[0][:90] if found else 'nothing was asked'}")
            print(f"The agent: {result.final_output}")


if __name__ == "__main__":
    asyncio.run(main())
