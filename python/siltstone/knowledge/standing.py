"""Tells standing wishes: what a user wants in general, or what holds for him.

These are rules ("never push to main"), limits ("the budget is 500 euros"), requests in general ("from now on
answer in French"), and what a user is, likes and cannot do ("I am allergic to shellfish"). What is said of
one moment, as a question or a story, or of other people is none.

A sentence has features: its words, pairs of words, its language, and forms of words in
``standing_forms.tsv``. The sum of their weights decides. A line of ``standing.tsv`` is a weight and the
features that have it; ``scripts/fit_standing.py`` fits the weights to labelled sentences in English, German,
Spanish and Chinese.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import Final

from siltstone.knowledge.base import rows_of

LEAST: Final = 60  #: hundredths: the sum from which on a sentence is a standing wish
_WORD: Final = re.compile(
    r"[^\W\d_]+(?:['\u2019][^\W\d_]+)?|\d+|[,;:\u2014\u2013\"\u201c\u201d\u00ab\u00bb\u201e`(\u2026]"
)
_HAN: Final = re.compile(r"[\u3400-\u9fff]")
_GERMAN: Final = re.compile(
    r"[äöüß]|\b(?:ich|nicht|und|mir|mich|bitte|keine?n?|nichts|wir|ist|nie|immer|der|das|auf|nur)\b",
    re.IGNORECASE,
)
_SPANISH: Final = re.compile(
    r"[ñ¿¡áéíóú]|\b(?:el|la|los|las|que|de|del|mi|mis|nunca|siempre|uso|en|por|soy|con|nada|sin|solo)\b",
    re.IGNORECASE,
)
_ENDS: Final = ".!\u3002\uff01~ "
_BREAKS: Final = frozenset("^,;:\u2014\u2013")
_OWN: Final = {"zh": ("chinese",), "de": ("german",), "es": ("spanish",), "en": ()}  #: forms of a language


def is_standing(sentence: str) -> bool:
    """Whether *sentence*, which a user wrote himself, is a standing wish."""
    said = _form("lead").sub("", sentence.strip().rstrip(_ENDS))
    if _form("sure").match(said) and not _form("moment").search(said):
        return True
    weights = _weights()
    return weights[""] + sum(weights.get(name, 0) for name in features(sentence)) >= LEAST


def features(sentence: str) -> set[str]:
    """The features of *sentence*: words, pairs, three words at the beginning of a clause, language, forms."""
    said = _form("lead").sub("", sentence.strip().rstrip(_ENDS))
    words = ["^", *_words(said), "$"]
    found = {*words[1:-1], *(f"{one} {two}" for one, two in pairwise(words))}
    for place, word in enumerate(words[:-2]):
        if word in _BREAKS:
            found.add(" ".join(words[place : place + 3]))
    found.update(f"{word[:5]}~" for word in words if word.isascii() and len(word) > 5)
    clauses = [said, *(_form("lead").sub("", clause) for clause in _form("clause").split(said) if clause)]
    language = _language(said)
    found.update({f"@{language}", "!"} if sentence.rstrip().endswith(("!", "\uff01")) else {f"@{language}"})
    for name in ("any", "rule", "self", "moment", *_OWN[language]):
        pattern = _form(name)
        is_anywhere = name in ("any", "moment")
        if pattern.search(said) if is_anywhere else any(map(pattern.match, clauses)):
            found.add(f"@{name}")
    return found


def _words(text: str) -> Iterator[str]:
    """The words of *text* in lower case, each Han character by itself, and a number as ``0``."""
    for word in _WORD.findall(text.lower().replace("\u2019", "'")):
        if _HAN.search(word):
            yield from word
        else:
            yield "0" if word[0].isdigit() else word


def _language(said: str) -> str:
    """The language of *said*, by its script and its common words."""
    if _HAN.search(said):
        return "zh"
    return "de" if _GERMAN.search(said) else "es" if _SPANISH.search(said) else "en"


@cache
def _form(name: str) -> re.Pattern[str]:
    rows = list(rows_of("standing_forms.tsv"))
    parts = {kind.removeprefix("part:"): pattern for kind, pattern in rows if kind.startswith("part:")}
    text = "|".join(f"(?:{pattern})" for kind, pattern in rows if kind == name)
    for part, pattern in parts.items():
        text = text.replace(f"<{part}>", pattern)
    return re.compile(text, re.IGNORECASE)


@cache
def _weights() -> dict[str, int]:
    return {name: int(weight) for weight, *names in rows_of("standing.tsv") for name in names}
