"""Sizes of texts: against the vectors, and against the slow twin."""

import itertools

import pytest
from hypothesis import given, strategies as st

from reference import tokens as twin
from siltstone import _native, tokens
from strategies_text import any_texts
from vector_cases import cases

RULES = [name for name in tokens._RULES if name.startswith(("blocks", "weights"))]


@pytest.mark.parametrize("case", cases("estimates"), ids=lambda case: repr(case["text"]))
def test_sizes_and_estimates_are_those_of_the_vectors(case):
    size = (case["bytes"], case["code_points"])
    assert _native.text_size(case["text"]) == twin.text_size(case["text"]) == size
    assert twin.bytes_over_four(size) == case["bytes/4"]
    assert twin.chars_over_three(size) == case["chars/3"]
    for rule in ("blocks", "weights"):
        assert _native.text_tokens(case["text"], rule) == twin.tokens(case["text"], rule) == case[rule]


@given(any_texts())
def test_sizes_are_those_of_the_twin(text):
    assert _native.text_size(text) == twin.text_size(text)


@given(any_texts(), st.sampled_from(RULES))
def test_tokens_by_weights_are_those_of_the_twin(text, rule):
    assert _native.text_tokens(text, rule) == twin.tokens(text, rule)
    value = {"role": text, text: [text, 7, 1.5, None, True, {}, []], "n": {}}
    assert _native.json_tokens(value, rule) == twin.json_tokens(value, rule)


@pytest.mark.parametrize("rule", RULES)
def test_every_character_has_the_weight_of_the_twin(rule):
    for start in range(0, 0x20000, 64):
        text = "".join(map(chr, range(start, start + 64)))
        assert _native.text_tokens(text, rule) == twin.tokens(text, rule), hex(start)


@pytest.mark.parametrize("rule", RULES)
def test_a_longer_text_never_has_fewer_tokens(rule):
    kinds = "aBc7 -\né漢"
    for text in map("".join, itertools.product(kinds, repeat=3)):
        assert twin.weight(text, rule) >= twin.weight(text[:2], rule), text


def test_another_rule_is_refused():
    with pytest.raises(ValueError, match="no rule by weights"):
        _native.text_tokens("a", "weights/none")


def test_a_lone_surrogate_counts_three_bytes_and_one_code_point():
    assert _native.text_size("\ud800") == (3, 1)
    assert _native.text_size("\ud83d\ude00") == (6, 2)  # a pair is measured as it is, not as U+1F600


def test_a_subclass_of_str_is_a_text():
    class Name(str):
        __slots__ = ()

        def encode(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:
            return b"other"

    assert _native.text_size(Name("é\ud800")) == (5, 2)
