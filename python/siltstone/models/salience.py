"""How much a piece of text would be missed: rare and central words, cues, who said it, and where.

``salience = (sum of the weights of its words) / sqrt(words + DAMPING) * cues * speaker * place``

with ``weight(w) = ln((1 + N) / df(w))**2 * ln(1 + df(w))`` over the N units: a word in all of them says
nothing, a word in one is rare but ties to nothing, a word in several is what the material is about.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import log, sqrt

from siltstone._native import words
from siltstone.models.units import Unit

__all__ = ["Scored", "score"]

DAMPING = 5  # words: keeps one- and two-word lines from winning by their shortness
RECENCY = 0.3  # by how much the newest unit outweighs the oldest, all else equal

_SPEAKERS = {
    "User": 1.6,
    "Assistant": 1.25,
    "Earlier": 1.25,
    "Tool error": 1.2,
    "Tool call": 0.8,
    "Tool result": 0.7,
}

# Kinds of lines that tend to be needed again, and their weights.
_FAILURES = (
    r"(?i:\b(?:error|exception|traceback|fail(?:s|ed|ure|ing)?|panic|refused|denied|timed? ?out|bug)\b)"
)
_DECISIONS = (
    r"(?i:\b(?:decid\w+|decision|chose|agreed|must|never|always|prefer\w*|instead|because|important"
    r"|remember|require[sd]?|fixed|root cause|turns? out|deadline)\b)"
)
_OPEN_TASKS = (
    r"(?i:\b(?:to-?do|fixme|next steps?|remaining|still (?:has|have|need)|left to do|open question)\b)"
    r"|- \[ \]"
)
_IN_CJK = (
    r"错误|失败|决定|必须|不要|记住|下一步|待办|重要|因为|エラー|失敗|決定|必要|重要|次に|오류|실패|결정|중요"
)
_PATHS = (
    r"https?://|(?<![\w/])(?:[\w.~-]+)?/[\w.~-]+/?[\w.-]*"
    r"|\b\w+\.(?:py|rs|ts|js|go|c|h|java|rb|exs?|md|toml|json|ya?ml|sql|sh)\b"
)
_IDENTIFIERS = r"\b\w+_\w+|\b[a-z]+[A-Z]\w*|\b[A-Z][a-z]+[A-Z]\w*|\w\(\)|\b[A-Z]{2,}[-_]?\d+"
_CUES = (
    (0.25, re.compile(_FAILURES)),
    (0.25, re.compile(_DECISIONS)),
    (0.25, re.compile(_OPEN_TASKS)),
    (0.25, re.compile(_IN_CJK)),
    (0.2, re.compile(_PATHS)),
    (0.15, re.compile(r"\d")),
    (0.15, re.compile(_IDENTIFIERS)),
)


@dataclass(frozen=True, slots=True)
class Scored:
    """A unit with its place in the material, its salience, and the weights of its words."""

    at: int
    unit: Unit
    salience: float
    weights: dict[str, float]


def score(units: Sequence[Unit]) -> list[Scored]:
    """Each of *units* with its salience, in order. Near-linear in the length of the text."""
    bags = [frozenset(words(unit.text)) for unit in units]
    document_frequency = Counter(word for bag in bags for word in bag)
    total = len(units)
    weight = {word: log((1 + total) / df) ** 2 * log(1 + df) for word, df in document_frequency.items()}
    scored = []
    for at, (unit, bag) in enumerate(zip(units, bags, strict=True)):
        weights = {word: weight[word] for word in sorted(bag)}  # a set has no order, and floats need one
        base = sum(weights.values()) / sqrt(len(bag) + DAMPING)
        place = (1.2 if unit.is_first else 1.1 if unit.is_last else 1.0) * (1 + RECENCY * at / total)
        salience = base * _cues(unit.text) * _SPEAKERS.get(unit.speaker, 1.0) * place
        scored.append(Scored(at, unit, salience, weights))
    return scored


def _cues(text: str) -> float:
    return 1.0 + sum(weight for weight, pattern in _CUES if pattern.search(text))
