"""The measures, each worked by hand."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, strategies as st

from siltstone.evaluation import report

RANKED = ["a", "b", "c", "d", "e", "f"]


def test_recall_is_the_share_of_the_evidence_among_the_first() -> None:
    # Of b, d and x the first two are on ranks 2 and 4; x is not found.
    assert report.recall(RANKED, ["b", "d", "x"], 1) == 0
    assert report.recall(RANKED, ["b", "d", "x"], 2) == 1 / 3
    assert report.recall(RANKED, ["b", "d", "x"], 4) == 2 / 3
    assert report.recall(RANKED, ["b", "d", "x"], 100) == 2 / 3
    assert report.recall([], ["b"], 10) == 0


def test_evidence_that_is_named_twice_counts_once() -> None:
    assert report.recall(RANKED, ["b", "b"], 2) == 1
    assert report.ndcg(["b", "a"], ["b", "b"], 10) == 1


def test_hit_asks_for_any_evidence() -> None:
    assert [report.hit(RANKED, ["x", "c", "e"], k) for k in (1, 2, 3, 4)] == [0, 0, 1, 1]
    assert report.hit(RANKED, ["x"], 6) == 0


def test_ndcg_of_two_found_on_ranks_2_and_4() -> None:
    # DCG: 1 / log2(3) + 1 / log2(5) = 0.63093 + 0.43068 = 1.06161
    # ideal, three pieces of evidence: 1 / log2(2) + 1 / log2(3) + 1 / log2(4) = 1 + 0.63093 + 0.5 = 2.13093
    assert report.ndcg(RANKED, ["b", "d", "x"], 10) == pytest.approx(1.06161 / 2.13093, abs=1e-5)


def test_the_ideal_of_ndcg_has_no_more_ranks_than_are_looked_at() -> None:
    # k = 2: both ranks hold evidence, and a third piece could not be seen there.
    assert report.ndcg(RANKED, ["a", "b", "c"], 2) == 1
    # k = 2, only rank 2 holds evidence: 0.63093 / 1.63093
    assert report.ndcg(RANKED, ["b", "c", "d"], 2) == pytest.approx(0.38685, abs=1e-5)


def test_the_reciprocal_rank_is_that_of_the_first_and_ends_at_the_depth() -> None:
    assert report.reciprocal_rank(RANKED, ["e", "d"], 100) == 1 / 4
    assert report.reciprocal_rank(RANKED, ["d"], 4) == 1 / 4
    assert report.reciprocal_rank(RANKED, ["d"], 3) == 0
    assert report.reciprocal_rank(RANKED, ["x"], 100) == 0


def test_the_margin_is_that_of_the_mean() -> None:
    # 1, 0, 1, 1: mean 0.75, squares 3 * 0.0625 + 0.5625 = 0.75; 1.96 * sqrt(0.75 / 3 / 4) = 0.49
    assert report.margin([1, 0, 1, 1]) == pytest.approx(0.49)
    assert report.margin([0.5, 0.5, 0.5]) == 0
    assert report.margin([1]) == report.margin([]) == 0


def test_the_area_under_the_curve_counts_pairs() -> None:
    # Pairs of 3 and 2 scores: 0.9 beats both, 0.5 beats 0.1 and ties with 0.5, 0.2 beats 0.1:
    # (2 + 1.5 + 1) / 6 = 0.75
    assert report.area_under_curve([0.9, 0.5, 0.2], [0.5, 0.1]) == 0.75
    assert report.area_under_curve([1, 2], [0, -1]) == 1
    assert report.area_under_curve([1, 1], [1]) == 0.5
    assert report.area_under_curve([0.0], [1.0, 2.0]) == 0


_SCORES = st.lists(st.integers(-5, 5).map(float), min_size=1, max_size=30)


@given(positive=_SCORES, negative=_SCORES)
def test_the_area_is_the_share_of_pairs_counted_one_by_one(
    positive: list[float], negative: list[float]
) -> None:
    pairs = [(high > low) + (high == low) / 2 for high in positive for low in negative]
    assert report.area_under_curve(positive, negative) == sum(pairs) / len(pairs)


def test_a_mean_does_not_depend_on_the_order() -> None:
    values = [0.1] * 10 + [1e16, -1e16, 1 / 3]
    shuffled = random.Random(0).sample(values, len(values))
    assert report.mean(values) == report.mean(shuffled)
    assert report.mean([0.25, 0.5, 0.75]) == 0.5
    assert report.mean([]) == 0


@pytest.mark.parametrize(
    ("share", "expected"),
    [(0.0, 1.0), (0.25, 1.0), (0.26, 2.0), (0.5, 2.0), (0.75, 3.0), (0.76, 4.0), (1.0, 4.0)],
)
def test_a_percentile_is_the_sample_that_so_many_do_not_exceed(share: float, expected: float) -> None:
    assert report.percentile([4.0, 1.0, 3.0, 2.0], share) == expected
    assert report.percentile([], share) == 0
