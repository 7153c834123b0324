"""Fits the weights by which standing wishes are told, from sentences that people wrote and labelled.

python scripts/fit_standing.py tests/data/standing/*.tsv
python scripts/fit_standing.py tests/data/statements.json  # prints the rows "weight" of patterns.tsv

A line of a file is a label, 1 or 0, a tab, and a sentence. The docstrings and pages of the project are
sentences of label 0, too, and each counts several times. The fit is a logistic regression with a square
penalty, by Adam over all sentences. Weights are written in twentieths; small ones leave.
Of pairs of statements the label is whether the second replaces the first. Statements of two pairs that share
words, and such sentences of the first files, are pairs of label 0.
"""

from __future__ import annotations

import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence, Set as AbstractSet
from itertools import pairwise
from pathlib import Path
from typing import Any
from zlib import compress

import numpy as np

from siltstone.knowledge import update
from siltstone.knowledge.extract import sentences
from siltstone.knowledge.standing import features

PENALTY, STEPS, RATE = 1.0, 600, 0.03
WRITTEN = 3  # times that a sentence of the project counts
LEAST = 0.1  # the smallest weight that is kept
LONGEST, SAME = 120, 0.5  # of a pair of label 0: characters of a sentence, and the share of common words
JUDGES = "sixth, unseen"  # the half of the pairs that is not used
EACH = 12  # of so many pairs of label 0 one counts
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


def paired(path: str) -> Iterator[tuple[frozenset[str], int]]:
    """The features of each pair, with its label."""
    halves = json.loads(Path(path).read_text("utf-8"))
    told = [pair for name in halves if name != JUDGES for pair in halves[name]["pairs"]]
    for kind, old, new in told:
        yield update.features(old, new), int(kind == "update")
    alike = [*near([old for _, old, _ in told], [new for _, _, new in told], 3)]
    for language in ("en", "zh"):
        lines = (Path(path).parent / "standing" / f"{language}.tsv").read_text("utf-8").splitlines()
        said = [*dict.fromkeys(line.partition("\t")[2] for line in lines if len(line) < LONGEST)]
        alike += near(said, said, 1)
    for old, new in alike[::EACH]:
        yield update.features(old, new), 0


def near(olds: list[str], news: list[str], most: int) -> Iterator[tuple[str, str]]:
    """Each of *news* with those of *olds* that share most words with it, but not those of its own place."""
    known, by_word = [update.statement(old).gist for old in olds], defaultdict[str, list[int]](list)
    for place, gist in enumerate(known):
        for word in gist:
            by_word[word].append(place)
    for place, new in enumerate(news):
        gist = update.statement(new).gist
        shared = Counter(other for word in gist for other in by_word[word] if other != place)
        fitting = ((n, at) for at, n in shared.most_common(12) if n <= SAME * len(gist | known[at]))
        for _, at in sorted(fitting, reverse=True)[:most]:
            yield olds[at], new


def fitted(rows: Sequence[AbstractSet[Any]], labels: list[int]) -> dict[Any, float]:
    """The weight of each feature that two sentences have; the first one is in all."""
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
    """Prints the weights of pairs; of wishes it writes the ways from hash to hash, and then the weights."""
    if sys.argv[1].endswith(".json"):
        told = [each for each in paired(sys.argv[1]) if update.is_open(each[0])]
        for name, weight in fitted([found | {""} for found, _ in told], [label for _, label in told]).items():
            print("weight", name, round(100 * weight), sep="\t")
        return
    data = list(labelled(sys.argv[1:]))
    fit = fitted([features(sentence) for sentence, _ in data], [label for _, label in data])
    kept = {name: round(20 * weight) for name, weight in fit.items() if abs(weight) >= LEAST}
    ways = [after - before for before, after in pairwise([0, *sorted(kept)])]
    weights = [max(-128, min(127, kept[name])) + 128 for name in sorted(kept)]
    table = [way % 256 for way in ways] + [way // 256 for way in ways] + weights
    (ROOT / "python/siltstone/knowledge/standing.bin").write_bytes(compress(bytes(table), 9))


if __name__ == "__main__":
    main()
