"""The contenders over texts by cosine: the exact index, graphs over 4,096 floats, and scans."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import siltstone
import siltstone.embedding
import siltstone.index
from measure import K, OverTexts

DIMENSION = 4096
M, EF_CONSTRUCTION, EF = 16, 200, 200


class Exact(OverTexts):
    """``HashedTfIndex``: takes texts, and makes the rows itself."""

    def __init__(self) -> None:
        super().__init__("siltstone HashedTfIndex", siltstone.index.HashedTfIndex())


class SparseGraph:
    """``HnswIndex`` over the counts as they are."""

    def __init__(self) -> None:
        self.name = "siltstone HnswIndex sparse"
        params = siltstone.index.HnswParams(m=M, ef_construction=EF_CONSTRUCTION)
        self.index = siltstone.HnswIndex(DIMENSION, params, "sparse")
        self.ef = EF
        self._all: Any = None

    def add(self, rows: Any) -> None:
        self.index.add(siltstone.embedding.embed_sparse(rows))

    def ready(self) -> None: ...

    def prepare(self, queries: Any) -> Sequence[Any]:
        self._all = siltstone.embedding.embed_sparse(list(queries))
        return [siltstone.embedding.embed_sparse([query]) for query in queries]

    def ask(self, query: Any) -> Sequence[int]:
        return self.index.search(query, K, self.ef, plan="graph")[0]  # type: ignore[return-value]

    def ask_all(self) -> Callable[[], Any]:
        return lambda: self.index.search_batch(self._all, K, self.ef, plan="graph")

    def size(self) -> None:
        return None


class Dense:
    """A peer over dense rows: float32 of the same texts, made beforehand by ``embed_batch``."""

    def __init__(self) -> None:
        self.ef = EF
        self._queries: Any = None

    def prepare(self, queries: Any) -> Sequence[Any]:
        self._queries = siltstone.embedding.embed_batch(list(queries))
        return list(self._queries)

    def ready(self) -> None: ...

    def ask_all(self) -> Callable[[], Any] | None:
        return None


class Hnswlib(Dense):
    def __init__(self, capacity: int) -> None:
        super().__init__()
        self.name = "hnswlib f32"
        self.index = importlib.import_module("hnswlib").Index(space="cosine", dim=DIMENSION)
        self.index.init_index(capacity, M=M, ef_construction=EF_CONSTRUCTION, random_seed=0)
        self.index.set_ef(EF)
        self.index.set_num_threads(1)

    def add(self, rows: Any) -> None:
        self.index.add_items(siltstone.embedding.embed_batch(rows), num_threads=1)

    def ask(self, query: Any) -> Sequence[int]:
        return self.index.knn_query(query, k=K, num_threads=1)[0][0]  # type: ignore[no-any-return]

    def ask_all(self) -> Callable[[], Any]:
        return lambda: self.index.knn_query(self._queries, k=K, num_threads=1)

    def size(self) -> int:
        return int(self.index.index_file_size())


class Usearch(Dense):
    def __init__(self, dtype: str) -> None:
        super().__init__()
        self.name = f"usearch {dtype}"
        self.index = importlib.import_module("usearch.index").Index(
            ndim=DIMENSION, metric="cos", dtype=dtype, connectivity=M, expansion_add=EF_CONSTRUCTION,
            expansion_search=EF,
        )  # fmt: skip

    def add(self, rows: Any) -> None:
        first = len(self.index)
        self.index.add(np.arange(first, first + len(rows)), siltstone.embedding.embed_batch(rows), threads=1)

    def ask(self, query: Any) -> Sequence[int]:
        return self.index.search(query, K, threads=1).keys  # type: ignore[no-any-return]

    def ask_all(self) -> Callable[[], Any]:
        return lambda: self.index.search(self._queries, K, threads=1)

    def size(self) -> int:
        return int(self.index.serialized_length)


class Faiss(Dense):
    def __init__(self) -> None:
        super().__init__()
        self.name = "faiss HNSWFlat"
        self.faiss = importlib.import_module("faiss")
        self.faiss.omp_set_num_threads(1)
        self.index = self.faiss.IndexHNSWFlat(DIMENSION, M, self.faiss.METRIC_INNER_PRODUCT)
        self.index.hnsw.efConstruction, self.index.hnsw.efSearch = EF_CONSTRUCTION, EF

    def add(self, rows: Any) -> None:
        self.index.add(siltstone.embedding.embed_batch(rows))

    def ask(self, query: Any) -> Sequence[int]:
        return self.index.search(query[None], K)[1][0]  # type: ignore[no-any-return]

    def ask_all(self) -> Callable[[], Any]:
        return lambda: self.index.search(self._queries, K)

    def size(self) -> int:
        return len(self.faiss.serialize_index(self.index))


class Columns(Dense):
    """SciPy: the columns of a query's buckets out of a CSC matrix, added up; then the ten largest."""

    def __init__(self) -> None:
        super().__init__()
        self.name = "scipy CSC columns"
        self.sparse = importlib.import_module("scipy.sparse")
        self._rows: list[Any] = []

    def add(self, rows: Any) -> None:
        indptr, indices, values = siltstone.embedding.embed_sparse(rows)
        self._rows.append(self.sparse.csr_matrix((values, indices, indptr), (len(rows), DIMENSION)))

    def ready(self) -> None:
        table = self.sparse.vstack(self._rows).tocsc()
        self._starts, self._places, self._values = table.indptr, table.indices, table.data
        self._sums = np.zeros(table.shape[0], np.float32)

    def prepare(self, queries: Any) -> Sequence[Any]:
        found = (siltstone.embedding.embed_sparse([query]) for query in queries)
        return [(indices.tolist(), values.tolist()) for _, indices, values in found]

    def ask(self, query: Any) -> Sequence[int]:
        sums = self._sums
        sums[:] = 0
        for bucket, weight in zip(*query, strict=True):
            start, end = self._starts[bucket], self._starts[bucket + 1]
            sums[self._places[start:end]] += weight * self._values[start:end]
        best = np.argpartition(sums, len(sums) - K)[-K:]
        return best[np.argsort(-sums[best])]

    def size(self) -> int:
        return int(self._starts.nbytes + self._places.nbytes + self._values.nbytes)


