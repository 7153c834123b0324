"""Microsoft Agent Framework: the laws, and what is the middleware's own."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("agent_framework", reason="agent_framework is not installed; nox -s adapter has it")

from agent_framework import (
    Agent,
    AgentSession,
    BaseChatClient,
    ChatContext,
    ChatMiddleware,
    ChatMiddlewareLayer,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    ContextProvider,
    FunctionInvocationLayer,
    FunctionTool,
    InMemoryHistoryProvider,
    Message,
)

import siltstone
from adapters.contract import (
    INPUT_TOKENS,
    OUTPUT_TOKENS,
    SUMMARY,
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
    through_the_log,
)
from siltstone.adapters.agent_framework import AgentFrameworkDialect, SiltstoneMiddleware, summariser
from siltstone.messages import decode, encode, read_message


class PromptTooLongError(Exception):
    """The error of a provider's SDK."""


class Scripted(FunctionInvocationLayer[Any], ChatMiddlewareLayer[Any], BaseChatClient[Any]):
    """The agent's model: it answers from a script, and the run remembers what it was sent."""

    def __init__(self, script: Sequence[Reply], run: Run) -> None:
        super().__init__()
        self.script, self.run, self.place = list(script), run, 0

    def _inner_get_response(self, *, messages: Any, stream: bool, options: Any, **kwargs: Any) -> Any:
        self.run.sent.append(list(messages))
        self.run.systems.append(options.get("instructions"))
        self.run.tools.append({each.name for each in options.get("tools") or ()})
        reply = self.script[self.place]
        self.place += 1
        if stream:
            return self._build_response_stream(self._updates(reply, len(messages)))
        return self._answer(reply, len(messages))

    async def _answer(self, reply: Reply, sent: int) -> ChatResponse[Any]:
        if isinstance(reply, Refuse):
            raise PromptTooLongError(reply.text)
        if isinstance(reply, Hang):
            await asyncio.Event().wait()
        message = Message("assistant", _contents(reply, sent))
        return ChatResponse(messages=[message], usage_details=USED, model="scripted")

    async def _updates(self, reply: Reply, sent: int) -> AsyncIterator[ChatResponseUpdate]:
        if isinstance(reply, Refuse):
            yield ChatResponseUpdate(role="assistant", contents=[])
            raise PromptTooLongError(reply.text)
        for content in _contents(reply, sent):
            yield ChatResponseUpdate(role="assistant", contents=[content])


@dataclass(frozen=True)
class Get:
    handle: str = "m0"
    thought: str = ""


USED: Any = {
    "input_token_count": INPUT_TOKENS,
    "output_token_count": OUTPUT_TOKENS,
    "total_token_count": INPUT_TOKENS + OUTPUT_TOKENS,
}


def _contents(reply: Any, sent: int) -> list[Content]:
    found = []
    if reply.thought:
        found.append(Content.from_text_reasoning(text=reply.thought, protected_data=signature(reply.thought)))
    if isinstance(reply, Say):
        found.append(Content.from_text(reply.text))
    if isinstance(reply, Get):
        asked = {"handle": reply.handle}
        found.append(Content.from_function_call(f"get-{sent}", "memory_get", arguments=asked))
    return found + [
        Content.from_function_call(f"{topic}-{sent}", "look_up", arguments={"topic": topic})
        for topic in (reply.topics if isinstance(reply, Call) else ())
    ]


def an_agent(
    session: Any, script: Sequence[Reply], run: Run, asks: Callable[[str], str] = look_up, **options: Any
) -> Agent[Any]:
    memory = SiltstoneMiddleware(session)
    tool = FunctionTool(name="look_up", description="Looks a topic up.", func=asks)
    middleware = [*options.pop("before", ()), memory]
    return Agent(
        Scripted(script, run),
        instructions=SYSTEM,
        tools=[tool, *memory.tools],
        middleware=middleware,
        **options,
    )


class Changes(ChatMiddleware):
    """Other middleware, which changes the messages of each request."""

    def __init__(self, change: Any) -> None:
        self.change = change

    async def process(self, context: ChatContext, call_next: Any) -> None:
        context.messages = self.change(list(context.messages))
        await call_next()


class Tells(ChatMiddleware):
    """Other middleware, which tells the time in the instructions."""

    def __init__(self, clock: Callable[[], str]) -> None:
        self.clock = clock

    async def process(self, context: ChatContext, call_next: Any) -> None:
        context.options = {**(context.options or {}), "instructions": self.clock()}
        await call_next()


