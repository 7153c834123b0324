"""Dense search beside hnswlib and usearch: time a query and a row, and recall, in one process.

Run with an environment that has NumPy, hnswlib and usearch, on the vectors of ``dense_data.py``::

    PYTHONPATH=python python benches/peers/dense.py vectors.npz 10000

All contenders get the same rows in the same order, ``M`` 16 and ``efConstruction`` 200, and one thread.
Rows are added one by one (a call a row) and in one call; queries are asked one by one. Times are CPU times
of this thread, medians over rounds in which the contenders take turns. Answers are compared with a float64
brute force first: recall@10, and distances of what was found.
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import siltstone
from siltstone import _native

K = 10
M, EF_CONSTRUCTION = 16, 200
EFS = (50, 100, 200)


class Contender:
    """An index under a name: how it is filled, and how it is asked."""

    def __init__(self, name: str, add: Callable[[Any], Any], ask: Callable[[Any, int], Any]) -> None:
        self.name, self.add, self.ask = name, add, ask


def siltstone_index(dim: int, storage: str) -> Contender:
    params = siltstone.HnswParams(m=M, ef_construction=EF_CONSTRUCTION)
    index = siltstone.HnswIndex(dim, params, storage)
    return Contender(
        f"siltstone {storage}", index.add, lambda query, ef: index.search(query, K, ef, plan="graph")[0]
    )


def siltstone_flat(dim: int) -> Contender:
    index = siltstone.FlatIndex(dim)
    return Contender("siltstone flat", index.add, lambda query, _: index.search(query, K)[0])


def hnswlib_index(dim: int, capacity: int) -> Contender:
    hnswlib = importlib.import_module("hnswlib")
    index = hnswlib.Index(space="cosine", dim=dim)
    index.init_index(max_elements=capacity, ef_construction=EF_CONSTRUCTION, M=M, random_seed=0)
    index.set_num_threads(1)

    def ask(query: Any, ef: int) -> Any:
        index.set_ef(ef)
        return index.knn_query(query, k=K, num_threads=1)[0][0]

    return Contender("hnswlib f32", lambda rows: index.add_items(rows, num_threads=1), ask)


def usearch_index(dim: int, dtype: str) -> Contender:
    usearch = importlib.import_module("usearch.index")
    index = usearch.Index(ndim=dim, metric="cos", dtype=dtype, connectivity=M, expansion_add=EF_CONSTRUCTION)

    def add(rows: Any) -> None:
        index.add(np.arange(len(index), len(index) + len(rows)), rows, threads=1)

    def ask(query: Any, ef: int) -> Any:
        index.expansion_search = ef
        return index.search(query, K, threads=1).keys

    return Contender(f"usearch {dtype}", add, ask)


def truth(rows: Any, queries: Any) -> list[set[int]]:
    """The nearest rows of each query, by brute force in float64."""
    norms = np.linalg.norm(rows.astype(np.float64), axis=1)
    found = []
    for query in queries.astype(np.float64):
        similarities = rows @ query / norms
        found.append({int(row) for row in np.argpartition(-similarities, K)[:K]})
    return found


def fill(contenders: list[Contender], rows: Any, piece: int) -> dict[str, list[float]]:
    """Microseconds of CPU a row, piece by piece; the contenders take turns."""
    times: dict[str, list[float]] = {each.name: [] for each in contenders}
    for first in range(0, len(rows), piece):
        some = rows[first : first + piece]
        for each in contenders:
            start = time.thread_time()
            each.add(some)
            times[each.name].append((time.thread_time() - start) / len(some) * 1e6)
    return times


def measure(
    contenders: list[Contender], queries: Any, expected: list[set[int]], ef: int, rounds: int
) -> list[dict[str, Any]]:
    """Microseconds of CPU a query, and recall@10."""
    recalls = {
        each.name: float(
            np.mean(
                [
                    len({int(row) for row in each.ask(q, ef)} & e) / K
                    for q, e in zip(queries, expected, strict=True)
                ]
            )
        )
        for each in contenders
    }
    times: dict[str, list[float]] = {each.name: [] for each in contenders}
    for _ in range(rounds):
        for each in contenders:
            start = time.thread_time()
            for query in queries:
                each.ask(query, ef)
            times[each.name].append((time.thread_time() - start) / len(queries) * 1e6)
    return [
        {"name": each.name, "ef": ef, "us": statistics.median(times[each.name]), "recall": recalls[each.name]}
        for each in contenders
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("vectors")
    parser.add_argument("rows", type=int)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="names of contenders, with commas between")
    parser.add_argument("--json", default="", help="where the figures go as JSON")
    options = parser.parse_args()
    if _native.build_profile != "release":
        raise SystemExit("this is a debug build: its figures would say nothing")
    data = np.load(options.vectors)
    rows, queries = data["rows"][: options.rows], data["queries"]
    rows, queries = rows[rows.any(axis=1)], queries[queries.any(axis=1)][:300]
    dim = rows.shape[1]
    makers: dict[str, Callable[[], Contender]] = {
        "siltstone i8": lambda: siltstone_index(dim, "i8"),
        "siltstone f16": lambda: siltstone_index(dim, "f16"),
        "siltstone f32": lambda: siltstone_index(dim, "f32"),
        "siltstone flat": lambda: siltstone_flat(dim),
        "hnswlib f32": lambda: hnswlib_index(dim, len(rows)),
        "usearch i8": lambda: usearch_index(dim, "i8"),
        "usearch f32": lambda: usearch_index(dim, "f32"),
    }
    wanted = [name for name in options.only.split(",") if name] or list(makers)
    contenders = []
    for name in wanted:
        try:
            contenders.append(makers[name]())
        except ImportError as error:
            print(f"{name}: absent ({error})")
    expected = truth(rows, queries)
    filled = fill(contenders, rows, max(1, len(rows) // 20))
    insert = {name: sum(times) / len(times) for name, times in filled.items()}
    answers = []
    for ef in EFS:
        answers += measure(contenders, queries, expected, ef, options.rounds)
    print(f"{len(rows)} rows of {dim}, M {M}, efConstruction {EF_CONSTRUCTION}, k {K}, one thread")
    print(f"{'':16} {'insert us':>10} " + " ".join(f"{f'ef {ef} us':>10} {'recall':>7}" for ef in EFS))
    for name in insert:
        line = [each for each in answers if each["name"] == name]
        cells = " ".join(f"{each['us']:10.1f} {each['recall']:7.4f}" for each in line)
        print(f"{name:16} {insert[name]:10.1f} {cells}")
    if options.json:
        figures = {"rows": len(rows), "dim": dim, "insert": insert, "queries": answers}
        Path(options.json).write_text(json.dumps(figures, indent=1), "utf-8")


if __name__ == "__main__":
    main()
