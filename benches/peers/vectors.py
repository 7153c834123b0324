"""The contenders by cosine: over texts as vectors of 4,096 numbers, and over dense rows of 384."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import siltstone
from corpus import SEED, corpus
from measure import Contender, K
from siltstone.embedding import embed_batch
from siltstone.index import HashedTfIndex, HnswParams

DIMENSION, WIDE = 384, 4096
M, EF_CONSTRUCTION, EF = 16, 200, 200
TIE = 1e-7  # of two cosines: what float32 does not tell apart


class Exact(Contender):
    """``HashedTfIndex``: takes texts, and makes the rows itself."""

    def __init__(self) -> None:
        super().__init__("siltstone HashedTfIndex", HashedTfIndex())


class Graph(Contender):
    """``HnswIndex`` over bytes, rescored in float."""

    ef = EF

    def __init__(self, dim: int = DIMENSION) -> None:
        params = HnswParams(m=M, ef_construction=EF_CONSTRUCTION)
        super().__init__("siltstone HnswIndex i8", siltstone.HnswIndex(dim, params, "i8"))

    def ask(self, query: Any) -> Sequence[int]:
        return self.index.search(query, K, self.ef, plan="graph")[0]  # type: ignore[no-any-return]

    def size(self) -> None:
        return None


class Hnswlib(Contender):
    def __init__(self, capacity: int, dim: int = DIMENSION) -> None:
        super().__init__("hnswlib f32", importlib.import_module("hnswlib").Index(space="cosine", dim=dim))
        self.index.init_index(capacity, M=M, ef_construction=EF_CONSTRUCTION, random_seed=0)
        self.index.set_ef(EF)
        self.index.set_num_threads(1)

    def add(self, rows: Any) -> None:
        self.index.add_items(rows, num_threads=1)

    def ask(self, query: Any) -> Sequence[int]:
        return self.index.knn_query(query, k=K, num_threads=1)[0][0]  # type: ignore[no-any-return]

    def size(self) -> int:
        return int(self.index.index_file_size())


class HnswlibOverTexts(Hnswlib):
    """The same over the rows of texts, which ``embed_batch`` makes: those of queries beforehand."""

    def add(self, rows: Any) -> None:
        super().add(embed_batch(rows))

    def prepare(self, queries: Sequence[Any]) -> Sequence[Any]:
        return list(embed_batch(list(queries)))


class Usearch(Contender):
    def __init__(self) -> None:
        index = importlib.import_module("usearch.index").Index(
            ndim=DIMENSION, metric="cos", dtype="i8", connectivity=M, expansion_add=EF_CONSTRUCTION,
            expansion_search=EF,
        )  # fmt: skip
        super().__init__("usearch i8", index)

    def add(self, rows: Any) -> None:
        first = len(self.index)
        self.index.add(np.arange(first, first + len(rows)), rows, threads=1)

    def ask(self, query: Any) -> Sequence[int]:
        return self.index.search(query, K, threads=1).keys  # type: ignore[no-any-return]

    def size(self) -> int:
        return int(self.index.serialized_length)


class Nearest:
    """The nearest rows by brute force in float64; ties count as found."""

    def __init__(self, rows: Any, queries: Any) -> None:
        wide = np.asarray(rows, dtype=np.float64)
        norms = np.linalg.norm(wide, axis=1)
        norms[norms == 0] = np.inf
        self._best: list[tuple[set[int], int]] = []
        for query in np.asarray(queries, dtype=np.float64):
            cosines = wide @ query / norms / np.linalg.norm(query)
            largest = np.partition(cosines, -K)[-K:]
            largest = largest[largest > 1e-6]
            near = np.flatnonzero(cosines >= largest.min(initial=2) - TIE)
            self._best.append((set(near.tolist()), len(largest)))

    def recall(self, number: int, answer: Sequence[int]) -> float:
        """How many of the *answer* are among the ten nearest, of as many as there are."""
        best, there = self._best[number]
        return min(len(best.intersection(map(int, answer))), there) / there if there else 1.0


def dense(count: int, place: Path) -> tuple[Any, Any]:
    """Rows (n, 384) and queries (1,000, 384) of float32: a seeded LSA of texts; queries are of held out ones.

    They are read from *place* where they were written before.
    """
    kept = place / f"lsa-{count}.npz"
    if not kept.exists():
        from sklearn.decomposition import TruncatedSVD
        from sklearn.feature_extraction.text import TfidfVectorizer

        source = corpus(count, place)
        weights = TfidfVectorizer(sublinear_tf=True, max_features=50_000, dtype=np.float32)
        table = weights.fit_transform(source.texts + source.held_out)
        lsa = TruncatedSVD(DIMENSION, n_iter=2, random_state=SEED).fit_transform(table).astype(np.float32)
        np.savez(kept, rows=lsa[: len(source.texts)], queries=lsa[len(source.texts) :])
    data = np.load(kept)
    rows, queries = (np.ascontiguousarray(data[name]) for name in ("rows", "queries"))
    return rows, queries[queries.any(axis=1)]
