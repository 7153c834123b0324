"""Facts over the rows of a store: the facts that come back, leave, or are never written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pytest

from siltstone import SimpleMemoryStore
from siltstone.errors import StoreConflictError
from siltstone.knowledge import Correction, Fact, FactRow, Marked, StoredFacts, correction_of, learn, new_fact
from siltstone.knowledge.stored import NewFactRow
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
        for given, before in (was or {}).items():
            if any(given == row_id for row_id, *_ in facts) and self.rows[given][1][4] != before:
                raise StoreConflictError("changed meanwhile")
        self.writes += 1
        ids = []
        for given, key, state, body in facts:
            row_id = len(self.rows) + 1 if given is None else given
            assert given is None or given in self.rows
            owner = session_id if given is None else self.rows[given][0]
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
