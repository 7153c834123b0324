"""Tells standing wishes: what a user wants in general, or what holds for him.

These are rules ("never push to main"), limits ("the budget is 500 euros"), requests in general ("from now on
answer in French"), and what a user is, likes and cannot do ("I am allergic to shellfish"). What is said of
one moment, as a question or a story, or of other people is none.

A sentence has features: its words, the beginnings of long ones, and two and three words in a row. Each has a
weight, and the sum decides. ``standing.bin`` has the weights, which ``scripts/fit_standing.py`` fits to
labelled sentences in English, German, Spanish and Chinese.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, lru_cache
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Final
from zlib import crc32, decompress

from siltstone.knowledge.base import STANDING, Fact, patterns, words_of

LEAST: Final = 16  #: twentieths: the sum from which on a sentence is a standing wish
SURE: Final = 26  #: the same where a message is about a story or a text
PLACES: Final = 16_777_213  #: a feature is known by its hash below this prime
_WORD: Final = re.compile(
    r"[^\W\d_]+(?:['\u2019][^\W\d_]+)?|\d+|[,;:!\u2014\u2013\"\u201c\u201d\u00ab\u00bb\u201e`(\u2026]"
)
_HAN: Final = re.compile(r"[\u3400-\u9fff]")
_SETTLES: Final = patterns("settles")
_BESIDE: Final = frozenset(words_of("beside").split())
_DENIES: Final = frozenset(words_of("denies").split())


def is_standing(sentence: str, least: int = LEAST) -> bool:
    """Whether *sentence*, which a user wrote himself, is a standing wish: its sum is *least* or more."""
    weights = _weights()
    return sum([weights.get(place, 0) for place in features(sentence)]) >= least


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


def features(sentence: str) -> set[int]:
    """The hashes of the features of *sentence*; 0 is always one."""
    words = list(_words(sentence))
    hashes = [1, *[crc32(word.encode("utf-8", "replace")) for word in words], 2]
    pairs = list(pairwise(hashes))
    found = {0, *hashes, *[3 * one + 5 * two for one, two in pairs]}
    found.update([19 * one + 23 * two + 29 * last for (one, two), (_, last) in pairwise(pairs)])
    found.update([31 * crc32(word[:5].encode("utf-8", "replace")) for word in words if len(word) > 5])
    return {place % PLACES for place in found}


def _words(text: str) -> Iterator[str]:
    """The words of *text* in lower case, each Han character by itself, and a number as ``0``."""
    for word in _WORD.findall(text.lower().replace("\u2019", "'")):
        yield from word if _HAN.search(word) else ("0" if word[0].isdigit() else word,)


@cache
def _weights() -> dict[int, int]:
    """The weight of each feature. The file has ways from hash to hash in low and high bytes, and weights."""
    table = decompress(Path(__file__).with_name("standing.bin").read_bytes())
    low, high, weights = (table[at * len(table) // 3 : (at + 1) * len(table) // 3] for at in range(3))
    places = accumulate(near + 256 * far for near, far in zip(low, high, strict=True))
    return {place: weight - 128 for place, weight in zip(places, weights, strict=True)}
