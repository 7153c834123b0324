"""LangChain and LangGraph: the laws, and what is theirs alone."""

import asyncio
import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

pytest.importorskip("langchain", reason="langchain is not installed; nox -s adapter has it")

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, HumanInTheLoopMiddleware, dynamic_prompt
from langchain_core.callbacks import get_usage_metadata_callback
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    convert_to_openai_messages,
)
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command

import siltstone
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
    leaves_the_loop_free,
    look_up,
    opened,
    signature,
    through_the_log,
)
from siltstone.adapters.langchain import LangChainDialect, SiltstoneMiddleware, summariser
from siltstone.errors import ConfigError
from siltstone.events import HistoryContinued
from siltstone.llm import UsageRecord
from siltstone.messages import broken_tool_groups, decode, encode, read_history, read_message
from siltstone.testing import RecordingHook


class PromptTooLongError(Exception):
    """The error of a provider's SDK."""


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


class Changes(AgentMiddleware[Any, Any, Any]):
    """Other middleware, which changes the messages of each request."""

    def __init__(self, change: Any) -> None:
        self.change = change

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        return handler(request.override(messages=self.change(request.messages)))

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        return await handler(request.override(messages=self.change(request.messages)))


class LangChainCase(Case):
    """``create_agent`` with a checkpointer, as users write it."""

    #: A checkpointer reads the messages anew for each run.
    is_identical = False
    dialect = LangChainDialect()

    def __init__(self, **options: Any) -> None:
        self.options = options

    def agent(self, session: Any, script: Sequence[Reply], run: Run, saver: Any) -> Any:
        model = Scripted(replies=iter(script), run=run)
        tool = StructuredTool.from_function(self.tool, name="look_up", description="Looks a topic up.")
        others: list[Any] = [] if self.change is None else [Changes(self.change)]
        if (clock := self.clock) is not None:
            others.append(dynamic_prompt(lambda _: clock()))
        middleware = [*others, SiltstoneMiddleware(session, **self.options)]
        return create_agent(
            model, tools=[tool], system_prompt=SYSTEM, middleware=middleware, checkpointer=saver
        )

    def play(
        self, session: Any, script: Sequence[Reply], inputs: list[str], *, is_async: bool, state: Any = None
    ) -> Run:
        run, saver = Run(), InMemorySaver() if state is None else state
        before = saver if isinstance(saver, list) else []
        agent = self.agent(session, script, run, None if before else saver)
        with get_usage_metadata_callback() as counted:
            for text in inputs:
                said = {"messages": [*before, ("user", text)]}
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

    def form(self, message: Any) -> Any:
        return type(message), message.model_dump()

    def whole(self, run: Run) -> Any:
        serde = JsonPlusSerializer()
        return serde.loads_typed(serde.dumps_typed(run.stored))

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


def clerk(replies: Sequence[Reply], hooks: Sequence[Any], **options: Any) -> tuple[Any, Run]:
    """An agent with *hooks*, and what its model was sent."""
    run = Run()
    tool = StructuredTool.from_function(look_up, name="look_up", description="Looks a topic up.")
    chosen: dict[str, Any] = {"tools": [tool], "system_prompt": SYSTEM, "checkpointer": InMemorySaver()}
    model = Scripted(replies=iter(replies), run=run)
    return create_agent(model, middleware=list(hooks), **{**chosen, **options}), run


def on(thread: str) -> Any:
    return {"configurable": {"thread_id": thread}}


def said(text: str) -> Any:
    return {"messages": [("user", text)]}


def test_a_second_thread_in_one_session_is_refused_before_it_writes() -> None:
    session = opened()
    agent, _ = clerk([Say("One."), Say("Two.")], [SiltstoneMiddleware(session)])
    agent.invoke(said("I am Ann."), on("ann"))
    with pytest.raises(ConfigError, match=r"'ann'.*'ben'.*give the adapter a store"):
        agent.invoke(said("I am Ben."), on("ben"))
    agent.invoke(said("Who am I?"), on("ann"))
    assert len(session.log()) == 4


