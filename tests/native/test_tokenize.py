"""Words of the core: against the vectors, and against the slow twin."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given

from reference import tokenize as twin
from siltstone import _native
from strategies_text import assigned, texts_of_words
from vector_cases import cases

CJK_NAMES = ("CJK UNIFIED", "CJK COMPATIBILITY IDEOGRAPH", "HANGUL", "HIRAGANA", "HENTAIGANA", "KATAKANA")


@pytest.mark.parametrize("case", cases("words"), ids=lambda case: case["name"])
def test_words_are_those_of_the_vectors(case):
    assert _native.words(case["text"]) == case["words"]
    assert twin.words(case["text"]) == case["words"]


def test_the_twins_classify_every_assigned_code_point_alike():
    # Alone it shows whether it begins a word, between a and 漢 whether it continues one, or is CJK.
    texts = [f"{c}a{c}漢" for c in assigned()]
    for start in range(0, len(texts), 1000):
        text = "\n".join(texts[start : start + 1000])
        assert _native.words(text) == twin.words(text)


def test_cjk_is_what_unicode_calls_so():
    """The table of ranges was written by hand; names of code points are another witness."""
    for c in assigned():
        name = unicodedata.name(c, "")
        if name.startswith(CJK_NAMES) and c.isalpha():
            assert _native.words(f"a{c}漢") == ["a", f"{c}漢"], name
        if "BOPOMOFO" in name or name.startswith(("CIRCLED", "PARENTHESIZED", "SQUARE", "YI ", "TANGUT")):
            assert f"{c}漢" not in _native.words(f"a{c}漢"), name


@given(texts_of_words())
def test_words_are_those_of_the_twin(text):
    assert _native.words(text) == twin.words(text)


@given(texts_of_words())
def test_whitespace_words_are_those_of_the_twin(text):
    assert _native.whitespace_words(text) == twin.whitespace_words(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\ud800b", ["a", "b"]),  # a lone one is U+FFFD, which separates
        ("a\udc00\ud800", ["a"]),  # the wrong way round
        ("\ud842\udfb7野家", ["𠮷野", "野家"]),  # a pair is the code point it stands for
    ],
)
def test_surrogates_are_paired_or_replaced(text, expected):
    assert _native.words(text) == expected
    assert twin.words(text) == expected
