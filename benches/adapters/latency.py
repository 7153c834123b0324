"""The time that an adapter adds to a model call when nothing is due, with 1,000 messages, beside its own.

    nox -s latency                     all five
    nox -s "latency(langchain)"        one

An agent of the real framework runs with a scripted model: a call of a tool, then an answer. All that a hook
does between two model calls is timed inside of the framework, without the model. The first model call of a
run mostly has messages that the host has just read from its store; the second one has one answer and one
result more. The rows of a table run in turns, and the best counts: the machine may have other work. So the
time that this process was at work stands beside that of the clock.

A row each for siltstone in the process's memory, which is what the peers do (they keep nothing, and search
nothing); on the disk, where what is new is durable before each call; and with recall, where the memory is
searched for each new request as well. The last line says what a durable write takes here.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import json
import logging
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import siltstone
from siltstone import _native

MESSAGES, RUNS = 1_000, 12
WORDS = "The crane lifts crates of salt and tin from the hold of the ship to the quay. " * 4
NEVER = 10**9


def session(path: Path | None, *, recall: bool = False) -> siltstone.Session:
    """A session whose policy is never due."""
    policy = siltstone.ThresholdCompactor(siltstone.CompactionConfig(auto_compact_threshold=NEVER))
    memory: Any = siltstone.SimpleMemoryStore() if path is None else True
    return siltstone.Session.open(path, "chat", policy=policy, recall=recall, memory=memory)


@dataclass
class Meter:
    """The time of the hooks of one agent, by the clock and of the processor, since the last model call.

    Attributes:
        calls: For each model call the milliseconds by the clock, and those that this process was at work.
    """

    wall: float = 0.0
    work: float = 0.0
    calls: list[tuple[float, float]] = field(default_factory=list)

    @contextmanager
    def hook(self, sign: int = 1) -> Iterator[None]:
        """Around a hook."""
        wall, work = time.perf_counter(), time.process_time()
        try:
            yield
        finally:
            self.wall += sign * (time.perf_counter() - wall)
            self.work += sign * (time.process_time() - work)

    def timed(self, call: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """*call*, a model call inside of a hook: its time is not the hook's."""

        def called(request: Any) -> Any:
            with self.hook(-1):
                return call(request)

        return called

    def sent(self) -> None:
        """A request has gone out."""
        self.calls.append((self.wall * 1_000, self.work * 1_000))
        self.wall = self.work = 0.0

    def restart(self) -> None:
        """Forgets all: the first run reads everything anew."""
        self.wall = self.work = 0.0
        self.calls.clear()


Sessions = Mapping[str, siltstone.Session]
Meters = dict[str, Meter]


def langchain(sessions: Sessions) -> Meters:
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
            with meter_of(self).hook():
                answer = super().wrap_model_call(request, meter_of(self).timed(handler))
            meter_of(self).sent()
            return answer

        def after_agent(self, state: Any, runtime: Any) -> None:
            with meter_of(self).hook():
                super().after_agent(state, runtime)

    class Theirs(SummarizationMiddleware):
        def before_model(self, state: Any, runtime: Any) -> Any:
            with meter_of(self).hook():
                answer = super().before_model(state, runtime)
            meter_of(self).sent()
            return answer

    def meter_of(hook: Any) -> Meter:
        return meters[names[id(hook)]]

    def look_up(topic: str) -> str:
        """Looks a topic up."""
        return topic

    def replies() -> Any:
        while True:
            calls = [{"name": "look_up", "args": {"topic": "salt"}, "id": "call", "type": "tool_call"}]
            yield AIMessage("", tool_calls=calls)
            yield AIMessage("It is there.")

    peer = Theirs(model=Fake(messages=replies()), trigger=("tokens", NEVER), keep=("messages", 20))
    version = importlib.metadata.version("langchain")
    hooks: dict[str, Any] = {name: Ours(each) for name, each in sessions.items()}
    hooks[f"SummarizationMiddleware of langchain {version}"] = peer
    names = {id(hook): name for name, hook in hooks.items()}
    meters = {name: Meter() for name in hooks}
    agents = {
        name: create_agent(
            Fake(messages=replies()), [look_up], middleware=[each], checkpointer=InMemorySaver()
        )
        for name, each in hooks.items()
    }
    place: Any = {"configurable": {"thread_id": "1"}}
    past = [
        (HumanMessage if number % 2 == 0 else AIMessage)(f"{number}. {WORDS}", id=str(number))
        for number in range(MESSAGES)
    ]
    for agent in agents.values():
        agent.update_state(place, {"messages": past})
    for number in range(RUNS + 1):
        for name, agent in agents.items():
            agent.invoke({"messages": [("user", "Is it there?")]}, place)
            if number == 0:
                meters[name].restart()
    return meters


