"""An agent of LangChain that remembers. It needs no key; SILTSTONE_MODEL names a real model.

pip install '.[langchain]'  # in a checkout
python examples/langchain_agent.py
pip install langchain-openai
SILTSTONE_MODEL=openai:gpt-5 OPENAI_API_KEY=... python examples/langchain_agent.py
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from siltstone import CompactionConfig, Session, ThresholdCompactor
from siltstone.adapters.langchain import SiltstoneMiddleware

PORTS = ["Antwerp", "Bilbao", "Cork", "Delfzijl", "Esbjerg", "Faro"]
DETAILS = "It came by ship, was weighed and opened, was found dry, and was closed again. " * 6
QUESTION = "On which quay does the crate of the port of Antwerp stand?"


class FakeModel(GenericFakeChatModel):
    """Answers by a script."""

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> FakeModel:  # noqa: ARG002 - LangChain's own name
        """Itself: the script knows which tools it calls."""
        return self


def script() -> Iterator[AIMessage]:
    """It asks the memory when it is asked for what it no longer sees."""
    for _ in PORTS:
        yield AIMessage("Noted.")
    call = {"name": "memory_search", "args": {"query": QUESTION}, "id": "call-1", "type": "tool_call"}
    yield AIMessage("", tool_calls=[call])
    yield AIMessage("On quay 0, as you told me at the beginning.")


def main() -> None:
    """Six notes through a small window, then a question about the first."""
    config = CompactionConfig(
        auto_compact_threshold=600, recent_turn_budget=1, min_turns_between_compactions=1
    )
    policy = ThresholdCompactor(config)
    with (
        tempfile.TemporaryDirectory() as folder,
        Session.open(folder, "chat-1", policy=policy, context_window=8_000) as session,
    ):
        agent = create_agent(
            os.environ.get("SILTSTONE_MODEL") or FakeModel(messages=script()),
            system_prompt="You keep a list.",
            middleware=[SiltstoneMiddleware(session)],
            checkpointer=InMemorySaver(),
        )
        thread: Any = {"configurable": {"thread_id": "1"}}
        for place, port in enumerate(PORTS):
            said = f"The crate of the port of {port} stands on quay {place}. {DETAILS}"
            agent.invoke({"messages": [HumanMessage(said)]}, thread)
        view = session.prepare().messages
        print(f"{len(session.log())} messages were said, {len(view)} are in the request.")
        messages = agent.invoke({"messages": [HumanMessage(QUESTION)]}, thread)["messages"]
        found = [each.text for each in messages if each.type == "tool"]
        print(f"memory_search found: {found[0][:90] if found else 'nothing was asked'}")
        print(f"The agent: {messages[-1].text}")


if __name__ == "__main__":
    main()
