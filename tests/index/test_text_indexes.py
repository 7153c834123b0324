"""The contract of every index of texts: ids, order, bad input, files."""

import copy
import pickle
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, strategies as st

from reference import analyse, bm25
from reference.embed import word_hash
from reference.search import search as slow_cosine
from siltstone import errors
from siltstone.index import Bm25Index, Bm25Params, HashedTfIndex

TEXTS = ["silt settles in slow water", "the kettle is on", "slow slow water", "", "silt"]
NO_ID = 2**64 - 1

words = st.sampled_from(["silt", "river", "delta", "slow", "mud", "kettle", "sea", "漢字", "?"])
texts = st.lists(words, max_size=8).map(" ".join)


@pytest.fixture(params=[HashedTfIndex, Bm25Index])
def kind(request):
    return request.param


@pytest.fixture
def index(kind):
    made = kind()
    made.add(TEXTS)
    return made


def test_ids_are_serial_and_never_used_again(kind):
    index = kind()
    first = index.add(["a river", "a sea"])
    assert (first.dtype, first.tolist()) == (np.uint64, [0, 1])
    index.remove([1])
    assert index.add(["mud"]).tolist() == [2]
    assert index.add([]).tolist() == []
    assert len(index) == 2
    assert index.stats()["entries"] == 2
    assert index.stats()["removed"] == 1


def test_an_empty_index_finds_nothing(kind):
    ids, values = kind().search("silt", k=3)
    assert (ids.shape, values.shape) == ((0,), (0,))
    ids, values = kind().search_batch(["silt", "river"], k=3)
    assert (ids.shape, values.shape) == ((2, 0), (2, 0))
    assert kind().search_batch([], k=3)[0].shape == (0, 0)


@pytest.mark.parametrize("k", [-1, 1.0, "3", None])
def test_a_wrong_k_is_refused(index, k):
    with pytest.raises(errors.ConfigError, match="k must be"):
        index.search("silt", k=k)


def test_a_batch_is_its_searches_filled_up(index):
    queries = ["silt", "slow water", "volcano"]
    ids, values = index.search_batch(queries, k=9)
    assert ids.shape == values.shape == (3, 5)
    nothing = np.inf if isinstance(index, HashedTfIndex) else 0.0
    for row, query in enumerate(queries):
        alone, scores = index.search(query, k=9)
        assert ids[row].tolist() == alone.tolist() + [NO_ID] * (5 - len(alone))
        assert values[row].tolist() == scores.tolist() + [nothing] * (5 - len(alone))


@pytest.mark.parametrize("call", ["add", "search_batch"])
def test_one_text_is_not_taken_for_a_list_of_letters(index, call):
    with pytest.raises(errors.ConfigError, match="got one str"):
        getattr(index, call)("silt")
    with pytest.raises(TypeError, match=r"texts\[1\] must be a str, got int"):
        getattr(index, call)(["silt", 3])
    with pytest.raises(errors.ConfigError, match="query must be a str"):
        index.search(["silt"])


def test_removing_is_all_or_nothing(index):
    with pytest.raises(errors.EntryNotFoundError, match="the index has no text 5") as caught:
        index.remove([0, 5])
    assert caught.value.entry_id == 5
    assert index.search("silt")[0].tolist() == [4, 0]
    index.remove(np.array([4, 4], dtype=np.uint64))
    assert index.search("silt")[0].tolist() == [0]
    with pytest.raises(errors.EntryNotFoundError):
        index.remove([4])
    for unknown in (-1, [2**64]):
        with pytest.raises(errors.EntryNotFoundError, match="the index has no text"):
            index.remove(unknown)
    for wrong in (["0"], [0.0]):
        with pytest.raises(errors.ConfigError, match=r"ids\[0\] must be"):
            index.remove(wrong)


def answers(index):
    return [values.tolist() for values in index.search_batch(["silt", "slow water", "mud"], k=9)]


def test_a_saved_index_is_the_same_when_it_is_loaded(index, kind, tmp_path):
    index.add(["mud " * 40, "word " * 70_000, *TEXTS])
    index.remove([2, 6])
    index.save(tmp_path / "a.index")
    loaded = kind.load(str(tmp_path / "a.index"))
    assert answers(loaded) == answers(index)
    assert len(loaded) == len(index)
    assert loaded.add(["mud"]).tolist() == index.add(["mud"]).tolist()
    assert answers(loaded) == answers(index)
    assert [path.name for path in tmp_path.iterdir()] == ["a.index"]


