"""pydantic-ai: the laws, and what is its alone."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest

pytest.importorskip("pydantic_ai", reason="pydantic-ai is not installed; nox -s adapter has it")

from pydantic_ai import Agent, Tool, capture_run_messages, exceptions
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import (
    BinaryContent,
    CompactionPart,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    NativeToolCallPart,
    NativeToolReturnPart,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, DeltaThinkingPart, DeltaToolCall, FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.usage import RequestUsage

import siltstone
from adapters import contract
from siltstone.adapters.pydantic_ai import PydanticAIDialect, SiltstoneCapability, summariser
from siltstone.messages import decode, encode


class Scripted:
    """The agent's model: it answers from a script, and the run remembers what it was sent."""

    def __init__(self, script: Sequence[contract.Reply], run: contract.Run) -> None:
        self.replies, self.run = iter(script), run

    async def __call__(self, messages: list[Any], info: AgentInfo) -> ModelResponse:
        self._told(messages, info)
        reply = next(self.replies)
        if isinstance(reply, contract.Refuse):
            raise ModelHTTPError(400, "scripted", {"message": reply.text})
        if isinstance(reply, contract.Hang):
            await asyncio.Event().wait()
        usage = RequestUsage(input_tokens=contract.INPUT_TOKENS, output_tokens=contract.OUTPUT_TOKENS)
        return ModelResponse(parts=_parts(reply, len(messages)), usage=usage)

    async def stream(self, messages: list[Any], info: AgentInfo) -> AsyncIterator[Any]:
        self._told(messages, info)
        reply = next(self.replies)
        if isinstance(reply, contract.Refuse):
            raise ModelHTTPError(400, "scripted", {"message": reply.text})
        for place, part in enumerate(_parts(reply, len(messages))):
            if isinstance(part, TextPart):
                yield part.content
            elif isinstance(part, ThinkingPart):
                yield {place: DeltaThinkingPart(content=part.content, signature=part.signature)}
            else:
                called = {"json_args": json.dumps(part.args), "tool_call_id": part.tool_call_id}
                yield {place: DeltaToolCall(part.tool_name, **called)}

    def _told(self, messages: list[Any], info: AgentInfo) -> None:
        self.run.sent.append(list(messages))
        self.run.tools.append({each.name for each in info.function_tools})
        prompts = [
            part.content for each in messages for part in each.parts if isinstance(part, SystemPromptPart)
        ]
        self.run.systems.append("\n".join([*prompts, *filter(None, [info.instructions])]))


def _parts(reply: contract.Reply, sent: int) -> list[Any]:
    parts: list[Any] = []
    if reply.thought:
        parts.append(
            ThinkingPart(reply.thought, signature=contract.signature(reply.thought), provider_name="function")
        )
    if isinstance(reply, contract.Say):
        return [*parts, TextPart(reply.text)]
    calls = [ToolCallPart("look_up", {"topic": each}, f"call-{each}-{sent}") for each in reply.topics]
    return [*parts, *calls]


@dataclass
class Changes(AbstractCapability[Any]):
    """Another capability, which changes the messages of each request."""

    change: Any

    async def before_model_request(self, ctx: Any, request_context: Any) -> Any:
        request_context.messages = self.change(request_context.messages)
        return request_context