def pydantic_ai(sessions: Sessions) -> Meters:
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

    def meter_of(hook: Any) -> Meter:
        return meters[names[id(hook)]]

    class Ours(SiltstoneCapability[Any]):
        async def before_model_request(self, ctx: Any, request_context: Any) -> Any:
            with meter_of(self).hook():
                answer = await super().before_model_request(ctx, request_context)
            meter_of(self).sent()
            return answer

        async def after_run(self, ctx: Any, *, result: Any) -> Any:
            with meter_of(self).hook():
                return await super().after_run(ctx, result=result)

    class Theirs(SummarizingCompaction[Any]):
        async def before_model_request(self, ctx: Any, request_context: Any) -> Any:
            with meter_of(self).hook():
                answer = await super().before_model_request(ctx, request_context)
            meter_of(self).sent()
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
    version = importlib.metadata.version("pydantic-ai-harness")
    hooks: dict[str, Any] = {name: Ours(each) for name, each in sessions.items()}
    hooks[f"SummarizingCompaction of pydantic-ai-harness {version}"] = Theirs(max_tokens=NEVER)
    names = {id(hook): name for name, hook in hooks.items()}
    meters = {name: Meter() for name in hooks}
    agents = {
        name: Agent(FunctionModel(answer), tools=[look_up], capabilities=[each], instructions="Be brief.")
        for name, each in hooks.items()
    }

    async def main() -> None:
        kept = dict.fromkeys(agents, past)
        for number in range(RUNS + 1):
            for name, agent in agents.items():
                read = ModelMessagesTypeAdapter.validate_json(ModelMessagesTypeAdapter.dump_json(kept[name]))
                kept[name] = (await agent.run("Is it there?", message_history=read)).all_messages()
                if number == 0:
                    meters[name].restart()

    asyncio.run(main())
    return meters


def openai_agents(sessions: Sessions) -> Meters:
    """``Runner`` with a session; the stock session's own compaction needs OpenAI, so there is no peer."""
    from agents import Agent, Runner, function_tool
    from agents.testing import ScriptedModel

    from siltstone.adapters.openai_agents import SiltstoneSession

    class Ours(SiltstoneSession):
        meter: Meter

        async def get_items(self, limit: int | None = None, wrapper: Any = None) -> Any:
            with self.meter.hook():
                return await super().get_items(limit, wrapper)

        async def add_items(self, items: list[Any], wrapper: Any = None) -> None:
            with self.meter.hook():
                await super().add_items(items, wrapper)

        async def run_compaction(self, args: Any = None, wrapper: Any = None) -> None:
            with self.meter.hook():
                await super().run_compaction(args, wrapper)

        async def _prepared(self, *args: Any) -> Any:
            with self.meter.hook():
                answer = await super()._prepared(*args)
            self.meter.sent()
            return answer

    @function_tool
    def look_up(topic: str) -> str:
        """Looks a topic up."""
        return topic

    meters = {name: Meter() for name in sessions}
    hosts: dict[str, Ours] = {}
    for name, each in sessions.items():
        each.append(*({"role": _role(number), "content": f"{number}. {WORDS}"} for number in range(MESSAGES)))
        hosts[name] = Ours(each)
        hosts[name].meter = meters[name]

    async def main() -> None:
        for number in range(RUNS + 1):
            for name, host in hosts.items():
                arguments = {"name": "look_up", "arguments": '{"topic": "salt"}'}
                call = {"type": "function_call", **arguments, "call_id": f"c-{number}", "id": f"fc-{number}"}
                text = {"type": "output_text", "text": "It is there.", "annotations": []}
                said = {"type": "message", "role": "assistant", "content": [text], "id": f"m-{number}"}
                model = ScriptedModel([[call], [{**said, "status": "completed"}]])
                agent = Agent(name="clerk", model=model, tools=[look_up])
                await Runner.run(agent, "Is it there?", session=host, run_config=host.run_config())
                if number == 0:
                    meters[name].restart()

    asyncio.run(main())
    return meters


