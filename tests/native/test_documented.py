"""The documented BM25 of the core against its slow twin."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, strategies as st

from reference import documented as twin
from siltstone.documented import DocumentedBm25, bm25, tokens

words = st.lists(st.sampled_from(["api", "port", "3000", "数", "数据", "\ud800"]), max_size=8)


@given(st.lists(words, max_size=8), words)
def test_scores_are_those_of_the_twin(texts: list[list[str]], query: list[str]) -> None:
    assert DocumentedBm25(texts).scores(query) == pytest.approx(twin.scores(texts, query), rel=1e-15)


@given(st.lists(words, max_size=8), words, st.integers(0, 5), st.integers(0, 9))
def test_the_best_are_those_of_the_twin(
    texts: list[list[str]], query: list[str], least: int, limit: int
) -> None:
    index = DocumentedBm25(texts)
    assert len(index) == len(texts)
    found, expected = index.best(query, least, limit), twin.best(texts, query, least, limit)
    assert [place for place, _ in found] == [place for place, _ in expected]
    assert [score for _, score in found] == pytest.approx([score for _, score in expected], rel=1e-15)


def test_oc_73_the_documented_bm25_worked_out_by_hand() -> None:
    texts = [tokens(text) for text in ("red red blue", "red green", "green green green green")]
    idf = math.log((3 - 2 + 0.5) / (2 + 0.5) + 1)
    first = idf * 2 * 2.2 / (2 + 1.2 * (0.25 + 0.75 * 3 / 3.0))
    second = idf * 1 * 2.2 / (1 + 1.2 * (0.25 + 0.75 * 2 / 3.0))
    assert bm25("red red", texts) == pytest.approx([2 * first, 2 * second, 0.0])


@given(st.text(st.characters(max_codepoint=127)))
def test_ascii_is_cut_as_any_other_text_is(text: str) -> None:
    """A letter of another script in front keeps the short way out of it."""
    assert tokens(f"\u03b1 {text}") == ["\u03b1", *tokens(text)]


def test_oc_73_the_documented_tokenizer() -> None:
    assert tokens("C++ costs $5, don't!") == ["c", "costs", "5", "don", "t"]
    assert tokens("数据库 ok") == ["数", "据", "数据", "库", "据库", "ok"]
