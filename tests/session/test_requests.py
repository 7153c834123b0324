"""Requests have the user's words, word for word, and no call or result that a provider would refuse."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, strategies as st

from compacting import user
from conversations import Raw
from servers.chat import Chat
from servers.messages import Messages
from servers.responses import Responses
from siltstone import CompactionConfig, Prepared, Session, SimpleMemoryStore, SmartTrim, ThresholdCompactor
from siltstone.errors import IllegalHistoryError
from siltstone.systems.openclaw import SmartTrimConfig
from siltstone.testing import ScriptedModel
from speaking import DIALECTS, Dialect, Speaker

WINDOW = 8_000
STEERING = "STOP. Leave /prod alone and build B in ./b instead."


def steps(first: int, last: int, words: str | None = None) -> list[dict[str, Any]]:
    """Exchanges of an agent, of some 140 tokens each; *words* beside the last result."""
    said: list[dict[str, Any]] = []
    for number in range(first, last):
        call_id = f"call_{number}"
        use = {"type": "tool_use", "id": call_id, "name": "sh", "input": {"cmd": f"make step{number}"}}
        output = f"step {number} is done. " + "a line of the log. " * 25
        said.append({"role": "assistant", "content": [use]})
        said.append(
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call_id, "content": output}]}
        )
    if words is not None:
        said[-1]["content"].append({"type": "text", "text": words})
    return said


def played(messages: list[dict[str, Any]], **settings: Any) -> Iterator[tuple[int, Prepared]]:
    """What is sent before each answer of *messages*, and how many of them were said by then."""
    policy = ThresholdCompactor(CompactionConfig(**settings))
    model = ScriptedModel(["The agent ran the steps of the build."])
    store = SimpleMemoryStore()
    with Session.open(None, "x", policy=policy, model=model, memory=store, context_window=WINDOW) as session:
        for at, message in enumerate(messages):
            if message["role"] == "assistant":
                yield at, session.prepare()
            session.append(message)
        yield len(messages), session.prepare()


def test_reasoning_in_the_blocks_of_another_dialect_stops_no_repair() -> None:
    """LangChain has Claude's thoughts as they are, beside calls in the form of OpenAI."""
    thought = [{"type": "thinking", "thinking": "Hm.", "signature": "s"}, {"type": "text", "text": "Go on."}]
    call = {"id": "c", "type": "function", "function": {"name": "sh", "arguments": "{}"}}
    said = [user("Go."), {"role": "assistant", "content": thought}, user("Build A.")]
    said += [{"role": "assistant", "content": None, "tool_calls": [call]}, user("Are you there?")]
    with Session.open(None, "x", memory=SimpleMemoryStore(), policy=None) as session:
        session.append(*said)
        sent = session.prepare().messages
        assert [*sent[:4], *sent[5:]] == said
        assert sent[4]["role"] == "tool"
        assert "Interrupted" in sent[4]["content"]


@pytest.mark.parametrize("settings", [{}, {"keep_user_messages": True}])
def test_words_beside_results_are_the_request_in_flight(settings: dict[str, Any]) -> None:
    raws = [user("Build A and deploy it to /prod."), *steps(0, 20, STEERING), *steps(20, 110)]
    compactions = 0
    for at, prepared in played(raws, **settings):
        compactions += len(prepared.outcomes)
        shown = json.dumps(prepared.messages)
        if at > 40:
            assert STEERING in shown
        if settings or at <= 40:
            assert "Build A and deploy" in shown
    assert compactions >= 2


def test_the_newest_words_of_the_user_are_in_every_request_of_two_real_sessions(data_dir: Path) -> None:
    path = data_dir / "agent-messages-dev.jsonl"
    if not path.is_file():
        pytest.skip(f"no {path.name!r} in the evaluation data at {str(data_dir)!r}")
    for line in path.read_text(encoding="utf-8").splitlines():
        messages = json.loads(line)["messages"]
        without = [
            at
            for at, prepared in played(messages)
            if not newest_words(messages[:at]) <= texts(prepared.messages)
        ]
        assert without == []


def newest_words(messages: list[Any]) -> set[str]:
    """The texts of the newest user message that has one."""
    return next((found for raw in reversed(messages) if (found := texts([raw]))), set())


def texts(messages: list[Any]) -> set[str]:
    found: set[str] = set()
    for raw in messages:
        content = raw["content"] if raw["role"] == "user" else []
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        found.update(block["text"] for block in blocks if block.get("type") == "text")
    return found


def judged(dialect: Dialect, messages: list[Any]) -> None:
    match dialect:
        case "openai.chat":
            Chat().judge({"model": "m", "messages": messages})
        case "openai.responses":
            Responses().judge({"model": "m", "input": messages})
        case _:
            Messages().judge({"model": "m", "messages": messages, "max_tokens": 99})


