"""What an adapter adds to a model call when nothing is due, at 1,000 messages, beside the framework's own.

    nox -s "latency(langchain)" "latency(pydantic-ai)" "latency(openai-agents)"

An agent of the real framework runs with a scripted model: a call of a tool, then an answer. The hooks that
the framework calls before a model call are timed inside of it, without the model. The first model call of a
run has messages that the host has just read from its store, the second one more answer and one more result.
Runs of siltstone and of the peer alternate, and the best counts: the machine may have other work. Siltstone
writes what is new to the disk before each call, and the last line says what such a write takes here.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import siltstone
from siltstone import _native

MESSAGES, RUNS = 1_000, 12
WORDS = "The crane lifts crates of salt and tin from the hold of the ship to the quay. " * 4
NEVER = 10**9


def session(path: Path) -> siltstone.Session:
    """A durable session whose policy is never due, with recall."""
    policy = siltstone.ThresholdCompactor(siltstone.CompactionConfig(auto_compact_threshold=NEVER))
    return siltstone.Session.open(path, "chat", policy=policy, recall=True)


def timed(into: list[float], began: float) -> None:
    """Notes the milliseconds since *began*."""
    into.append((time.perf_counter() - began) * 1_000)


def langchain(path: Path) -> dict[str, tuple[list[float], list[float]]]:
    """``create_agent`` with a checkpointer, which reads its messages anew for each run."""
    from langchain.agents import create_agent
    from langchain.agents.middleware import SummarizationMiddleware
    from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage, HumanMessage
    from langgraph.checkpoint.memory import InMemorySaver

    from siltstone.adapters.langchain import SiltstoneMiddleware

    class Fake(GenericFakeChatModel):
        def bind_tools(self, tools: Any, **kwargs: Any) -> Any:  # noqa: ARG002 - LangChain's own names
            return self

    class Ours(SiltstoneMiddleware):
        def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
            began, inside = time.perf_counter(), [0.0]

            def called(changed: Any) -> Any:
                entered = time.perf_counter()
                answer = handler(changed)
                inside[0] = time.perf_counter() - entered
                return answer

            answer = super().wrap_model_call(request, called)
            timed(ours, began + inside[0])
            return answer

    class Theirs(SummarizationMiddleware):
        def before_model(self, state: Any, runtime: Any) -> Any:
            began = time.perf_counter()
            answer = super().before_model(state, runtime)
            timed(theirs, began)
            return answer

    def look_up(topic: str) -> str:
        """Looks a topic up."""
        return topic

    def replies() -> Any:
        while True:
            calls = [{"name": "look_up", "args": {"topic": "salt"}, "id": "call", "type": "tool_call"}]
            yield AIMessage("", tool_calls=calls)
            yield AIMessage("It is there.")

    ours: list[float] = []
    theirs: list[float] = []
    peer = Theirs(model=Fake(messages=replies()), trigger=("tokens", NEVER), keep=("messages", 20))
    agents = [
        create_agent(Fake(messages=replies()), [look_up], middleware=[each], checkpointer=InMemorySaver())
        for each in (Ours(session(path)), peer)
    ]
    place: Any = {"configurable": {"thread_id": "1"}}
    past = [
        (HumanMessage if number % 2 == 0 else AIMessage)(f"{number}. {WORDS}", id=str(number))
        for number in range(MESSAGES)
    ]
    for agent in agents:
        agent.update_state(place, {"messages": past})
        agent.invoke({"messages": [("user", "Is it there?")]}, place)
    ours.clear()
    theirs.clear()
    for _ in range(RUNS):
        for agent in agents:
            agent.invoke({"messages": [("user", "Is it there?")]}, place)
    version = importlib.metadata.version("langchain")
    return {
        "siltstone.adapters.langchain": (ours[::2], ours[1::2]),
        f"langchain {version} SummarizationMiddleware": (theirs[::2], theirs[1::2]),
    }


def pydantic_ai(path: Path) -> dict[str, tuple[list[float], list[float]]]:
    """``Agent``, whose caller reads the messages from JSON for each run."""
    from pydantic_ai import Agent
    from pydantic_ai.messages import (
        ModelMessagesTypeAdapter,
        ModelRequest,
        ModelResponse,
        TextPart,
        ToolCallPart,
    )
    from pydantic_ai.models.function import FunctionModel
    from pydantic_ai_harness.compaction import SummarizingCompaction

    from siltstone.adapters.pydantic_ai import SiltstoneCapability

    ours: list[float] = []
    theirs: list[float] = []

    class Ours(SiltstoneCapability[Any]):
        async def before_model_request(self, ctx: Any, request_context: Any) -> Any:
            began = time.perf_counter()
            answer = await super().before_model_request(ctx, request_context)
            timed(ours, began)
            return answer

    class Theirs(SummarizingCompaction[Any]):
        async def before_model_request(self, ctx: Any, request_context: Any) -> Any:
            began = time.perf_counter()
            answer = await super().before_model_request(ctx, request_context)
            timed(theirs, began)
            return answer

    def look_up(topic: str) -> str:
        """Looks a topic up."""
        return topic

    def answer(messages: list[Any], _info: Any) -> ModelResponse:
        asked = any(part.part_kind == "user-prompt" for part in messages[-1].parts)
        part = ToolCallPart("look_up", {"topic": "salt"}) if asked else TextPart("It is there.")
        return ModelResponse(parts=[part])

    past: list[Any] = [
        ModelRequest.user_text_prompt(f"{number}. {WORDS}")
        if number % 2 == 0
        else ModelResponse(parts=[TextPart(f"{number}. {WORDS}")])
        for number in range(MESSAGES)
    ]
    capabilities: list[Any] = [Ours(session(path)), Theirs(max_tokens=NEVER)]
    agents = [
        Agent(FunctionModel(answer), tools=[look_up], capabilities=[each], instructions="You are a clerk.")
        for each in capabilities
    ]

    async def main() -> None:
        kept = [past for _ in agents]
        for number in range(RUNS + 1):
            for place, agent in enumerate(agents):
                read = ModelMessagesTypeAdapter.validate_json(ModelMessagesTypeAdapter.dump_json(kept[place]))
                kept[place] = (await agent.run("Is it there?", message_history=read)).all_messages()
            if number == 0:
                ours.clear()
                theirs.clear()

    asyncio.run(main())
    version = importlib.metadata.version("pydantic-ai-harness")
    return {
        "siltstone.adapters.pydantic_ai": (ours[::2], ours[1::2]),
        f"pydantic-ai-harness {version} SummarizingCompaction": (theirs[::2], theirs[1::2]),
    }


def openai_agents(path: Path) -> dict[str, tuple[list[float], list[float]]]:
    """``Runner`` with a session; the stock session's own compaction needs OpenAI, so it stands alone."""
    from agents import Agent, Runner, function_tool
    from agents.testing import ScriptedModel

    from siltstone.adapters.openai_agents import SiltstoneSession

    ours: list[float] = []

    class Ours(SiltstoneSession):
        async def before_model_call(self, data: Any) -> Any:
            began = time.perf_counter()
            answer = await super().before_model_call(data)
            timed(ours, began)
            return answer

    @function_tool
    def look_up(topic: str) -> str:
        """Looks a topic up."""
        return topic

    memory = session(path)
    memory.append(*({"role": _role(number), "content": f"{number}. {WORDS}"} for number in range(MESSAGES)))

    async def main() -> None:
        for number in range(RUNS + 1):
            call = {
                "type": "function_call",
                "name": "look_up",
                "arguments": '{"topic": "salt"}',
                "call_id": f"call-{number}",
                "id": f"fc-{number}",
            }
            text = {"type": "output_text", "text": "It is there.", "annotations": []}
            said = {
                "type": "message",
                "role": "assistant",
                "content": [text],
                "id": f"m-{number}",
                "status": "completed",
            }
            model = ScriptedModel([[call], [said]])
            agent = Agent(name="clerk", model=model, tools=[look_up])
            host = Ours(memory)
            await Runner.run(agent, "Is it there?", session=host, run_config=host.run_config())
            if number == 0:
                ours.clear()

    asyncio.run(main())
    return {"siltstone.adapters.openai_agents": (ours[::2], ours[1::2])}


