"""The dense vectors of the benches: a seeded 384-d LSA of texts that the machine has.

Run with an environment that has NumPy, SciPy and scikit-learn::

    python benches/peers/dense_data.py 100000 vectors.npz

The texts are pieces of about 600 characters of the Python sources, Markdown, reStructuredText and text
files below ``/usr`` and ``sys.prefix``, without duplicates, shuffled by the seed. A tenth of them, at
most 1,000, are kept back as queries: they are no rows of the index.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer

SEED = 20261122
DIMENSION = 384
PIECE = 600  # characters
SUFFIXES = {".py", ".md", ".rst", ".txt", ".rs", ".pyi"}
LARGEST_FILE = 1_000_000  # bytes; larger ones are tables


def pieces(places: list[Path]) -> Iterator[str]:
    """Pieces of the texts below *places*, whole lines, each of at least half the size."""
    for place in places:
        for path in sorted(place.rglob("*")):
            if path.suffix not in SUFFIXES or not path.is_file() or path.stat().st_size > LARGEST_FILE:
                continue
            piece = ""
            for line in path.read_text("utf-8", errors="ignore").splitlines():
                piece += line.strip() + "\n"
                if len(piece) >= PIECE:
                    yield piece[: 2 * PIECE]
                    piece = ""
            if len(piece) >= PIECE // 2:
                yield piece


def texts(count: int) -> list[str]:
    """*count* different pieces, in an order that the seed decides."""
    found = list(dict.fromkeys(pieces([Path("/usr"), Path(sys.prefix)])))
    if len(found) < count:
        raise SystemExit(f"the machine has {len(found)} pieces of text, {count} are needed")
    return random.Random(SEED).sample(found, count)


def vectors(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows (count, 384) and queries, float32."""
    queries = min(1000, count // 10)
    weights = TfidfVectorizer(sublinear_tf=True, max_features=50_000, dtype=np.float32)
    table = weights.fit_transform(texts(count + queries))
    lsa = TruncatedSVD(DIMENSION, n_iter=2, random_state=SEED).fit_transform(table)
    lsa = np.ascontiguousarray(lsa, dtype=np.float32)
    return lsa[:count], lsa[count:]


if __name__ == "__main__":
    rows, queries = vectors(int(sys.argv[1]))
    np.savez(sys.argv[2], rows=rows, queries=queries)
    print(f"{len(rows)} rows and {len(queries)} queries of {DIMENSION} floats in {sys.argv[2]!r}")