def test_an_index_is_pickled_as_it_is_saved(index, kind):
    index.remove([1])
    same = pickle.loads(pickle.dumps(index))
    assert type(same) is kind
    assert answers(same) == answers(index)
    assert same.stats()["removed"] == 1
    assert answers(copy.copy(index)) == answers(index)
    assert same.add(["mud"]).tolist() == index.add(["mud"]).tolist()


def test_a_rule_and_parameters_are_stored_with_the_index(tmp_path):
    HashedTfIndex("poly31").save(tmp_path / "a")
    assert HashedTfIndex.load(tmp_path / "a").hash_rule == "poly31"
    params = Bm25Params(k1=0.1 + 0.2, b=1 / 3)
    Bm25Index(params).save(tmp_path / "b")
    assert Bm25Index.load(tmp_path / "b").params == params


def test_what_is_no_index_of_that_kind_is_refused_by_name(index, kind, tmp_path):
    other = Bm25Index if kind is HashedTfIndex else HashedTfIndex
    path = tmp_path / "a.index"
    other().save(path)
    with pytest.raises(errors.StoreOpenError, match="of another kind") as caught:
        kind.load(path)
    assert caught.value.path == str(path)
    path.write_bytes(b"not an index")
    with pytest.raises(errors.StoreOpenError, match="is not an index"):
        kind.load(path)
    with pytest.raises(errors.StoreIoError, match="could not read"):
        kind.load(tmp_path / "absent")
    with pytest.raises(errors.StoreIoError, match="could not write"):
        index.save(tmp_path / "absent" / "a.index")
    index.save(path)
    data = bytearray(path.read_bytes())
    data[8] += 1
    path.write_bytes(data)
    with pytest.raises(errors.StoreVersionError, match="version 6 of the format"):
        kind.load(path)


def test_a_file_that_was_cut_or_changed_is_refused_whole(index, kind, tmp_path):
    path = tmp_path / "a.index"
    index.save(path)
    data = path.read_bytes()
    refused = (errors.StoreOpenError, errors.StoreVersionError, errors.StoreCorruptError)
    for length in range(len(data)):
        path.write_bytes(data[:length])
        with pytest.raises(refused):
            kind.load(path)
    for place in range(len(data)):
        changed = bytearray(data)
        changed[place] ^= 1 << place % 8
        path.write_bytes(changed)
        with pytest.raises(refused):
            kind.load(path)


@pytest.mark.parametrize(("k1", "b"), [(-1, 0.5), (float("nan"), 0.5), (1.2, 1.5), (1.2, float("nan"))])
def test_parameters_out_of_bounds_cannot_be_made(k1, b):
    with pytest.raises(errors.ConfigError, match=r"^(k1|b) must be"):
        Bm25Params(k1=k1, b=b)


@given(st.lists(texts, max_size=30), texts, st.integers(0, 8), st.sampled_from(["xxh3", "poly31"]))
def test_cosine_finds_what_the_slow_twin_finds(given_texts, query, k, rule):
    index = HashedTfIndex(rule)
    index.add(given_texts)
    ids, distances = index.search(query, k)
    slow = slow_cosine(query, given_texts, k, rule)
    assert list(zip(ids.tolist(), distances.tolist(), strict=True)) == slow


def _bag(text):
    return Counter(word_hash(term) for term in analyse.terms(text))


@given(st.lists(texts, max_size=30), st.sets(st.integers(0, 29)), texts, st.integers(0, 8))
def test_bm25_finds_what_the_slow_twin_finds_of_what_is_left(given_texts, gone, query, k):
    index = Bm25Index()
    index.add(given_texts)
    gone &= set(range(len(given_texts)))
    index.remove(gone)
    left = [place for place in range(len(given_texts)) if place not in gone]
    sums, ceiling = bm25.sums(_bag(query), [_bag(given_texts[place]) for place in left])
    slow = [(-min(1.0, total / ceiling), place) for place, total in zip(left, sums, strict=True) if total > 0]
    ids, scores = index.search(query, k)
    assert [(-score, place) for score, place in zip(scores.tolist(), ids.tolist(), strict=True)] == sorted(
        slow
    )[:k]
