"""The documented hybrid, held against its twin; and what age takes of a score."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from reference import fusion, lexical
from siltstone import _native
from siltstone.errors import ConfigError
from siltstone.memory import Decay, Entry
from siltstone.stores import MemoryStore

NOW = datetime(2026, 1, 1, tzinfo=UTC)
DAY = 86_400_000
WORDS = ["silt", "river", "delta", "the", "slow", "x1", "naïve", "漢字", "😀", "?!", "settles"]


def generated() -> st.SearchStrategy[str]:
    letters = st.text(st.characters(codec="latin-1"), max_size=5)
    return st.lists(st.sampled_from(WORDS) | letters, max_size=8).map(" ".join)


def days_ago(days: float) -> datetime:
    return NOW - timedelta(days=days)


def test_the_hybrid_is_that_of_its_twin(tmp_path: Path) -> None:
    moment, sessions = int(NOW.timestamp()) * 1_000, itertools.count()
    with MemoryStore.open(tmp_path, "hybrid") as store:

        @given(
            rows=st.lists(st.tuples(generated(), st.integers(-5, 900)), max_size=14),
            query=generated(),
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


def test_age_takes_nothing_where_nobody_asks_for_it(tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path) as store:
        store.index("a", [Entry("silt", created_at=days_ago(3_000))])
        for ranker in ("lexical", "cosine"):
            (hit,) = store.search("a", "silt", ranker=ranker, now=NOW, explain=True)
            assert hit.explain is not None
            assert hit.explain["decay"] == 1.0


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
