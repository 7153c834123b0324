"""The OpenAI Agents SDK: the laws, and what is its own."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("agents", reason="openai-agents is not installed; nox -s adapter has it")

from agents import Agent, RunConfig, Runner, SessionSettings, SQLiteSession, Usage, function_tool
from agents.models.interface import Model
from agents.run_config import ModelInputData
from agents.testing import ModelStep, ScriptedModel, assistant_message, function_call
from openai.types.responses import ResponseInputParam, ResponseReasoningItem
from pydantic import TypeAdapter

import siltstone
from adapters.contract import (
    INPUT_TOKENS,
    OUTPUT_TOKENS,
    SUMMARY_USAGE,
    SYSTEM,
    AdapterContract,
    Call,
    Case,
    Hang,
    Refuse,
    Reply,
    Run,
    Say,
    conversation,
    leaves_the_loop_free,
    look_up,
    opened,
    signature,
)
from siltstone.adapters.openai_agents import RecoveringModel, SiltstoneSession
from siltstone.messages import broken_tool_groups, read_history

pytestmark = pytest.mark.anyio


class PromptTooLongError(Exception):
    """The error of a provider's SDK."""


class Scripted(ScriptedModel):
    """The SDK's own scripted model; the run remembers what it was sent, at once."""

    def __init__(self, steps: Sequence[Any], run: Run, hangs: bool = False) -> None:
        super().__init__(steps)
        self.run, self.hangs = run, hangs

    async def get_response(self, system_instructions: Any, input: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: A002
        self._note(system_instructions, input, args[1] if len(args) > 1 else kwargs["tools"])
        if self.hangs:
            await asyncio.Event().wait()
        return await super().get_response(system_instructions, input, *args, **kwargs)

    async def stream_response(self, system_instructions: Any, input: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: A002
        self._note(system_instructions, input, args[1] if len(args) > 1 else kwargs["tools"])
        async for event in super().stream_response(system_instructions, input, *args, **kwargs):
            yield event

    def _note(self, system_instructions: Any, items: Any, tools: Any) -> None:
        self.run.systems.append(system_instructions)
        self.run.sent.append(list(items))
        self.run.tools.append({tool.name for tool in tools})


def steps(script: Sequence[Reply], log: Sequence[Any]) -> list[Any]:
    """The script in the SDK's own words. Ids follow from the turn, so that two ways to play one agree."""
    turn = sum(each.get("role") == "user" for each in log)
    return [step(reply, turn + place // 2) for place, reply in enumerate(script)]


def step(reply: Reply, place: int) -> Any:
    if isinstance(reply, Refuse):
        return PromptTooLongError(reply.text)
    items: list[Any] = []
    if reply.thought:
        items.append(
            ResponseReasoningItem(
                id=f"rs_{reply.thought.replace(' ', '_')}_{place}",
                type="reasoning",
                summary=[],
                encrypted_content=signature(reply.thought),
            )
        )
    if isinstance(reply, Say):
        items.append(assistant_message(reply.text))
    else:
        items += [
            function_call("look_up", {"topic": topic}, call_id=f"call-{topic}-{place}")
            for topic in reply.topics
        ]
    usage = Usage(
        requests=1,
        input_tokens=INPUT_TOKENS,
        output_tokens=OUTPUT_TOKENS,
        total_tokens=INPUT_TOKENS + OUTPUT_TOKENS,
    )
    return ModelStep(output=items, usage=usage)


class AgentsCase(Case):
    """``Runner`` with the session and its ``run_config``, as users write it."""

    #: The Runner copies what a session gives it.
    is_identical = False
    #: Each call is an item of its own, and so is a thought.
    messages_of_a_turn = 6
    keeps_list = False
    #: The Runner stores an answer together with the results of its calls.
    keeps_open_calls = False
    messages_of_a_thought = 1

    def agent(self, memory: SiltstoneSession, model: Model) -> Any:
        tool = function_tool(self.tool, name_override="look_up")
        clock = self.clock
        return Agent(
            name="clerk",
            instructions=SYSTEM if clock is None else lambda _context, _agent: clock(),
            model=RecoveringModel(model, memory),
            tools=[tool, *memory.tools],
        )

    def play(
        self, session: Any, script: Sequence[Reply], inputs: list[str], *, is_async: bool, state: Any = None
    ) -> Run:
        run, memory = Run(), SiltstoneSession(session) if state is None else state
        model = Scripted(steps(script, session.log()), run)
        agent = self.agent(memory, model)
        for text in inputs:
            config: Any = {} if self.change is None else {"call_model_input_filter": self.changed}
            config = memory.run_config(tracing_disabled=True, **config)
            options: Any = {"session": memory, "run_config": config}
            if is_async:
                result = asyncio.run(Runner.run(agent, text, **options))
            else:
                loop = asyncio.new_event_loop()
                asyncio.set_event_loop(loop)
                try:
                    result = Runner.run_sync(agent, text, **options)
                finally:
                    asyncio.set_event_loop(None)
                    loop.close()
            run.answers.append(result.final_output)
            run.tokens += result.context_wrapper.usage.input_tokens
        run.stored, run.state = session.log(), memory
        return run

    def changed(self, data: Any) -> Any:
        assert self.change is not None
        given = data.model_data
        return ModelInputData(input=self.change(given.input), instructions=given.instructions)

    async def start(self, session: Any, script: Sequence[Reply], text: str, state: Any, run: Run) -> None:
        memory = run.state = SiltstoneSession(session) if state is None else state
        hangs = any(isinstance(reply, Hang) for reply in script)
        log = session.log()
        model = Scripted(
            [] if hangs else steps(script, await log if asyncio.iscoroutine(log) else log), run, hangs
        )
        options: Any = {"session": memory, "run_config": memory.run_config(tracing_disabled=True)}
        await Runner.run(self.agent(memory, model), text, **options)

    def neutral(self, messages: Sequence[Any]) -> list[dict[str, Any]]:
        return [json.loads(json.dumps(each)) for each in messages]

    def check(self, messages: Sequence[Any]) -> None:
        TypeAdapter(ResponseInputParam).validate_python(list(messages))

    def opaque(self, messages: Sequence[Any]) -> list[str]:
        return [json.dumps(each, sort_keys=True) for each in messages if each.get("type") == "reasoning"]

    def reload(self, state: Any) -> Any:
        """The items live in the session: another process makes the adapter anew over it."""

    def answers(self, history: Sequence[Any]) -> int:
        """An answer is a run of items, which other items end."""
        roles = [message.role for message in history]
        return sum(
            role == "assistant" and before != "assistant"
            for before, role in zip(["", *roles], roles, strict=False)
        )

    def stream(self, session: Any, script: Sequence[Reply], text: str, state: Any) -> tuple[str, Any]:
        memory = SiltstoneSession(session) if state is None else state
        model = ScriptedModel(steps(script, session.log()))
        agent = self.agent(memory, model)

        async def main() -> str:
            told = ""
            options: Any = {"session": memory, "run_config": memory.run_config(tracing_disabled=True)}
            streamed = Runner.run_streamed(agent, text, **options)
            async for event in streamed.stream_events():
                if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
                    told += event.data.delta
            return told

        return asyncio.run(main()), memory


class TestTheLaws(AdapterContract):
    """The Runner stores in the session, and the model sees the view."""

    case = AgentsCase()


def fresh(**options: Any) -> tuple[Any, SiltstoneSession]:
    session = opened(**options)
    return session, SiltstoneSession(session)


async def talk(memory: SiltstoneSession, replies: Sequence[Any], *texts: str, run: Run | None = None) -> Any:
    """The agent answers *texts* by *replies*; the result of the last run."""
    model = Scripted([step(each, 99 + place) for place, each in enumerate(replies)], run or Run())
    agent, result = AgentsCase().agent(memory, model), None
    for text in texts:
        config = memory.run_config(tracing_disabled=True)
        result = await Runner.run(agent, text, session=memory, run_config=config)
    return result


async def test_the_model_searches_what_left_the_view() -> None:
    _, memory = fresh()
    script, inputs = conversation(8)
    await talk(memory, script, *inputs)
    assert not any("quay 0?" in json.dumps(each) for each in await memory.get_items())
    run = Run()
    model = Scripted(
        [
            [function_call("memory_search", {"query": "what stands on quay 0"}, call_id="s-1")],
            [function_call("memory_get", {"handle": "m9999"}, call_id="s-2")],
            [assistant_message("Salt and tin.")],
        ],
        run,
    )
    agent = AgentsCase().agent(memory, model)
    config = memory.run_config(tracing_disabled=True)
    result = await Runner.run(agent, "What stood on quay 0?", session=memory, run_config=config)
    assert result.final_output == "Salt and tin."
    outputs = [each["output"] for each in run.sent[-1] if each.get("type") == "function_call_output"]
    assert "Question 0" in outputs[-2]
    assert "this conversation has no message 'm9999'" in json.loads(outputs[-1])["error"]


async def test_an_item_that_the_runner_takes_back_was_not_said() -> None:
    _, memory = fresh()
    await talk(memory, [Say("One."), Say("Two.")], "First?", "Second?")
    said = await memory.get_items()
    assert (await memory.pop_item())["content"][0]["text"] == "Two."
    assert (await memory.pop_item())["content"] == "Second?"
    assert await memory.get_items() == said[:2]
    await talk(memory, [Say("Third.")], "Third?")
    assert [each["content"] for each in await memory.get_items() if each["role"] == "user"] == [
        "First?",
        "Third?",
    ]


async def test_a_session_that_is_cleared_has_forgotten_all_in_a_later_process_too(tmp_path: Path) -> None:
    options: dict[str, Any] = {"path": tmp_path, "memory": True}
    with opened(**options) as session:
        memory = SiltstoneSession(session)
        assert await memory.pop_item() is None
        await talk(memory, [Say("Noted.")], "The code is 4711.")
        await memory.clear_session()
        assert "4711" not in json.dumps(session.log())
    with opened(**options) as session:
        run = Run()
        await talk(SiltstoneSession(session), [Say("Hello.")], "Anew.", run=run)
        assert [each["content"] for each in run.sent[0] if each["role"] == "user"] == ["Anew."]


async def test_a_compaction_that_is_asked_for_is_made_and_its_tokens_are_counted() -> None:
    session, memory = fresh(
        policy=siltstone.ThresholdCompactor(),
        context_window=100_000,
        model=AgentsCase().summariser("S.", SUMMARY_USAGE),
    )
    script, inputs = conversation(6)
    await talk(memory, script, *inputs)
    assert session.compactions() == []
    before = len(await memory.get_items())
    await memory.run_compaction({"force": True})
    assert [each.reason for each in session.compactions()] == ["manual"]
    assert len(await memory.get_items()) < before


async def test_the_estimate_is_held_against_what_the_provider_counted() -> None:
    session, memory = fresh(policy=None, model=None)
    assert session.estimate_error is None
    await talk(memory, [Call(("salt",)), Say("There.")], "Where is the salt?")
    assert session.estimate_error is not None


async def test_a_stream_that_is_refused_after_it_began_is_asked_for_again_until_content_has_come() -> None:
    class Late(ScriptedModel):
        """Its provider refuses inside the stream."""

        async def stream_response(self, *args: Any, **kwargs: Any) -> Any:
            yield SimpleNamespace(type="response.created")
            async for event in super().stream_response(*args, **kwargs):
                yield event

    session, memory = fresh(policy=siltstone.ThresholdCompactor(), context_window=100_000)
    script, inputs = conversation(4)
    await talk(memory, script, *inputs)
    error = PromptTooLongError("terminal event `response.failed`; error=(code='context_length_exceeded')")
    agent = AgentsCase().agent(memory, Late([error, step(Say("It fits."), 7)]))
    config = memory.run_config(tracing_disabled=True)
    streamed = Runner.run_streamed(agent, "And now?", session=memory, run_config=config)
    said = [event async for event in streamed.stream_events() if event.type == "raw_response_event"]
    assert streamed.final_output == "It fits."
    assert said[-1].data.type == "response.completed"
    assert [each.reason for each in session.compactions()] == ["overflow"]


@pytest.mark.parametrize("way", ["settings", "session", "callback", "filter"])
@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
async def test_what_the_sdk_leaves_out_is_left_out_of_every_call_and_kept(way: str, is_streamed: bool):
    """Also of the calls after the first, and the items are the same as with a session of the SDK's own."""

    def newest(items: list[Any], *more: list[Any]) -> list[Any]:
        return [*items[-2:], *(each for one in more for each in one)]

    def short(data: Any) -> Any:
        return ModelInputData(input=newest(data.model_data.input), instructions=data.model_data.instructions)

    ways: dict[str, dict[str, Any]] = {
        "settings": {"session_settings": SessionSettings(limit=2)},
        "session": {},
        "callback": {"session_input_callback": newest},
        "filter": {"call_model_input_filter": short},
    }
    session, memory = fresh(policy=None, model=None)
    sent = []
    for kept in (memory, SQLiteSession("chat")):
        run, thought = Run(), "plan"
        script = [Say("One."), Say("Two."), Call(("salt",), thought), Say("There.", thought), Say("Yes.")]
        model = Scripted([step(each, 9 + place) for place, each in enumerate(script)], run)
        agent = Agent(name="clerk", model=model, tools=[function_tool(look_up, name_override="look_up")])
        if way == "session":
            kept.session_settings = SessionSettings(limit=2)
        for text in ("First?", "Yes.", "Where?", "Yes."):
            made = kept.run_config if kept is memory else RunConfig
            config: Any = made(**ways[way], tracing_disabled=True)
            if is_streamed:
                streamed = Runner.run_streamed(agent, text, session=kept, run_config=config)
                async for _ in streamed.stream_events():
                    pass
            else:
                await Runner.run(agent, text, session=kept, run_config=config)
        sent.append(run.sent)
        assert len(await memory.get_items()) == 12
    assert sent[0] == sent[1]
    assert session.compactions() == []


async def test_a_filter_of_the_users_adds_to_a_request_what_is_never_stored() -> None:
    session, memory = fresh(policy=None, model=None)

    async def reminds(data: Any) -> Any:
        items = [*data.model_data.input, {"role": "user", "content": "Be brief."}]
        return ModelInputData(input=items, instructions="Be a poet.")

    run = Run()
    model = Scripted([step(Call(("salt",)), 1), step(Say("There."), 2)], run)
    config = memory.run_config(call_model_input_filter=reminds, tracing_disabled=True)
    agent = AgentsCase().agent(memory, model)
    await Runner.run(agent, "Where?", session=memory, run_config=config)
    assert [items[-1]["content"] for items in run.sent] == ["Be brief."] * 2
    assert run.systems == ["Be a poet."] * 2
    assert "Be brief." not in json.dumps(session.log())


async def test_a_run_without_the_session_is_refused_by_name_and_writes_nothing() -> None:
    session, memory = fresh()
    agent = AgentsCase().agent(memory, Scripted([step(Say("No."), 1)], Run()))
    config = memory.run_config(tracing_disabled=True)
    for options in ({}, {"previous_response_id": "resp_1"}, {"conversation_id": "conv_1"}):
        with pytest.raises(siltstone.ConfigError, match="session=memory"):
            await Runner.run(agent, "Who am I?", run_config=config, **options)
    assert session.log() == []


async def test_two_runs_at_once_in_one_conversation_lose_nothing() -> None:
    session, memory = fresh()
    runs = {name: Run() for name in ("ann", "ben")}

    async def talks(name: str) -> None:
        for number in range(4):
            replies = [Call((f"{name}-{number}",)), Say(f"Answer {name} {number}.")]
            await talk(memory, replies, f"Question {name} {number}?", run=runs[name])

    await asyncio.gather(talks("ann"), talks("ben"))
    logged = json.dumps(session.log())
    for name, run in runs.items():
        assert all(f"Question {name} {number}?" in logged for number in range(4))
        assert all(f"Answer {name} {number}." in logged for number in range(4))
        for place, sent in enumerate(run.sent):
            assert broken_tool_groups(read_history(AgentsCase().neutral(sent))) == 0
            assert place % 2 or f"Question {name} {place // 2}?" in json.dumps(sent)


async def test_a_search_leaves_the_event_loop_free(monkeypatch: pytest.MonkeyPatch) -> None:
    _, memory = fresh()
    tool = memory.tools[0]
    context: Any = None
    assert await leaves_the_loop_free(monkeypatch, lambda: tool.on_invoke_tool(context, '{"query": "salt"}'))