class Product(Dense):
    """NumPy: every row times the query; then the ten largest."""

    def __init__(self) -> None:
        super().__init__()
        self.name = "numpy matrix product"
        self._rows: list[Any] = []

    def add(self, rows: Any) -> None:
        self._rows.append(siltstone.embedding.embed_batch(rows))

    def ready(self) -> None:
        self._table = np.vstack(self._rows)
        self._rows.clear()

    def ask(self, query: Any) -> Sequence[int]:
        similarities = self._table @ query
        best = np.argpartition(similarities, len(similarities) - K)[-K:]
        return best[np.argsort(-similarities[best])]  # type: ignore[no-any-return]

    def size(self) -> int:
        return int(self._table.nbytes)


class Oracle:
    """The cosines in float64, row by row, from the sparse embeddings; ties count as found."""

    def __init__(self, texts: list[str], queries: list[str]) -> None:
        indptr, indices, values = siltstone.embedding.embed_sparse(texts)
        self.best: list[set[int]] = []
        self.distances: list[Any] = []
        for query in queries:
            weights = np.zeros(DIMENSION)
            _, buckets, counts = siltstone.embedding.embed_sparse([query])
            weights[buckets] = counts
            sums = np.concatenate(([0.0], np.cumsum(values * weights[indices])))
            similarities = sums[indptr[1:]] - sums[indptr[:-1]]
            largest = np.sort(np.partition(similarities, -K)[-K:])[::-1]
            largest = largest[largest > 1e-6]
            least = largest[-1] - 1e-6 if len(largest) else np.inf
            self.best.append(set(np.flatnonzero(similarities >= least).tolist()))
            self.distances.append(1 - largest)

    def recall(self, number: int, answer: Sequence[int]) -> float:
        """How many of the *answer* are among the nearest, of as many as there are."""
        there = len(self.distances[number])
        return min(len(self.best[number].intersection(map(int, answer))), there) / there if there else 1.0

    def check(self, index: Any, queries: list[str]) -> None:
        """Compares ids and distances of an exact index with the truth.

        Raises:
            SystemExit: they differ.
        """
        for number, query in enumerate(queries):
            ids, distances = index.search(query, K)
            right = len(ids) == len(self.distances[number]) and self.best[number].issuperset(ids.tolist())
            if not right or not np.allclose(distances, self.distances[number], atol=1e-6):
                raise SystemExit(f"wrong answer to {query!r}: {ids} {distances}")
