"""The hits of vectors, alone and with words, held against the twin; and how a score is explained."""

import itertools
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from embedders import Counting
from reference import fusion, lexical
from siltstone import _native
from siltstone.embedding import FunctionEmbedder
from siltstone.errors import ConfigError
from siltstone.memory import Decay, Entry
from siltstone.memory.vectors import pieces
from siltstone.stores import MemoryStore
from storing import entries

WORDS = ["silt", "river", "delta", "slow", "settles", "kettle", "naïve", "漢字", "?!"]
DIMENSION = 11  # no multiple of the eight sums that run side by side


def generated() -> st.SearchStrategy[str]:
    return st.lists(st.sampled_from(WORDS), min_size=1, max_size=12).map(" ".join)


def embed(texts: list[str]) -> Any:
    """Anything that depends on the text alone, with signs, and zero for what has no words."""
    rows = []
    for text in texts:
        words = _native.words(text)
        seed = sum(map(_native.word_hash, words)) % 2**32
        rows.append(np.random.default_rng(seed).normal(size=DIMENSION) * bool(words))
    return np.array(rows, dtype=np.float32)


EMBEDDER = FunctionEmbedder(embed, "test/random", DIMENSION)


def test_vectors_alone_and_with_words_rank_as_the_twin_ranks_them(tmp_path: Path) -> None:
    sessions = itertools.count()
    with (
        MemoryStore.open(tmp_path, embedder=EMBEDDER) as store,
        MemoryStore.open(tmp_path, embedder=EMBEDDER, fusion="rrf") as by_ranks,
    ):

        @given(
            rows=st.lists(
                st.tuples(generated(), st.integers(0, 20), st.integers(0, 1), st.integers(0, 2)),
                min_size=1,
                max_size=10,
                unique_by=lambda row: row[:3],
            ),
            lacking=st.integers(0, 3),
            query=generated(),
        )
        def check(rows: list[tuple[str, int, int, int]], lacking: int, query: str) -> None:
            session = str(next(sessions))
            given_ = [Entry(text, (at, at + size), created_at=day * 86_400.0) for text, at, size, day in rows]
            ids = store.index(session, given_).entry_ids
            assert store.flush(60)
            twins = [
                lexical.Entry(each.content, each.source_range, "user", None, row[3] * 86_400_000)
                for each, row in zip(given_, rows, strict=True)
            ]
            vectors = [embed(pieces(each.content, "user", None)).tolist() for each in given_]
            row = embed([query])[0].tolist()
            for found, expected in (
                (store.search(session, query, 100), fusion.fused(query, row, twins, vectors)),
                (store.search(session, query, 100, ranker="dense"), fusion.dense(query, row, twins, vectors)),
                (by_ranks.search(session, query, 100), fusion.reciprocal(query, row, twins, vectors)),
            ):
                assert [(hit.entry_id, hit.score) for hit in found] == [
                    (ids[place], pytest.approx(score, abs=1e-15)) for place, score in expected
                ]

        check()


def test_no_ranker_with_vectors_has_a_best_that_depends_on_the_limit(tmp_path: Path) -> None:
    sessions = itertools.count()
    with (
        MemoryStore.open(tmp_path, embedder=EMBEDDER) as store,
        MemoryStore.open(tmp_path, embedder=EMBEDDER, fusion="rrf") as by_ranks,
    ):

        @given(texts=st.lists(generated(), min_size=8, max_size=30), query=generated())
        def check(texts: list[str], query: str) -> None:
            session = str(next(sessions))
            said = [Entry(f"{text} x{n}", (n, n + 1), created_at=n) for n, text in enumerate(texts)]
            store.index(session, said)
            assert store.flush(60)
            for searched, ranker in ((store, "dense"), (store, "fused"), (by_ranks, "fused")):
                whole = searched.search(session, query, 100, ranker=ranker)
                assert ranker == "fused" or len(whole) == len(texts)
                for limit in (1, 2, 5, 9):
                    assert searched.search(session, query, limit, ranker=ranker) == whole[:limit]

        check()


