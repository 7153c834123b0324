"""Strands Agents: the laws, and what is the plugin's own."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("strands", reason="strands is not installed; nox -s adapter has it")

from pydantic import TypeAdapter
from strands import Agent, tool
from strands.agent.conversation_manager import NullConversationManager
from strands.hooks import MessageAddedEvent
from strands.middleware import InvokeModelStage
from strands.models import Model
from strands.session import FileSessionManager
from strands.types.content import Message
from strands.types.exceptions import ContextWindowOverflowException

import siltstone
from adapters import contract
from shapes import blocks
from siltstone.adapters.strands import SiltstonePlugin, StrandsDialect, summariser
from siltstone.messages import decode, encode, read_message


class Scripted(Model):
    """The agent's model: it answers from a script, and the run remembers what it was sent."""

    stateful = False

    def __init__(self, script: Sequence[contract.Reply], run: contract.Run) -> None:
        self.script, self.run, self.place = list(script), run, 0

    def update_config(self, **model_config: Any) -> None:
        """It has none."""

    def get_config(self) -> Any:
        return {"model_id": "scripted"}

    def structured_output(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    async def stream(
        self, messages: Any, tool_specs: Any = None, system_prompt: Any = None, **kwargs: Any
    ) -> AsyncIterator[Any]:
        """The next reply, in the events of Bedrock."""
        self.run.sent.append(messages)
        self.run.systems.append(system_prompt)
        self.run.tools.append({each["name"] for each in tool_specs or ()})
        reply = self.script[self.place]
        self.place += 1
        if isinstance(reply, contract.Refuse):
            raise ContextWindowOverflowException(reply.text)
        if isinstance(reply, contract.Hang):
            await asyncio.Event().wait()
        for event in _events(reply, len(messages)):
            yield event


def _events(reply: Any, sent: int) -> Any:
    yield {"messageStart": {"role": "assistant"}}
    if reply.thought:
        yield {"contentBlockStart": {"start": {}}}
        yield {"contentBlockDelta": {"delta": {"reasoningContent": {"text": reply.thought}}}}
        signed = {"reasoningContent": {"signature": contract.signature(reply.thought)}}
        yield {"contentBlockDelta": {"delta": signed}}
        yield {"contentBlockStop": {}}
    if isinstance(reply, contract.Say):
        yield {"contentBlockStart": {"start": {}}}
        yield {"contentBlockDelta": {"delta": {"text": reply.text}}}
        yield {"contentBlockStop": {}}
    for topic in reply.topics if isinstance(reply, contract.Call) else ():
        use = {"name": "look_up", "toolUseId": f"{topic}-{sent}"}
        yield {"contentBlockStart": {"start": {"toolUse": use}}}
        yield {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps({"topic": topic})}}}}
        yield {"contentBlockStop": {}}
    yield {"messageStop": {"stopReason": "tool_use" if isinstance(reply, contract.Call) else "end_turn"}}
    total = contract.INPUT_TOKENS + contract.OUTPUT_TOKENS
    used = {
        "inputTokens": contract.INPUT_TOKENS,
        "outputTokens": contract.OUTPUT_TOKENS,
        "totalTokens": total,
    }
    yield {"metadata": {"usage": used, "metrics": {"latencyMs": 1}}}


def an_agent(
    session: Any, script: Sequence[contract.Reply], run: contract.Run, messages: Any = None, **options: Any
) -> Agent:
    chosen: dict[str, Any] = {"conversation_manager": NullConversationManager(), **options}
    return Agent(
        Scripted(script, run),
        messages=messages,
        tools=[tool(name="look_up", description="Looks a topic up.")(contract.look_up)],
        system_prompt=contract.SYSTEM,
        plugins=[SiltstonePlugin(session)],
        callback_handler=None,
        **chosen,
    )