def _role(number: int) -> str:
    return "user" if number % 2 == 0 else "assistant"


FRAMEWORKS = {"langchain": langchain, "pydantic-ai": pydantic_ai, "openai-agents": openai_agents}


def main(name: str) -> int:
    """Prints a row for siltstone and one for the framework's own."""
    if _native.build_profile != "release":
        print("a debug build is not worth measuring: make install")
        return 2
    with tempfile.TemporaryDirectory() as directory:
        rows = FRAMEWORKS[name](Path(directory) / "agent")
        appends: list[float] = []
        with session(Path(directory) / "appends") as plain:
            for number in range(4 * RUNS):
                began = time.perf_counter()
                plain.append({"role": "user", "content": f"{number}. {WORDS}"})
                timed(appends, began)
    print("| hook | first call of a run: best | median | further call: best | median |")
    print("| :--- | ---: | ---: | ---: | ---: |")
    for row, calls in rows.items():
        assert all(len(each) == RUNS for each in calls), {key: len(each) for key, each in rows.items()}
        cells = " | ".join(f"{min(each):.2f} ms | {statistics.median(each):.2f} ms" for each in calls)
        print(f"| {row} | {cells} |")
    print(f"\na durable append of one message: {min(appends):.2f} ms, {statistics.median(appends):.2f} ms")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