def test_entries_without_vectors_count_as_the_mean_and_are_found_by_their_words(tmp_path: Path) -> None:
    embedder = FunctionEmbedder(lambda texts: embed(texts), "test/some", DIMENSION)
    with MemoryStore.open(tmp_path, embedder=embedder) as store:
        first = store.index("a", entries("silt settles", "the kettle", "the river")).entry_ids
        assert store.flush(60)
    with MemoryStore.open(tmp_path) as store:  # without an embedder: these get none
        late = [Entry("delta silt", (9, 10), created_at=0), Entry("slow water", (20, 21), created_at=0)]
        last = store.index("a", late).entry_ids
    with MemoryStore.open(tmp_path, embedder=embedder, read_only=True) as store:
        assert store.lacking_vectors == 2
        assert store.flush(0)
        hits = {hit.entry_id: hit for hit in store.search("a", "silt", 10, explain=True)}
        assert store.search("a", "silt", ranker="dense")[0].entry_id in first
    texts = ["silt settles", "the kettle", "the river"]
    twins = [
        *(
            lexical.Entry(text, (n, n + 1), "user", None, 1_000_000 + n * 1_000)
            for n, text in enumerate(texts)
        ),
        lexical.Entry("delta silt", (9, 10)),
        lexical.Entry("slow water", (20, 21)),
    ]
    vectors = [embed([f"user: {text}"]).tolist() for text in texts]
    expected = fusion.fused("silt", embed(["silt"])[0].tolist(), twins, [*vectors, None, None])
    ids = [*first, *last]
    assert {ids[place]: score for place, score in expected} == {
        entry_id: pytest.approx(hit.score, abs=1e-15) for entry_id, hit in hits.items()
    }
    explain = hits[last[0] or 0].explain
    assert (explain["cosine"], explain["z"]["dense"]) == (None, 0.0)
    assert [term["term"] for term in explain["terms"]] == ["silt"]


def test_a_fused_hit_explains_both_sides(tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path, embedder=Counting(), decay=Decay(0.5, 0.5)) as store:
        store.index("a", entries("silt settles in the delta", "the kettle is on", "slow rivers", name="Ann"))
        assert store.flush(60)
        hits = store.search("a", "where does Ann's silt settle?", explain=True)
        lexical = store.search("a", "where does Ann's silt settle?", ranker="lexical", decay=Decay(1.0))
        said = {hit.entry_id: hit.score for hit in lexical}
        assert said
        for hit in hits:
            explain = hit.explain
            weights, z = explain["weights"], explain["z"]
            assert weights["lexical"] + weights["dense"] == pytest.approx(1.0)
            own = weights["lexical"] * explain["lexical"] + weights["dense"] * explain["cosine"]
            assert own == pytest.approx(explain["own"], abs=1e-12)
            beside = sum(each["score"] for each in explain["neighbors"])
            assert (own + beside) * 0.5 == pytest.approx(hit.score, abs=1e-12)
            assert explain["decay"] == 0.5
            assert explain["score"] == hit.score
            assert explain["lexical"] == pytest.approx(said.get(hit.entry_id, 0.0), abs=1e-12)
            assert sum(term["score"] for term in explain["terms"]) <= explain["lexical"] + 1e-12
            assert (explain["vector"], explain["vectors"]) == (0, 1)
            assert set(z) == {"lexical", "dense"}
        best = hits[0].explain
        assert best is not None
        assert {term["term"]: term["fields"] for term in best["terms"]} == {
            "silt": {"text": 1},
            "settl": {"text": 1},
            "ann": {"name": 1},
        }


def test_a_dense_hit_explains_its_distance_and_which_piece_of_a_long_text_is_nearest(tmp_path: Path) -> None:
    long = "the kettle is on. " * 200 + "silt settles"
    with MemoryStore.open(tmp_path, "dense", Counting()) as store:
        store.index("a", entries(long))
        assert store.flush(60)
        (hit,) = store.search("a", "silt settles", explain=True)
        assert hit.explain is not None
        assert (hit.explain["vector"], hit.explain["vectors"]) == (1, 2)
        assert hit.score == pytest.approx(1 - hit.explain["distance"] / 2)
        assert hit.explain["cosine"] == pytest.approx(1 - hit.explain["distance"])


@pytest.mark.parametrize(
    ("length", "expected"),
    [(0, [0]), (1, [1]), (2_000, [2_000]), (2_001, [2_000, 201]), (10**6, [2_000] * 64)],
)
def test_long_texts_are_embedded_in_pieces_that_overlap(length: int, expected: list[int]) -> None:
    text = "".join(chr(0x4E00 + n % 20_000) for n in range(length))
    found = [each.removeprefix("Ann: ") for each in pieces(text, "user", "Ann")]
    assert [len(each) for each in found] == expected
    assert all(one[-200:] == other[:200] for one, other in itertools.pairwise(found))


