"""Facts in a session: what is learned when, from what, who sees it, and what becomes of it."""

import asyncio
import json
import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import siltstone
from conftest import PROFILE
from conversations import assistant, exchange, small, user
from interrupting import interrupted_at, lines_of
from siltstone import MemoryStore, Session, SimpleMemoryStore
from siltstone.engine import Compacted
from siltstone.errors import InvalidArgumentsError, StoreIoError
from siltstone.events import ExtractionFailed, FactsUpdated
from siltstone.knowledge import KnowledgeConfig
from siltstone.llm import UsageRecord
from siltstone.testing import RecordingHook
from storing import sql

Raw = dict[str, Any]
PATTERNS = KnowledgeConfig(knowledge_extraction=False)
FACT = {"type": "decision", "content": "Webhooks are verified with signatures", "context": "payment"}


def told(*texts: str) -> list[Raw]:
    """Turns that say *texts*, each long enough to be discarded soon, and what :data:`FACT` tells."""
    answer = f"{FACT['content']}. " * 3
    return [message for text in texts for message in (user(f"{text} {'pad ' * 30}"), assistant(answer))]


def filler(count: int = 8) -> list[Raw]:
    return [message for number in range(count) for message in told(f"What of step {number}?")]


def contents(session: siltstone.Session, **options: Any) -> list[str]:
    return [fact.content for fact in session.facts(**options)]


class Model:
    """Writes summaries, and gives *facts* where it is asked for some."""

    def __init__(self, facts: Any = (FACT,), hold: threading.Event | None = None) -> None:
        self.facts, self.hold = facts, hold
        self.asked: list[str] = []
        self.started = threading.Event()

    def __call__(self, request: siltstone.CompletionRequest) -> siltstone.Completion:
        if request.purpose != "facts":
            return siltstone.Completion("What was said.", UsageRecord("m", 10, 5, 0, request.purpose))
        self.asked.append(request.messages[0]["content"])
        self.started.set()
        if self.hold is not None:
            assert self.hold.wait(300)
        if isinstance(self.facts, Exception):
            raise self.facts
        return siltstone.Completion(json.dumps(list(self.facts)), UsageRecord("m", 100, 20, 0, "facts"))


def opened(path: Path | None, session_id: str = "s", **options: Any) -> siltstone.Session:
    options.setdefault("policy", small())
    options.setdefault("model", Model())
    options.setdefault("knowledge", True)
    return siltstone.Session.open(path, session_id, **options)


def compacted(session: siltstone.Session, *messages: Raw) -> None:
    session.append(*messages, *filler())
    assert isinstance(session.compact(), Compacted)


def test_what_is_stated_is_a_fact_as_soon_as_it_has_left_the_context(tmp_path: Path) -> None:
    hook = RecordingHook()
    with opened(tmp_path, knowledge=PATTERNS, hooks=[hook]) as session:
        compacted(session, *told("Remember that the API is running on port 3000."))
        (fact,) = session.facts()
        assert fact.content.startswith("The API is running on port 3000")
        assert (fact.type, fact.session_id, fact.source_ranges) == ("config", "s", ((0, 1),))
        (event,) = [each for each in hook.events if isinstance(each, FactsUpdated)]
        assert event == FactsUpdated("s", "patterns", added=1)
    with opened(tmp_path, knowledge=PATTERNS) as session:
        assert session.facts() == [fact]


def test_oc_53_a_model_is_asked_beside_the_conversation_and_nobody_waits(tmp_path: Path) -> None:
    gate, hook = threading.Event(), RecordingHook()
    model = Model(hold=gate)
    with opened(tmp_path, model=model, hooks=[hook]) as session:
        compacted(session)  # it returns while the model is held
        assert model.started.wait(300)
        session.append(user("more"))
        session.prepare()
        assert session.facts() == []
        before = session.usage.input_tokens
        gate.set()
        session.learn()
        (fact,) = session.facts(types=["decision"])
        assert (fact.content, fact.context, fact.source) == (FACT["content"], "payment", "model")
        assert session.usage.input_tokens == before + 100
        assert len(model.asked) == 1
        assert FactsUpdated("s", "model", added=1) in hook.events


