"""What PostgreSQL has is searched as what a file has: ids, scores and explanations are equal to the bit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from conversations import conversation, small, user
from embedders import Counting
from postgres_stores import PostgresPool
from siltstone import Session
from siltstone.engine import Compacted
from siltstone.memory import Entry, Store
from siltstone.postgres import PostgresStore
from siltstone.stores import MemoryStore
from siltstone.testing import ScriptedModel

WORDS = [
    "silt", "river", "delta", "mud", "clay", "sand", "gravel", "bank", "water",
    "slow", "flood", "plain", "sediment", "layer", "drift", "stone", "Anna", "Bernd",
    "Paris", "Kyoto", "1999", "naïve", "Fluß", "été", "漢字", "русский",
]  # fmt: skip
RANKERS = ["lexical", "cosine", "hybrid"]
DENSE = [*RANKERS, "dense", "fused"]


def corpus(count: int, seed: int) -> list[Entry]:
    draw = Random(seed)
    return [
        Entry(
            " ".join(draw.choices(WORDS, k=draw.randrange(3, 40))),
            (n, n + 1),
            role=draw.choice(["user", "assistant"]),
            name=draw.choice([None, "Anna", "Bernd"]),
            created_at=1_700_000_000.0 + 60 * n,
        )
        for n in range(count)
    ]


def queries(count: int, seed: int) -> Iterator[str]:
    draw = Random(seed)
    for _ in range(count):
        yield " ".join(draw.choices([*WORDS, "sedimint", "floods"], k=draw.randrange(1, 6)))


def shown(store: Store, session_id: str, query: str, **options: Any) -> list[tuple[Any, ...]]:
    hits = store.search(session_id, query, limit=20, **options)
    return [(hit.entry_id, hit.score.hex(), hit.source_range, hit.content, hit.explain) for hit in hits]


@pytest.fixture
def pair(pool: PostgresPool, tmp_path: Path) -> Iterator[tuple[MemoryStore, PostgresStore]]:
    embedder = Counting()
    with (
        MemoryStore.open(tmp_path, embedder=embedder) as file,
        PostgresStore.open(pool.pool, embedder=embedder) as database,
    ):
        yield file, database


def test_every_ranker_gives_the_same_hits_scores_and_explanations(
    pair: tuple[MemoryStore, PostgresStore], pool: PostgresPool
) -> None:
    texts = corpus(300, seed=7)
    for store in pair:
        for start in range(0, len(texts), 60):  # in steps, so that an index grows as well
            store.index("a", texts[start : start + 60])
            store.search("a", "silt")
        assert store.flush(60)
    file, database = pair
    with PostgresStore.open(pool.pool, embedder=Counting()) as cold:
        for query in queries(40, seed=11):
            for ranker in DENSE:
                expected = shown(file, "a", query, ranker=ranker, now=1_700_100_000.0, explain=True)
                for store in (database, cold):
                    assert (
                        shown(store, "a", query, ranker=ranker, now=1_700_100_000.0, explain=True) == expected
                    )


def test_filters_and_orders_give_the_same(pair: tuple[MemoryStore, PostgresStore]) -> None:
    asked: list[dict[str, Any]] = [
        {"role": "user"},
        {"name": "Anna", "min_score": 0.2},
        {"since": 1_700_003_000.0, "until": 1_700_009_000.0},
        {"order": "time"},
        {"kind": "message", "role": "assistant", "ranker": "hybrid"},
    ]
    for store in pair:
        store.index("a", corpus(200, seed=3))
    file, database = pair
    for query in queries(10, seed=5):
        for options in asked:
            given = {"now": 1_700_100_000.0, "ranker": "lexical"} | options
            assert shown(database, "a", query, **given) == shown(file, "a", query, **given)


def test_entries_that_leave_change_both_alike(pair: tuple[MemoryStore, PostgresStore]) -> None:
    texts = corpus(120, seed=9)
    for store in pair:
        store.index("a", texts)
        store.search("a", "silt")
        store.forget(session_id="a", text="gravel")
        store.expire("a", keep=40)
        store.index("a", [Entry("silt again", (500, 501), created_at=1_700_050_000.0)])
    file, database = pair
    for query in queries(20, seed=2):
        for ranker in RANKERS:
            given = {"now": 1_700_100_000.0, "ranker": ranker, "explain": True}
            assert shown(database, "a", query, **given) == shown(file, "a", query, **given)


def test_a_session_recalls_the_same_of_its_namespace(pair: tuple[MemoryStore, PostgresStore]) -> None:
    found = []
    for store in pair:
        for name in ("one", "two", "three"):
            with Session.open(
                None, name, memory=store, namespace="team", policy=small(), model=ScriptedModel()
            ) as session:
                session.append(user(f"{name} asks about topic1"))  # equal texts would be one hit
                session.append(*conversation(8))
                assert isinstance(session.compact(), Compacted)
        hits = store.search("two", "topic1 question", limit=50, scope="namespace", ranker="lexical", now=4e9)
        found.append([(hit.session_id, hit.score.hex(), hit.source_range, hit.content) for hit in hits])
    assert found[0] == found[1]
    assert {each[0] for each in found[0]} == {"one", "two", "three"}
