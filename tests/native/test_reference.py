"""Is the slow twin right? Its formulas, worked by hand."""

from __future__ import annotations

import math
from collections import Counter

import pytest

from reference import analyse, bm25, embed, lexical, search

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


def bags(*texts: str) -> list[Counter[int]]:
    return [Counter(map(ord, text)) for text in texts]


def test_bm25_worked_by_hand():
    # N = 4, avgdl = 6 / 4 = 1.5; idf(a) = ln(1 + 2.5 / 2.5), idf(c) = ln(1 + 3.5 / 1.5)
    # "aac", dl = 3: 1 - b + b * 3 / 1.5 = 1.75; a: 2 * 2.2 / (2 + 1.2 * 1.75), c: 2.2 / (1 + 2.1)
    # "ab", dl = 2: 1 - b + b * 2 / 1.5 = 1.25; a: 2.2 / (1 + 1.2 * 1.25)
    a, c = math.log(2), math.log(10 / 3)
    parts, ceiling = bm25.parts(*bags("ac"), bags("ab", "aac", "d", ""))
    assert parts == [
        [pytest.approx(a * 2.2 / 2.5), 0],
        [pytest.approx(a * 4.4 / 4.1), pytest.approx(c * 2.2 / 3.1)],
        [0, 0],
        [0, 0],
    ]
    assert ceiling == pytest.approx(0.75 * 2.2 * (a + c))


def test_unknown_terms_and_repeated_terms_count_for_the_ceiling():
    # idf of an unknown term is ln(1 + 4.5 / 0.5) = ln 10
    _, ceiling = bm25.parts(*bags("ddz"), bags("ab", "aac", "d", ""))
    assert ceiling == pytest.approx(0.75 * 2.2 * (2 * math.log(10 / 3) + math.log(10)))


def test_with_k3_what_a_query_repeats_counts_for_less_each_time():
    # k3 2: twice weighs 2 * 3 / (2 + 2) = 1.5; "d", dl = 1: 1 - b + b / 1.5 = 0.75
    parts, ceiling = bm25.parts(*bags("dd"), bags("ab", "aac", "d", ""), k3=2, ceiling=1.2)
    weight = 1.5 * math.log(10 / 3)
    assert parts[2] == [pytest.approx(weight * 2.2 / (1 + 1.2 * 0.75))]
    assert ceiling == pytest.approx(1.2 * 2.2 * weight)


def test_neighbours_are_lifted_by_their_shares():
    texts = ["silt", "mud", "clay", "sand", "loam", "marl"]
    entries = [lexical.Entry(text, (n, n + 1)) for n, text in enumerate(texts)]
    [found] = lexical.search(["silt"], entries)
    assert [place for place, _ in found] == [0, 1, 2, 3, 4]
    best = found[0][1]
    assert [score / best for _, score in found] == pytest.approx([1, 0.41, 0.4, 0.3, 0.2])


def test_a_neighbour_that_repeats_a_term_adds_less_than_one_that_brings_another():
    def score(beside: str, far: str) -> float:
        texts = {0: "silt clay", 1: beside, 10: far, 20: "mud", 30: "mud"}
        entries = [lexical.Entry(text, (place, place + 1)) for place, text in texts.items()]
        return dict(lexical.search(["silt delta"], entries)[0])[0]

    assert score("silt clay", "delta clay") < score("delta clay", "silt clay")


def test_a_day_is_one_text_among_days():
    """Worked by hand: days of one and of two entries, each a word and the three of its date; "silt" on one.

    idf(silt) among two days is ln(1 + 1.5 / 1.5); dl = 8, avgdl = (4 + 8) / 2 = 6. Entries have 4 terms
    in the mean, so a day weighs 1.
    """
    moments = [0, 86_400_000, 86_400_000 + 5]
    entries = [
        lexical.Entry(text, (n * 10, n * 10 + 1), created_at=moment)
        for n, (text, moment) in enumerate(zip(["mud", "silt", "clay"], moments, strict=True))
    ]
    facts = [lexical.Entry(each.content, created_at=each.created_at) for each in entries]
    [[(place, score)]] = lexical.search(["silt"], entries)
    [[(_, without)]] = lexical.search(["silt"], facts)
    idf = math.log(1 + 2.5 / 1.5)
    day = math.log(2) * 3 / (1 + 2 * (0.25 + 0.75 * 8 / 6))
    assert place == 1
    assert score - without == pytest.approx(day / (1.2 * 2.2 * idf))


@pytest.mark.parametrize(("words", "weight"), [(21, 1.0), (46, 0.25), (96, 0.0625)])
def test_a_day_weighs_less_where_entries_are_long(words: int, weight: float):
    """Entries of so many words and the four of "silt" and the date; 25 of them weigh in full."""
    text = "silt " + "mud " * words
    entries = [
        lexical.Entry(text if n else "mud " * (words + 1), (n * 10, n * 10 + 1), created_at=n * 86_400_000)
        for n in (0, 1)
    ]
    facts = [lexical.Entry(each.content, created_at=each.created_at) for each in entries]
    [[(_, score)]] = lexical.search(["silt"], entries)
    [[(_, without)]] = lexical.search(["silt"], facts)
    # Of two days and of two passages, all as long as the mean, one has "silt": its part is the idf.
    assert score - without == pytest.approx(weight / (1.2 * 2.2))


def test_a_gap_of_three_messages_parts_neighbours():
    for start, expected in [(3, [0, 1]), (4, [0])]:
        entries = [lexical.Entry("silt", (0, 1)), lexical.Entry("mud", (start, start + 1))]
        assert [place for place, _ in lexical.search(["silt"], entries)[0]] == expected


def test_passages_overlap_and_cover_the_text():
    for length, count in [(0, 1), (160, 1), (161, 2), (280, 2), (281, 3)]:
        found = analyse.passages([str(n) for n in range(length)])
        assert len(found) == count
        assert length == 0 or found[-1][1][-1] == str(length - 1)
        assert all(terms[:1] in ([], [str(place)]) for place, terms in found)


def test_nothing_is_found_among_nothing():
    assert lexical.search(["a", ""], []) == [[], []]
    assert lexical.search([""], [lexical.Entry("silt")]) == [[]]