def test_a_repeated_prepare_is_the_same_boundary_though_a_model_was_counted_meanwhile(tmp_path: Path) -> None:
    gate = threading.Event()
    with opened(tmp_path, model=Model(hold=gate)) as session:
        compacted(session)
        session.prepare()
        at = session._core.clock.boundary
        gate.set()
        session.learn()
        session.prepare()
        assert session._core.clock.boundary == at


def test_oc_53_without_a_model_nothing_is_asked_and_the_extractive_one_is_none(tmp_path: Path) -> None:
    with siltstone.Session.open(tmp_path, "s", policy=small(), knowledge=True) as session:
        compacted(session, *told("Remember that the API is running on port 3000."))
        assert session.learn().added == ()
        assert len(session.facts()) == 1
    with siltstone.Session.open(tmp_path, "t", policy=small(), model=None, knowledge=True) as session:
        session.append(*filler())
        session.prepare()
        assert session.learn().added == ()


def test_oc_53_a_failing_extraction_fails_no_compaction_and_is_tried_three_times(tmp_path: Path) -> None:
    hook, model = RecordingHook(), Model(RuntimeError("down"))
    with opened(tmp_path, model=model, hooks=[hook]) as session:
        compacted(session)
        for _ in range(4):
            session.learn()
        failed = [each for each in hook.events if isinstance(each, ExtractionFailed)]
        assert [each.will_retry for each in failed] == [True, True, False]
        assert "down" in failed[0].reason
        assert len(model.asked) == 3
        assert session.facts() == []
        compacted(session)
        model.facts = [FACT]
        session.learn()
        assert contents(session) == [FACT["content"]], "what came later is read all the same"


def test_what_was_not_read_is_read_when_the_session_is_next_opened(tmp_path: Path) -> None:
    with opened(tmp_path, model=Model(KeyboardInterrupt("killed"))) as session:  # type: ignore[arg-type]
        session.append(*filler(10))
        session._calls.known(None)
        session._run(session._calls.compaction(None))  # a process that ends before a model was asked
    model = Model()
    with opened(tmp_path, model=model) as session:
        session.prepare()
        session.learn()
        assert contents(session) == [FACT["content"]]
        assert len(model.asked) == 1
    with opened(tmp_path, model=model) as session:
        session.learn()
        assert len(model.asked) == 1, "and once alone"


def test_a_write_that_fails_fails_no_compaction_and_is_made_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = RecordingHook()
    with opened(tmp_path, knowledge=PATTERNS, hooks=[hook]) as session:
        put = siltstone.MemoryStore.put_facts

        def full(*args: Any) -> list[int]:
            raise StoreIoError("the disk is full")

        monkeypatch.setattr(siltstone.MemoryStore, "put_facts", full)
        compacted(session, *told("Remember that the API is running on port 3000."))
        assert session.facts() == []
        assert [each.will_retry for each in hook.events if isinstance(each, ExtractionFailed)] == [True]
        monkeypatch.setattr(siltstone.MemoryStore, "put_facts", put)
        compacted(session)
        assert len(session.facts()) == 1


def test_oc_51_a_long_past_is_read_in_batches_and_all_of_it(tmp_path: Path) -> None:
    model = Model(facts=[])
    with opened(tmp_path, model=model) as session:
        session._begin_reader = lambda: None  # type: ignore[method-assign]
        texts = [f"word{number} " * 900 for number in range(40)]
        session.append(*(user(text) for text in texts), *filler())
        assert isinstance(session.compact(), Compacted)
        session.learn()
        assert len(model.asked) > 8
        asked = "".join(model.asked)
        assert [len(re.findall(rf"word{number}\b", asked)) for number in range(40)] == [900] * 40


