"""The documented search over facts, by values that were worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from math import sqrt
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from siltstone import ConfigError, MemoryStore
from siltstone.documented import cosine, word_vector
from siltstone.knowledge import Fact, HybridFacts, InMemoryFacts, StoredFacts, learn, new_fact


def store_of(*texts: str) -> InMemoryFacts:
    store = InMemoryFacts()
    store.put([new_fact("fact", text, created_at=place) for place, text in enumerate(texts)])
    return store


def contents(found: list[tuple[Fact, float]]) -> list[str]:
    return [fact.content for fact, _ in found]


def djb(word: bytes, dimensions: int) -> int:
    hashed = 5381
    for byte in word:
        hashed = (hashed * 33 + byte) % 2**64
    return hashed % dimensions


def test_ru_33_the_vector_of_hashed_words_by_hand() -> None:
    vector = word_vector("Redis, redis cache!", 128)
    expected = [0.0] * 128
    expected[djb(b"redis", 128)] += 2
    expected[djb(b"cache", 128)] += 1
    assert vector == [value / sqrt(5) for value in expected]
    assert djb(b"a", 128) == (5381 * 33 + 97) % 128 == 6
    assert word_vector("straße", 64)[djb("straße".encode(), 64)] == 1.0
    assert word_vector("") == word_vector("?!") == [0.0] * 128
    with pytest.raises(ConfigError, match="dimension must be >= 8, got 7"):
        word_vector("a", 7)


@given(st.text(max_size=80))
def test_ru_33_the_embedder_is_deterministic_and_of_unit_norm_or_zero(text: str) -> None:
    vector = word_vector(text)
    assert vector == word_vector(text)
    length = sum(value * value for value in vector)
    assert length == 0 or length == pytest.approx(1)
    assert min(vector) >= 0


def test_ru_33_cosine_of_identical_orthogonal_and_empty() -> None:
    same = word_vector("the same words")
    assert cosine(same, same) == pytest.approx(1)
    assert cosine([1.0, 0.0], [0.0, 1.0]) == 0
    assert cosine(same, word_vector("")) == 0


def test_ru_33_the_score_is_half_the_share_of_bm25_and_half_the_cosine() -> None:
    store = store_of("redis cache", "postgres database", "redis")
    found = HybridFacts(store).search("redis")
    assert contents(found) == ["redis", "redis cache"]
    assert found[0][1] == pytest.approx(0.5 + 0.5)
    ratio = (1 + 1.2 * (0.25 + 0.75 * 1 / (5 / 3))) / (1 + 1.2 * (0.25 + 0.75 * 2 / (5 / 3)))
    assert found[1][1] == pytest.approx(0.5 * ratio + 0.5 / sqrt(2))


def test_ru_33_text_alone_vectors_alone_and_both_find() -> None:
    store = store_of("deploy with docker", "the cat sat on the mat")
    for weights in ((1.0, 0.0), (0.0, 1.0), (0.5, 0.5)):
        assert contents(HybridFacts(store, *weights).search("docker deploy")) == ["deploy with docker"]


def test_ru_33_count_remove_empty_query_no_facts_and_defaults() -> None:
    assert HybridFacts(InMemoryFacts()).search("anything") == []
    store = store_of("one thing", "another thing")
    engine = HybridFacts(store)
    assert (len(engine), engine.max_results, engine.dimensions) == (2, 20, 128)
    assert (engine.full_text_weight, engine.vector_weight) == (0.5, 0.5)
    assert engine.search("") == engine.search("  ") == []
    store.put([replace(store.facts()[0], deleted_at=5)])
    assert len(engine) == 1
    assert contents(engine.search("thing")) == ["another thing"]
    assert engine.search("thing", 0) == []


def test_ru_30_without_the_engine_or_without_hits_the_whole_query_is_looked_for() -> None:
    store = store_of("The ABC-42 unit", "another one")
    assert contents(HybridFacts(store, enabled=False).search("abc-42 UNIT")) == ["The ABC-42 unit"]
    assert contents(HybridFacts(store).search("bc-4")) == ["The ABC-42 unit"]
    assert HybridFacts(store, enabled=False).search("unit ABC-42") == []


def test_ru_34_hits_stand_in_rank_order_and_of_equals_the_newer_is_first() -> None:
    store = store_of("alpha beta", "alpha beta", "alpha beta gamma", "alpha")
    found = HybridFacts(store).search("alpha beta")
    assert [fact.created_at for fact, _ in found] == [1, 0, 2, 3]
    scores = [score for _, score in found]
    assert scores == sorted(scores, reverse=True)


SIGNS = [
    "a:b", '"quoted', "x AND", "NOT", "col:*", "(", ")", "a OR OR b", "'; DROP TABLE fact", "^$", "\x00",
    "NEAR/2",
]  # fmt: skip


@given(st.lists(st.text(max_size=12), max_size=6), st.one_of(st.sampled_from(SIGNS), st.text(max_size=20)))
def test_ru_34_scores_are_normalised_and_signs_of_a_query_never_raise(texts: list[str], query: str) -> None:
    store = store_of(*(text for text in [*texts, *SIGNS] if text.strip()))
    for _, score in HybridFacts(store).search(query):
        assert 0 <= score <= 1 + 1e-9


def test_ru_35_vectors_persist_with_the_facts_and_are_read_not_made(tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path) as store:
        facts = StoredFacts(store, "s", dimensions=64)
        learn(facts, [new_fact("config", "API runs on port 3000", session_id="s")])
    with MemoryStore.open(tmp_path) as store:
        facts = StoredFacts(store, "s", dimensions=64)
        (kept,) = facts.vectors().values()
        assert list(kept) == word_vector("API runs on port 3000 ", 64)
        body = store.facts("s")[0][4].replace(next(iter(_hexes(store))), ("00" * 8) * 64)
        store.put_facts("s", [(store.facts("s")[0][0], facts.facts()[0].id, "active", body)])
        ((_, score),) = HybridFacts(facts, 0.5, 0.5, 64).search("API port")
        assert score == pytest.approx(0.5), "the vector that was kept says nothing: it was not made again"
        assert StoredFacts(store, "s").facts() == facts.facts(), "and a store without vectors reads the same"


def _hexes(store: MemoryStore) -> list[str]:
    import json

    return [json.loads(row[4])["vector"] for row in store.facts("s")]


def test_a_vector_of_another_dimension_is_made_again(tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path) as store:
        StoredFacts(store, "s", dimensions=64).put([new_fact("fact", "redis", session_id="s")])
        found = HybridFacts(StoredFacts(store, "s", dimensions=128)).search("redis")
        assert found[0][1] == pytest.approx(1)
