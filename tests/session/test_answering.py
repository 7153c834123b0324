"""The answers of ``memory_search`` in one step of the store: equal to those of a search, in every case."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

import pytest

from siltstone import CompactionConfig, Entry, MemoryStore, SearchHit, Session, ThresholdCompactor
from siltstone.errors import InvalidArgumentsError, StoreClosedError
from siltstone.events import EntriesQuarantined
from siltstone.hooks import Watched, watch
from siltstone.tools.memory import memory_search

ODD = [
    'quotes "here" and \\ there, fox',
    "fox\nlines\r\tand \x00 control \x1f\x7f characters",
    "fox ☕ naïve 漢字 \U0001f98a and \u2028",
    "fox " * 400,
    "a fox and half a character: \ud83e!",
]


def texts() -> list[str]:
    """Sentences of Python's help pages, and texts with every kind of escape."""
    words = " ".join(topics[name] for name in sorted(topics)).split()
    return [" ".join(words[at : at + 14]) for at in range(0, 8_400, 14)] + ODD


def entry(at: int, text: str) -> Entry:
    day = datetime(2026, 3, 1 + at // 60, tzinfo=UTC)
    return Entry(text, (at, at + 1), name=("Ada", None)[at % 2], created_at=day)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[MemoryStore]:
    with MemoryStore.open(tmp_path) as opened:
        said = enumerate(texts())
        opened.index("s", [entry(at, text) for at, text in said])
        yield opened


def counted(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The queries of later calls of the store's one step that had an answer."""
    asked, answer = list[str](), store.answer

    def noted(session_id: str, query: str, *rest: Any) -> Any:
        found = answer(session_id, query, *rest)
        if found is not None:
            asked.append(query)
        return found

    monkeypatch.setattr(store, "answer", noted)
    return asked


def by_search(session: Session, store: MemoryStore, budget: int | None = None) -> Any:
    """The tool that searches and writes each hit by itself."""
    return memory_search(
        lambda query, limit, **_: store.search(session.session_id, query, limit), budget=budget
    )


@pytest.mark.parametrize(("window", "budget"), [(None, None), (8_000, 600)])
def test_an_answer_is_that_of_a_search(
    store: MemoryStore, window: int | None, budget: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = counted(store, monkeypatch)
    session = Session.open(None, "s", memory=store, context_window=window, policy=None)
    tool, twin = session.memory_search, by_search(session, store, budget)
    queries = [" ".join(text.split()[2:10]) for text in texts()[::20]]
    queries += ["fox", "fxo", "half a character", "Ada", "the", "nothingofthekind", "2026-03-04", "☕"]
    for query in queries:
        for more in ({}, {"limit": 1}, {"limit": 20}, {"limit": None}, {"limit": 3.0}):
            call = json.dumps({"query": query, **more})
            assert tool.call(call) == twin.call(call), (query, more)
    assert len(asked) == 5 * len(queries)


@pytest.mark.parametrize("ranker", ["cosine", "hybrid"])
def test_an_answer_is_by_the_ranker_of_the_store(tmp_path: Path, ranker: Any) -> None:
    with MemoryStore.open(tmp_path, ranker=ranker) as store:
        store.index("s", [Entry(text, (at, at + 1)) for at, text in enumerate(texts()[:60])])
        session = Session.open(None, "s", memory=store)
        for query in ("the value of an object", "fox"):
            found = session.memory_search.call({"query": query})
            scores = [each["score"] for each in json.loads(found)]
            hits = store.search("s", query, ranker=ranker)
            assert scores == pytest.approx(
                [hit.score for hit in hits], rel=1e-6
            )  # time passes, and they decay


def test_what_needs_hits_or_another_order_is_searched(store: MemoryStore, monkeypatch: pytest.MonkeyPatch):
    session, asked = Session.open(None, "s", memory=store), counted(store, monkeypatch)
    tool = session.memory_search
    for more in ({"order": "time"}, {"since": "2026-03-02"}, {"until": "2026-03-02"}, {"order": None}):
        assert json.loads(tool.call({"query": "fox or the value", **more}))
    assert not asked
    tool.call({"query": "fox"})
    assert asked == ["fox"]
    seen = list[SearchHit]()

    class Watcher(Watched):
        def operation(self, *_: object) -> Watcher:
            return self

        def records(self, records: Any) -> None:
            seen.extend(records)

    watch(Watcher())  # type: ignore[arg-type]
    try:
        found = json.loads(tool.call({"query": "fox"}))
    finally:
        watch(None)
    assert [hit.content for hit in seen] == [each["content"] for each in found]
    assert asked == ["fox"]


def test_a_preset_bounds_the_hits_of_an_answer(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = counted(store, monkeypatch)
    session = Session.open(None, "s", memory=store)
    session._calls._most_hits = 3
    assert len(json.loads(session.memory_search.call({"query": "the value", "limit": 20}))) == 3
    assert asked == ["the value"]


def test_a_store_that_searches_in_its_own_way_is_asked_for_hits(tmp_path: Path) -> None:
    class Own(MemoryStore):
        def search(self, *_: Any, **__: Any) -> list[SearchHit]:
            return []

    with Own.open(tmp_path) as store:
        store.index("s", [Entry("a fox", (0, 1))])
        session = Session.open(None, "s", memory=store)
        assert session.memory_search.call({"query": "fox"}) == "[]"


def test_facts_stand_beside_messages_from_the_moment_they_are_saved(store: MemoryStore) -> None:
    session, other = (Session.open(None, name, memory=store) for name in ("s", "other"))
    tool = session.memory_search
    tool.call({"query": "vixen lives river"})
    other.memory_save.call({"content": "The vixen lives elsewhere.", "memory_type": "fact"})
    assert "elsewhere" not in tool.call({"query": "vixen lives river"})
    session.memory_save.call({"content": "The vixen lives at the river.", "memory_type": "fact"})
    for _ in range(2):
        assert "at the river" in tool.call({"query": "vixen lives river"})


def test_hooks_hear_of_entries_that_are_damaged(store: MemoryStore, tmp_path: Path) -> None:
    import sqlite3

    told = list[Any]()
    session = Session.open(None, "s", memory=store, hooks=[told.append])
    session.memory_search.call({"query": "fox"})
    [file] = tmp_path.rglob("memory.sqlite3")
    with sqlite3.connect(file) as database:
        database.execute("UPDATE entry SET text = 'no fox' WHERE id = (SELECT max(id) FROM entry)")
    database.close()
    hits = json.loads(session.memory_search.call({"query": "fox", "limit": 20}))
    assert "no fox" not in [each["content"] for each in hits]
    assert [type(each) for each in told if isinstance(each, EntriesQuarantined)] == [EntriesQuarantined]


def test_refusals_are_those_of_a_search(store: MemoryStore) -> None:
    session = Session.open(None, "s", memory=store)
    tool = session.memory_search
    with pytest.raises(InvalidArgumentsError, match="memory_search: a query must be at most"):
        tool.run({"query": "fox " * 100_000})
    session.close()
    with pytest.raises(StoreClosedError):
        tool.call({"query": "fox"})


def test_a_result_says_when_it_was_said_in_the_zone_of_the_session(tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path) as store:
        late = datetime(2026, 5, 8, 3, 30, tzinfo=UTC)
        store.index("a", [Entry("the weir broke", (n, n + 1), created_at=late) for n in range(3)])
        with Session.open(None, "a", memory=store, time_zone="America/New_York") as session:
            for asked in ({"query": "weir"}, {"query": "weir", "since": "2026-05-07", "until": "2026-05-07"}):
                (hit,) = json.loads(session.memory_search.call(asked))
                assert hit["said"] == hit["first"] == hit["last"] == "2026-05-07 23:30"
                assert hit["times"] == 3
            session.append({"role": "user", "content": "and now?"})
            assert json.loads(session.memory_get.call({"handle": "m0"}))["said"][:2] == "20"


TREES, ENDS = ("Alder", "Birch", "Cedar", "Ember"), ("dale", "ford", "wick")
NAMES = [tree + end for tree in TREES for end in ENDS]
FACTS = {f"code of the station {name}": f"{1000 + 37 * number}" for number, name in enumerate(NAMES)}
POLICY = ThresholdCompactor(
    CompactionConfig(auto_compact_threshold=1_000, recent_turn_budget=1, max_summary_tokens=80)
)


def recall(session: Session) -> int:
    """For how many of the facts the answer of the tool has the code, nothing of it being kept."""
    found = 0
    for question, code in FACTS.items():
        found += code in session.memory_search.call({"query": f"What is the {question}?"})
    return found


def ask_everything(session: Session, turn: str, dialect: str) -> None:
    for number, question in enumerate(FACTS):
        arguments = {"query": f"What is the {question}?"}
        answer = session.memory_search.call(arguments)
        name = "mcp__siltstone__memory_search" if number % 2 else "memory_search"
        session.append(*exchange(f"{turn}-{number}", name, arguments, answer, dialect))
        session.prepare()


def exchange(id_: str, name: str, arguments: Any, answer: str, dialect: str) -> list[dict[str, Any]]:
    if dialect == "anthropic":
        use = {"type": "tool_use", "id": id_, "name": name, "input": arguments}
        return [
            {"role": "user", "content": "Go on."},
            {"role": "assistant", "content": [use]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": id_, "content": answer}]},
            {"role": "assistant", "content": "Noted."},
        ]
    function = {"name": name, "arguments": json.dumps(arguments)}
    return [
        {"role": "user", "content": "Go on."},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": id_, "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": id_, "content": answer},
        {"role": "assistant", "content": "Noted."},
    ]


@pytest.mark.parametrize("dialect", ["openai.chat", "anthropic"])
def test_asking_everything_again_and_again_changes_no_answer(tmp_path: Path, dialect: str) -> None:
    with Session.open(
        tmp_path, "s", policy=POLICY, model=lambda request: "Codes were told.", context_window=8_000
    ) as session:
        for question, code in FACTS.items():
            session.append(
                {"role": "user", "content": f"The {question} is {code}. " + "It rained. " * 30},
                {"role": "assistant", "content": "I see."},
            )
            session.prepare()
        session.compact()
        before = recall(session)
        assert before >= len(FACTS) - 2
        for rounds in range(3):
            ask_everything(session, f"call-{rounds}", dialect)
        assert recall(session) >= before
        assert not any("source_range" in hit.content for hit in session.search("source_range code", 20))
