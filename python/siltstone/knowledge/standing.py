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
from functools import cache, lru_cache
from itertools import pairwise
from typing import Final

from siltstone.knowledge.base import STANDING, Fact, patterns, rows_of, words_of

LEAST: Final = 70  #: hundredths: the sum from which on a sentence is a standing wish
_WORD: Final = re.compile(
    r"[^\W\d_]+(?:['\u2019][^\W\d_]+)?|\d+|[,;:\u2014\u2013\"\u201c\u201d\u00ab\u00bb\u201e`(\u2026]"
)
_HAN: Final = re.compile(r"[\u3400-\u9fff]")
_ENDS: Final = ".!;\u3002\uff01~ "
_BREAKS: Final = frozenset("^,;:\u2014\u2013")
_SETTLES: Final = patterns("settles")
_BESIDE: Final = frozenset(words_of("beside").split())
_DENIES: Final = frozenset(words_of("denies").split())
_OWN: Final = {"zh": ("chinese",), "de": ("german",), "es": ("spanish",), "en": ()}  #: forms of a language


def is_standing(sentence: str) -> bool:
    """Whether *sentence*, which a user wrote himself, is a standing wish."""
    said = _form("lead").sub("", sentence.strip().rstrip(_ENDS))
    if _form("sure").match(said) and not _form("moment").search(said):
        return True
    weights = _weights()
    found, forms, clauses = _features(sentence, said)
    gains = {name: weights.get(f"@{name}", 0) for name in forms}
    # The highest sum that is possible: a form counts until it is missed, or found to lower the sum.
    most = sum(weights.get(name, 0) for name in ("", *found)) + sum(max(0, gain) for gain in gains.values())
    for name, gain in gains.items():
        if most < LEAST:
            return False
        most += min(0, gain if _is_in(name, said, clauses) else -gain)
    return most >= LEAST


@lru_cache(4_096)
def settles(content: str, tags: tuple[str, ...]) -> tuple[str, str, frozenset[str]] | tuple[()]:
    """What a wish settles, the value, and the words beside it; empty if it is no matter of one value.

    What is forbidden is none: it does not replace what was forbidden before.
    """
    for matter, pattern in _SETTLES if STANDING in tags else ():
        if value := pattern.search(content):
            rest = {word for word in _words(pattern.sub(" ", content)) if word[0].isalnum()} - _BESIDE
            return (matter, value[0], frozenset(rest)) if rest.isdisjoint(_DENIES) else ()
    return ()


def resettles(new: Fact, old: Fact) -> str:
    """Why the wish *new* takes the place of the wish *old*; empty if it does not.

    "Answer in German" and "from now on answer in English" settle the same, "tabs in Go" and "spaces in
    Python" do not.
    """
    now, before = (settles(each.content, each.tags) for each in (new, old))
    return f"the newer wish settles the {now[0]}" if now and now[::2] == before[::2] else ""


def features(sentence: str) -> set[str]:
    """The features of *sentence*: words, pairs, three words at the beginning of a clause, language, forms."""
    said = _form("lead").sub("", sentence.strip().rstrip(_ENDS))
    found, forms, clauses = _features(sentence, said)
    return found | {f"@{name}" for name in forms if _is_in(name, said, clauses)}


def _features(sentence: str, said: str) -> tuple[set[str], tuple[str, ...], list[str]]:
    """The features of *sentence* but for its forms, the forms to look for, and the clauses to look in."""
    words = ["^", *_words(said), "$"]
    found = {*words[1:-1], *(f"{one} {two}" for one, two in pairwise(words))}
    found |= {" ".join(words[at : at + 3]) for at, word in enumerate(words[:-2]) if word in _BREAKS}
    found.update(f"{word[:5]}~" for word in words if word.isascii() and len(word) > 5)
    language = _language(said)
    found.update({f"@{language}", "!"} if sentence.rstrip().endswith(("!", "\uff01")) else {f"@{language}"})
    clauses = [said, *(_form("lead").sub("", part) for part in _form("clause").split(said) if part)]
    return found, (*_OWN[language], "rule", "self", "any", "moment"), clauses


def _is_in(name: str, said: str, clauses: list[str]) -> bool:
    """Whether *said* has a form; most forms are looked for at the beginning of its *clauses*."""
    form = _form(name)
    return form.search(said) is not None if name in ("any", "moment") else any(map(form.match, clauses))


def _words(text: str) -> Iterator[str]:
    """The words of *text* in lower case, each Han character by itself, and a number as ``0``."""
    for word in _WORD.findall(text.lower().replace("\u2019", "'")):
        yield from word if _HAN.search(word) else ("0" if word[0].isdigit() else word,)


def _language(said: str) -> str:
    """The language of *said*, by its script and its common words."""
    return next((name for name in ("zh", "de", "es") if _form(f"{name} words").search(said)), "en")


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
