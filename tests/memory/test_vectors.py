"""Vectors in a store: made once, kept, of one embedder, gone with what they are of, and checked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from embedders import Counting
from siltstone import MemoryStore
from siltstone.errors import ConfigError, ReadOnlyStoreError
from siltstone.memory import Entry
from storing import compaction, contents, elsewhere, entries, sql
from summary_log import summary_log


def test_nothing_is_embedded_twice(tmp_path: Path) -> None:
    first, again = Counting(), Counting()
    with MemoryStore.open(tmp_path, embedder=first) as store:
        store.index("a", entries("silt settles", "the kettle", name="Ann"))
        store.index("b", [Entry("the river", role="assistant")])
        assert store.flush(60)
        assert sorted(first.documents) == ["Ann: silt settles", "Ann: the kettle", "assistant: the river"]
        before = store.search("a", "silt", explain=True)
    with MemoryStore.open(tmp_path, embedder=again) as store:
        assert store.flush(60)
        assert store.search("a", "silt", explain=True) == before
        assert store.search("a", "silt", explain=True) == before
    assert (again.documents, again.queries) == ([], ["silt"])  # a query that comes again is remembered


class Contrary(Counting):
    """Finds a question close to what has none of its words."""

    def __init__(self) -> None:
        super().__init__(2, "test/contrary")

    def _row(self, text: str) -> Any:
        return np.array([1, 0] if "kettle" in text or text == "silt" else [0, 1], dtype=np.float32)


def test_mk_60_an_injected_embedder_decides_the_order(tmp_path: Path) -> None:
    texts = ("silt settles", "the kettle is on")
    with MemoryStore.open(tmp_path, "dense", Contrary()) as store:
        store.index("a", entries(*texts))
        assert store.flush(60)
        assert contents(store.search("a", "silt"))[0] == "the kettle is on"
        assert contents(store.search("a", "silt", ranker="lexical"))[0] == "silt settles"


def test_entries_without_vectors_are_found_when_the_store_is_opened(tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path) as store:
        store.index("a", entries("silt settles", "the kettle"))
        assert store.lacking_vectors == 2
        assert store.flush(0)  # nobody embeds
    embedder = Counting()
    with MemoryStore.open(tmp_path, embedder=embedder) as store:
        assert store.flush(60)
        assert store.lacking_vectors == 0
        assert len(embedder.documents) == 2


def test_what_a_compaction_brings_is_embedded_and_what_is_undone_is_gone(tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path, "dense", Counting()) as store:
        store.index("a", entries("silt settles"))
        log = summary_log(store, "a")
        receipt = log.commit(compaction(), [Entry("the river", (7, 8))], expected_head=None, clock="")
        assert store.flush(60)
        assert set(contents(store.search("a", "silt"))) == {"silt settles", "the river"}
        log.undo(expected_head=receipt.compaction_id, clock="")
        assert contents(store.search("a", "river")) == ["silt settles"]
        assert {finding.table for finding in store.check()} <= {"compaction"}  # it covers no log


def test_what_is_forgotten_or_dropped_leaves_no_vector(tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path, "dense", Counting()) as store:
        ids = store.index("a", entries("silt settles", "the river")).entry_ids
        store.index("b", entries("the delta"))
        assert store.flush(60)
        store.forget(entry_ids=[ids[0] or 0])
        assert contents(store.search("a", "silt settles")) == ["the river"]
        store.delete_session("b")
        assert store.check() == []
    assert elsewhere(
        "import sqlite3, sys; print(sqlite3.connect(sys.argv[1]).execute("
        "'SELECT group_concat(entry) FROM vector').fetchone()[0])",
        tmp_path / "memory" / "memory.sqlite3",
    ).split() == [str(ids[1])]


def test_another_embedder_is_refused_until_it_may_take_the_place(tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path, embedder=Counting()) as store:
        store.index("a", entries("silt settles", "the river"))
        assert store.flush(60)
    for other in (Counting(8), Counting(16, "test/other")):
        with pytest.raises(ConfigError, match=r"has 2 vectors of embedder \"test/counting\"") as caught:
            MemoryStore.open(tmp_path, embedder=other)
        assert "reembed=True" in str(caught.value)
        assert other.documents == []
    other = Counting(8, "test/other")
    with MemoryStore.open(tmp_path, "dense", other, reembed=True) as store:
        assert store.flush(60)
        assert len(other.documents) == 2
        assert len(store.search("a", "silt")) == 2
        assert store.check() == []
    with MemoryStore.open(tmp_path, embedder=other, reembed=True) as store:
        assert store.lacking_vectors == 0  # it is the same one: nothing was made anew


def test_a_store_open_for_reading_searches_by_the_vectors_there_are(tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path, embedder=Counting()) as store:
        store.index("a", entries("silt settles"))
        assert store.flush(60)
    embedder = Counting()
    with MemoryStore.open(tmp_path, "dense", embedder, read_only=True) as store:
        assert contents(store.search("a", "silt")) == ["silt settles"]
        with pytest.raises(ReadOnlyStoreError):
            store.index("a", entries("more"))
        with pytest.raises(ConfigError, match="has 1 vectors of embedder"):
            MemoryStore.open(tmp_path, embedder=Counting(4), read_only=True, reembed=True)


@pytest.mark.parametrize(
    ("statement", "codes"),
    [
        ("UPDATE vector SET data = zeroblob(64) WHERE entry = 1", {"checksum"}),
        ("UPDATE vector SET embedder = 9 WHERE entry = 1", {"checksum"}),
        ("UPDATE vector SET session = 2 WHERE entry = 1", {"checksum"}),
        ("UPDATE embedder SET name = 'other'", {"checksum", "vector"}),
        ("DELETE FROM embedder", {"vector"}),
        ("UPDATE vector SET entry = 77 WHERE entry = 1", {"foreign_key", "checksum"}),
    ],
)
def test_damage_to_a_vector_is_a_finding(tmp_path: Path, statement: str, codes: set[str]) -> None:
    with MemoryStore.open(tmp_path, embedder=Counting()) as store:
        store.index("a", entries("silt settles", "the river"))
        assert store.flush(60)
        assert store.check() == []
    sql(tmp_path, statement)
    with MemoryStore.open(tmp_path) as store:
        assert {finding.code for finding in store.check()} == codes


def test_a_damaged_vector_is_left_out_and_named_and_made_again_after_a_repair(tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path, embedder=Counting()) as store:
        store.index("a", entries("silt settles", "a river runs"))
        assert store.flush(60)
        before = store.search("a", "silt", ranker="dense")
        assert len(before) == 2
    sql(tmp_path, "UPDATE vector SET data = zeroblob(64) WHERE entry = 1")
    with MemoryStore.open(tmp_path, embedder=Counting()) as store:
        assert contents(store.search("a", "silt", ranker="dense")) == ["a river runs"]
        assert "silt settles" in contents(store.search("a", "silt"))
        assert {(finding.table, finding.id) for finding in store.check()} == {("vector", 1)}
        assert [finding.repaired for finding in store.check(repair=True)] == [True]
        assert store.flush(60)
        assert store.check() == []
        assert store.search("a", "silt", ranker="dense") == before


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE vector SET session = 2 WHERE entry = 1",
        "UPDATE vector SET embedder = 9",
        "INSERT INTO vector SELECT 99, session, revision, embedder, data, 0 FROM vector WHERE entry = 1",
        "UPDATE embedder SET name = 'other'",
        "DELETE FROM embedder",
    ],
)
def test_vectors_that_cannot_be_believed_are_deleted_by_a_repair(tmp_path: Path, damage: str) -> None:
    with MemoryStore.open(tmp_path, embedder=Counting()) as store:
        store.index("a", entries("silt settles", "a river runs"))
        assert store.flush(60)
        before = store.search("a", "silt")
    sql(tmp_path, "PRAGMA foreign_keys = OFF", damage)
    with MemoryStore.open(tmp_path) as store:
        assert store.check()
        store.check(repair=True)
        assert store.check() == []
    with MemoryStore.open(tmp_path, embedder=Counting()) as store:
        assert store.flush(60)
        assert store.search("a", "silt") == before


@pytest.mark.parametrize("ranker", ["dense", "fused"])
def test_rankers_that_need_an_embedder_say_so(tmp_path: Path, ranker: Any) -> None:
    with MemoryStore.open(tmp_path) as store, pytest.raises(ConfigError, match="needs an embedder"):
        store.search("a", "silt", ranker=ranker)
