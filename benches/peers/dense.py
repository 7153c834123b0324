"""Dense search beside hnswlib and usearch at the same ``ef``: times and recall, in one process.

Run with an environment that has NumPy, hnswlib and usearch, on the vectors of ``dense_data.py``::

    PYTHONPATH=python python benches/peers/dense.py vectors.npz 10000

All contenders get the same rows in the same order, ``M`` 16 and ``efConstruction`` 200, and one thread.
Rows are added in pieces, queries are asked one by one; contenders take turns. A row's time is CPU time of the
process; a query's is the median over the queries, each by the quickest of some rounds. Answers are held
against brute force in float64 (recall@10).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from dense_search import EF_CONSTRUCTION, Graph, Hnswlib, M, Nearest, Usearch
from measure import K, fill, quickest
from siltstone import _native

EFS = (50, 100, 200)


def measure(contenders: list[Graph], queries: Any, nearest: Nearest, ef: int, rounds: int) -> dict[str, Any]:
    """Microseconds of a query and recall@10 of each, by name."""
    prepared = {each.name: each.prepare(queries) for each in contenders}
    recall = {}
    for each in contenders:
        each.at(ef)
        shares = [nearest.recall(number, each.ask(query)) for number, query in enumerate(prepared[each.name])]
        recall[each.name] = float(np.mean(shares))
    spent = quickest(contenders, prepared, rounds)
    return {name: {"ef": ef, "us": float(np.median(spent[name])), "recall": recall[name]} for name in spent}


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
    makers: dict[str, Callable[[], Graph]] = {
        "siltstone i8": lambda: Graph(dim),
        "siltstone f16": lambda: Graph(dim, "f16"),
        "siltstone f32": lambda: Graph(dim, "f32"),
        "hnswlib f32": lambda: Hnswlib(dim, len(rows)),
        "usearch i8": lambda: Usearch(dim, "i8"),
        "usearch f32": lambda: Usearch(dim, "f32"),
    }
    contenders = []
    for name in [name for name in options.only.split(",") if name] or makers:
        try:
            contenders.append(makers[name]())
        except ImportError as error:
            print(f"{name}: absent ({error})")
    nearest = Nearest(rows, queries)
    insert = fill(contenders, rows, max(1, len(rows) // 20))
    answers = [measure(contenders, queries, nearest, ef, options.rounds) for ef in EFS]
    print(f"{len(rows)} rows of {dim}, M {M}, efConstruction {EF_CONSTRUCTION}, k {K}, one thread")
    print(f"{'':24} {'insert us':>10} " + " ".join(f"{f'ef {ef} us':>10} {'recall':>7}" for ef in EFS))
    for name, spent in insert.items():
        cells = " ".join(f"{each[name]['us']:10.1f} {each[name]['recall']:7.4f}" for each in answers)
        print(f"{name:24} {spent:10.1f} {cells}")
    if options.json:
        figures = {"rows": len(rows), "dim": dim, "insert": insert, "queries": answers}
        Path(options.json).write_text(json.dumps(figures, indent=1), "utf-8")


if __name__ == "__main__":
    main()
