"""The embeddings that users call: shapes, types, and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

import siltstone
from reference import embed as twin
from siltstone.embedding import embed, embed_batch, embed_sparse
from strategies_text import texts_of_words

RULES = ["xxh3", "poly31"]


def rows(texts: list[str], rule: str) -> np.ndarray:
    """The vectors of the slow twin, as an array."""
    table = np.zeros((len(texts), 4096), np.float32)
    for number, text in enumerate(texts):
        for bucket, value in twin.embed(text, rule).items():
            table[number, bucket] = value
    return table


@given(st.lists(texts_of_words(), max_size=4), st.sampled_from(RULES))
def test_dense_and_sparse_rows_are_those_of_the_twin(texts, rule):
    expected = rows(texts, rule)
    dense = embed_batch(texts, rule)
    assert dense.shape == (len(texts), 4096)
    assert np.array_equal(dense, expected)
    indptr, indices, values = embed_sparse(texts, rule)
    numbers = np.repeat(np.arange(len(texts)), np.diff(indptr))
    assert np.array_equal(indices, np.nonzero(expected)[1])
    assert np.array_equal(values, expected[numbers, indices])
    for number, text in enumerate(texts):
        assert np.array_equal(embed(text, rule), expected[number])


@pytest.mark.parametrize("texts", [[], [""], ["", "…"], ["silt", "", "two words"]])
def test_arrays_have_their_types_and_can_be_written_to(texts):
    dense = embed_batch(texts)
    indptr, indices, values = embed_sparse(texts)
    assert (dense.dtype, dense.shape) == (np.float32, (len(texts), 4096))
    assert dense.flags.c_contiguous
    assert (indptr.dtype, indices.dtype, values.dtype) == (np.int64, np.int32, np.float32)
    assert indptr.shape == (len(texts) + 1,)
    assert all(array.flags.writeable for array in (dense, indptr, indices, values, embed("one")))
    dense[...] = 7


def test_one_text_is_a_row_of_unit_length_and_one_without_words_is_zero():
    vector = embed("one fish, two fish")
    assert (vector.dtype, vector.shape) == (np.float32, (4096,))
    assert np.linalg.norm(vector) == pytest.approx(1)
    assert not embed(" … ").any()


def test_any_iterable_of_texts_is_a_batch():
    texts = ["silt", "stone"]
    assert np.array_equal(embed_batch(tuple(texts)), embed_batch(texts))
    assert np.array_equal(embed_batch({"silt": 1, "stone": 2}), embed_batch(texts))


@pytest.mark.parametrize("call", [embed_batch, embed_sparse])
def test_one_str_is_no_list_of_str(call):
    with pytest.raises(siltstone.ConfigError, match="texts must be a list of str, got one str") as caught:
        call("silt")
    assert caught.value.field == "texts"
    assert isinstance(caught.value, ValueError)


def test_a_text_that_is_no_str_is_refused():
    with pytest.raises(siltstone.ConfigError, match="text must be a str, got bytes"):
        embed(b"silt")
    with pytest.raises(TypeError, match=r"texts\[1\] must be a str, got NoneType"):
        embed_batch(["silt", None])


@pytest.mark.parametrize("call", [lambda rule: embed("a", rule), lambda rule: embed_sparse([], rule)])
def test_an_unknown_hash_rule_is_refused_by_name(call):
    with pytest.raises(siltstone.ConfigError, match="hash_rule must be 'xxh3' or 'poly31', got 'sha1'"):
        call("sha1")