class PydanticAICase(contract.Case):
    """``Agent`` with a capability; the caller hands the messages of one run to the next."""

    can_send_again = hasattr(exceptions, "RetryModelRequest")  # since 2.64
    messages_of_a_turn = 4  # the results of one answer are in one request
    dialect = PydanticAIDialect()

    def __init__(self, prompt: str, **options: Any) -> None:
        self.prompt, self.options = prompt, options
        self.prompts = 1 if prompt == "system_prompt" else 0

    def agent(self, session: Any, script: Sequence[contract.Reply], run: contract.Run) -> Any:
        scripted = Scripted(script, run)
        agent = Agent(
            FunctionModel(scripted, stream_function=scripted.stream, model_name="scripted"),
            capabilities=[
                *([] if self.change is None else [Changes(self.change)]),
                SiltstoneCapability(session, **self.options),
            ],
            tools=[Tool(self.tool, name="look_up")],
            **({self.prompt: contract.SYSTEM} if self.clock is None else {}),
        )
        if self.clock is not None:
            dynamic: dict[str, Any] = {"dynamic": True} if self.prompts else {}
            getattr(agent, self.prompt)(**dynamic)(self.clock)
        return agent

    def play(
        self,
        session: Any,
        script: Sequence[contract.Reply],
        inputs: list[str],
        *,
        is_async: bool,
        state: Any = None,
    ) -> contract.Run:
        run = contract.Run(state=state)
        agent = self.agent(session, script, run)

        async def all_of_them() -> None:
            for text in inputs:
                self._ran(await agent.run(text, message_history=run.state), run)

        if is_async:
            asyncio.run(all_of_them())
            return run
        loop = asyncio.new_event_loop()  # ``run_sync`` would make one, and leave it open
        asyncio.set_event_loop(loop)
        try:
            for text in inputs:
                self._ran(agent.run_sync(text, message_history=run.state), run)
        finally:
            asyncio.set_event_loop(None)
            loop.run_until_complete(loop.shutdown_default_executor())
            loop.close()
        return run

    def _ran(self, result: Any, run: contract.Run) -> None:
        run.answers.append(result.output)
        run.tokens += result.usage.input_tokens
        run.stored = run.state = result.all_messages()

    async def start(
        self, session: Any, script: Sequence[contract.Reply], text: str, state: Any, run: contract.Run
    ) -> None:
        with capture_run_messages() as run.state:
            self._ran(await self.agent(session, script, run).run(text, message_history=state), run)

    def neutral(self, messages: Sequence[Any]) -> list[dict[str, Any]]:
        return [said for each in messages for said in _neutral(each)]

    def check(self, messages: Sequence[Any]) -> None:
        again = ModelMessagesTypeAdapter.validate_json(ModelMessagesTypeAdapter.dump_json(list(messages)))
        assert again == list(messages)
        assert isinstance(messages[-1], ModelRequest)
        kinds = [each.kind for each in messages]
        assert all(one != other for one, other in pairwise(kinds))

    def opaque(self, messages: Sequence[Any]) -> list[str]:
        return [
            json.dumps([part.content, part.signature])
            for each in messages
            for part in each.parts
            if isinstance(part, ThinkingPart)
        ]

    def reload(self, state: Any) -> Any:
        return ModelMessagesTypeAdapter.validate_json(ModelMessagesTypeAdapter.dump_json(state))

    def stream(
        self, session: Any, script: Sequence[contract.Reply], text: str, state: Any
    ) -> tuple[str, Any]:
        async def main() -> tuple[str, Any]:
            agent = self.agent(session, script, contract.Run())
            async with agent.run_stream(text, message_history=state) as result:
                told = [each async for each in result.stream_text(delta=True)]
            return "".join(told), result.all_messages()

        return asyncio.run(main())


def _neutral(message: Any) -> list[dict[str, Any]]:
    if isinstance(message, ModelResponse):
        blocks: list[dict[str, Any]] = []
        for part in message.parts:
            if isinstance(part, TextPart):
                blocks.append({"type": "text", "text": part.content})
            elif isinstance(part, ToolCallPart):
                call = {"id": part.tool_call_id, "name": part.tool_name, "input": part.args_as_dict()}
                blocks.append({"type": "tool_use", **call})
        return [{"role": "assistant", "content": blocks}]
    said: list[dict[str, Any]] = []
    for part in message.parts:
        if isinstance(part, ToolReturnPart):
            block = {"type": "tool_result", "tool_use_id": part.tool_call_id, "content": part.content}
            said.append({"role": "user", "content": [block]})
        elif isinstance(part, UserPromptPart):
            content = part.content
            text = content if isinstance(content, str) else "".join(each.content for each in content)
            said.append({"role": "user", "content": text})
        elif isinstance(part, CompactionPart):
            said.append({"role": "user", "content": part.content})
        elif not isinstance(part, SystemPromptPart):
            raise TypeError(part)
    return said


class TestTheLaws(contract.AdapterContract):
    """The history keeps every message, and the model sees the view."""

    case = PydanticAICase("instructions")


class TestTheLawsWithAHistoryThatIsRewritten(contract.AdapterContract):
    """A compaction shortens the history that a run gives back; the prompt is a message."""

    case = PydanticAICase("system_prompt", rewrite_history=True)