def test_a_store_has_a_session_for_each_thread_that_goes_on_when_it_is_opened_again() -> None:
    """The least recently used is closed at each turn, and what is opened again is no restart."""
    events = RecordingHook()
    with siltstone.SimpleMemoryStore() as store:
        hook = SiltstoneMiddleware(store, most_open=1, context_window=10_000, hooks=[events])
        agent, run = clerk([Say(f"Answer {number}.") for number in range(6)], [hook])
        for _ in range(3):
            for thread in ("ann", "ben"):
                agent.invoke(said("Hi"), on(thread))
        hook.close()
        for name in ("ann", "ben"):
            with store.session(name, context_window=10_000) as session:
                assert len(session.log()) == 6
                assert session.compactions() == []
        assert [len(each) for each in run.sent] == [1, 1, 3, 3, 5, 5]
        assert not any(isinstance(each, HistoryContinued) for each in events.events)


def test_options_of_sessions_go_with_a_store() -> None:
    with pytest.raises(ConfigError, match=r"context_window.*go with a store"):
        SiltstoneMiddleware(opened(), context_window=10_000)


def test_the_first_message_of_a_checkpoint_is_edited_and_that_of_a_new_saver_begins_anew() -> None:
    session = opened(policy=None, model=None)
    hook = SiltstoneMiddleware(session)
    agent, run = clerk([Say("One."), Say("Two.")], [hook])
    agent.invoke(said("First?"), on("1"))
    *_, start = agent.get_state_history(on("1"))
    agent.invoke(said("Edited?"), start.config)
    assert [each.text for each in run.sent[-1]] == ["Edited?"]
    assert [each.reason for each in session.compactions()] == ["branch"]
    again, run = clerk([Say("Three.")], [hook])
    again.invoke(said("Hi"), on("1"))
    assert [each.text for each in run.sent[-1]] == ["Edited?", "Two.", "Hi"]


def test_a_run_without_a_thread_is_refused_where_there_is_a_session_for_each() -> None:
    agent, _ = clerk([Say("No.")], [SiltstoneMiddleware(lambda _: opened())], checkpointer=None)
    with pytest.raises(ConfigError, match="named no conversation"):
        agent.invoke(said("Who am I?"))


def test_many_threads_at_once_keep_apart() -> None:
    store = siltstone.SimpleMemoryStore()
    hook = SiltstoneMiddleware(lambda name: store.session(name, context_window=10_000), most_open=2)
    agents = {
        name: clerk([Call((name,)), Say(f"It is {name}.")] * 3, [hook])[0] for name in map(str, range(6))
    }

    def work(name: str) -> None:
        for number in range(3):
            agents[name].invoke(said(f"{name}, {number}"), on(name))

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, agents))
    hook.close()
    for name in agents:
        assert [read_message(each, 0).text for each in store.session(name).log()].count(f"It is {name}.") == 3
        assert len(store.session(name).log()) == 3 * 4


def test_an_interrupt_and_its_answer_leave_log_and_state_alike() -> None:
    """A run that stops before its tools, resumed by another agent over the same checkpoint."""
    session, saver = opened(), InMemorySaver()
    hook = HumanInTheLoopMiddleware(interrupt_on={"look_up": True})
    first, _ = clerk([Call(("salt", "tin"))], [hook, SiltstoneMiddleware(session)], checkpointer=saver)
    stopped = first.invoke(said("Where is the salt?"), on("1"))
    assert stopped["__interrupt__"]
    second, run = clerk([Say("On the quay.")], [hook, SiltstoneMiddleware(session)], checkpointer=saver)
    decisions = [{"type": "approve"}, {"type": "reject", "message": "Not the tin."}]
    done = second.invoke(Command(resume={"decisions": decisions}), on("1"))
    assert done["messages"][-1].text == "On the quay."
    assert broken_tool_groups(read_history(CASE.neutral(run.sent[0]))) == 0
    assert [each["role"] for each in session.log()] == ["user", "assistant", "tool", "tool", "assistant"]
    assert session.compactions() == []


def test_an_agent_inside_of_a_graph_goes_on_with_its_own_session() -> None:
    """As a node it is handed the same messages each time; as a tool it begins anew each time."""
    store = siltstone.SimpleMemoryStore()
    opened_for: list[str] = []

    def open_session(name: str) -> siltstone.Session:
        opened_for.append(name)
        return store.session(name, context_window=10_000)

    agent, _ = clerk([Say("One."), Say("Two.")], [SiltstoneMiddleware(open_session)], checkpointer=None)
    graph = StateGraph(MessagesState).add_node("clerk", agent).add_edge(START, "clerk")
    outer = graph.compile(checkpointer=InMemorySaver())
    for text in ("First?", "Second?"):
        outer.invoke(said(text), on("1"))
    assert len(opened_for) == 1
    assert opened_for[0].startswith("1/clerk/")
    assert len(store.session(opened_for[0]).log()) == 4