class StrandsCase(contract.Case):
    """An ``Agent`` that keeps its own messages, as users write it."""

    #: Strands hands a model copies of what it is sent.
    is_identical = False
    #: The results of calls side by side are one message.
    messages_of_a_turn = 4
    dialect = StrandsDialect()

    def play(
        self,
        session: Any,
        script: Sequence[contract.Reply],
        inputs: list[str],
        *,
        is_async: bool,
        state: Any = None,
    ) -> contract.Run:
        run = contract.Run()
        agent = an_agent(session, script, run, state)
        if (clock := self.clock) is not None:
            agent.add_middleware(
                InvokeModelStage.Input, lambda context: context.replace(system_prompt=clock())
            )
        if (change := self.change) is not None:
            agent.add_middleware(
                InvokeModelStage.Input, lambda context: context.replace(messages=change(context.messages))
            )
        for text in inputs:
            done = asyncio.run(agent.invoke_async(text)) if is_async else agent(text)
            run.answers.append(str(done).strip())
        run.tokens = agent.event_loop_metrics.accumulated_usage["inputTokens"]
        run.stored = run.state = agent.messages
        return run

    async def start(
        self, session: Any, script: Sequence[contract.Reply], text: str, state: Any, run: contract.Run
    ) -> None:
        agent = an_agent(session, script, run, state)
        if (
            self.tool is not contract.look_up
        ):  # no error of a tool ends a run, so the process dies just before
            agent.add_hook(self._dies, MessageAddedEvent)
        run.state = agent.messages
        await agent.invoke_async(text)

    def _dies(self, event: MessageAddedEvent) -> None:
        if event.message["role"] == "assistant":
            self.tool("salt")

    def neutral(self, messages: Sequence[Any]) -> list[dict[str, Any]]:
        return [each for message in messages for each in _neutral(message)]

    def check(self, messages: Sequence[Any]) -> None:
        TypeAdapter(list[Message]).validate_python(list(messages), strict=True)
        roles = [each["role"] for each in messages]
        assert all(one != other for one, other in pairwise(roles))
        assert all(each["content"] for each in messages)

    def opaque(self, messages: Sequence[Any]) -> list[str]:
        return [
            json.dumps(block, ensure_ascii=False)
            for each in messages
            for block in each["content"]
            if "reasoningContent" in block
        ]

    def reload(self, state: Any) -> Any:
        return json.loads(json.dumps(state))

    def stream(
        self, session: Any, script: Sequence[contract.Reply], text: str, state: Any
    ) -> tuple[str, Any]:
        agent = an_agent(session, script, contract.Run(), state)

        async def followed() -> str:
            return "".join([str(each["data"]) async for each in agent.stream_async(text) if "data" in each])

        return asyncio.run(followed()), agent.messages

    def is_same(self, one: Any, other: Any) -> bool:
        return bool((one["role"], one["content"]) == (other["role"], other["content"]))


def _neutral(message: Any) -> list[dict[str, Any]]:
    """*message* as one for each text that a user may have said by itself, and one for the rest."""
    blocks = [_block(each) for each in message["content"]]
    if message["role"] == "assistant":
        return [{"role": "assistant", "content": blocks}]
    results = [each for each in blocks if each["type"] == "tool_result"]
    found = [{"role": "user", "content": results}] if results else []
    return found + [{"role": "user", "content": each["text"]} for each in blocks if each["type"] == "text"]


def _block(block: Any) -> dict[str, Any]:
    if "toolUse" in block:
        use = block["toolUse"]
        return {"type": "tool_use", "id": use["toolUseId"], "name": use["name"], "input": use["input"]}
    if "toolResult" in block:
        result = block["toolResult"]
        content = [{"type": "text", "text": each["text"]} for each in result["content"]]
        return {"type": "tool_result", "tool_use_id": result["toolUseId"], "content": content}
    if "reasoningContent" in block:
        thought = block["reasoningContent"]["reasoningText"]
        return {"type": "thinking", "thinking": thought["text"], "signature": thought["signature"]}
    return {"type": "text", "text": block["text"]}


class TestTheLaws(contract.AdapterContract):
    """The agent's list keeps every message, and the model sees the view."""

    case = StrandsCase()