PNG = BinaryContent(data=b"\x89PNG", media_type="image/png")
MESSAGES = [
    ModelRequest(parts=[SystemPromptPart("Be brief."), UserPromptPart("Where?")]),
    ModelRequest(parts=[CompactionPart(content="They spoke."), UserPromptPart(["Look:", PNG])]),
    ModelResponse(
        parts=[
            ThinkingPart("Hm.", signature="s", provider_name="anthropic"),
            TextPart("I look."),
            ToolCallPart("look_up", {"topic": "é"}, "call-1"),
            NativeToolCallPart("web_search", {"query": "salt"}, "call-2", provider_name="openai"),
            NativeToolReturnPart("web_search", [{"url": "https://a"}], "call-2", provider_name="openai"),
        ],
        usage=RequestUsage(input_tokens=7),
    ),
    ModelRequest(parts=[ToolReturnPart("look_up", "On the quay.", "call-1"), UserPromptPart("Thanks.")]),
    ModelRequest(parts=[ToolReturnPart("look_up", "No.", "call-3", outcome="failed")]),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.kind)
def test_what_a_model_is_sent_of_a_message_can_be_written_again(message: Any) -> None:
    """From the log alone, where the host has it no more."""
    dialect = PydanticAIDialect()
    (loaded,) = ModelMessagesTypeAdapter.validate_json(ModelMessagesTypeAdapter.dump_json([message]))
    assert contract.through_the_log(dialect, message) == loaded, "as pydantic-ai's own file of it"
    pieces = dialect.read(message)
    kinds = ["compaction_summary" if isinstance(message.parts[0], CompactionPart) else "original", "original"]
    written = [
        dialect.write(decode(encode(piece)), kind, None) for piece, kind in zip(pieces, kinds, strict=False)
    ]
    again = [piece for each in written for piece in dialect.read(each)]
    assert again == list(pieces), "where redaction has changed it"


def test_a_system_prompt_beside_the_first_question_stays_when_the_question_goes() -> None:
    message = MESSAGES[0]
    dialect = PydanticAIDialect()
    assert [piece["role"] for piece in dialect.read(message)] == ["system", "user"]
    assert dialect.part(message, [0]).parts == [message.parts[0]]
    assert message.parts[1].content == "Where?"


def test_a_second_conversation_in_one_session_is_refused_and_a_store_has_one_for_each() -> None:
    async def main(capability: Any) -> None:
        agent = Agent(TestModel(call_tools=[]), capabilities=[capability])
        for name in ("ann", "ben"):
            await agent.run(f"I am {name}.", conversation_id=name)
        await capability.close()

    session = contract.opened()
    with pytest.raises(siltstone.ConfigError, match=r"'ann'.*'ben'.*give the adapter a store"):
        asyncio.run(main(SiltstoneCapability(session)))
    assert len(session.log()) == 2
    with siltstone.SimpleMemoryStore() as store:
        asyncio.run(main(SiltstoneCapability(store, context_window=10_000)))
        assert [len(store.session(name).log()) for name in ("ann", "ben")] == [2, 2]


def test_a_model_of_the_framework_writes_summaries_and_the_run_counts_them_once() -> None:
    async def main() -> None:
        writer = summariser(TestModel(custom_output_text=contract.SUMMARY))
        async with contract.opened(writer, kind=siltstone.AsyncSession) as session:
            script, inputs = contract.conversation(6)
            case, run, state = PydanticAICase("instructions"), contract.Run(), None
            for number, text in enumerate(inputs):
                await case.start(session, script[2 * number : 2 * number + 2], text, state, run)
                state = run.state
            assert session.usage.input_tokens > 0
            assert run.tokens == 12 * contract.INPUT_TOKENS + session.usage.input_tokens
            assert any(
                contract.SUMMARY in str(part.content) for each in run.sent[-1] for part in each.parts[:1]
            )

    asyncio.run(main())


def test_a_search_leaves_the_event_loop_free(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = Agent(
        TestModel(call_tools=["memory_search"]), capabilities=[SiltstoneCapability(contract.opened())]
    )
    assert asyncio.run(contract.leaves_the_loop_free(monkeypatch, lambda: agent.run("Where is the salt?")))