def test_what_undo_brings_back_into_context_is_learned_once(tmp_path: Path) -> None:
    with opened(tmp_path, knowledge=PATTERNS) as session:
        compacted(session, *told("Remember that the API is running on port 3000."))
        session.undo_compaction()
        assert isinstance(session.compact(), Compacted)
        (fact,) = session.facts()
        assert fact.support == 1


def test_what_was_said_on_a_branch_that_was_left_is_not_known(tmp_path: Path) -> None:
    with opened(tmp_path, knowledge=PATTERNS) as session:
        first = told("Remember: the API is running on port 3000.")
        session.observe([*first, *filler()])
        session.compact()
        session.observe([*first, *filler(), *told("Remember: the API is running on port 4000."), *filler(9)])
        session.compact()
        assert "4000" in contents(session)[0]
        session.observe([*first, *filler(), user("And now something else.")])
        assert ["3000" in each for each in contents(session)] == [True]


def test_oc_50_facts_are_of_their_session_or_of_its_namespace(tmp_path: Path) -> None:
    isolated = siltstone.RecallConfig.documented(enabled=True)
    with opened(tmp_path, "own", namespace="team", recall=isolated) as session:
        session.save("Only here")
    with opened(tmp_path, "one", namespace="team", knowledge=False) as session:
        session.save("Use tabs", "preference")
        assert contents(session) == ["Use tabs"]
    with opened(tmp_path, "two", namespace="team") as session:
        assert contents(session) == ["Use tabs"]
    for other in ({}, {"namespace": "other"}):
        with opened(tmp_path, f"else{len(other)}", **other) as session:
            assert session.facts() == []


def test_a_denial_takes_the_arguments_of_a_call_as_they_came(tmp_path: Path) -> None:
    with opened(tmp_path, "one", redaction=True) as session:
        correction = session.record_denial("shell", {"command": "rm -rf build"})
        assert correction.original == 'shell {"command": "rm -rf build"}'
        with pytest.raises(siltstone.ConfigError, match="arguments of a denial must be a text, got 7"):
            session.record_denial("shell", 7)  # type: ignore[arg-type]
        with pytest.raises(siltstone.ConfigError, match="tool of a denial must not be blank"):
            session.record_denial(" ", "rm")


def test_ru_61_a_second_process_has_the_facts_and_rules_of_the_first(tmp_path: Path) -> None:
    options: dict[str, Any] = {"namespace": "team", "knowledge": KnowledgeConfig(min_entries=1)}
    with opened(tmp_path, "one", **options) as session:
        session.save("Deploys happen on Fridays")
        session.record_denial("shell", "rm -rf build", "use make clean", "tidy up")
    with opened(tmp_path, "two", **options) as session:
        assert contents(session) == ["Deploys happen on Fridays"]
        assert [rule.text for rule in session.rules] == [
            "Instead of shell rm -rf build, prefer: use make clean."
        ]


def test_ru_63_a_denial_is_a_rule_of_the_next_system_prompt_and_idempotent(tmp_path: Path) -> None:
    config = KnowledgeConfig(min_entries=2)
    with opened(tmp_path, knowledge=config) as session:
        assert "Learned" not in session.memory_instructions
        session.record_denial("shell", "rm -rf build", "use make clean", "tidy up")
        assert session.rules == (), "fewer than min_entries wait for more"
        session.record_denial("shell", "rm -rf dist", "use make clean", "tidy up")
        text = session.memory_instructions
        assert "1. For shell: tidy up, prefer: use make clean. (2 corrections)" in text
        assert session.memory_instructions == text
    with opened(tmp_path, knowledge=config) as session:
        assert session.memory_instructions == text
        assert [rule.support for rule in session.rules] == [2]


