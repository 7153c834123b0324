"""Dense rows: ``HnswIndex`` beside hnswlib and usearch, and which ``ef`` gives the recall of a peer."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

import siltstone
import siltstone.index
from measure import PORTABLE, Elsewhere, K, compare, quickest
from siltstone.index.hnsw import Storage

M, EF_CONSTRUCTION, EF = 16, 200, 200
TIE = 1e-7  # of two cosines: what float32 does not tell apart
EFS = (30, 50, 75, 100, 150, 200, 300, 400)


class Graph:
    """``HnswIndex``; over bytes, rescored in float, where no other storage is named."""

    def __init__(self, dim: int, storage: Storage = "i8") -> None:
        self.name = f"siltstone HnswIndex {storage}"
        self.index = siltstone.HnswIndex(
            dim, siltstone.index.HnswParams(m=M, ef_construction=EF_CONSTRUCTION), storage
        )
        self.ef = EF
        self._queries: Any = None

    def add(self, rows: Any) -> None:
        self.index.add(rows)

    def ready(self) -> None: ...

    def prepare(self, queries: Any) -> Sequence[Any]:
        self._queries = np.ascontiguousarray(queries)
        return list(self._queries)

    def ask(self, query: Any) -> Sequence[int]:
        return self.index.search(query, K, self.ef, plan="graph")[0]  # type: ignore[return-value]

    def ask_all(self) -> Callable[[], Any] | None:
        return lambda: self.index.search_batch(self._queries, K, self.ef, plan="graph")

    def size(self) -> int | None:
        return None

    def at(self, ef: int) -> None:
        """Has it ask with so many candidates from now on."""
        self.ef = ef


class Hnswlib(Graph):
    def __init__(self, dim: int, capacity: int) -> None:
        self.name, self.ef = "hnswlib f32", EF
        self.index: Any = importlib.import_module("hnswlib").Index(space="cosine", dim=dim)
        self.index.init_index(capacity, M=M, ef_construction=EF_CONSTRUCTION, random_seed=0)
        self.index.set_ef(EF)
        self.index.set_num_threads(1)

    def add(self, rows: Any) -> None:
        self.index.add_items(rows, num_threads=1)

    def ask(self, query: Any) -> Sequence[int]:
        return self.index.knn_query(query, k=K, num_threads=1)[0][0]  # type: ignore[no-any-return]

    def ask_all(self) -> Callable[[], Any]:
        return lambda: self.index.knn_query(self._queries, k=K, num_threads=1)

    def size(self) -> int:
        return int(self.index.index_file_size())

    def at(self, ef: int) -> None:
        self.index.set_ef(ef)


class Usearch(Graph):
    def __init__(self, dim: int, dtype: str) -> None:
        self.name, self.ef = f"usearch {dtype}", EF
        self.index: Any = importlib.import_module("usearch.index").Index(
            ndim=dim, metric="cos", dtype=dtype, connectivity=M, expansion_add=EF_CONSTRUCTION,
            expansion_search=EF,
        )  # fmt: skip

    def add(self, rows: Any) -> None:
        first = len(self.index)
        self.index.add(np.arange(first, first + len(rows)), rows, threads=1)

    def ask(self, query: Any) -> Sequence[int]:
        return self.index.search(query, K, threads=1).keys  # type: ignore[no-any-return]

    def ask_all(self) -> Callable[[], Any]:
        return lambda: self.index.search(self._queries, K, threads=1)

    def size(self) -> int:
        return int(self.index.serialized_length)

    def at(self, ef: int) -> None:
        self.index.expansion_search = ef


class Nearest:
    """The nearest rows by brute force in float64; ties count as found."""

    def __init__(self, rows: Any, queries: Any) -> None:
        norms = np.linalg.norm(rows.astype(np.float64), axis=1)
        norms[norms == 0] = np.inf
        wide = rows.astype(np.float64)
        self._best: list[set[int]] = []
        for query in queries.astype(np.float64):
            similarities = wide @ query / norms / np.linalg.norm(query)
            least = np.partition(similarities, -K)[-K]
            self._best.append(set(np.flatnonzero(similarities >= least - TIE).tolist()))

    def recall(self, number: int, answer: Sequence[int]) -> float:
        """How many of the *answer* are among the ten nearest, in tenths."""
        return min(len(self._best[number].intersection(map(int, answer))), K) / K


def compared(rows: Any, queries: Any, rounds: int) -> dict[str, Any]:
    """Insert, query and recall of each at ``ef`` 200, and of ours at others."""
    dim = rows.shape[1]
    queries = queries[queries.any(axis=1)]
    contenders = []
    for make in (
        lambda: Graph(dim),
        lambda: Elsewhere(PORTABLE, "dense_search", "Graph", dim),
        lambda: Hnswlib(dim, len(rows)),
        lambda: Usearch(dim, "i8"),
    ):
        try:
            contenders.append(make())
        except ImportError as error:
            print(f"absent: {error}")
    nearest = Nearest(rows, queries)
    figures = compare(contenders, rows, {"held out": list(queries)}, nearest.recall, rounds)
    return {
        "at ef 200": [asdict(each) for each in figures],
        "ours at ef": at_each_ef(contenders, nearest.recall, queries),
    }


def at_each_ef(
    contenders: Sequence[Any], judge: Callable[[int, Sequence[int]], float], queries: Sequence[Any]
) -> dict[str, dict[str, list[float]]]:
    """Microseconds of the median query and recall of our graphs, by name and ``ef``."""
    found: dict[str, dict[str, list[float]]] = {}
    graphs = [each for each in contenders if each.name.startswith("siltstone HnswIndex")]
    for ef in EFS if graphs else ():
        prepared = {}
        for each in graphs:
            there = isinstance(each, Elsewhere)
            if there:
                each.call("ef", ef)
                answers = each.call("answers")
            else:
                each.ef = ef
                prepared[each.name] = each.prepare(queries)
                answers = [each.ask(query) for query in prepared[each.name]]
            recall = float(np.mean([judge(number, answer) for number, answer in enumerate(answers)]))
            found.setdefault(each.name, {})[str(ef)] = [0.0, recall]
        for name, spent in quickest(graphs, prepared, 3).items():
            found[name][str(ef)][0] = float(np.median(spent))
    return found