def test_the_window_of_strands_itself_drops_nothing_of_the_log() -> None:
    """Without a conversation manager Strands keeps the newest 40 messages."""
    session, run = contract.opened(), contract.Run()
    script, inputs = contract.conversation(15)
    agent = Agent(
        Scripted(script, run),
        tools=[tool(name="look_up", description="Looks a topic up.")(contract.look_up)],
        plugins=[SiltstonePlugin(session)],
        callback_handler=None,
    )
    for text in inputs:
        agent(text)
    assert len(agent.messages) <= 40
    said = [read_message(each, 0).text for each in session.log()]
    assert [text for text in said if text in inputs] == inputs
    assert not any(each.reason == "branch" for each in session.compactions())


def test_a_second_conversation_in_one_session_is_refused_and_a_store_has_one_for_each(tmp_path: Path) -> None:
    def talk(plugin: SiltstonePlugin, session_id: str) -> Any:
        agent = Agent(
            Scripted([contract.Say("Hello.")] * 3, contract.Run()),
            plugins=[plugin],
            session_manager=FileSessionManager(session_id=session_id, storage_dir=str(tmp_path)),
            callback_handler=None,
            record_direct_tool_call=False,
        )
        agent(f"I am {session_id}.")
        return agent.tool.memory_get(handle="m0")

    session = contract.opened()
    one = SiltstonePlugin(session)
    talk(one, "ann")
    with pytest.raises(siltstone.ConfigError, match=r"'ann'.*'ben'.*give the adapter a store"):
        talk(one, "ben")
    assert len(session.log()) == 2
    with siltstone.SimpleMemoryStore() as store:
        plugin = SiltstonePlugin(store, context_window=10_000, most_open=1)
        for name in ("cat", "dan", "cat"):
            assert f"I am {name}." in str(talk(plugin, name))
        plugin.close()
        assert [len(store.session(name).log()) for name in ("cat", "dan")] == [4, 2]
        with pytest.raises(siltstone.ConfigError, match="named no conversation"):
            an_agent(store, [contract.Say("No.")], contract.Run())("Who am I?")


def test_an_overflow_that_says_nothing_known_is_one_all_the_same() -> None:
    session = contract.opened(policy=siltstone.ThresholdCompactor(), context_window=100_000)
    script, inputs = contract.conversation(4)
    agent = an_agent(session, [*script, contract.Refuse("no"), contract.Say("It fits.")], contract.Run())
    for text in inputs:
        agent(text)
    assert str(agent("And now?")).strip() == "It fits."
    assert [each.reason for each in session.compactions()] == ["overflow"]