def test_a_rule_of_a_preference_that_was_taken_back_goes(tmp_path: Path) -> None:
    with opened(tmp_path, knowledge=KnowledgeConfig(min_entries=1)) as session:
        fact = session.save("Always use tabs", "preference")
        assert [rule.text for rule in session.rules] == ["Always use tabs"]
        assert session.retract(fact.id)
        assert not session.retract(fact.id)
        assert session.rules == ()
        assert session.facts() == []
        assert contents(session, history=True) == ["Always use tabs"]


def test_ru_32_results_of_tools_are_facts_where_that_is_asked_for(tmp_path: Path) -> None:
    config = KnowledgeConfig(knowledge_extraction=False, tool_facts=True)
    with opened(tmp_path, knowledge=config) as session:
        sizes = {1: "x" * 10, 2: "y" * 11, 3: "z" * 4_999, 4: "w" * 5_000}
        known = ["run: " + "y" * 11, "run: " + "z" * 200 + "..."]
        for number, output in sizes.items():
            call, result = exchange(number, output)
            session.append(user("go"), call)
            session.append(result)  # it is known at once, and what it is a result of
            assert sorted(contents(session), key=len) == known[: max(0, min(number - 1, 2))]
            session.append(assistant("ok"))
        compacted(session)
        assert sorted(contents(session), key=len) == known
        assert {fact.support for fact in session.facts()} == {1}
        (fact,) = session.facts("y" * 11)
        assert (fact.source, fact.tags) == ("tool:run", ("tool_result", "run"))


def test_the_tool_finds_what_was_saved_beside_what_was_said(tmp_path: Path) -> None:
    with opened(tmp_path, knowledge=PATTERNS) as session:
        compacted(session, user("The zebra lives in the north enclosure " + "pad " * 30), assistant("Noted."))
        session.save("The walrus lives in the south enclosure")
        hits = json.loads(session.memory_search.call({"query": "walrus enclosure"}))
        assert hits[0]["content"] == "The walrus lives in the south enclosure"
        assert hits[0]["source_range"] == {"start": 18, "end": 18}, "no message of the log"
        assert any("zebra" in hit["content"] for hit in hits)
        assert len(json.loads(session.memory_search.call({"query": "enclosure", "limit": 1}))) == 1
        assert [hit.content for hit in session.search("walrus")] == []


def test_ru_33_a_session_searches_its_facts_by_words_and_vectors_where_that_is_chosen(tmp_path: Path) -> None:
    config = KnowledgeConfig(fact_search="hybrid", knowledge_extraction=False)
    with opened(tmp_path, knowledge=config) as session:
        one = session.save("Redis is the cache", "fact")
        session.save("Postgres holds the orders", "decision")
        assert session.facts("cache and something else entirely") == [one]
        assert session.facts("cache", types=["decision"]) == []
    with opened(tmp_path, knowledge=config) as session:
        assert session.facts("redis cache") == [one]
        assert len(session._core.knowing.facts.vectors()) == 2


def test_threads_that_save_at_once_lose_nothing(tmp_path: Path) -> None:
    with opened(tmp_path, knowledge=KnowledgeConfig(max_facts=100, knowledge_extraction=False)) as session:
        for number in range(100):
            session.save(f"an old fact {number}")

        def save(thread: int) -> None:
            for number in range(10):
                session.save(f"thread {thread} says {number}")

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(save, range(8)))
        kept = contents(session)
        assert len(kept) == 100
        assert sum(text.startswith("thread") for text in kept) == 80


def test_a_time_to_live_ends_what_was_learned(tmp_path: Path) -> None:
    config = KnowledgeConfig(knowledge_extraction=False, ttl=timedelta(days=30))
    with opened(tmp_path, knowledge=config) as session:
        compacted(session, *told("Remember that the API is running on port 3000."))
        (fact,) = session.facts()
        assert fact.valid_until == fact.created_at + 30 * 86_400_000
        assert session.facts(as_of=fact.valid_until / 1000) == []


