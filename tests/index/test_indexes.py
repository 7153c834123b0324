"""HnswIndex over arrays: right answers, clear errors, files that are checked."""

import copy
import pickle
import threading

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra.numpy import arrays

import siltstone
import siltstone.embedding
from siltstone import HnswIndex, errors
from siltstone.index import HashedTfIndex, HnswParams

NO_ID = 2**64 - 1


def make(dim=8, storage="i8", **params):
    return HnswIndex(dim, HnswParams(**params), storage)


def load(index, path):
    return type(index).load(path)


def rows_of(count, dim, seed=0):
    return np.random.default_rng(seed).standard_normal((count, dim)).astype(np.float32)


def by_brute_force(rows, query, k):
    """Ids and float32 distances, in float64, ties by id; rows of zeros are near nothing."""
    rows, query = rows.astype(np.float64), query.astype(np.float64)
    if not query.any():
        return [], []
    ids = [one for one in range(len(rows)) if rows[one].any()]
    distances = {
        one: np.float32(
            np.clip(1 - rows[one] @ query / np.sqrt((rows[one] @ rows[one]) * (query @ query)), 0, 2)
        )
        for one in ids
    }
    ids = sorted(ids, key=lambda one: (distances[one], one))[:k]
    return ids, [distances[one] for one in ids]


# Small whole numbers: sums are exact whatever their order, so answers must be equal to the bit.
whole = arrays(np.float32, st.tuples(st.integers(0, 40), st.just(5)), elements=st.integers(-2, 2).map(float))


@given(rows=whole, query=arrays(np.float32, 5, elements=st.integers(-3, 3).map(float)), k=st.integers(0, 50))
def test_the_nearest_rows_come_first_and_ties_by_id(rows, query, k):
    index = make(5)
    assert index.add(rows).tolist() == list(range(len(rows)))
    expected = by_brute_force(rows, query, k)
    for plan in ({"plan": "scan"}, {"plan": "graph", "ef": 50}):
        ids, distances = index.search(query, k, **plan)
        assert (ids.dtype, distances.dtype) == (np.uint64, np.float32)
        assert (ids.tolist(), distances.tolist()) == (expected[0], expected[1])


@given(st.data())
def test_a_scan_is_exact_over_any_floats(data):
    dim = data.draw(st.integers(1, 70))
    floats = st.floats(-(2.0**100), 2.0**100, width=32)
    rows = data.draw(arrays(np.float32, (30, dim), elements=floats))
    query = data.draw(arrays(np.float32, dim, elements=floats))
    index = HnswIndex(dim)
    index.add(rows)
    ids, distances = index.search(query, 5, plan="scan")
    expected = by_brute_force(rows, query, 5)
    assert len(ids) == len(expected[0])
    # The last bits of a float64 sum depend on its order; a float32 beside it at most.
    np.testing.assert_allclose(distances, expected[1], rtol=0, atol=2e-7)


def test_a_batch_is_its_queries_one_by_one_and_a_row_of_zeros_finds_nothing():
    rows, queries = rows_of(300, 8), rows_of(20, 8, seed=1)
    queries[7] = 0
    index = make()
    index.add(rows)
    ids, distances = index.search_batch(queries, 6)
    assert ids.shape == distances.shape == (20, 6)
    for query, row, far in zip(queries, ids, distances, strict=True):
        found = index.search(query, 6)
        there = row != NO_ID
        assert (row[there].tolist(), far[there].tolist()) == (found[0].tolist(), found[1].tolist())
    assert (ids[7] == NO_ID).all()
    assert np.isinf(distances[7]).all()
    assert index.search_batch(queries[:0], 6)[0].shape == (0, 0)


def test_removed_rows_are_not_found_and_their_ids_are_not_given_again():
    rows = rows_of(500, 8)
    index = make()
    index.add(rows)
    index.remove(range(0, 500, 2))
    index.remove(np.uint64(1))
    assert len(index) == 249
    everything = index.search(rows[3], 500)[0].tolist()
    assert sorted(everything) == list(range(3, 500, 2))
    for wrong in ([0], [1], [500], [3, 2], [2**63], [-1], [2**70]):
        with pytest.raises(errors.EntryNotFoundError, match="no row"):
            index.remove(wrong)
    assert len(index) == 249
    assert index.add(rows[:1]).tolist() == [500]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (np.full((1, 8), np.nan), "finite, got NaN in row 0, column 0"),
        ([[0.0] * 7 + [np.inf]], "finite, got inf in row 0, column 7"),
        (np.full((1, 8), 1e39), "finite, got inf"),
        (np.zeros((1, 7)), r"shape \(n, 8\), got \(1, 7\)"),
        (np.zeros(8), r"shape \(n, 8\), got \(8,\)"),
        (np.zeros((2, 2, 8)), r"shape \(n, 8\)"),
        ([["a"] * 8], "real numbers"),
        (np.zeros((1, 8), complex), "real numbers"),
        (np.zeros((1, 8), bool), "real numbers"),
        ([[1.0] * 8, [1.0] * 7], "array of numbers"),
        (None, "real numbers"),
    ],
)
def test_what_is_no_matrix_of_finite_numbers_is_refused_and_nothing_is_added(wrong, said):
    index = make()
    index.add(rows_of(3, 8))
    with pytest.raises(errors.ConfigError, match=said):
        index.add(wrong)
    with pytest.raises(errors.ConfigError):
        index.search_batch(wrong, 1)
    assert len(index) == 3