@pytest.mark.parametrize("said", [0, 3])
def test_a_refusal_inside_a_stream_is_sent_again_until_content_has_come(said: int) -> None:
    class Late(Scripted):
        """Its provider refuses after the first events of an answer."""

        async def stream(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
            first = self.script[self.place] == contract.Refuse()
            for event in list(_events(contract.Say("It is"), 1))[: 1 + said] if first else ():
                yield event
            async for event in super().stream(*args, **kwargs):
                yield event

    session = contract.opened(policy=siltstone.ThresholdCompactor(), context_window=100_000)
    script, inputs = contract.conversation(4)
    model = Late([*script, contract.Refuse(), contract.Say("It fits.")], contract.Run())
    agent = an_agent(session, [], contract.Run())
    agent.model = model
    for text in inputs:
        agent(text)
    if said:
        with pytest.raises(ContextWindowOverflowException):
            agent("And now?")
    else:
        assert str(agent("And now?")).strip() == "It fits."
    assert session.agent_model == "scripted"


def test_an_overflow_that_nothing_helps_is_the_agents_own_error() -> None:
    agent = an_agent(contract.opened(), [contract.Refuse("no")] * 5, contract.Run())
    with pytest.raises(ContextWindowOverflowException, match="no"):
        agent("Hello")


def test_a_tool_that_is_called_wrongly_tells_the_model_why() -> None:
    agent = an_agent(contract.opened(), [], contract.Run())
    answer = agent.tool.memory_search(query=3)
    assert answer["status"] == "error"
    assert "query" in answer["content"][0]["text"]


def test_a_model_of_strands_writes_summaries_in_nobodys_stream() -> None:
    async def main() -> None:
        writer = summariser(Scripted([contract.Say(contract.SUMMARY)] * 9, contract.Run()))
        async with contract.opened(writer, kind=siltstone.AsyncSession) as session:
            script, inputs = contract.conversation(6)
            agent, told = an_agent(session, script, contract.Run()), ""
            for text in inputs:
                async for each in agent.stream_async(text):
                    told += str(each.get("data", ""))
            made = await session.compactions()
            assert made
            assert contract.SUMMARY not in told
            assert session.usage.input_tokens == len(made) * contract.INPUT_TOKENS
            used = agent.event_loop_metrics.accumulated_usage["inputTokens"]
            assert used == (12 + len(made)) * contract.INPUT_TOKENS

    asyncio.run(main())
    assert contract.SUMMARY_USAGE.input_tokens != contract.INPUT_TOKENS


IMAGE = {"format": "png", "source": {"bytes": b"\x00\xff"}}
BILL = {"format": "pdf", "name": "bill", "source": {"location": {"type": "s3", "uri": "s3://a/b"}}}
REASONING = {"reasoningText": {"text": "Hm.", "signature": "s"}}
USE = {"toolUseId": "1", "name": "look_up", "input": {"topic": "é"}}
RESULT = {"toolUseId": "1", "status": "error", "content": [{"json": {"a": [1, None]}}, {"text": "No."}]}
GUARDED = {"text": {"text": "Fine.", "qualifiers": ["query"]}}
FORMULA = {
    **blocks("assistant", {"text": "=1 is a formula."}, {"cachePoint": {"type": "default"}}),
    "metadata": {"usage": {"inputTokens": 7, "outputTokens": 1, "totalTokens": 8}},
    "tracking_id": "0199-t",
}


@pytest.mark.parametrize(
    "message",
    [
        blocks("user", {"text": "Where?"}),
        blocks("user", {"text": "One."}, {"text": "Two."}),
        blocks("user", {"text": "Look"}, {"image": IMAGE}),
        blocks("user", {"document": BILL}),
        blocks("assistant", {"reasoningContent": REASONING}, {"toolUse": USE}),
        blocks("assistant", {"reasoningContent": {"redactedContent": b"\x01"}}),
        blocks("user", {"toolResult": RESULT}),
        blocks("user", {"guardContent": GUARDED}),
        FORMULA,
    ],
    ids=lambda message: "-".join(key for block in message["content"] for key in block),
)
def test_what_a_model_is_sent_of_a_message_can_be_written_again(message: Any) -> None:
    """From the log alone, where the host has it no more."""
    dialect = StrandsDialect()
    assert contract.through_the_log(dialect, message) == message
    (fields,) = dialect.read(message)
    written = dialect.write(decode(encode(fields)), "original", None)
    assert list(dialect.read(written)) == [fields], "where redaction has changed it"


def test_a_cut_result_leaves_the_one_beside_it_as_it_was_and_has_no_id_of_it() -> None:
    def result(name: str, content: Any) -> Any:
        return {"toolResult": {"toolUseId": name, "status": "success", "content": [content]}}

    original = {
        "role": "user",
        "content": [result("1", {"text": "x" * 9_000}), result("2", {"json": {"a": 1}})],
        "tracking_id": "t",
    }
    (fields,) = StrandsDialect().read(original)
    first, second = fields["content"]
    cut = {"role": "user", "content": [{**first, "content": "cut"}, second]}
    written = StrandsDialect().write(cut, "substitute", original)
    assert written["content"] == [result("1", {"text": "cut"}), original["content"][1]]
    assert written["content"][1] is original["content"][1]
    assert "tracking_id" not in written