class AgentFrameworkCase(Case):
    """An ``Agent`` with an ``AgentSession``, as users write it."""

    #: The history of a session is copied for each run.
    is_identical = False
    #: The results of calls side by side are one message.
    messages_of_a_turn = 4
    has_sync = False
    dialect = AgentFrameworkDialect()
    #: What other middleware adds before siltstone, the framework takes for a message of the run.
    may_change = ("copies",)

    def play(
        self, session: Any, script: Sequence[Reply], inputs: list[str], *, is_async: bool, state: Any = None
    ) -> Run:
        run = Run()
        others: list[Any] = [] if self.change is None else [Changes(self.change)]
        if self.clock is not None:
            others.append(Tells(self.clock))
        agent = an_agent(session, script, run, before=others)
        chat = agent.create_session() if state is None else state

        async def main() -> None:
            for text in inputs:
                done = await agent.run(text, session=chat)
                run.answers.append(done.text)
                run.tokens += (done.usage_details or {}).get("input_token_count") or 0

        asyncio.run(main())
        run.stored, run.state = chat.state["in_memory"]["messages"], chat
        return run

    async def start(self, session: Any, script: Sequence[Reply], text: str, state: Any, run: Run) -> None:
        dies = self.tool is not look_up
        agent = an_agent(session, script, run, self.tool, require_per_service_call_history_persistence=dies)
        run.state = agent.create_session() if state is None else state
        await agent.run(text, session=run.state)

    def neutral(self, messages: Sequence[Any]) -> list[dict[str, Any]]:
        return [_neutral(each) for each in messages]

    def check(self, messages: Sequence[Any]) -> None:
        assert all(isinstance(each, Message) for each in messages)
        again = [Message.from_dict(json.loads(json.dumps(each.to_dict()))) for each in messages]
        assert [each.to_dict() for each in again] == [each.to_dict() for each in messages]

    def opaque(self, messages: Sequence[Any]) -> list[str]:
        return [
            json.dumps([content.text, content.protected_data], ensure_ascii=False)
            for each in messages
            for content in each.contents
            if content.type == "text_reasoning"
        ]

    def form(self, message: Any) -> Any:
        """The framework sets the agent's name on its messages at the end of a run, after they are logged."""
        is_named = message.role == "user"
        return {key: each for key, each in message.to_dict().items() if is_named or key != "author_name"}

    def reload(self, state: Any) -> Any:
        return AgentSession.from_dict(json.loads(json.dumps(state.to_dict())))

    def stream(self, session: Any, script: Sequence[Reply], text: str, state: Any) -> tuple[str, Any]:
        agent = an_agent(session, script, Run())
        chat = agent.create_session() if state is None else state

        async def followed() -> str:
            stream = agent.run(text, session=chat, stream=True)
            told = "".join([update.text async for update in stream])
            await stream.get_final_response()
            return told

        return asyncio.run(followed()), chat

    def is_same(self, one: Any, other: Any) -> bool:
        return bool(self.neutral([one]) == self.neutral([other]))


def _neutral(message: Any) -> dict[str, Any]:
    blocks = [_block(each) for each in message.contents]
    if message.role == "assistant":
        return {"role": "assistant", "content": blocks}
    if message.role == "tool":
        return {"role": "user", "content": blocks}
    return {"role": message.role, "content": message.text}


def _block(content: Any) -> dict[str, Any]:
    if content.type == "function_call":
        called = {"id": content.call_id, "name": content.name, "input": dict(content.arguments)}
        return {"type": "tool_use", **called}
    if content.type == "function_result":
        return {"type": "tool_result", "tool_use_id": content.call_id, "content": content.result}
    if content.type == "text_reasoning":
        return {"type": "thinking", "thinking": content.text, "signature": content.protected_data}
    return {"type": "text", "text": content.text}


class TestTheLaws(AdapterContract):
    """The history keeps every message, and the model sees the view."""

    case = AgentFrameworkCase()


def talk(agent: Agent[Any], *texts: str, chat: Any = None) -> Any:
    """The agent answers *texts*; the session of the framework."""
    chat = agent.create_session() if chat is None else chat

    async def main() -> None:
        for text in texts:
            await agent.run(text, session=chat)

    asyncio.run(main())
    return chat


def test_each_conversation_has_a_session_of_its_own_and_the_tools_read_it() -> None:
    store, run = siltstone.SimpleMemoryStore(), Run()
    asked: list[str] = []

    def open_session(name: str) -> siltstone.Session:
        asked.append(name)
        return store.session(name, context_window=10_000)

    memory = SiltstoneMiddleware(open_session, most_open=1)
    client = Scripted([Say("One."), Say("Two."), Get(), Say("Three.")], run)
    agent = Agent(client, middleware=[memory], tools=memory.tools)

    async def main() -> None:
        chats = {name: agent.create_session(session_id=name) for name in ("ann", "ben")}
        for name in ("ann", "ben", "ann"):
            await agent.run(f"I am {name}.", session=chats[name])
        await memory.close()

    asyncio.run(main())
    assert asked == ["ann", "ben", "ann"]
    assert "I am ann." in run.sent[-1][-1].contents[0].result
    assert [len(store.session(name).log()) for name in ("ann", "ben")] == [6, 2]


def test_a_second_conversation_in_one_session_is_refused_and_a_store_has_one_for_each() -> None:
    async def main(memory: SiltstoneMiddleware) -> None:
        agent = Agent(Scripted([Say("Hello.")] * 3, Run()), middleware=[memory])
        for name in ("ann", "ben"):
            await agent.run(f"I am {name}.", session=agent.create_session(session_id=name))
        await memory.close()

    session = opened()
    with pytest.raises(siltstone.ConfigError, match=r"'ann'.*'ben'.*give the adapter a store"):
        asyncio.run(main(SiltstoneMiddleware(session)))
    assert len(session.log()) == 2
    with siltstone.SimpleMemoryStore() as store:
        asyncio.run(main(SiltstoneMiddleware(store, context_window=10_000)))
        assert [len(store.session(name).log()) for name in ("ann", "ben")] == [2, 2]


