"""Filters of a search: the hits are those of a search without them, less the hits that they refuse."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from siltstone.errors import InvalidEntryError
from siltstone.knowledge.search import entities_of, has_entity, named
from siltstone.memory import Entry
from siltstone.stores import MemoryStore, SimpleMemoryStore
from siltstone.stores.simple import Tags
from storing import contents

WORDS = ["silt", "river", "delta", "kettle", "slow"]
ROLES, KINDS, NAMES = ["user", "assistant", "tool"], ["message", "note"], ["Mel", "Caroline", None]
TEXTS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join)
ENTRIES = st.lists(
    st.tuples(
        TEXTS, st.sampled_from(ROLES), st.sampled_from(KINDS), st.sampled_from(NAMES), st.integers(0, 9)
    ),
    min_size=1,
    max_size=25,
)
FILTERS = st.fixed_dictionaries(
    {},
    optional={
        "since": st.integers(0, 5),
        "until": st.integers(6, 10),
        "role": st.sampled_from([*ROLES, "nobody"]),
        "kind": st.sampled_from(KINDS),
        "name": st.sampled_from(["Mel", "Caroline", "Me", "mel", ""]),
    },
)


def rows(drawn: list[tuple[str, str, str, str | None, int]], first: int = 0) -> list[Entry]:
    return [
        Entry(f"{text} x{first + n}", (first + n, first + n + 1), role, name, kind, float(at))
        for n, (text, role, kind, name, at) in enumerate(drawn)
    ]


def passes(filters: dict[str, Any]) -> Callable[[Entry], bool]:
    def admits(entry: Entry) -> bool:
        at = float(entry.created_at)  # type: ignore[arg-type]
        return filters.get("since", at) <= at < filters.get("until", 99) and all(
            filters.get(field, value) == value
            for field, value in (("role", entry.role), ("kind", entry.kind), ("name", entry.name))
        )

    return admits


@pytest.mark.parametrize("ranker", ["lexical", "cosine", "hybrid"])
def test_a_filter_takes_hits_away_and_changes_no_score(tmp_path: Path, ranker: Any) -> None:
    with MemoryStore.open(tmp_path) as store:
        sessions = iter(range(10_000))

        @given(drawn=ENTRIES, more=ENTRIES, filters=FILTERS, query=TEXTS, limit=st.integers(1, 9))
        def check(drawn: Any, more: Any, filters: dict[str, Any], query: str, limit: int) -> None:
            session = str(next(sessions))
            known = dict(zip(store.index(session, rows(drawn)).entry_ids, rows(drawn), strict=True))
            store.search(session, query, **filters)  # what comes next finds an index with labels
            known |= zip(store.index(session, rows(more, 50)).entry_ids, rows(more, 50), strict=True)
            admits = passes(filters)
            whole = store.search(session, query, 100, ranker=ranker, now=10.0)
            expected = [hit for hit in whole if admits(known[hit.entry_id])]
            assert store.search(session, query, limit, ranker=ranker, now=10.0, **filters) == expected[:limit]
            store.expire(session, keep=len(known) // 2)
            left = store.search(session, query, 100, ranker=ranker, now=10.0)
            expected = [hit for hit in left if admits(known[hit.entry_id])]
            assert store.search(session, query, 100, ranker=ranker, now=10.0, **filters) == expected

        check()


@pytest.mark.parametrize("scope", ["session", "namespace"])
def test_filters_hold_in_every_scope_and_store(tmp_path: Path, scope: Any) -> None:
    for store in (MemoryStore.open(tmp_path), SimpleMemoryStore()):
        with store:
            for session in ("a", "b"):
                store.open_log(session).open("acme")
                store.index(
                    session,
                    [
                        Entry(f"silt of {session} today", (0, 1), created_at=100.0),
                        Entry(
                            f"silt of {session} of old", (1, 2), "assistant", "Mel", "note", created_at=5.0
                        ),
                    ],
                )
            found = store.search(
                "a", "silt", scope=scope, role="assistant", name="Mel", kind="note", until=100
            )
            of = ["a", "b"] if scope == "namespace" else ["a"]
            assert sorted(contents(found)) == [f"silt of {session} of old" for session in of]
            found = store.search("a", "silt", scope=scope, since=datetime.fromtimestamp(100, UTC))
            assert sorted(contents(found)) == [f"silt of {session} today" for session in of]


def test_an_index_from_a_cache_learns_its_labels(tmp_path: Path) -> None:
    texts = [Entry(f"silt number {n}", (n, n + 1), ROLES[n % 3], created_at=float(n)) for n in range(900)]
    with MemoryStore.open(tmp_path) as store:
        store.index("a", texts)
        store.search("a", "silt", ranker="hybrid")
    with MemoryStore.open(tmp_path) as store:
        assert store.stats("a").detail["cached"] == 900
        hits = store.search("a", "silt number", 1_000, role="tool")
        assert len(hits) == 300
        assert {hit.role for hit in hits} == {"tool"}


def test_a_graph_is_not_asked_where_there_is_a_filter(tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path, "cosine", index="hnsw") as store:
        store.index("a", [Entry("silt", (n, n + 1), "user" if n else "tool") for n in range(400)])
        (hit,) = store.search("a", "silt", 5, role="tool")
        assert hit.source_range == (0, 1)


def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path) as store:
        with pytest.raises(InvalidEntryError, match="since must be before until, got 5 and 5"):
            store.search("a", "silt", since=5, until=5)
        with pytest.raises(TypeError, match="unexpected keyword argument 'speaker'"):
            store.search("a", "silt", speaker="Mel")  # type: ignore[call-arg]


TAGGED = [
    ("We migrate the postgres schema, ask Ann Miller", {"database"}, {"person:Ann Miller"}),
    ("The river carries silt past the postgres server", {"database"}, set()),
    ("Deploy on 2026-03-01 with docker, river of logs", {"deployment"}, {"date:2026-03-01"}),
    ("Silt in the river cost $1,200, says Dr. Ann Miller", set(), {"amount:$1,200", "person:Ann Miller"}),
    ("Nothing but silt and river", set(), set()),
]


@pytest.mark.parametrize("scope", ["session", "namespace"])
@pytest.mark.parametrize("kind", ["memory", "simple"])
def test_topics_and_entities_take_hits_away_and_change_no_score(
    tmp_path: Path, scope: Any, kind: str
) -> None:
    with MemoryStore.open(tmp_path) if kind == "memory" else SimpleMemoryStore() as store:
        for session in ("a", "b"):
            store.open_log(session).open("acme")
            store.index(session, [Entry(text, (n, n + 1)) for n, (text, _, _) in enumerate(TAGGED)])
        query = "river silt postgres docker ann"
        every = store.search("a", query, 100, scope=scope)
        assert [hit.times for hit in every] == [2 if scope == "namespace" else 1] * 5
        topics = {text: topics for text, topics, _ in TAGGED}
        entities = {text: names for text, _, names in TAGGED}
        for topic in ("database", "deployment", "payment", None):
            for entity in ("person:Ann Miller", "Ann Miller", "$1,200", "amount:Ann Miller", "Ann", None):
                names = {
                    name
                    for text in entities
                    for name in entities[text]
                    if entity in (name, name.partition(":")[2])
                }
                expected = [
                    hit
                    for hit in every
                    if (topic is None or topic in topics[hit.content])
                    and (entity is None or entities[hit.content] & names)
                ]
                for most in (1, 2, 100):
                    found = store.search("a", query, most, scope=scope, topic=topic, entity=entity)
                    assert found == expected[:most]
        assert store.search("a", query, 0, topic="database") == []


def test_a_rare_entity_is_found_behind_a_thousand_better_hits(tmp_path: Path) -> None:
    for index in (None, "hnsw"):
        options: dict[str, Any] = {} if index is None else {"ranker": "cosine", "index": index}
        with MemoryStore.open(tmp_path / str(index), **options) as store:
            store.index("a", [Entry("silt silt silt river", (n, n + 1)) for n in range(1_500)])
            store.index(
                "a", [Entry("Dr. Ann saw a long slow brown winding river of mud once", (1_500, 1_501))]
            )
            (hit,) = store.search("a", "silt river", 3, entity="person:Ann")
            assert hit.source_range == (1_500, 1_501)
            assert store.search("a", "silt river", 3, topic="payment") == []


@given(
    st.lists(
        st.sampled_from(["Dr. Ann", "Dr. Bo", "person:", ":", "$5", "Ann", "amount", " ", "silt"]), max_size=6
    )
)
def test_a_text_has_the_entities_that_are_told_of_it_and_no_other(pieces: list[str]) -> None:
    text = " ".join(pieces)
    found = named(entities_of(text))
    for wanted in (
        "Ann",
        "person:Ann",
        "amount:$5",
        "$5",
        "person:",
        ":",
        "Dr. Ann",
        "person:Bo",
        "stock:Ann",
    ):
        assert Tags(None, wanted).fit(text) == has_entity(found, wanted)


def test_a_topic_is_one_of_the_table_and_an_explanation_names_it(tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path) as store:
        store.index("a", [Entry("postgres silt", (0, 1))])
        with pytest.raises(InvalidEntryError, match=r"topic must be one of database, api, .*got 'databases'"):
            store.search("a", "silt", topic="databases")
        with pytest.raises(InvalidEntryError, match="entity must be a str or None, got 7"):
            store.search("a", "silt", entity=7)  # type: ignore[arg-type]
        with pytest.raises(InvalidEntryError, match="limit"):
            store.search("a", "silt", -1, topic="database")
        (hit,) = store.search("a", "silt", explain=True, topic="database")
        assert hit.explain is not None
        assert hit.explain["filters"] == {"topic": "database"}
