"""Compaction alone, memory alone, both, neither, and an override for one boundary."""

import pickle
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from inspect import getmembers, isawaitable, isfunction, signature
from itertools import product
from pathlib import Path
from pydoc import render_doc
from typing import Any, Final

import pytest

from conversations import assistant, conversation, exchange, play, user
from siltstone import (
    AsyncSession,
    CompactionConfig,
    ConfigError,
    MemoryStore,
    RecallConfig,
    Retention,
    Session,
    SimpleMemoryStore,
    ThresholdCompactor,
)
from siltstone.engine import Compacted
from siltstone.errors import InvalidEntryError, InvalidMessageError, SiltstoneError
from siltstone.knowledge import KnowledgeConfig
from siltstone.llm import CompletionRequest
from siltstone.redaction import RedactionConfig
from siltstone.session.opening import Options
from siltstone.testing import ScriptedModel

WRONG: Final = (5, "5", 2.5, {}, [], b"x", print)
POLICY = ThresholdCompactor(CompactionConfig(auto_compact_threshold=600, max_summary_tokens=50))


def test_compaction_alone_compacts_and_indexes_nothing(tmp_path: Path) -> None:
    with Session.open(tmp_path, "s", policy=POLICY, model=ScriptedModel(), memory=False) as session:
        assert any(isinstance(p.compaction, Compacted) for p in play(session, conversation(10)))
        assert session.log() == conversation(10)
        with pytest.raises(ConfigError, match="memory=False"):
            session.search("topic0")
        with pytest.raises(ConfigError, match="memory=False"):
            _ = session.memory_search
    with MemoryStore.open(tmp_path) as store:
        assert store.stats("s").entries == 0


@pytest.mark.parametrize("asked", [False, True])
def test_recall_that_is_off_switches_nothing_else_on(tmp_path: Path, asked: bool) -> None:
    """A RecallConfig is true, whatever it says."""
    options: dict[str, Any] = {"recall": RecallConfig(enabled=False)}
    if asked:
        options["knowledge"] = KnowledgeConfig(knowledge_extraction=False)  # by patterns alone
    model = ScriptedModel()
    with Session.open(tmp_path, "s", policy=POLICY, model=model, **options) as session:
        statement = user("Remember that the API is running on port 3000. " + "pad " * 30)
        prepared = play(session, [statement, assistant("Done."), *conversation(10)])
        assert any(isinstance(p.compaction, Compacted) for p in prepared)
        assert all(p.recalled == "" for p in prepared)
        assert len(session.facts()) == asked
    assert {request.purpose for request in model.requests} == {"summary"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"context_window": 0}, "context_window must be an integer > 0, got 0"),
        ({"policy": ThresholdCompactor}, "policy must be a policy"),
        ({"policy": "chain"}, "got 'chain': find_settings().policy('chain') of siltstone.config makes one"),
        ({"recall": "yes"}, "recall must be True, False or a RecallConfig"),
        ({"recall": True, "memory": False}, "recall needs a memory"),
        ({"model": "gpt-5"}, "a callable such as siltstone.models.openai('gpt-5')"),
        ({"model": ["claude-haiku-4-5"]}, "siltstone.models.anthropic('claude-haiku-4-5')"),
        ({"hooks": print}, "a list of functions that take an event, such as [print]"),
        ({"memory": "agent-data"}, "a store such as MemoryStore.open(path), got 'agent-data'"),
        ({"namespace": 42}, "namespace must be a text, got 42: a name of your own, such as '42'"),
        ({"retention": 30}, "such as Retention(max_entries=999), got 30"),
        *(({"time_zone": each}, "time_zone must be a tzinfo") for each in ("Middle/Earth", "", 5, "../x")),
        ({"archive": 5}, "archive must be a folder"),
        ({"archive": Path("folder"), "memory": False}, "archive needs memory=True"),
        ({"knowledge": True, "memory": False}, "knowledge needs memory"),
        ({"knowledge": "yes"}, "knowledge must be True, False or a KnowledgeConfig"),
        ({"allow_forget": "yes"}, "allow_forget must be True or False"),
        ({"redaction": "yes"}, "redaction must be True, False, a RedactionConfig or a Redactor"),
        ({"unrelated": "never"}, "unrelated must be 'first' or 'always' or"),
        ({"reserved_tokens": -1}, "reserved_tokens must be an integer >= 0, got -1"),
        ({"reserved_tokens": 99, "context_window": 99}, "reserved_tokens must be < the window of 99, got 99"),
        (
            {"reserved_tokens": 700, "policy": POLICY},
            "threshold of 600 tokens must be > reserved_tokens, got 700",
        ),
        (
            {"reserved_tokens": 90_000, "context_window": 100_000, "policy": ThresholdCompactor()},
            "the threshold of 90000 tokens of a window of 100000 must be > reserved_tokens, got 90000",
        ),
    ],
)
def test_a_switch_that_cannot_be_is_refused_by_name(tmp_path: Path, options: dict[str, object], words: str):
    with pytest.raises(ConfigError) as caught:
        Session.open(tmp_path, "s", **options)  # type: ignore[arg-type]
    assert words in str(caught.value)
    assert not (tmp_path / "memory").exists()