def test_a_query_that_is_not_finite_is_named_as_a_query():
    index = make()
    index.add(np.ones((3, 8)))
    with pytest.raises(errors.ConfigError, match="queries must be finite, got NaN in row 0, column 2"):
        index.search([1.0, 1.0, float("nan"), 1.0, 1.0, 1.0, 1.0, 1.0], 1)


def test_a_later_row_that_is_wrong_keeps_out_those_before_it():
    index, rows = make(), rows_of(3, 8)
    rows[2, 5] = np.nan
    with pytest.raises(errors.ConfigError, match="got NaN in row 2, column 5"):
        index.add(rows)
    assert len(index) == 0


def test_any_order_and_width_of_real_numbers_is_taken():
    rows = np.round(rows_of(40, 8) * 8)
    plain = make()
    plain.add(rows)
    for other in (
        np.asfortranarray(rows),
        rows[::-1][::-1],
        rows.astype(np.float64),
        rows.astype(np.int16),
        rows.astype(np.float16),
        rows.astype(">f4"),
        rows.tolist(),
        np.hstack([rows, rows])[:, :8],
    ):
        index = make()
        index.add(other)
        for query in (rows[5], rows[5].tolist(), rows[5].astype(np.float64)):
            assert index.search(query, 9)[0].tolist() == plain.search(rows[5], 9)[0].tolist()


def test_wrong_arguments_of_a_search_are_refused():
    index = make()
    index.add(rows_of(3, 8))
    for k in (-1, 1.5, "1", None):
        with pytest.raises(errors.ConfigError, match="k must be"):
            index.search(np.ones(8), k)
    with pytest.raises(errors.ConfigError, match=r"shape \(8,\), got \(1, 8\)"):
        index.search(np.ones((1, 8)), 1)
    with pytest.raises(errors.ConfigError, match="ef must be >= 1, got 0"):
        index.search(np.ones(8), 1, ef=0)
    with pytest.raises(errors.ConfigError, match="plan must be 'auto', 'scan' or 'graph', got \"best\""):
        index.search(np.ones(8), 1, plan="best")


def test_parameters_are_validated():
    for field, value in [("m", 1), ("m", 129), ("ef_construction", 0), ("ef_search", 2**21), ("max_layer", 0),
                         ("seed", -1), ("m", 16.0), ("m", True)]:  # fmt: skip
        with pytest.raises(errors.ConfigError, match=f"{field} must be .* got"):
            HnswParams(**{field: value})
    for dim in (0, 65_537, -1, 2.0):
        with pytest.raises(errors.ConfigError, match="dim must be"):
            HnswIndex(dim)
    with pytest.raises(errors.ConfigError, match="storage must be"):
        HnswIndex(8, storage="i4")
    with pytest.raises(errors.ConfigError, match="dim must be 4096"):
        HnswIndex(8, storage="sparse")
    assert HnswIndex(8).params == HnswParams(16, 200, 200, 16, 0)


def test_a_loaded_index_answers_and_goes_on_as_the_one_that_was_saved(tmp_path):
    rows = rows_of(400, 8)
    index = make(m=4, ef_construction=20, seed=5)
    index.add(rows[:350])
    index.add(np.zeros((1, 8)))
    index.remove(range(100))
    index.save(tmp_path / "index")
    again = load(index, str(tmp_path / "index"))
    assert again.stats() == index.stats()
    assert index.add(rows[350:]).tolist() == again.add(rows[350:]).tolist()
    for query in rows_of(20, 8, seed=1):
        assert index.search(query, 9)[0].tolist() == again.search(query, 9)[0].tolist()
    assert [path.name for path in tmp_path.iterdir()] == ["index"]


