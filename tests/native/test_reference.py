"""Is the slow twin right? Its neighbours and days, worked by hand; the core works out the rest by hand."""

from __future__ import annotations

import math

import pytest

from reference import lexical


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