def openai(sessions: Sessions) -> Meters:
    """The loop of a user with Chat Completions; the SDK has nothing of its own to compare with."""
    import httpx2
    import openai as sdk

    from siltstone.adapters.openai import prepared

    function = {"name": "look_up", "arguments": '{"topic": "salt"}'}
    call = {"id": "call", "type": "function", "function": function}

    def answered(request: httpx2.Request) -> httpx2.Response:
        asked = json.loads(request.content)["messages"][-1]["role"] == "user"
        said = {"content": None, "tool_calls": [call]} if asked else {"content": "It is there."}
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", **said}}
        body = {"id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}
        return httpx2.Response(200, json=body)

    http = httpx2.Client(transport=httpx2.MockTransport(answered))
    create = sdk.OpenAI(api_key="none", http_client=http).chat.completions.create
    past: list[Any] = [{"role": _role(number), "content": f"{number}. {WORDS}"} for number in range(MESSAGES)]
    meters = {name: Meter() for name in sessions}
    loops: dict[str, Any] = {}
    for name, each in sessions.items():
        inner = meters[name].timed(lambda options: create(**options))
        loops[name] = prepared(each, lambda inner=inner, **options: inner(options)), list(past)
    for number in range(RUNS + 1):
        for name, (asked, messages) in loops.items():
            messages.append({"role": "user", "content": "Is it there?"})
            for _ in range(2):
                with meters[name].hook():
                    answer = asked(model="m", messages=messages)
                meters[name].sent()
                messages.append(answer.choices[0].message.model_dump(exclude_none=True))
                if answer.choices[0].message.tool_calls:
                    messages.append({"role": "tool", "tool_call_id": "call", "content": "salt"})
            if number == 0:
                meters[name].restart()
    return meters


def anthropic(sessions: Sessions) -> Meters:
    """The loop of a user, whose client has the middleware; other parts of the SDK need the API."""
    import anthropic as sdk
    import httpx2

    from siltstone.adapters.anthropic import SiltstoneMiddleware

    class Ours(SiltstoneMiddleware):
        meter: Meter

        def handle(self, request: Any, call_next: Callable[[Any], Any]) -> Any:
            with self.meter.hook():
                answer = super().handle(request, self.meter.timed(call_next))
            self.meter.sent()
            return answer

    def answered(request: httpx2.Request) -> httpx2.Response:
        asked = isinstance(json.loads(request.content)["messages"][-1]["content"], str)
        use = {"type": "tool_use", "id": "call", "name": "look_up", "input": {"topic": "salt"}}
        said = {"type": "text", "text": "It is there."}
        body = {"id": "1", "type": "message", "role": "assistant", "model": "m", "stop_sequence": None}
        used = {"input_tokens": 1, "output_tokens": 1}
        stop = "tool_use" if asked else "end_turn"
        content = [use if asked else said]
        return httpx2.Response(200, json={**body, "stop_reason": stop, "content": content, "usage": used})

    meters = {name: Meter() for name in sessions}
    loops: dict[str, Any] = {}
    for name, each in sessions.items():
        hook = Ours(each)
        hook.meter = meters[name]
        http = httpx2.Client(transport=httpx2.MockTransport(answered))
        client = sdk.Anthropic(api_key="none", http_client=http, middleware=[hook])
        past = [{"role": _role(number), "content": f"{number}. {WORDS}"} for number in range(MESSAGES)]
        loops[name] = client, past
    for number in range(RUNS + 1):
        for name, (client, messages) in loops.items():
            messages.append({"role": "user", "content": "Is it there?"})
            for _ in range(2):
                answer = client.messages.create(model="m", max_tokens=9, messages=messages)
                content = [each.model_dump(exclude_none=True) for each in answer.content]
                messages.append({"role": "assistant", "content": content})
                if answer.stop_reason == "tool_use":
                    result = {"type": "tool_result", "tool_use_id": "call", "content": "salt"}
                    messages.append({"role": "user", "content": [result]})
            if number == 0:
                meters[name].restart()
    return meters


def _role(number: int) -> str:
    return "user" if number % 2 == 0 else "assistant"


FRAMEWORKS = {
    "langchain": langchain,
    "pydantic-ai": pydantic_ai,
    "openai-agents": openai_agents,
    "openai": openai,
    "anthropic": anthropic,
}


def main(name: str) -> int:
    """Prints a row for each way to open a session, and one for the framework's own."""
    if _native.build_profile != "release":
        print("a debug build is not worth measuring: make install")
        return 2
    logging.getLogger("siltstone").setLevel(logging.ERROR)  # these sessions have no window on purpose
    with tempfile.TemporaryDirectory() as directory:
        sessions = {
            "siltstone, in memory": session(None),
            "siltstone, durable": session(Path(directory) / "durable"),
            "siltstone, durable, with recall": session(Path(directory) / "recall", recall=True),
        }
        rows = FRAMEWORKS[name](sessions)
        for each in sessions.values():
            each.close()
        appends: list[float] = []
        with session(Path(directory) / "appends") as plain:
            for number in range(4 * RUNS):
                began = time.perf_counter()
                plain.append({"role": "user", "content": f"{number}. {WORDS}"})
                appends.append((time.perf_counter() - began) * 1_000)
    print(f"| {name} | first call of a run: clock | at work | further call: clock | at work |")
    print("| :--- | ---: | ---: | ---: | ---: |")
    for row, meter in rows.items():
        calls = meter.calls[::2], meter.calls[1::2]
        assert all(len(each) == RUNS for each in calls), {row: len(meter.calls)}
        best = [min(each) for calls_of in calls for each in zip(*calls_of, strict=True)]
        cells = " | ".join(f"{each:.2f} ms" for each in best)
        print(f"| {row} | {cells} |")
    print(f"\na durable append of one message: {min(appends):.2f} ms, {statistics.median(appends):.2f} ms")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