def test_what_is_forgotten_takes_its_facts_with_it(tmp_path: Path) -> None:
    with opened(tmp_path, knowledge=PATTERNS) as session:
        compacted(
            session,
            *told("Remember that the API is running on port 3000.", "Remember that walrus is the mascot."),
        )
        session.save("The walrus likes fish")
        session.record_denial("shell", "feed walrus", "no")
        assert session.forget(text="walrus", dry_run=True).facts == 3
        assert len(session.facts()) == 3
        assert session.forget(text="walrus").facts == 3
        assert ["API" in each for each in contents(session)] == [True]
        assert session.forget(start=0, end=1).facts == 1
        assert session.facts(history=True) == []
    assert not any(b"walrus" in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


def test_what_is_left_of_a_forgotten_piece_is_read_again(tmp_path: Path) -> None:
    model = Model()
    with opened(tmp_path, model=model) as session:
        session._begin_reader = lambda: None  # type: ignore[method-assign]
        compacted(session, *told("The key word is walrus."))
        session.learn()
        assert len(model.asked) == 1
        session.forget(text="walrus")
        assert session.facts() == []
        session.learn()
        assert len(model.asked) == 2
        assert "walrus" not in model.asked[1]
        assert contents(session) == [FACT["content"]]


def test_a_deleted_session_has_no_facts_and_takes_none(tmp_path: Path) -> None:
    with siltstone.MemoryStore.open(tmp_path) as store, opened(None, memory=store) as session:
        session.save("The first")
        store.delete_session("s")
        session.save("The second")
        assert store.facts("s") == []


def test_the_tools_of_a_session(tmp_path: Path) -> None:
    with opened(tmp_path) as session:
        names = [tool.name for tool in session.tools]
        assert names == ["memory_search", "memory_get", "context_compact", "memory_save"]
        assert all(f"call {name}" in session.memory_instructions for name in names if name != "memory_get")
        assert "memory_forget" not in session.memory_instructions
        with pytest.raises(siltstone.ConfigError, match="allow_forget"):
            _ = session.memory_forget
        answer = json.loads(
            session.memory_save.call({"content": "Ann prefers short answers", "memory_type": "preference"})
        )
        (fact,) = session.facts("short answers")
        assert (answer["id"], answer["importance"], fact.importance) == (fact.id, 0.7, 0.7)
        with pytest.raises(InvalidArgumentsError):
            session.memory_save.run({"content": ""})
    with opened(tmp_path, allow_forget=True) as session:
        assert "memory_forget" in [tool.name for tool in session.tools]
        assert json.loads(session.memory_forget.call({"ids": [fact.id, "unknown"]})) == {"forgotten": 1}
        assert session.facts(history=True) == []
    assert not any(b"short answers" in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


def test_ru_61_a_model_may_forget_what_another_session_of_the_namespace_has_saved(tmp_path: Path) -> None:
    with opened(tmp_path, "one", namespace="team") as session:
        fact = session.save("Use tabs", "preference")
    with opened(tmp_path, "two", namespace="crew", allow_forget=True) as session:
        assert json.loads(session.memory_forget.call({"ids": [fact.id]})) == {"forgotten": 0}, "not its own"
    options: dict[str, Any] = {"namespace": "team", "allow_forget": True}
    with opened(tmp_path, "three", **options) as session:
        assert json.loads(session.memory_forget.call({"ids": [fact.id]})) == {"forgotten": 1}
        assert session.facts(history=True) == []


def test_without_memory_there_are_no_facts(tmp_path: Path) -> None:
    with opened(tmp_path, memory=False, knowledge=False) as session:
        assert [tool.name for tool in session.tools] == ["memory_get", "context_compact"]
        with pytest.raises(siltstone.ConfigError, match="memory=False"):
            session.facts()


def asynchronously(
    play: Callable[[siltstone.AsyncSession, Model], Any], path: Path, model: Model, **options: Any
) -> None:
    async def run() -> None:
        async def ask(request: siltstone.CompletionRequest) -> siltstone.Completion:
            return await asyncio.to_thread(model, request)

        options.setdefault("policy", small())
        async with siltstone.AsyncSession.open(path, "s", model=ask, knowledge=True, **options) as session:
            await play(session, model)

    asyncio.run(run())


def test_oc_53_an_async_session_learns_in_a_task_of_its_own(tmp_path: Path) -> None:
    gate = threading.Event()

    async def play(session: siltstone.AsyncSession, model: Model) -> None:
        await session.append(*filler(10))
        assert isinstance(await session.compact(), Compacted)
        assert await asyncio.to_thread(model.started.wait, 300)
        await session.append(user("more"))
        await session.prepare()
        assert await session.facts() == []
        gate.set()
        await session.learn()
        assert [fact.content for fact in await session.facts("webhooks signatures")] == [FACT["content"]]
        saved = await session.save("Use tabs", "preference")
        assert await session.fact_history(saved.id) == [saved]
        assert await session.retract(saved.id)
        await session.record_denial("shell", "rm", "no")
        assert session.rules == ()
        assert "memory_save" in session.memory_instructions

    asynchronously(play, tmp_path, Model(hold=gate))


def test_an_async_session_that_is_closed_waits_for_the_model_that_reads(tmp_path: Path) -> None:
    model = Model()

    async def play(session: siltstone.AsyncSession, model: Model) -> None:
        await session.append(*filler(10))
        assert isinstance(await session.compact(), Compacted)

    asynchronously(play, tmp_path, model)
    with opened(tmp_path) as session:
        assert contents(session) == [FACT["content"]]


def opened_without_model(path: Path | None, session_id: str = "s", **options: Any) -> Session:
    return Session.open(path, session_id, **{"policy": small(), "knowledge": True, **options})


def test_what_others_change_in_shared_facts_is_seen_at_the_next_look(tmp_path: Path) -> None:
    shared: dict[str, Any] = {"namespace": "team"}
    with MemoryStore.open(tmp_path) as store, MemoryStore.open(tmp_path) as other:
        one = opened_without_model(None, "one", memory=store, **shared)
        two = opened_without_model(None, "two", memory=other, **shared)
        assert two.facts("API port") == []
        fact = one.save("The API is on port 3000")
        assert contents(two, query="API port") == [fact.content]
        assert one.retract(fact.id)
        assert two.facts("API port") == []
        one.save("The API is on port 4000")
        assert len(two.facts("API port")) == 1
        other.delete_session("one")
        assert two.facts("API port") == []


def test_a_fact_that_was_replaced_or_taken_back_is_brought_back(tmp_path: Path) -> None:
    with opened_without_model(tmp_path) as session:
        for text in ("Remember that the office is on floor 3.", "Remember that the office is on floor 4."):
            session.append({"role": "user", "content": text, "name": "ann"}, assistant("ok"))
        for _ in range(20):
            session.append(user("pebble " * 60), assistant("gravel " * 60))
            session.prepare()
        session.compact()
        assert contents(session) == ["The office is on floor 4"]
        old, new = session.fact_history(session.facts()[0].id)
        assert old.superseded_because == "the same subject and relation, another value"
        assert (old.speaker, old.source_ranges) == ("user ann", ((0, 1),))
        assert session.restore(old.id)
        assert sorted(contents(session)) == ["The office is on floor 3", "The office is on floor 4"]
        assert session.retract(new.id)
        assert session.restore(new.id)
        assert not session.restore(new.id), "it holds"
        assert not session.restore("unknown")
        assert len(contents(session)) == 2


def test_a_fork_has_the_facts_of_its_session_or_of_its_namespace_once(tmp_path: Path) -> None:
    for scope in ("", "team"):
        with opened_without_model(tmp_path, f"of {scope}", namespace=scope) as session:
            session.append(user("hello"), assistant("hi"))
            session.save("The API is on port 3000")
            with session.fork(f"fork of {scope}") as fork:
                assert contents(fork) == ["The API is on port 3000"]


def test_facts_are_read_where_the_note_of_their_changes_is_damaged(tmp_path: Path) -> None:
    with opened_without_model(tmp_path) as session:
        session.save("The API is on port 3000")
    sql(tmp_path, "UPDATE meta SET value = 'x' WHERE key = 'facts'")
    with opened_without_model(tmp_path) as session:
        assert len(session.facts("API port")) == 1
        session.save("The API is on port 4000")
        assert len(session.facts("API port")) == 2


def test_facts_of_messages_do_not_take_the_places_of_what_was_saved(tmp_path: Path) -> None:
    names = ("Falcon", "Heron", "Osprey", "Walrus", "Otter", "Zebra")
    said = [f"Remember that {name} has the API port 3000." for name in names]
    said += [f"What of step {number}?" for number in range(8)]
    with opened_without_model(tmp_path, knowledge=KnowledgeConfig(knowledge_extraction=False)) as session:
        for text in said:
            session.append(user(f"{text} {'pad ' * 30}"), assistant("Done. " * 20))
        assert isinstance(session.compact(), Compacted)
        assert len(session.facts("api port")) == 6
        other = "and Bob why its port and the lock of the laboratory differ " + "from the others " * 20
        saved = session.save(f"Ask Ann for the key of the API, {other}")
        assert session.facts("api port")[-1] == saved, "the others fit better, and stand in messages"
        hits = json.loads(session.memory_search.call({"query": "api port", "limit": 3}))
        assert hits[0]["content"] == saved.content


SAMPLES = 40  #: of the lines of a call, spread over all of it; every line in the slow profile


def ready(store: SimpleMemoryStore, name: str) -> tuple[Session, Callable[[], Any]]:
    """A session of *store* whose call *name* is to be interrupted, and that call."""
    session = opened(None, memory=store, knowledge=KnowledgeConfig(min_entries=1))
    session._begin_reader = lambda: None  # type: ignore[method-assign] # nothing beside what is interrupted
    calls: dict[str, Callable[[], Any]] = {
        "compact": session.compact,
        "learn": session.learn,
        "save": lambda: session.save("Use tabs", "preference"),
        "deny": lambda: session.record_denial("shell", "rm", "use make clean", "tidy"),
    }
    if name in ("compact", "learn"):
        session.append(*told("Remember that the API is running on port 3000."), *filler())
    if name == "learn":
        assert isinstance(session.compact(), Compacted)
    return session, calls[name]


def learned(session: Session) -> tuple[list[tuple[str, int]], int]:
    """All that is known: facts with their support, and how many corrections."""
    session.learn()
    facts = [(fact.content, fact.support) for fact in session.facts(history=True)]
    return sorted(facts), len(session._core.knowing.facts.corrections())


@pytest.mark.parametrize("name", ["compact", "learn", "save", "deny"])
def test_an_interrupt_at_any_line_learns_all_of_it_once(name: str) -> None:
    for _ in range(2):  # the first call of a process runs more lines than later ones
        with SimpleMemoryStore() as store:
            session, call = ready(store, name)
            lines = lines_of(call)
            session.compact()
            expected = learned(session)
    for line in range(1, lines, 1 if PROFILE == "slow" else max(1, lines // SAMPLES)):
        with SimpleMemoryStore() as store:
            session, call = ready(store, name)
            interrupted_at(line, call)
            call()
            session.compact()
            assert learned(session) == expected, line
            session.close()
            assert learned(opened(None, memory=store)) == expected, line
            if name == "deny":
                ready(store, name)[1]()
                facts, corrections = learned(opened(None, memory=store))
                assert (facts, corrections) == (expected[0], 2), "one that was answered is another"