NOW = datetime(2026, 1, 1, tzinfo=UTC)
DAY = 86_400_000
MORE_WORDS = ["silt", "river", "delta", "the", "slow", "x1", "naïve", "漢字", "😀", "?!", "settles"]


def latin() -> st.SearchStrategy[str]:
    letters = st.text(st.characters(codec="latin-1"), max_size=5)
    return st.lists(st.sampled_from(MORE_WORDS) | letters, max_size=8).map(" ".join)


def days_ago(days: float) -> datetime:
    return NOW - timedelta(days=days)


def test_the_hybrid_is_that_of_its_twin(tmp_path: Path) -> None:
    moment, sessions = int(NOW.timestamp()) * 1_000, itertools.count()
    with MemoryStore.open(tmp_path, "hybrid") as store:

        @given(
            rows=st.lists(st.tuples(latin(), st.integers(-5, 900)), max_size=14),
            query=latin(),
            limit=st.integers(1, 6),
        )
        def check(rows: list[tuple[str, int]], query: str, limit: int) -> None:
            session = str(next(sessions))
            kept = [row for row in rows if _native.whitespace_words(row[0])]
            twins = [lexical.Entry(text, created_at=moment - days * DAY) for text, days in kept]
            given_ = [Entry(text, created_at=days_ago(days)) for text, days in kept]
            ids = store.index(session, given_).entry_ids
            hits = store.search(session, query, limit, now=NOW)
            expected = fusion.hybrid(query, twins, limit, moment)
            assert [hit.entry_id for hit in hits] == [ids[place] for place, _ in expected]
            scores = [score for _, score in expected]
            assert [hit.score for hit in hits] == pytest.approx(scores, rel=1e-12)

        check()


def test_a_hybrid_hit_explains_both_sides_and_its_age(tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path, "hybrid") as store:
        store.index(
            "a", [Entry("silt and mud", created_at=days_ago(100)), Entry("the river", created_at=NOW)]
        )
        (hit,) = store.search("a", "silt", explain=True, now=NOW)
    explain = hit.explain
    assert explain["cosine"] == pytest.approx(1 / 3**0.5)
    assert explain["bm25"] == 1.0
    assert sum(term["score"] for term in explain["terms"]) == pytest.approx(explain["bm25"])
    assert explain["terms"][0]["fields"] == {"text": 1}
    assert (explain["passage"], explain["passages"]) == (0, 1)
    assert explain["decay"] == pytest.approx(0.995**100)
    assert explain["score"] == hit.score
    assert hit.score == pytest.approx((0.7 * explain["cosine"] + 0.3) * explain["decay"])


@pytest.mark.parametrize("ranker", ["lexical", "cosine", "hybrid"])
def test_age_takes_by_the_day_down_to_a_floor(tmp_path: Path, ranker: str) -> None:
    with MemoryStore.open(tmp_path, decay=Decay(per_day=0.9, floor=0.5)) as store:
        said = {"silt mud": -3, "silt sand": 0, "silt loam": 1, "silt peat": 2.5, "silt clay": 900}
        store.index("a", [Entry(text, created_at=days_ago(days)) for text, days in said.items()])
        hits = store.search("a", "silt", ranker=ranker, now=NOW, explain=True)  # type: ignore[arg-type]
        factors = [hit.explain["decay"] for hit in hits if hit.explain]
        assert factors == pytest.approx([1.0, 1.0, 0.9, 0.9**2.5, 0.5])
        whole = store.search("a", "silt", ranker=ranker, now=NOW, decay=Decay(1.0))  # type: ignore[arg-type]
        assert hits[-1].score == pytest.approx(whole[-1].score / 2)
        assert len({hit.score for hit in whole}) == 1


def test_min_score_is_held_against_what_age_left(tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path, decay=Decay(0.5, 0.0)) as store:
        store.index("a", [Entry("silt mud", created_at=NOW), Entry("silt sand", created_at=days_ago(3))])
        assert len(store.search("a", "silt", now=NOW)) == 2
        assert len(store.search("a", "silt", now=NOW, min_score=0.2)) == 1


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"per_day": 1.01}, "per_day of a decay must be in 0..1, got 1.01"),
        ({"floor": -0.1}, "floor of a decay must be in 0..1, got -0.1"),
        ({"per_day": float("nan")}, "per_day of a decay must be in 0..1, got nan"),
    ],
)
def test_a_decay_out_of_its_bounds_is_refused_by_name(fields: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError, match=message.replace(".", r"\.")):
        Decay(**fields)