SHAPED = SmartTrim(SmartTrimConfig(reserve_tokens=100, hard_cap_tokens=100, protected_recent=1))
WAYS: dict[str, dict[str, Any]] = {
    "no policy": {"policy": None},
    "the default": {"context_window": 4_000},
    "with check and recall": {"context_window": 4_000, "check": True, "recall": True},
    "shaped requests": {"context_window": 4_000, "policy": SHAPED},
    **{name: {"context_window": 16_000, "preset": name} for name in ("meerkat", "spacebot", "rustant")},
    **{name: {"context_window": 16_000, "preset": name} for name in ("waterfall", "openclaw")},
}


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("way", WAYS)
def test_an_orphaned_result_leaves_the_request_and_stays_in_the_log(
    tmp_path: Path, way: str, dialect: Dialect
) -> None:
    say = Speaker(dialect)
    said = [say.request("Go."), say.result("ghost", "boo"), say.answer("Done."), say.request("And the next?")]
    with Session.open(tmp_path, "s", model=ScriptedModel(), **WAYS[way]) as session:
        session.append(*said)
        prepared = session.prepare()
        assert "boo" not in json.dumps(prepared.messages)
        assert [said[0], said[2], said[3]] == [each for each in prepared.messages if each in said]
        judged(dialect, prepared.messages)
        assert prepared.history == session.history() == session.log() == said


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("way", WAYS)
def test_a_call_that_a_killed_process_left_open_was_interrupted_until_its_result_comes(
    tmp_path: Path, way: str, dialect: Dialect
) -> None:
    say = Speaker(dialect)
    said = [say.request("Go."), say.call("a", "ls"), say.call("b", "pwd"), say.result("a", "x.txt")]
    if dialect == "openai.chat":
        said[1]["tool_calls"] += said.pop(2)["tool_calls"]  # its calls are of one message
    with Session.open(tmp_path, "s", model=ScriptedModel(), **WAYS[way]) as session:
        session.append(*said)
    with Session.open(tmp_path, "s", model=ScriptedModel(), **WAYS[way]) as session:
        first, again = session.prepare(), session.prepare()
        assert first.messages == again.messages
        assert json.dumps(first.messages).count("[Interrupted: ") == 1
        judged(dialect, first.messages)
        assert session.history() == said
        session.append(say.result("b", "/srv"))
        prepared = session.prepare()
        assert prepared.messages[-4:] == [*said, say.result("b", "/srv")][-4:]
        judged(dialect, prepared.messages)
        session.append(say.answer("In /srv."), say.call("c", "date"), say.request("Are you there?"))
        judged(dialect, session.prepare().messages)
        session.append(say.answer("Yes."), say.request("Go on."))
        prepared = session.prepare()
        judged(dialect, prepared.messages)
        assert json.dumps(prepared.messages).count("[Interrupted: ") == 1
        assert "Interrupted" not in json.dumps(session.log())


@pytest.mark.parametrize("size", [1_000, 1_040, 1_060, 1_080, 1_100])
def test_a_request_with_an_interrupted_call_keeps_within_the_window(size: int) -> None:
    say = Speaker("openai.chat")
    with Session.open(None, "s", memory=SimpleMemoryStore(), context_window=1_000) as session:
        for turn in range(6):
            session.append(say.request(f"Question {turn}."), say.answer("word " * (size // 10)))
        session.append(say.request("Go."), say.call("a", "ls"))
        prepared = session.prepare()
        assert prepared.tokens <= 1_000
        judged("openai.chat", prepared.messages)


STEPS = st.one_of(
    st.tuples(st.sampled_from(["request", "answer", "call"])), st.tuples(st.just("result"), st.integers(0, 9))
)


@given(st.sampled_from(DIALECTS), st.lists(st.lists(STEPS, min_size=1, max_size=4), min_size=1, max_size=8))
@example("anthropic", [[("call",)], [("request",), ("answer",), ("result", 0), ("request",)], [("request",)]])
def test_each_request_is_legal_whatever_a_host_says_and_depends_on_what_was_said_alone(
    dialect: Dialect, parts: list[list[tuple[Any, ...]]]
) -> None:
    say, said, calls = Speaker(dialect), [Speaker(dialect).request("Go.")], 0
    with Session.open(None, "s", memory=SimpleMemoryStore(), policy=None) as session:
        session.append(*said)
        for part in parts:
            new: list[Raw] = []
            for kind, *number in part:
                text = f"{kind} {len(said) + len(new)}"
                if kind == "call":
                    new.append(say.call(f"c{calls}", text))
                    calls += 1
                elif kind == "result":
                    new.append(say.result(f"c{number[0] * calls // 8}", text))
                else:
                    new.append(getattr(say, kind)(text))
            said += new
            session.observe(said)
            messages = session.prepare().messages
            judged(dialect, messages)
            assert session.history() == said
            with Session.open(None, "anew", memory=SimpleMemoryStore(), policy=None) as anew:
                anew.observe(said)
                assert anew.prepare().messages == messages


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_result_that_answers_no_call_is_refused_before_it_is_written(dialect: Dialect) -> None:
    say = Speaker(dialect)
    with Session.open(None, "s", memory=SimpleMemoryStore()) as session:
        session.append(say.request("Go."), say.call("a", "ls"))
        with pytest.raises(IllegalHistoryError, match=r"orphan-result.*nothing was written") as caught:
            session.append(say.request("Now?"), say.result("z", "x"))
        assert [(each.position, each.rule) for each in caught.value.findings] == [(1, "orphan-result")]
        session.append(say.result("a", "x"))
        for wrong in ([say.result("a", "x")], [say.answer("Yes."), say.request("Go."), say.result("a", "x")]):
            with pytest.raises(IllegalHistoryError, match=r"duplicate-result.*one result for each call"):
                session.append(*wrong)
            with pytest.raises(IllegalHistoryError, match="duplicate-result"):
                session.offload(wrong[-1])
        assert len(session.log()) == 3
