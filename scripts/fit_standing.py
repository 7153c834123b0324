"""Fits the weights by which standing wishes are told, from sentences that people wrote and labelled.

python scripts/fit_standing.py tests/data/standing/*.tsv

A line of a file is a label, 1 or 0, a tab, and a sentence. The docstrings and pages of the project are
sentences of label 0, too, and each counts several times. The fit is a logistic regression with a square
penalty, by Adam over all sentences. Weights are written in twentieths; small ones leave.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from zlib import compress

import numpy as np

from siltstone.knowledge.extract import sentences
from siltstone.knowledge.standing import features

PENALTY, STEPS, RATE = 1.0, 600, 0.03
WRITTEN = 3  # times that a sentence of the project counts
LEAST = 0.1  # the smallest weight that is kept
ROOT = Path(__file__).parents[1]


def labelled(paths: list[str]) -> Iterator[tuple[str, int]]:
    """Each sentence with its label."""
    for path in paths:
        for line in Path(path).read_text("utf-8").splitlines():
            label, _, text = line.partition("\t")
            for sentence in [text] if label == "1" else sentences(text):
                yield sentence, int(label)
    for pattern in ("python/siltstone/*/*.py", "tests/memory/*.py", "docs/**/*.md"):
        for file in sorted(ROOT.glob(pattern)):
            for paragraph in file.read_text("utf-8").split("\n\n"):
                yield from [(sentence, 0) for sentence in sentences(paragraph)] * WRITTEN


def fitted(rows: list[set[int]], labels: list[int]) -> dict[int, float]:
    """The weight of each feature that two sentences have; feature 0 is in all."""
    counts = Counter(name for row in rows for name in row)
    place = {name: at for at, name in enumerate(sorted(name for name in counts if counts[name] > 1))}
    known = [[place[name] for name in row if name in place] for row in rows]
    column = np.fromiter((at for row in known for at in row), np.int64)
    row = np.repeat(np.arange(len(known)), [len(each) for each in known])
    target = np.array(labels, dtype=np.float64)
    weights, mean, spread = np.zeros((3, len(place)))
    for turn in range(1, STEPS + 1):  # Adam, over all sentences in each step
        told = 1 / (1 + np.exp(-np.bincount(row, weights[column], len(known))))
        slope = np.bincount(column, (told - target)[row], len(place)) + PENALTY * weights
        mean = 0.9 * mean + 0.1 * slope
        spread = 0.999 * spread + 0.001 * slope**2
        weights -= RATE * mean / (1 - 0.9**turn) / (np.sqrt(spread / (1 - 0.999**turn)) + 1e-8)
    return {name: float(weights[at]) for name, at in place.items()}


def main() -> None:
    """Writes the weights: the ways from hash to hash, low bytes and high bytes, then the weights."""
    data = list(labelled(sys.argv[1:]))
    fit = fitted([features(sentence) for sentence, _ in data], [label for _, label in data])
    kept = {name: round(20 * weight) for name, weight in fit.items() if abs(weight) >= LEAST}
    ways = [after - before for before, after in pairwise([0, *sorted(kept)])]
    weights = [max(-128, min(127, kept[name])) + 128 for name in sorted(kept)]
    table = [way % 256 for way in ways] + [way // 256 for way in ways] + weights
    (ROOT / "python/siltstone/knowledge/standing.bin").write_bytes(compress(bytes(table), 9))


if __name__ == "__main__":
    main()
