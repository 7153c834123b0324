"""Facts over the rows of a store: which come back, leave, or are never written; the documented search."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import sqrt
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from siltstone import ConfigError, MemoryStore, SimpleMemoryStore
from siltstone.documented import cosine, word_vector
from siltstone.errors import StoreConflictError
from siltstone.knowledge import (
    Correction,
    Fact,
    HybridFacts,
    InMemoryFacts,
    Marked,
    StoredFacts,
    correction_of,
    learn,
    new_fact,
)
from siltstone.knowledge.stored import NewFactRow
from siltstone.memory.base import FactRow
from siltstone.redaction import redact

KEY = "ghp_" + "dE5gH7jK9mN2pQ4sT6vW8yZ1cF3iL5oR7uX9"


class Table:
    """The rows of a store, as its core keeps them."""

    def __init__(self, namespaces: dict[str, str] | None = None) -> None:
        self._namespaces = namespaces or {}
        self.rows: dict[int, tuple[str, FactRow]] = {}
        self.writes = 0

    def put_facts(
        self, session_id: str, facts: Sequence[NewFactRow], was: Mapping[int, str] | None = None
    ) -> list[int]:
        for wanted, before in (was or {}).items():
            if any(wanted == row_id for row_id, *_ in facts) and self.rows[wanted][1][4] != before:
                raise StoreConflictError("changed meanwhile")
        self.writes += 1
        ids = []
        for wanted, key, state, body in facts:
            row_id = len(self.rows) + 1 if wanted is None else wanted
            assert wanted is None or wanted in self.rows
            owner = session_id if wanted is None else self.rows[wanted][0]
            self.rows[row_id] = owner, (row_id, self._namespaces.get(owner, ""), state, key, body, 1, 1)
            ids.append(row_id)
        return ids

    def facts(self, session_id: str, state: str | None = None) -> list[FactRow]:
        return [row for owner, row in self.rows.values() if owner == session_id and state in (None, row[2])]

    def namespace_facts(self, namespace: str, state: str | None = None) -> list[FactRow]:
        return [row for _, row in self.rows.values() if row[1] == namespace and state in (None, row[2])]

    def facts_revision(self, session_id: str, namespace: str = "") -> str | None:
        return str(self.writes)


def test_oc_41_facts_come_back_with_all_their_fields_in_one_write() -> None:
    table = Table()
    fact = new_fact(
        "goal", "ship it", session_id="s", source_ranges=((1, 2), (4, 6)), topics=("api",), entities=("x:y",),
        tags=("t",), valid_until=9_999_999_999_999, source="model", context="c",
    )  # fmt: skip
    StoredFacts(table, "s").put([fact, new_fact("fact", "another")])
    assert table.writes == 1
    assert StoredFacts(table, "s").facts()[0] == fact


def test_oc_50_ru_61_facts_are_of_their_session_or_by_choice_of_its_namespace() -> None:
    table = Table({"a": "team", "b": "team", "c": "other"})
    for session in "abc":
        StoredFacts(table, session).put([new_fact("fact", f"the fact of {session}", session_id=session)])
    assert [fact.content for fact in StoredFacts(table, "a").facts()] == ["the fact of a"]
    shared = StoredFacts(table, "a", namespace="team")
    assert [fact.session_id for fact in shared.facts()] == ["a"], "b has shared nothing"
    StoredFacts(table, "b", namespace="team").put([new_fact("fact", "what b shares", session_id="b")])
    assert [fact.content for fact in shared.facts()] == ["the fact of a", "what b shares"]
    assert [fact.content for fact in StoredFacts(table, "a").facts()] == ["the fact of a"]


def test_what_another_session_says_better_leaves_each_fact_to_one_session() -> None:
    table = Table({"a": "team", "b": "team"})
    first, second = (StoredFacts(table, each, namespace="team") for each in "ab")
    learn(first, [new_fact("config", "Webhook endpoint is ready", session_id="a", source_ranges=((1, 2),))])
    longer = "Webhook endpoint is ready behind the proxy of the office"
    learn(second, [new_fact("config", longer, session_id="b", source_ranges=((5, 6),))], documented=True)
    old, new = second.facts()
    assert (old.session_id, old.source_ranges, old.superseded_by) == ("a", ((1, 2),), new.id)
    assert (new.session_id, new.source_ranges, new.content) == ("b", ((5, 6),), longer)
    learn(first, [new_fact("config", longer, session_id="a", source_ranges=((9, 10),))])
    again = first.facts()[1]
    assert (again.support, again.source_ranges) == (2, ((5, 6),))


def test_oc_59_no_secret_is_written() -> None:
    table = Table()
    store = StoredFacts(table, "s", redact=lambda text: redact(text)[0])
    store.put([new_fact("fact", f"key {KEY}", context=KEY, entities=(KEY,), tags=(KEY,), source=KEY)])
    store.put_correction(correction_of("shell", f"curl {KEY}", KEY, KEY))
    assert KEY not in repr(table.rows)
    assert "[REDACTED]" in store.facts()[0].content
    assert store.corrections()[0].corrected == "[REDACTED]"


def test_ru_31_above_the_most_history_leaves_first_then_the_oldest_and_rows_are_used_again() -> None:
    table = Table()
    store = StoredFacts(table, "s", max_facts=3)
    facts = [Fact(f"f{n}", "fact", f"text {n}", created_at=n) for n in range(3)]
    store.put([facts[0], facts[1], Fact("old", "fact", "text 9", created_at=9, superseded_by="f1")])
    store.put([facts[2]])
    assert {fact.id for fact in store.facts()} == {"f0", "f1", "f2"}
    for number in range(3, 20):
        store.put([Fact(f"f{number}", "fact", f"text {number}", created_at=number)])
    assert {fact.id for fact in store.facts()} == {"f17", "f18", "f19"}
    assert len(table.rows) <= 5
    assert "text 3" not in repr(table.rows)


def test_ru_31_corrections_are_bounded_too() -> None:
    table = Table()
    store = StoredFacts(table, "s", max_corrections=2)
    for number in range(6):
        store.put_correction(Correction(f"c{number}", "o", "c", "x", number))
    assert [each.id for each in store.corrections()] == ["c4", "c5"]
    assert store.facts() == []
    assert len(table.rows) <= 4


def test_a_row_that_cannot_be_read_is_counted_and_stops_no_other() -> None:
    table = Table()
    store = StoredFacts(table, "s")
    store.put([new_fact("fact", "the good one")])
    table.put_facts(
        "s", [(None, "k", "active", "{"), (None, "l", "active", "[]"), (None, "m", "active", "{}")]
    )
    assert [fact.content for fact in store.facts()] == ["the good one"]
    assert store.damaged == 3


def test_how_far_was_read_is_written_in_the_same_step_and_is_no_fact() -> None:
    table = Table()
    store = StoredFacts(table, "s")
    learn(Marked(store, {"model": [[0, 4]]}), [new_fact("fact", "the first")])
    assert table.writes == 1
    assert (store.progress(), len(store.facts())) == ({"model": [[0, 4]]}, 1)
    learn(Marked(store, {"model": [[0, 9]]}), [])
    assert store.progress() == {"model": [[0, 9]]}
    assert (len(table.rows), store.corrections()) == (2, [])


class Overtaken:
    """The rows of a store, where something happens between the next read of them and the write after it."""

    def __init__(self, store: SimpleMemoryStore) -> None:
        self._store = store
        self.meanwhile: list[Callable[[], object]] = []

    def put_facts(
        self, session_id: str, facts: Sequence[NewFactRow], was: Mapping[int, str] | None = None
    ) -> list[int]:
        if self.meanwhile:
            self.meanwhile.pop()()
        return self._store.put_facts(session_id, facts, was)

    def facts(self, session_id: str, state: str | None = None) -> list[FactRow]:
        return self._store.facts(session_id, state)

    def namespace_facts(self, namespace: str, state: str | None = None) -> list[FactRow]:
        return self._store.namespace_facts(namespace, state)

    def facts_revision(self, session_id: str, namespace: str = "") -> str | None:
        return self._store.facts_revision(session_id, namespace)


@pytest.mark.parametrize("turns", [1, 2, 3])
def test_of_two_workers_at_the_bound_neither_writes_over_what_the_other_saved(turns: int) -> None:
    with SimpleMemoryStore() as store:
        rows = Overtaken(store)
        one, other = StoredFacts(rows, "s", max_facts=4), StoredFacts(store, "s", max_facts=4)
        for number in range(8):
            one.put([new_fact("fact", f"old {number}", created_at=number)])
        rows.meanwhile = [
            lambda: other.put([new_fact("fact", f"other {len(rows.meanwhile)}", created_at=100)])
            for _ in range(turns)
        ]
        one.put([new_fact("fact", "mine", created_at=101)])
        newest = {"mine", *(f"other {number}" for number in range(turns))}
        assert newest <= {fact.content for fact in one.facts()}
        assert len(one.facts()) == 4


def test_what_another_worker_forgot_does_not_come_back_with_a_change_of_it() -> None:
    with SimpleMemoryStore() as store:
        rows = Overtaken(store)
        one, fact = StoredFacts(rows, "s"), new_fact("fact", "the secret")
        one.put([fact, new_fact("fact", "the rest")])
        (known,) = [each for each in one.facts() if each.id == fact.id]
        rows.meanwhile = [lambda: store.forget(fact_ids=[fact.id])]
        one.put([replace(known, support=7)])
        assert [each.content for each in one.facts()] == ["the rest"]


def test_corrections_of_two_workers_are_all_kept() -> None:
    with SimpleMemoryStore() as store:
        rows = Overtaken(store)
        one, other = StoredFacts(rows, "s", max_corrections=3), StoredFacts(store, "s", max_corrections=3)
        for number in range(6):
            one.put_correction(replace(correction_of("shell", f"rm {number}"), created_at=number))
        late = replace(correction_of("shell", "rm other"), created_at=100)
        rows.meanwhile = [lambda: other.put_correction(late)]
        one.put_correction(replace(correction_of("shell", "rm mine"), created_at=101))
        assert len(one.corrections()) == 3
        assert late in one.corrections()


# -- the documented search over facts, by values that were worked out by ha -------------------


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
