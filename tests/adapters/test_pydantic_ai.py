"""pydantic-ai: the laws, and what is its alone."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from itertools import pairwise
from typing import Any

import pytest

pytest.importorskip("pydantic_ai", reason="pydantic-ai is not installed; nox -s adapter has it")

from pydantic_ai import Agent, exceptions
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import (
    CompactionPart,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, DeltaThinkingPart, DeltaToolCall, FunctionModel
from pydantic_ai.usage import RequestUsage

from adapters.contract import (
    INPUT_TOKENS,
    OUTPUT_TOKENS,
    SYSTEM,
    AdapterContract,
    Case,
    Hang,
    Refuse,
    Reply,
    Run,
    Say,
    look_up,
    signature,
)
from siltstone.adapters.pydantic_ai import SiltstoneCapability


class Scripted:
    """The agent's model: it answers from a script, and the run remembers what it was sent."""

    def __init__(self, script: Sequence[Reply], run: Run) -> None:
        self.replies, self.run = iter(script), run

    async def __call__(self, messages: list[Any], info: AgentInfo) -> ModelResponse:
        """The next reply."""
        self._told(messages, info)
        reply = next(self.replies)
        if isinstance(reply, Refuse):
            raise ModelHTTPError(400, "scripted", {"message": reply.text})
        if isinstance(reply, Hang):
            await asyncio.Event().wait()
        usage = RequestUsage(input_tokens=INPUT_TOKENS, output_tokens=OUTPUT_TOKENS)
        return ModelResponse(parts=_parts(reply, len(messages)), usage=usage)

    async def stream(self, messages: list[Any], info: AgentInfo) -> AsyncIterator[Any]:
        """The same as deltas."""
        self._told(messages, info)
        for place, part in enumerate(_parts(next(self.replies), len(messages))):
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


def _parts(reply: Reply, sent: int) -> list[Any]:
    parts: list[Any] = []
    if reply.thought:
        parts.append(
            ThinkingPart(reply.thought, signature=signature(reply.thought), provider_name="function")
        )
    if isinstance(reply, Say):
        return [*parts, TextPart(reply.text)]
    calls = [ToolCallPart("look_up", {"topic": each}, f"call-{each}-{sent}") for each in reply.topics]
    return [*parts, *calls]


class PydanticAICase(Case):
    """``Agent`` with a capability; the caller hands the messages of one run to the next."""

    can_send_again = hasattr(exceptions, "RetryModelRequest")  # since 2.64
    messages_of_a_turn = 4  # the results of one answer are in one request

    def __init__(self, prompt: str, **options: Any) -> None:
        self.prompt, self.options = prompt, options
        self.prompts = 1 if prompt == "system_prompt" else 0

    def agent(self, session: Any, script: Sequence[Reply], run: Run) -> Any:
        scripted = Scripted(script, run)
        return Agent(
            FunctionModel(scripted, stream_function=scripted.stream, model_name="scripted"),
            capabilities=[SiltstoneCapability(session, **self.options)],
            tools=[look_up],
            **{self.prompt: SYSTEM},
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
        run = Run(state=state)
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

    def _ran(self, result: Any, run: Run) -> None:
        run.answers.append(result.output)
        run.tokens += result.usage.input_tokens
        run.stored = run.state = result.all_messages()

    async def start(self, session: Any, script: Sequence[Reply], text: str, state: Any, run: Run) -> None:
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

    def stream(self, session: Any, script: Sequence[Reply], text: str, state: Any) -> tuple[str, Any]:
        async def main() -> tuple[str, Any]:
            agent = self.agent(session, script, Run())
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


class TestTheLaws(AdapterContract):
    """The history keeps every message, and the model sees the view."""

    case = PydanticAICase("instructions")


class TestTheLawsWithAHistoryThatIsRewritten(AdapterContract):
    """A compaction shortens the history that a run gives back; the prompt is a message."""

    case = PydanticAICase("system_prompt", rewrite_history=True)
