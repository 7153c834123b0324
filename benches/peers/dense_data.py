"""The dense vectors of the benches: a seeded 384-d LSA of the texts of ``corpus.py``.

Run with an environment that has NumPy, SciPy and scikit-learn::

    PYTHONPATH=python python benches/peers/dense_data.py 100000 vectors.npz

Queries are the vectors of the texts that are held out: they are no rows of the index.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

from corpus import SEED, Corpus, corpus

DIMENSION = 384


def vectors(source: Corpus) -> tuple[Any, Any]:
    """Rows (n, 384) and queries (1,000, 384), float32."""
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer

    weights = TfidfVectorizer(sublinear_tf=True, max_features=50_000, dtype=np.float32)
    table = weights.fit_transform(source.texts + source.held_out)
    lsa = TruncatedSVD(DIMENSION, n_iter=2, random_state=SEED).fit_transform(table)
    lsa = np.ascontiguousarray(lsa, dtype=np.float32)
    return lsa[: len(source.texts)], lsa[len(source.texts) :]


def kept_vectors(count: int, place: Path) -> tuple[Any, Any]:
    """The same, read from *place* where they were written before."""
    kept = place / f"lsa-{count}.npz"
    if not kept.exists():
        rows, queries = vectors(corpus(count, place))
        np.savez(kept, rows=rows, queries=queries)
    data = np.load(kept)
    return data["rows"], data["queries"]


if __name__ == "__main__":
    rows, queries = vectors(corpus(int(sys.argv[1]), Path("target", "peers")))
    np.savez(sys.argv[2], rows=rows, queries=queries)
    print(f"{len(rows)} rows and {len(queries)} queries of {DIMENSION} floats in {sys.argv[2]!r}")
