"""LangChain and LangGraph: the laws, and what is theirs alone."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

pytest.importorskip("langchain", reason="langchain is not installed; nox -s adapter has it")

from langchain.agents import create_agent
from langchain_core.callbacks import get_usage_metadata_callback
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    convert_to_openai_messages,
)
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from adapters.contract import (
    INPUT_TOKENS,
    OUTPUT_TOKENS,
    SYSTEM,
    AdapterContract,
    Call,
    Case,
    Hang,
    Refuse,
    Reply,
    Run,
    Say,
    look_up,
    signature,
)
from siltstone.adapters.langchain import SiltstoneMiddleware, summariser
from siltstone.usage import UsageRecord


class PromptTooLongError(Exception):
    """What a provider's SDK raises."""


class Scripted(BaseChatModel):
    """The agent's model: it answers from a script, and the run remembers what it was sent."""

    replies: Any
    run: Any = None
    model_name: str = "scripted"

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:
        """Itself: the script knows which tools it calls."""
        self.run.tools.append({each.name for each in tools})
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self._answer(messages))])

    async def _agenerate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        answer = self._answer(messages)
        if answer is None:
            await asyncio.Event().wait()
        return ChatResult(generations=[ChatGeneration(message=answer)])

    def _stream(
        self, messages: list[BaseMessage], *args: Any, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        answer = self._answer(messages)
        calls = [
            {"name": each["name"], "args": json.dumps(each["args"]), "id": each["id"], "index": place}
            for place, each in enumerate(answer.tool_calls)
        ]
        chunk = AIMessageChunk(
            answer.content,
            tool_call_chunks=calls,
            usage_metadata=answer.usage_metadata,
            chunk_position="last",
        )
        yield ChatGenerationChunk(message=chunk)

    def _answer(self, messages: list[BaseMessage]) -> Any:
        if self.run is not None:
            self.run.systems.append(messages[0].text)
            self.run.sent.append(list(messages[1:]))
        reply = next(self.replies)
        return reply if isinstance(reply, AIMessage) else _answered(reply, len(messages))


def _answered(reply: Reply, sent: int) -> Any:
    if isinstance(reply, Refuse):
        raise PromptTooLongError(reply.text)
    if isinstance(reply, Hang):
        return None
    blocks: list[Any] = []
    if reply.thought:
        blocks.append({"type": "thinking", "thinking": reply.thought, "signature": signature(reply.thought)})
    if isinstance(reply, Say):
        blocks.append({"type": "text", "text": reply.text})
    calls = [
        {"name": "look_up", "args": {"topic": topic}, "id": f"call-{topic}-{sent}", "type": "tool_call"}
        for topic in (reply.topics if isinstance(reply, Call) else ())
    ]
    usage = {
        "input_tokens": INPUT_TOKENS,
        "output_tokens": OUTPUT_TOKENS,
        "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
    }
    return AIMessage(
        blocks if reply.thought else getattr(reply, "text", ""),
        tool_calls=calls,
        usage_metadata=usage,
        response_metadata={"model_name": "scripted"},
    )


class LangChainCase(Case):
    """``create_agent`` with a checkpointer, as users write it."""

    #: A checkpointer reads the messages anew for each run.
    is_identical = False

    def __init__(self, **options: Any) -> None:
        self.options = options

    def agent(self, session: Any, script: Sequence[Reply], run: Run, saver: Any) -> Any:
        model = Scripted(replies=iter(script), run=run)
        tool = StructuredTool.from_function(look_up, name="look_up", description="Looks a topic up.")
        middleware = [SiltstoneMiddleware(session, **self.options)]
        return create_agent(
            model, tools=[tool], system_prompt=SYSTEM, middleware=middleware, checkpointer=saver
        )

    def play(
        self,
        session: Any,
        script: Sequence[Reply],
        inputs: Sequence[str],
        *,
        is_async: bool,
        state: Any = None,
    ) -> Run:
        run, saver = Run(), InMemorySaver() if state is None else state
        agent = self.agent(session, script, run, saver)
        with get_usage_metadata_callback() as counted:
            for text in inputs:
                said = {"messages": [("user", text)]}
                done = asyncio.run(agent.ainvoke(said, _THREAD)) if is_async else agent.invoke(said, _THREAD)
                run.answers.append(done["messages"][-1].text)
        run.tokens = sum(each["input_tokens"] for each in counted.usage_metadata.values())
        run.stored, run.state = done["messages"], saver
        return run

    async def start(self, session: Any, script: Sequence[Reply], text: str, state: Any, run: Run) -> None:
        run.state = InMemorySaver() if state is None else state
        agent = self.agent(session, script, run, run.state)
        await agent.ainvoke({"messages": [("user", text)]}, _THREAD)

    def neutral(self, messages: Sequence[Any]) -> list[dict[str, Any]]:
        return [dict(each) for each in convert_to_openai_messages([_unsigned(each) for each in messages])]

    def check(self, messages: Sequence[Any]) -> None:
        assert all(isinstance(each, BaseMessage) and each.id for each in messages)
        assert len({each.id for each in messages}) == len(messages)
        assert len(convert_to_openai_messages([_unsigned(each) for each in messages])) == len(messages)

    def opaque(self, messages: Sequence[Any]) -> list[str]:
        return [
            json.dumps(block, ensure_ascii=False)
            for each in messages
            if isinstance(each.content, list)
            for block in each.content
            if block["type"] == "thinking"
        ]

    def reload(self, state: Any) -> Any:
        fresh, serde = InMemorySaver(), JsonPlusSerializer()
        kept = state.get_tuple(_THREAD)
        checkpoint, metadata = serde.loads_typed(serde.dumps_typed((kept.checkpoint, kept.metadata)))
        place = {"configurable": {"thread_id": "1", "checkpoint_ns": ""}}
        fresh.put(place, checkpoint, metadata, checkpoint["channel_versions"])
        return fresh

    def summariser(self, text: str, usage: UsageRecord) -> Any:
        counted = {
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "total_tokens": usage.input_tokens + usage.output_tokens,
        }
        made = {"model_name": "small"}
        answers = (AIMessage(text, usage_metadata=counted, response_metadata=made) for _ in range(1_000))
        return summariser(Scripted(replies=answers, model_name="small"))

    def stream(self, session: Any, script: Sequence[Reply], text: str, state: Any) -> tuple[str, Any]:
        saver = InMemorySaver() if state is None else state
        agent, told = self.agent(session, script, Run(), saver), ""
        for chunk, _ in agent.stream({"messages": [("user", text)]}, _THREAD, stream_mode="messages"):
            if isinstance(chunk, AIMessage):
                told += chunk.text
        return told, saver

    def is_same(self, one: Any, other: Any) -> bool:
        return bool(one == other and one.id == other.id)


_THREAD: Any = {"configurable": {"thread_id": "1"}}


def _unsigned(message: BaseMessage) -> BaseMessage:
    """*message* without reasoning, of which OpenAI's chat API knows nothing."""
    if isinstance(message.content, str):
        return message
    return message.model_copy(update={"content": message.text})


class TestTheLaws(AdapterContract):
    """The state keeps every message, and the model sees the view."""

    case = LangChainCase()


class TestTheLawsWithAStateThatIsRewritten(AdapterContract):
    """A compaction shortens the state as well."""

    case = LangChainCase(rewrite_state=True)