@pytest.mark.parametrize(
    ("path", "words"),
    [
        (":memory:", "a session in memory is Session.open(None, id, memory=SimpleMemoryStore())"),
        ("sqlite:///agent.db", "take those of PostgreSQL"),
        (b"agent-data", "give it as a text or a pathlib.Path"),
        (42, "give it as a text or a pathlib.Path"),
    ],
)
def test_a_path_that_is_no_directory_is_refused_and_makes_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: Any, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for opening in (partial(Session.open, path, "s"), partial(MemoryStore.open, path)):
        with pytest.raises(ConfigError) as caught:
            opening()
        assert words in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda path: Session(path, "s"), TypeError, 'Session.open("agent-data", "chat-1", ...)'),
        (lambda path: AsyncSession(path, "s"), TypeError, 'AsyncSession.open("agent-data", "chat-1", ...)'),
        (lambda path: MemoryStore(path), TypeError, 'MemoryStore.open("agent-data", ...)'),
        (lambda path: AsyncSession.open(path, "s").append({}), AttributeError, "before 'append' is used"),
        (lambda path: AsyncSession.open(path, "s").__enter__(), ConfigError, "or async with AsyncSession"),
        (lambda _: Session.open(None, "s"), ConfigError, "needs a path"),
        (
            lambda _: Session.open(SimpleMemoryStore(), "s"),
            ConfigError,
            "Session.open(None, 's', memory=store)",
        ),
        (lambda path: Session.open(path, 42), ConfigError, "session_id must be a text, got 42"),
        (lambda path: Session.open(path, "s", windows=8), TypeError, "did you mean 'context_window'"),
        (lambda path: opened(path).append([user("x")]), InvalidMessageError, "as in append(*messages)"),
        (lambda path: opened(path).append("x"), InvalidMessageError, '{"role": "user", "content": "..."}'),
        (lambda path: opened(path).ask("x?"), ConfigError, "a function that sends messages to your model"),
        (lambda path: opened(path).save({"a": 1}), ConfigError, "text must be a sentence such as"),
        (lambda path: opened(path).save("x", importance="high"), ConfigError, "a number in 0..1"),
        (lambda path: opened(path).search("x", limit="5"), InvalidEntryError, "an integer >= 0, got '5'"),
        (lambda _: RedactionConfig(strict="x"), ConfigError, "strict must be True or False, got 'x'"),
        (lambda _: CompletionRequest([], 9, temperature="1"), ConfigError, "be a number or None, got '1'"),
        (lambda _: SimpleMemoryStore().index("s", ["x"]), InvalidEntryError, "must be a siltstone.Entry"),
        (lambda _: ThresholdCompactor(CompactionConfig), ConfigError, "settings of a ThresholdCompactor"),
        (lambda path: opened(path).search("x", since="May"), InvalidEntryError, "a datetime, or seconds"),
        *(
            (
                lambda path, ask=each: getattr(opened(path), ask)("x", scope="namespace"),
                ConfigError,
                "needs a namespace",
            )
            for each in ("search", "facts")
        ),
        *(
            (
                lambda path, name=each: setattr(opened(path), "agent_model", name),
                ConfigError,
                "agent_model must be",
            )
            for each in (5, None, b"m")
        ),
        *(
            (lambda _, wrong=each: Retention(**wrong), ConfigError, "must be")
            for each in ({"max_entries": 0}, {"max_entries": 1.5}, {"max_age": timedelta(0)}, {"max_age": 30})
        ),
        (
            lambda path: Session.open(path, "s", recall=RecallConfig(cross_session=True)),
            ConfigError,
            "cross_session=True needs a namespace",
        ),
        (lambda path: opened(path).facts(5), ConfigError, "query must be a text or None, got 5"),
        (lambda path: opened(path).observe([], on_conflict="merge"), ConfigError, "or 'raise', got 'merge'"),
        (lambda path: opened(path).log("5"), ConfigError, "start must be the number of a message"),
        (lambda path: opened(path).recover("too long"), ConfigError, "the exception that the provider's"),
        (lambda path: pickle.dumps(opened(path)), TypeError, "a session cannot be pickled"),
    ],
)
def test_a_call_that_cannot_be_names_the_remedy(
    tmp_path: Path, call: Callable[[Path], Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error) as caught:
        call(tmp_path)
    assert words in str(caught.value)


@pytest.mark.parametrize("kind", [Session, AsyncSession, MemoryStore, SimpleMemoryStore])
@pytest.mark.anyio
async def test_no_method_answers_a_value_of_a_wrong_type_by_an_error_of_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[Any]
) -> None:
    monkeypatch.chdir(tmp_path)  # a text is the name of a file where a method takes one
    thing: Any = MemoryStore.open("store") if kind is MemoryStore else SimpleMemoryStore()
    if kind in (Session, AsyncSession):
        thing = kind.open(None, "s", memory=thing)  # type: ignore[attr-defined]
        thing = await thing if kind is AsyncSession else thing
    chosen = {"query": "valve", "number": 1, "facts": [], "writes": [], "entries": [], "salt": b"s"}
    refused = 0
    for name, method in getmembers(kind, isfunction):
        takes = [each for each in [*signature(method).parameters.values()][1:] if each.kind in (1, 3)]
        needed = {each.name: chosen.get(each.name, "s") for each in takes if each.default is each.empty}
        if name[0] == "_" or name in {"close", "answer"}:  # only a session calls answer
            continue
        for each, value in product(takes, WRONG):
            try:
                answer = getattr(thing, name)(**{**needed, each.name: value})
                await answer if isawaitable(answer) else answer
            except SiltstoneError:
                refused += 1
    assert refused > 90