@pytest.mark.parametrize("kind", ["i8", "sparse"])
def test_a_file_that_is_not_what_was_written_is_refused(kind, tmp_path):
    index = make(4096 if kind == "sparse" else 8, kind)
    texts = [f"silt {number} river {number % 3}" for number in range(30)]
    index.add(siltstone.embedding.embed_sparse(texts) if kind == "sparse" else rows_of(30, 8))
    path = tmp_path / "index"
    index.save(path)
    file = path.read_bytes()
    for wrong in (file[:40], file[:-1], file + b"\0", file[:99] + b"?" + file[100:]):
        path.write_bytes(wrong)
        with pytest.raises(errors.StoreCorruptError, match="damaged") as caught:
            load(index, path)
        assert caught.value.path == str(path)
    for other_kind in (b"", file[:7], b"x" * 500):
        path.write_bytes(other_kind)
        with pytest.raises(errors.StoreOpenError):
            load(index, path)
    path.write_bytes(file[:8] + b"\x02" + file[9:])
    with pytest.raises(errors.StoreVersionError, match="version 2"):
        load(index, path)
    path.write_bytes(file)
    with pytest.raises(errors.StoreOpenError):
        HashedTfIndex.load(path)
    with pytest.raises(errors.StoreIoError, match="could not read"):
        load(index, tmp_path / "nothing")
    with pytest.raises(errors.StoreIoError, match="could not write"):
        index.save(tmp_path / "no" / "where")


def test_rows_of_counts_are_found_by_their_exact_distances():
    texts = [f"silt river {'delta ' * (number % 4)} word{number} word{number % 7}" for number in range(300)]
    index = HnswIndex(4096, storage="sparse")
    index.add(siltstone.embedding.embed_sparse(texts[:200]))
    index.add(siltstone.embedding.embed_batch(texts[200:]))
    dense = HnswIndex(4096)
    dense.add(siltstone.embedding.embed_batch(texts))
    for query in ("silt word5", texts[250], "delta delta river"):
        row = siltstone.embedding.embed_sparse([query])
        ids, distances = index.search(row, 300, ef=300, plan="graph")
        assert (ids.tolist(), distances.tolist()) == tuple(
            part.tolist() for part in index.search(siltstone.embedding.embed(query), 300, plan="scan")
        )
        np.testing.assert_allclose(
            distances, dense.search(siltstone.embedding.embed(query), 300, plan="scan")[1], atol=1e-6
        )
    with pytest.raises(errors.ConfigError, match="counts"):
        index.add(np.random.default_rng(0).random((1, 4096)))
    with pytest.raises(errors.ConfigError, match="negative"):
        index.add(-np.ones((1, 4096)))
    with pytest.raises(errors.ConfigError, match="ascend"):
        index.add(([0, 2], [5, 4], [1.0, 1.0]))
    with pytest.raises(errors.ConfigError, match="reaches from"):
        index.add(([0, 9], [5], [1.0]))
    assert len(index) == 300


def test_the_plan_follows_the_size_and_can_be_forced():
    index = HnswIndex(4000)
    rows = rows_of(1501, 4000)
    index.add(rows[:1500])
    assert index.stats()["plan"] == "scan"
    index.add(rows[1500:])
    assert index.stats() == {
        "index": "hnsw", "entries": 1501, "removed": 0, "lingering": 0, "dim": 4000, "storage": "i8",
        "layers": index.stats()["layers"], "plan": "graph",
    }  # fmt: skip
    exact = index.search(rows[0], 20, plan="scan")
    assert index.search(rows[0], 20, ef=1501, plan="graph")[0].tolist() == exact[0].tolist()


def test_threads_search_while_one_adds_and_every_old_row_finds_itself():
    rows = rows_of(3000, 24)
    index = make(24, m=6, ef_construction=40)
    index.add(rows[:500])
    failures, finished = [], threading.Event()

    def read(first):
        number = first
        while not finished.is_set():
            one = number % 500
            found = index.search(rows[one], 1, ef=3000, plan="graph")[0].tolist()
            if found != [one]:
                failures.append((one, found))
            number += 7

    readers = [threading.Thread(target=read, args=(first,)) for first in range(3)]
    for reader in readers:
        reader.start()
    for first in range(500, 3000, 50):
        index.add(rows[first : first + 50])
    finished.set()
    for reader in readers:
        reader.join()
    assert failures == []


def test_an_index_is_pickled_as_it_is_saved():
    index, rows = make(), rows_of(40, 8)
    index.add(rows)
    index.remove([3])
    for same in (pickle.loads(pickle.dumps(index)), copy.deepcopy(index)):
        assert type(same) is type(index)
        assert repr(same) == repr(index)
        for one, other in zip(same.search(rows[5]), index.search(rows[5]), strict=True):
            assert one.tolist() == other.tolist()
        assert len(one) == 10  # as many as there are without a k
        assert same.add(rows[:2]).tolist() == [40, 41]
    assert index.add(rows[:1]).tolist() == [40]
