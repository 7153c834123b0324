"""Is the slow twin right? Its formulas, worked by hand."""

from __future__ import annotations

import math

import pytest

from siltstone._reference import bm25, embed, search

TEXTS = ["a b", "a a c", "d", ""]


def test_the_cosine_distance_worked_by_hand():
    # (2, 1) and (1, 0): dot 2, squared lengths 5 and 1; 1 - 2 / sqrt(5)
    assert search.distance({1: 2, 2: 1}, {1: 1}) == pytest.approx(0.10557280900008412, abs=1e-15)
    assert search.distance({1: 3, 9: 4}, {1: 3, 9: 4}) == 0
    assert search.distance({1: 1}, {2: 1}) == 1
    assert search.similarity(1) == 0.5


def test_brute_force_leaves_out_what_has_no_bucket_in_common():
    # "a c" against "a b": 1 - 1 / 2; against "a a c": 1 - 3 / sqrt(2 * 5)
    assert len({embed.bucket(word, "xxh3") for word in "abcd"}) == 4
    assert search.search("a c", TEXTS, 5) == [
        (1, pytest.approx(1 - 3 / math.sqrt(10))),
        (0, pytest.approx(0.5)),
    ]
    assert search.search("a c", TEXTS, 1) == search.search("a c", TEXTS, 5)[:1]
    assert search.search("", TEXTS, 5) == []


def test_equal_distances_come_in_the_order_of_their_places():
    assert [place for place, _ in search.search("x", ["x", "y", "x x", "x"], 4)] == [0, 2, 3]


def test_bm25_worked_by_hand():
    # N = 4, avgdl = 6 / 4 = 1.5; idf(a) = ln(1 + 2.5 / 2.5), idf(c) = ln(1 + 3.5 / 1.5)
    # "a a c", dl = 3: 1 - b + b * 3 / 1.5 = 1.75; a: 2 * 2.2 / (2 + 1.2 * 1.75), c: 2.2 / (1 + 2.1)
    # "a b", dl = 2: 1 - b + b * 2 / 1.5 = 1.25; a: 2.2 / (1 + 1.2 * 1.25)
    a, c = math.log(2), math.log(10 / 3)
    ceiling = 0.75 * 2.2 * (a + c)
    assert bm25.search("a c", TEXTS, 5) == [
        (1, pytest.approx((a * 4.4 / 4.1 + c * 2.2 / 3.1) / ceiling)),
        (0, pytest.approx(a * 2.2 / 2.5 / ceiling)),
    ]


def test_unknown_words_and_repeated_words_count_for_the_ceiling():
    # idf of an unknown word is ln(1 + 4.5 / 0.5) = ln 10; d has dl 1: 1 - b + b / 1.5 = 0.75
    d, unknown = math.log(10 / 3), math.log(10)
    part = 2.2 / (1 + 1.2 * 0.75)
    [(place, score)] = bm25.search("d d zzz", TEXTS, 5)
    assert place == 2
    assert score == pytest.approx(2 * d * part / (0.75 * 2.2 * (2 * d + unknown)))


def test_a_score_is_one_at_most():
    assert bm25.search("x", ["x " * 50, "y " * 50], 5) == [(0, 1.0)]


def test_nothing_is_found_among_nothing():
    assert bm25.search("a", [], 5) == []
    assert bm25.search("", TEXTS, 5) == []
