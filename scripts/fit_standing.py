"""Fits the weights by which standing wishes are told, from sentences that people wrote and labelled.

python scripts/fit_standing.py tests/data/standing/*.tsv > python/siltstone/knowledge/standing.tsv

A line of a file is a label, 1 or 0, a tab, and a sentence. The docstrings and pages of the project are
sentences of label 0, too, and each counts several times. The fit is a logistic regression with a square
penalty, by Adam over all sentences. Weights are in hundredths; small ones leave.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from siltstone.knowledge.extract import sentences
from siltstone.knowledge.standing import features

PENALTY, STEPS, RATE = 0.7, 600, 0.03
WRITTEN = 3  # times that a sentence of the project counts
LEAST = 15  # hundredths of the smallest weight that is kept
ON_A_LINE = 2_000  # neighbours in the order of names
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


def fitted(rows: list[set[str]], labels: list[int]) -> dict[str, float]:
    """The weight of each feature that two sentences have; that of the empty feature is the bias."""
    counts = Counter(name for row in rows for name in row)
    place = {name: at for at, name in enumerate(["", *sorted(name for name in counts if counts[name] > 1)])}
    known = [[0, *(place[name] for name in row if name in place)] for row in rows]
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
    """Prints the weights."""
    data = list(labelled(sys.argv[1:]))
    weights = fitted([features(sentence) for sentence, _ in data], [label for _, label in data])
    lines: dict[tuple[int, int], list[str]] = {}
    for place, (name, weight) in enumerate(sorted(weights.items())):
        if abs(round(weight * 100)) >= LEAST or not name:
            lines.setdefault((round(weight * 100), place // ON_A_LINE), []).append(name)
    for (hundredths, _), names in sorted(lines.items()):
        print(hundredths, *names, sep="\t")


if __name__ == "__main__":
    main()
