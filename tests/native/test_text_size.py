"""Sizes of texts: against the vectors, and against the slow twin."""

from __future__ import annotations

import pytest
from hypothesis import given

from reference import tokens as twin
from siltstone import _native
from strategies_text import any_texts
from vector_cases import cases


@pytest.mark.parametrize("case", cases("estimates"), ids=lambda case: repr(case["text"]))
def test_sizes_and_estimates_are_those_of_the_vectors(case):
    size = (case["bytes"], case["code_points"])
    assert _native.text_size(case["text"]) == twin.text_size(case["text"]) == size
    assert twin.bytes_over_four(size) == case["bytes/4"]
    assert twin.chars_over_three(size) == case["chars/3"]
    assert twin.at_least_one(size) == case["at_least_one"]


@given(any_texts())
def test_sizes_are_those_of_the_twin(text):
    assert _native.text_size(text) == twin.text_size(text)


def test_a_lone_surrogate_counts_three_bytes_and_one_code_point():
    assert _native.text_size("\ud800") == (3, 1)
    assert _native.text_size("\ud83d\ude00") == (6, 2)  # a pair is measured as it is, not as U+1F600


def test_a_subclass_of_str_is_a_text():
    class Name(str):
        __slots__ = ()

        def encode(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:
            return b"other"

    assert _native.text_size(Name("é\ud800")) == (5, 2)
