"""Hashes, embeddings and the documented BM25 of the core: against xxhash, vectors and slow twins."""

import random
import sys
import threading
from array import array
from itertools import pairwise

import pytest
import xxhash
from hypothesis import given, strategies as st

from reference import documented as bm25_twin, embed as twin
from siltstone import _native
from siltstone.documented import DocumentedBm25
from strategies_text import texts_of_words
from vector_cases import cases

RULES = ["xxh3", "poly31"]
LENGTHS = [*range(601), 1023, 1024, 1025, 4096, 65_537]

rules = st.sampled_from(RULES)


def sparse(texts: list[str], rule: str) -> list[dict[int, float]]:
    """The rows of ``embed_sparse``, each as buckets in order with their values."""
    indptr, indices, values = (
        array(code, part) for code, part in zip("qif", _native.embed_sparse(texts, rule), strict=True)
    )
    assert len(indptr) == len(texts) + 1
    assert indptr[0] == 0
    assert indptr[-1] == len(indices) == len(values)
    return [dict(zip(indices[start:end], values[start:end], strict=True)) for start, end in pairwise(indptr)]


def test_hashes_are_those_of_xxhash_at_every_length_class():
    drawn = random.Random(7)
    for length in LENGTHS:
        word = "".join(drawn.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=length))
        assert _native.word_hash(word) == xxhash.xxh3_64_intdigest(word.encode()), length


@given(st.text())
def test_hashes_are_those_of_xxhash(word):
    assert _native.word_hash(word) == xxhash.xxh3_64_intdigest(word.encode())


@pytest.mark.parametrize("rule", RULES)
def test_buckets_are_those_of_the_vectors(rule):
    for case in cases("buckets", rule):
        assert _native.bucket(case["word"], rule) == twin.bucket(case["word"], rule) == case["bucket"]
        if rule == "xxh3":
            assert _native.word_hash(case["word"]) == case["hash"]


@pytest.mark.parametrize("case", cases("embeddings"), ids=lambda case: ascii(case["text"]))
def test_embeddings_are_those_of_the_vectors(case):
    expected = dict(zip(case["buckets"], case["values"], strict=True))
    assert sparse([case["text"]], case["hash_rule"]) == [expected]
    assert twin.embed(case["text"], case["hash_rule"]) == expected
    counted = twin.counts(case["text"], case["hash_rule"])
    assert [counted[bucket] for bucket in case["buckets"]] == case["counts"]


@given(texts_of_words(), rules)
def test_buckets_are_those_of_the_twin(word, rule):
    assert _native.bucket(word, rule) == twin.bucket(word, rule)


@given(st.lists(texts_of_words(), max_size=4), rules)
def test_embeddings_are_those_of_the_twin_to_the_last_bit(texts, rule):
    rows = sparse(texts, rule)
    assert rows == [twin.embed(text, rule) for text in texts]
    assert all(list(row) == sorted(row) for row in rows)


@pytest.mark.parametrize("embed", [_native.embed_batch, _native.embed_sparse])
def test_other_threads_run_while_a_batch_is_embedded(embed):
    """With a switch interval of an hour, nobody else runs before the interpreter is let go of."""
    texts = ["The quick brown fox jumps over the lazy dog. " * 2_000] * 2_000  # a fifth of a second
    begun = threading.Event()
    done: list[bool] = []

    def work() -> None:
        begun.set()
        embed(texts, "xxh3")
        done.append(True)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(3600)
    try:
        worker = threading.Thread(target=work)
        worker.start()
        begun.wait()
        assert not done
    finally:
        sys.setswitchinterval(interval)
        worker.join()
    assert done


words = st.lists(st.sampled_from(["api", "port", "3000", "数", "数据", "\ud800"]), max_size=8)


@given(st.lists(words, max_size=8), words)
def test_scores_are_those_of_the_twin(texts: list[list[str]], query: list[str]) -> None:
    assert DocumentedBm25(texts).scores(query) == pytest.approx(bm25_twin.scores(texts, query), rel=1e-15)


@given(st.lists(words, max_size=8), words, st.integers(0, 5), st.integers(0, 9))
def test_the_best_are_those_of_the_twin(texts: list[list[str]], query: list[str], least: int, limit: int):
    index = DocumentedBm25(texts)
    assert len(index) == len(texts)
    found, expected = index.best(query, least, limit), bm25_twin.best(texts, query, least, limit)
    assert [place for place, _ in found] == [place for place, _ in expected]
    assert [score for _, score in found] == pytest.approx([score for _, score in expected], rel=1e-15)