def test_what_a_context_provider_adds_to_a_request_was_said_by_nobody() -> None:
    class Weather(ContextProvider):
        async def before_run(self, *, agent: Any, session: Any, context: Any, state: Any) -> None:
            context.extend_messages(self.source_id, [Message("user", ["It rains."])])

    session, run = opened(policy=None, model=None), Run()
    agent = Agent(
        Scripted([Say("One."), Say("Two.")], run),
        middleware=[SiltstoneMiddleware(session, context_from=["weather"])],
        context_providers=[InMemoryHistoryProvider(), Weather("weather")],
    )
    talk(agent, "Hello.", "Again.")
    assert [each.text for each in run.sent[-1]] == ["Hello.", "One.", "It rains.", "Again."]
    assert [read_message(each, 0).text for each in session.log()] == ["Hello.", "One.", "Again.", "Two."]


def test_a_conversation_that_the_service_keeps_is_refused() -> None:
    agent = an_agent(opened(), [Say("One.")], Run())
    with pytest.raises(siltstone.ConfigError, match="only what is new"):
        asyncio.run(agent.run("Hello.", options={"conversation_id": "c1"}))


def test_a_tool_that_is_called_wrongly_tells_the_model_why() -> None:
    run, memory = Run(), SiltstoneMiddleware(opened())
    agent = Agent(Scripted([Get("no such"), Say("Well.")], run), middleware=[memory], tools=memory.tools)
    talk(agent, "Hello.")
    assert "no such" in run.sent[-1][-1].contents[0].result


def test_a_chat_client_writes_summaries_and_the_run_counts_them_once() -> None:
    async def main() -> None:
        writer = summariser(Scripted([Say(SUMMARY)] * 9, Run()))
        async with opened(writer, kind=siltstone.AsyncSession) as session:
            script, inputs = conversation(6)
            run, told, used = Run(), "", 0
            agent = an_agent(session, script, run)
            chat = agent.create_session()
            for text in inputs:
                done = await agent.run(text, session=chat)
                used += (done.usage_details or {})["input_token_count"]
                told += done.text
            made = await session.compactions()
            assert made
            assert SUMMARY not in told
            assert session.usage.input_tokens == len(made) * INPUT_TOKENS
            assert used == (12 + len(made)) * INPUT_TOKENS

    asyncio.run(main())


@pytest.mark.parametrize(
    "message",
    [
        Message("user", ["Where?"], author_name="ann"),
        Message("user", ["One.", "Two."]),
        Message("user", ["Look", Content.from_data(b"\x00\xff", "image/png")]),
        Message("user", [Content.from_uri("https://example.org/a.pdf", media_type="application/pdf")]),
        Message(
            "assistant",
            [
                Content.from_text_reasoning(text="Hm.", protected_data="s"),
                Content.from_function_call("1", "look_up", arguments={"topic": "é"}),
            ],
        ),
        Message("tool", [Content.from_function_result("1", result="No.")]),
        Message("system", ["Be brief."]),
        Message("assistant", [Content.from_hosted_file("file-1")]),
        Message(
            "assistant", ["Yes."], author_name="clerk", message_id="m", additional_properties={"rank": 1}
        ),
    ],
    ids=lambda message: f"{message.role}-{message.contents[-1].type}",
)
def test_what_a_model_is_sent_of_a_message_can_be_written_again(message: Message) -> None:
    """From the log alone, where the host has it no more."""
    dialect = AgentFrameworkDialect()
    assert through_the_log(dialect, message).to_dict() == message.to_dict()
    (fields,) = dialect.read(message)
    written = dialect.write(decode(encode(fields)), "original", None)
    assert list(dialect.read(written)) == [fields], "where redaction has changed it"


def test_a_cut_result_leaves_the_one_beside_it_as_it_was_and_has_no_id_of_it() -> None:
    results = [Content.from_function_result(name, result="x" * 9_000, exception="lost") for name in "12"]
    original = Message("tool", results, message_id="m")
    (fields,) = AgentFrameworkDialect().read(original)
    first, second = fields["content"]
    cut = {"role": "user", "content": [{**first, "content": "cut"}, second]}
    written = AgentFrameworkDialect().write(cut, "substitute", original)
    assert [each.result for each in written.contents] == ["cut", "x" * 9_000]
    assert written.contents[1] is results[1]
    assert (written.role, written.message_id, written.contents[0].exception) == ("tool", None, "lost")


def test_a_search_leaves_the_event_loop_free(monkeypatch: pytest.MonkeyPatch) -> None:
    search, *_ = SiltstoneMiddleware(opened()).tools
    context: Any = SimpleNamespace(session=None)
    assert asyncio.run(leaves_the_loop_free(monkeypatch, lambda: search.func(context, query="salt")))
