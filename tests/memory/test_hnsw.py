"""The documented store by its own name: its hits, against exact search over the same file."""

import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from embedders import Counting
from siltstone import HnswMemoryStore, MemoryStore
from siltstone.memory import Decay, Entry, Ranker, SearchHit
from storing import contents, entries

WORDS = ["silt", "mud", "clay", "sand", "loam", "gravel", "delta", "Delta", "river."]


def exact(path: Path) -> MemoryStore:
    return MemoryStore.open(path, "cosine", hash_rule="poly31")


def found(hits: list[SearchHit]) -> list[tuple[int, float]]:
    return [(hit.entry_id, hit.score) for hit in hits]


def bags(count: int, seed: int) -> list[str]:
    """Texts of words of which some are frequent and most are rare."""
    numbers = random.Random(seed)
    return [" ".join(f"w{int(numbers.paretovariate(0.6)) % 3_000}" for _ in range(12)) for _ in range(count)]


def test_the_documented_store_is_a_memory_store_with_other_defaults(tmp_path: Path) -> None:
    with HnswMemoryStore.open(tmp_path) as store:
        assert isinstance(store, MemoryStore)
        assert (store.ranker, store.hash_rule) == ("cosine", "poly31")
        assert repr(store) == f"HnswMemoryStore.open({str(tmp_path)!r}, ranker='cosine')"
        assert (tmp_path / "memory" / "memory.sqlite3").is_file()


def test_mk_60_the_documented_store_finds_the_fitting_text(tmp_path: Path) -> None:
    with HnswMemoryStore.open(tmp_path) as store:
        assert store.search("a", "silt") == [], "there is nothing yet"
        store.index("a", entries("silt settles in the delta", "the kettle is on", "mud and silt"))
        store.index("b", entries("silt silt silt"))
        hits = store.search("a", "silt settles in the delta")
        assert contents(hits) == ["silt settles in the delta", "mud and silt", "the kettle is on"]
        assert hits[0].score == 1.0
        assert all(0.5 < hit.score <= 1.0 for hit in hits)
        assert len(store.search("a", "silt settles in the delta", limit=2)) == 2
        assert store.search("a", "silt", limit=0) == []
        assert store.search("a", "granite") == [], "no word in common"
    with HnswMemoryStore.open(tmp_path) as store:
        assert found(store.search("a", "silt settles in the delta")) == found(hits), (
            "the same after reopening"
        )


@given(
    steps=st.lists(
        st.one_of(
            st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=6), min_size=1, max_size=4),
            st.integers(0, 30),
        ),
        max_size=8,
    ),
    query=st.lists(st.sampled_from(WORDS), min_size=1, max_size=4),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_up_to_two_hundred_entries_it_answers_as_exact_search_does(
    tmp_path_factory: pytest.TempPathFactory, steps: list[list[list[str]] | int], query: list[str]
) -> None:
    path = tmp_path_factory.mktemp("store")
    asked = " ".join(query)
    with HnswMemoryStore.open(path) as store, exact(path) as twin:
        kept: list[int] = []
        for place, step in enumerate(steps):
            if isinstance(step, int):
                if step < len(kept):
                    store.forget(entry_ids=[kept.pop(step)])
            else:
                texts = [" ".join(words) for words in step]
                rows = [Entry(text, (place, place + 1), created_at=1_000.0 + place % 2) for text in texts]
                kept += [i for i in store.index("a", rows).entry_ids if i is not None and i not in kept]
            assert found(store.search("a", asked, limit=3)) == found(twin.search("a", asked, limit=3))
        assert found(store.search("a", asked, limit=99)) == found(twin.search("a", asked, limit=99))


def test_what_was_forgotten_is_no_answer_and_the_rest_still_is(tmp_path: Path) -> None:
    texts = bags(600, 3)
    with HnswMemoryStore.open(tmp_path) as store:
        ids = [i for i in store.index("a", entries(*texts)).entry_ids if i is not None]
        assert store.search("a", texts[0], limit=1)[0].entry_id == ids[0]
        for share in (5, 2):  # a few that linger, then so many that the graph is made anew
            gone = [i for n, i in enumerate(ids) if n % share == 0]
            store.forget(entry_ids=gone)
            ids = [i for i in ids if i not in gone]
            known = {each.entry_id: each.content for each in store.entries("a", limit=1_000).entries}
            assert sorted(known) == ids
            for i in ids[::20]:
                hits = store.search("a", known[i], limit=50)
                assert hits[0].score == 1.0
                assert not {hit.entry_id for hit in hits} & set(gone)
        store.delete_session("a")
        assert store.search("a", texts[1]) == []


def test_either_store_opens_the_file_of_the_other(tmp_path: Path) -> None:
    with HnswMemoryStore.open(tmp_path) as store:
        store.index("a", entries("silt settles", "mud"))
    with MemoryStore.open(tmp_path) as store:
        assert store.hash_rule == "poly31"
        assert contents(store.search("a", "silt", limit=1)) == ["silt settles"]
    with MemoryStore.open(tmp_path, "cosine", index="hnsw") as store:
        assert contents(store.search("a", "mud")) == ["mud"]


def test_the_index_concerns_cosine_alone_and_vectors_live_beside_the_graph(tmp_path: Path) -> None:
    with (
        MemoryStore.open(tmp_path / "graph", embedder=Counting(), index="hnsw") as store,
        MemoryStore.open(tmp_path / "lists", embedder=Counting()) as twin,
    ):
        rankers: tuple[Ranker, ...] = ("dense", "cosine", "fused", "lexical", "cosine", "hybrid", "dense")
        for texts in (["silt settles", "mud", "the kettle is on"], ["silt and mud", "clay"]):
            ids = store.index("a", entries(*texts)).entry_ids
            assert twin.index("a", entries(*texts)).entry_ids == ids
            assert store.flush(60)
            assert twin.flush(60)
            for gone in ([], [i for i in ids[1:2] if i is not None]):
                for each in (store, twin):
                    if gone:
                        assert each.forget(entry_ids=gone).entries == 1
                for ranker in rankers:
                    # The effect of age depends on the clock, which goes on between the two.
                    mine, best = (
                        found(each.search("a", "silt mud", 9, ranker=ranker, decay=Decay(1.0)))
                        for each in (store, twin)
                    )
                    assert mine == best, ranker
                    assert mine, ranker