@pytest.mark.parametrize(("kind", "model"), [(Session, "Models"), (AsyncSession, "AsyncModels")])
def test_help_of_open_shows_each_option_with_its_type_and_default(kind: type[Any], model: str) -> None:
    shown = signature(kind.open).parameters
    assert list(shown) == ["path", "session_id", *Options.__annotations__]
    assert str(shown["model"]) == f"model: '{model} | None' = Ellipsis"
    assert str(shown["reserved_tokens"]) == "reserved_tokens: 'int' = 0"
    assert "**options" not in render_doc(kind.open)


def opened(path: Path) -> Any:
    return Session.open(path, "s")


@pytest.mark.parametrize("index_tools", [True, False])
def test_what_tools_said_is_searchable_unless_it_is_left_out(tmp_path: Path, index_tools: bool) -> None:
    policy = ThresholdCompactor(CompactionConfig(auto_compact_threshold=600, recent_turn_budget=1))
    with Session.open(
        tmp_path, "a", policy=policy, model=ScriptedModel(), index_tools=index_tools
    ) as session:
        session.append(
            user("list it " + "please " * 20), *exchange(1, "walrus.txt"), assistant("there is one")
        )
        session.append(user("and now?"), assistant("now"))
        assert isinstance(session.compact(), Compacted)
        found = [hit.content for hit in session.search("walrus") if "walrus" in hit.content]
        assert len(found) == (1 if index_tools else 0)