def test_a_tool_that_is_called_wrongly_tells_the_model_why() -> None:
    hook = SiltstoneMiddleware(opened())
    search = next(each for each in hook.tools if each.name == "memory_search")
    answer = search.invoke({"name": search.name, "args": {"limit": -1}, "id": "call-1", "type": "tool_call"})
    assert (answer.status, answer.content) == ("error", "memory_search: the argument 'query' is missing")


@pytest.mark.parametrize(
    "message",
    [
        HumanMessage("Where?", name="ann"),
        HumanMessage(
            [{"type": "text", "text": "Look"}, {"type": "image", "url": "https://example.org/a.png"}]
        ),
        AIMessage("There.", additional_kwargs={"reasoning_content": "Hm."}),
        AIMessage(
            [{"type": "thinking", "thinking": "Hm.", "signature": "s"}],
            tool_calls=[{"name": "look_up", "args": {"topic": "é"}, "id": "1", "type": "tool_call"}],
        ),
        AIMessage(
            "",
            invalid_tool_calls=[
                {"name": "look_up", "args": "{", "id": "1", "error": None, "type": "invalid_tool_call"}
            ],
        ),
        ToolMessage("No.", tool_call_id="1", status="error", name="look_up"),
        SystemMessage("Be brief."),
        HumanMessage("=1 is a formula.", id="h-1", additional_kwargs={"lc_source": "loader"}),
        AIMessage(
            [
                {"type": "reasoning", "id": "rs-1", "summary": [], "encrypted_content": "e" * 40},
                {"type": "text", "text": "I look.", "id": "msg-1", "annotations": [{"url": "https://a"}]},
                {
                    "type": "function_call",
                    "id": "fc-1",
                    "call_id": "1",
                    "name": "look_up",
                    "arguments": '{"topic":"é"}',
                },
            ],
            tool_calls=[{"name": "look_up", "args": {"topic": "é"}, "id": "1", "type": "tool_call"}],
            response_metadata={"id": "resp-1", "model_provider": "openai"},
            usage_metadata={"input_tokens": 7, "output_tokens": 0, "total_tokens": 7},
            id="resp-1",
        ),
        ToolMessage("There.", tool_call_id="1", artifact={"rows": [1, 2]}, id="t-1"),
    ],
    ids=lambda message: message.type,
)
def test_what_a_model_is_sent_of_a_message_can_be_written_again(message: BaseMessage) -> None:
    """From the log alone, where the host has it no more."""
    dialect = LangChainDialect()
    assert through_the_log(dialect, message).model_dump() == message.model_dump()
    (fields,) = dialect.read(message)
    written = dialect.write(decode(encode(fields)), "original", None)
    assert list(dialect.read(written)) == [fields], "where redaction has changed it"


def test_an_artifact_that_is_no_json_stays_with_the_host() -> None:
    message = ToolMessage("There.", tool_call_id="1", artifact={"rows": object()}, id="t-1")
    back = through_the_log(LangChainDialect(), message)
    assert (back.id, back.content, back.artifact) == ("t-1", "There.", None)


def test_a_cut_result_keeps_what_the_host_has_beside_it_and_has_an_id_of_its_own() -> None:
    message = ToolMessage("x" * 9_000, tool_call_id="1", artifact={"rows": [1, 2]}, id="tool-1")
    (fields,) = LangChainDialect().read(message)
    written = LangChainDialect().write({**fields, "content": "cut"}, "substitute", message)
    assert (written.content, written.artifact) == ("cut", {"rows": [1, 2]})
    assert written.id not in (None, "tool-1")
    assert message.content == "x" * 9_000


CASE = LangChainCase()


def test_a_search_leaves_the_event_loop_free(monkeypatch: pytest.MonkeyPatch) -> None:
    search, *_ = SiltstoneMiddleware(opened()).tools

    async def called(asked: dict[str, Any]) -> Any:
        return await search.ainvoke(asked)

    chain = RunnableLambda(called)
    assert asyncio.run(leaves_the_loop_free(monkeypatch, lambda: chain.ainvoke({"query": "salt"})))
