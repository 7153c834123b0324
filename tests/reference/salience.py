"""How much a piece of text would be missed: rare and central words, cues, who said it, and where.

``salience = (sum of the weights of its words) / sqrt(words + DAMPING) * cues * speaker * place``

with ``weight(w) = ln((1 + N) / df(w))**2 * ln(1 + df(w))`` over the N units: a word in all of them says
nothing, a word in one is rare but ties to nothing, a word in several is what the material is about. A weight
is a whole number of 2^-20, so that a sum is the same in every order.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import log, sqrt

from reference.tokenize import words
from reference.units import Unit

DAMPING = 2  # words: keeps one- and two-word lines from winning by their shortness
RECENCY = 0.3  # by how much the newest unit outweighs the oldest, all else equal

_SPEAKERS = {
    "User": 1.6,
    "Assistant": 1.25,
    "Earlier": 1.25,
    "Tool error": 1.2,
    "Tool call": 0.7,
    "Tool result": 0.7,
}

# Kinds of lines that tend to be needed again, and their weights in hundredths. Letters are those of ASCII, so
# that an English word next to a Chinese one is found.
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
    (25, re.compile(_FAILURES, re.ASCII)),
    (25, re.compile(_DECISIONS, re.ASCII)),
    (25, re.compile(_OPEN_TASKS, re.ASCII)),
    (25, re.compile(_IN_CJK)),
    (20, re.compile(_PATHS, re.ASCII)),
    (15, re.compile(r"\d")),
    (15, re.compile(_IDENTIFIERS, re.ASCII)),
)


@dataclass(frozen=True, slots=True)
class Scored:
    """A unit with its place in the material, its salience, and the weights of its words."""

    at: int
    unit: Unit
    salience: float
    weights: dict[str, int]


def score(units: Sequence[Unit]) -> list[Scored]:
    """Each of *units* with its salience, in order."""
    bags = [frozenset(words(unit.text)) for unit in units]
    total = len(units)
    weight = {
        word: _weight(total, frequency)
        for word, frequency in Counter(word for bag in bags for word in bag).items()
    }
    scored = []
    for at, (unit, bag) in enumerate(zip(units, bags, strict=True)):
        weights = {word: weight[word] for word in bag}
        base = sum(weights.values()) / sqrt(len(bag) + DAMPING)
        place = (1.2 if unit.is_first else 1.1 if unit.is_last else 1.0) * (1 + RECENCY * at / total)
        salience = base * _cues(unit.text) * _SPEAKERS.get(unit.speaker, 1.0) * place
        scored.append(Scored(at, unit, salience, weights))
    return scored


def _weight(total: int, frequency: int) -> int:
    rarity = log((1 + total) / frequency)
    return int(rarity * rarity * log(1 + frequency) * 2**20)


def _cues(text: str) -> float:
    return (100 + sum(weight for weight, pattern in _CUES if pattern.search(text))) / 100
