"""The documented formulas, by values that were worked out by hand."""

from hashlib import sha256
from math import log, sqrt

import pytest
from hypothesis import given, strategies as st

from siltstone import ConfigError
from siltstone.documented import (
    bm25,
    cosine,
    decayed,
    estimate_utf16,
    hash_vector,
    hybrid_scores,
    least_matches,
    matching,
    mmr,
    passes,
    tokens,
)


def test_oc_64_estimates_are_a_third_of_the_utf_16_units_and_at_least_one() -> None:
    assert [estimate_utf16(text) for text in ("", "hello", "abc", "abcd", "😀😀")] == [1, 2, 1, 2, 2]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Hello, World! x+y=2", ["hello", "world", "xy2"]),
        ("api_key file.path", ["api", "key", "file", "path"]),
        ("数据库在", ["数", "据", "数据", "库", "据库", "在", "库在"]),
        ("用Redis缓存", ["用", "redis", "缓", "存", "缓存"]),
        ("数。据", ["数", "据"]),
        ("カタカナ", ["カタカナ"]),
        ("$100 café", ["100", "café"]),
        ("", []),
    ],
)
def test_oc_73_the_tokenizer(text: str, found: list[str]) -> None:
    assert tokens(text) == found


@given(st.text(st.characters(max_codepoint=127)))
def test_text_of_ascii_has_the_same_tokens_as_in_a_text_of_all_scripts(text: str) -> None:
    assert [*tokens(text), "é"] == tokens(f"{text} é")


def test_oc_73_bm25_by_hand() -> None:
    documents = [["a", "b"], ["a", "a", "c", "d"]]
    rare, common = log(1.5 / 1.5 + 1), log(0.5 / 2.5 + 1)
    first = common * 1 * 2.2 / (1 + 1.2 * (0.25 + 0.75 * 2 / 3))
    second = common * 2 * 2.2 / (2 + 1.2 * (0.25 + 0.75 * 4 / 3))
    assert bm25("a", documents) == pytest.approx([first, second])
    assert bm25("a a", documents) == pytest.approx([2 * first, 2 * second])
    assert bm25("c", documents) == pytest.approx([0, rare * 2.2 / (1 + 1.2 * (0.25 + 0.75 * 4 / 3))])
    assert bm25("z", documents) == [0, 0]
    assert bm25("a", []) == []


def test_oc_72_how_many_tokens_must_match() -> None:
    assert [least_matches(n) for n in (0, 1, 2, 3, 4, 7, 8, 9, 10, 20, 40)] == [
        0,
        1,
        2,
        2,
        2,
        4,
        4,
        3,
        3,
        6,
        6,
    ]
    texts = [tokens("the api runs on port 3000"), tokens("the metrics")]
    assert matching("api port", texts) == [0]
    assert matching("api metrics", texts) == []
    assert matching("", texts) == []


def test_oc_61_the_hashed_vector_by_hand() -> None:
    digest = sha256(b"ab").digest()
    vector = hash_vector("AB")
    place = int.from_bytes(digest[:4], "little") % 384
    assert vector[place] == (-1.0 if digest[4] & 1 else 1.0)
    assert sum(map(abs, vector)) == 1
    grams = hash_vector("abcd")
    expected = [0.0] * 384
    for gram in (" ab", "abc", "bcd", "cd "):
        digest = sha256(gram.encode()).digest()
        expected[int.from_bytes(digest[:4], "little") % 384] += -1.0 if digest[4] & 1 else 1.0
    assert grams == [value / sqrt(sum(each * each for each in expected)) for value in expected]


@given(st.text(max_size=60))
def test_oc_61_a_vector_has_384_dimensions_and_length_one_or_none(text: str) -> None:
    vector = hash_vector(text)
    assert len(vector) == 384
    assert vector == hash_vector(text)
    length = sum(value * value for value in vector)
    assert length == 0 or length == pytest.approx(1)


def test_oc_61_chinese_and_the_empty_text() -> None:
    assert sum(map(abs, hash_vector(""))) == 0
    assert cosine(hash_vector("数据库运行在端口"), hash_vector("数据库运行在端口")) == pytest.approx(1)
    assert cosine(hash_vector("数据库运行"), hash_vector("")) == 0
    with pytest.raises(ConfigError, match="8 and 384"):
        cosine(hash_vector("a", 8), hash_vector("a"))
    with pytest.raises(ConfigError, match=">= 8"):
        hash_vector("a", 7)


def test_oc_31_the_hybrid_score_by_hand() -> None:
    scores = hybrid_scores({1: 0.5, 2: -0.4}, {1: 2.0, 3: 4.0}, {1: 10, 3: 0.5})
    assert scores == pytest.approx({1: (0.7 * 0.5 + 0.3 * 0.5) * 0.995**10, 2: 0.0, 3: 0.3 * 0.995**0.5})
    assert hybrid_scores({}, {3: 4.0}, {}) == {3: 0.3}
    assert [decayed(1, 5, decay) for decay in (1, 2, 0, -1)] == [1, 1, 0, 0]
    assert decayed(1, -5) == 1


def test_the_documented_filter_divides_by_the_sides_that_found_it() -> None:
    assert passes(0.21, 0.7, by_vector=False, by_words=True)
    assert not passes(0.21, 0.7, by_vector=True, by_words=True)
    assert passes(0.49, 0.7, by_vector=True, by_words=False)
    assert not passes(0.0, 0.0, by_vector=False, by_words=False)


def test_oc_63_mmr() -> None:
    same = [[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    assert mmr([0.9, 0.8, 0.5], same, 2, 0.5) == [0, 2]
    assert mmr([0.9, 0.8, 0.5], same, 3, 1.0) == [0, 1, 2]
    assert mmr([0.9, 0.8, 0.5], same, 2, 0.0) == [0, 2]
    assert mmr([], [], 3, 0.5) == []
    assert mmr([0.1], [[1.0]], 5, 0.5) == [0]
