"""An agent of Microsoft Agent Framework that remembers. It needs no key; SILTSTONE_MODEL names a real model.

pip install '.[agent-framework]'  # in a checkout
python examples/agent_framework_agent.py
pip install agent-framework-openai
SILTSTONE_MODEL=gpt-5 OPENAI_API_KEY=... python examples/agent_framework_agent.py
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from typing import Any

from agent_framework import (
    Agent,
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    Content,
    FunctionInvocationLayer,
    Message,
)

from siltstone import AsyncSession, CompactionConfig, ThresholdCompactor
from siltstone.adapters.agent_framework import SiltstoneMiddleware

PORTS = ["Antwerp", "Bilbao", "Cork", "Delfzijl", "Esbjerg", "Faro"]
DETAILS = "It came by ship, was weighed and opened, was found dry, and was closed again. " * 6
QUESTION = "On which quay does the crate of the port of Antwerp stand?"


class FakeClient(FunctionInvocationLayer[Any], ChatMiddlewareLayer[Any], BaseChatClient[Any]):
    """Answers by a script, and asks the memory when it is asked for what it no longer sees."""

    def __init__(self) -> None:
        super().__init__()
        said = ["Noted."] * len(PORTS)
        call = Content.from_function_call("call-1", "memory_search", arguments={"query": QUESTION})
        self.replies = [*map(Content.from_text, said), call]
        self.replies.append(Content.from_text("On quay 0, as you told me at the beginning."))

    async def _answer(self) -> ChatResponse[Any]:
        return ChatResponse(messages=[Message("assistant", [self.replies.pop(0)])])

    def _inner_get_response(self, **_request: Any) -> Any:
        return self._answer()


def client() -> Any:
    """The fake one, or the one that SILTSTONE_MODEL names."""
    name = os.environ.get("SILTSTONE_MODEL")
    if not name:
        return FakeClient()
    from agent_framework.openai import OpenAIChatClient

    return OpenAIChatClient(model=name)


async def main() -> None:
    """Six notes through a small window, then a question about the first."""
    config = CompactionConfig(
        auto_compact_threshold=600, recent_turn_budget=1, min_turns_between_compactions=1
    )
    with tempfile.TemporaryDirectory() as folder:
        policy = ThresholdCompactor(config)
        async with AsyncSession.open(folder, "chat-1", policy=policy, context_window=8_000) as session:
            memory = SiltstoneMiddleware(session)
            instructions = "You keep a list."
            agent = Agent(
                client(),
                instructions=instructions,
                middleware=[memory],
                tools=memory.tools,
                default_options={"store": False},  # the service is not to keep the conversation
            )
            chat = agent.create_session()
            for place, port in enumerate(PORTS):
                await agent.run(
                    f"The crate of the port of {port} stands on quay {place}. {DETAILS}", session=chat
                )
            view = (await session.prepare()).messages
            print(f"{len(await session.log())} messages were said, {len(view)} are in the request.")
            result = await agent.run(QUESTION, session=chat)
            contents = (content for message in result.messages for content in message.contents)
            found = [str(content.result) for content in contents if content.type == "function_result"]
            print(f"memory_search found: {found[0][:90] if found else 'nothing was asked'}")
            print(f"The agent: {result.text}")


if __name__ == "__main__":
    asyncio.run(main())
