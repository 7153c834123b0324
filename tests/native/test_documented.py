"""The documented BM25 of the core against its slow twin."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from reference import documented as twin
from siltstone.documented import DocumentedBm25

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
