"""A damaged entry is left out and counted, and everything else is found as if it had never been there."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from siltstone import MemoryStore, Session
from siltstone.errors import StoreCorruptError
from siltstone.events import EntriesQuarantined, Event
from siltstone.memory import Entry, Store
from storing import contents, entries, sql

WORDS = ["silt", "mud", "clay", "river", "sand", "slow", "water", "gravel"]


def sayings(count: int, seed: int) -> list[Entry]:
    chance = random.Random(seed)
    return [
        Entry(" ".join(chance.choices(WORDS, k=chance.randint(1, 9))), (n, n + 1), created_at=float(n))
        for n in range(count)
    ]


def answers(store: Store, ranker: str) -> list[list[tuple[str, float, tuple[int, int]]]]:
    found = [store.search("a", query, limit=100, ranker=ranker) for query in WORDS]  # type: ignore[arg-type]
    return [[(hit.content, hit.score, tuple(hit.source_range)) for hit in hits] for hits in found]  # type: ignore[misc]


@pytest.mark.parametrize("ranker", ["lexical", "cosine"])
@pytest.mark.parametrize("seed", range(3))
def test_a_search_is_that_of_a_store_that_never_had_the_damaged_rows(
    tmp_path: Path, ranker: str, seed: int
) -> None:
    said = sayings(60, seed)
    gone = random.Random(seed).sample(range(60), 7)
    with MemoryStore.open(tmp_path / "damaged") as store:
        ids = store.index("a", said).entry_ids
    damaged = [ids[place] or 0 for place in gone]
    sql(tmp_path / "damaged", *(f"UPDATE entry SET text = text || '!' WHERE id = {each}" for each in damaged))
    with MemoryStore.open(tmp_path / "right") as right, MemoryStore.open(tmp_path / "damaged") as store:
        right.index("a", [entry for place, entry in enumerate(said) if place not in gone])
        assert answers(store, ranker) == answers(right, ranker)
        assert store.quarantined("a") == tuple(sorted(damaged))
        assert (store.stats("a").quarantined, store.stats().quarantined) == (7, 7)
        # New rows are taken in beside it.
        more = [Entry("silt and a kettle", (90, 91), created_at=1.0)]
        store.index("a", more)
        right.index("a", more)
        assert answers(store, ranker) == answers(right, ranker)


@pytest.mark.parametrize(
    "column",
    [
        "text = text || '!'", "text = CAST(x'ff' AS TEXT)", "role = 'system'", "source_end = source_end + 1",
        "created_at = created_at + 1", "name = 'Ann'", "checksum = 0", "kind = ''", "compaction = 9",
    ],
)  # fmt: skip
def test_a_damaged_entry_is_counted_and_never_given_back(tmp_path: Path, column: str) -> None:
    with MemoryStore.open(tmp_path) as store:
        first, second = store.index("a", entries("silt", "mud")).entry_ids
        store.index("b", entries("silt"))
    sql(tmp_path, f"UPDATE entry SET {column} WHERE id = {first}")
    with MemoryStore.open(tmp_path, read_only=True) as store:
        assert contents(store.search("a", "silt mud")) == ["mud"]
        page = store.entries("a")
        assert ([entry.entry_id for entry in page.entries], page.damaged) == ([second], (first,))
        assert store.quarantined("a") == (first,)
        assert store.stats("a").quarantined == 1
        with pytest.raises(StoreCorruptError, match=f"entry {first} "):
            store.get(first or 0)
        assert store.quarantined("b") == store.quarantined("nobody") == ()
        assert ("checksum", first) in [(finding.code, finding.id) for finding in store.check()]


def test_what_is_damaged_after_it_was_indexed_is_left_out_when_it_is_met(tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path) as store:
        first, _ = store.index("a", entries("silt", "mud")).entry_ids
        assert len(store.search("a", "silt")) == 2
        sql(tmp_path, f"UPDATE entry SET text = 'silt!' WHERE id = {first}")
        assert contents(store.search("a", "silt mud")) == ["mud"]
        assert store.quarantined("a") == (first,)


def test_handing_a_damaged_entry_over_again_heals_it(tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path) as store:
        (first,) = store.index("a", entries("silt")).entry_ids
    sql(tmp_path, "UPDATE entry SET name = 'x'")
    with MemoryStore.open(tmp_path) as store:
        (second,) = store.index("a", entries("silt")).entry_ids
        assert second != first
        assert contents(store.search("a", "silt")) == ["silt"]
        assert store.quarantined("a") == (first,)


def test_a_session_tells_what_its_searches_leave_out_once(tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path) as store:
        ids = store.index("a", entries("silt", "mud", "clay")).entry_ids
    sql(tmp_path, "UPDATE entry SET role = 'x' WHERE id = 1")
    told: list[Event] = []
    with Session.open(tmp_path, "a", hooks=[told.append]) as session:
        for _ in range(3):
            assert len(session.search("silt mud clay")) == 2
        assert told == [EntriesQuarantined("a", (ids[0] or 0,))]
        session.memory_search.call({"query": "silt"})
        assert len(told) == 1


def test_a_damaged_entry_is_forgotten_whatever_it_says(tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path) as store:
        store.index("a", entries("the Grünwald plan", "mud"))
        store.index("b", entries("the Grünwald plot"))
    damage = "UPDATE entry SET text = replace(text, 'Gr', 'Qr') WHERE id IN (1, 3)"
    sql(tmp_path, damage)
    with MemoryStore.open(tmp_path) as store:
        store.check(repair=True)  # those that are set aside go as well
        store.index("b", entries("a Grünwald plea"))
    sql(tmp_path, damage.replace("(1, 3)", "(4)"))
    with MemoryStore.open(tmp_path) as store:
        report = store.forget(text="Grünwald")
        assert (report.entries, report.erased) == (3, True)
        assert store.quarantined("a") == store.quarantined("b") == ()
        held = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
        assert b"nwald" not in held
        assert contents(store.search("a", "mud")) == ["mud"]
        assert store.check() == []
