"""The formulas of the documented archive, as they are written down: tokenizer, BM25, hashed vectors, scores.

They serve stores and searches that must give the documented numbers. The ranking that siltstone
uses by default is in ``siltstone.memory``, and is better.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from math import sqrt
from operator import mul
from threading import Lock
from typing import Final

from siltstone._native import DocumentedBm25
from siltstone.errors import ConfigError

DIMENSION: Final = 384
_SPARE = 1_024  # texts that are kept though nobody asks for them
_WORD: Final = re.compile(r"[^\W_]+")
_CJK: Final = re.compile("[\u3000-\u303f\u3400-\u4dbf\u4e00-\u9fff]")


class _Kept(dict[int, int | str | None]):
    """Replaces a character: letters and digits stay, white space and punctuation split, others are dropped.

    Each is looked up once.
    """

    def __missing__(self, code: int) -> int | str | None:
        char = chr(code)
        kept: int | str | None = code if unicodedata.category(char)[0] in "LN" else None
        if _splits(char):
            kept = " "
        self[code] = kept
        return kept


class _Hashed(dict[int, int | str]):
    """The same for hashed vectors: letters, digits and ``@.+-`` stay, all others become spaces."""

    def __missing__(self, code: int) -> int | str:
        char = chr(code)
        is_kept = char.isspace() or char in "@.+-" or unicodedata.category(char)[0] in "LN"
        return self.setdefault(code, code if is_kept else " ")


_KEPT: Final = _Kept()
_HASHED: Final = _Hashed()


def estimate_utf16(text: str) -> int:
    """``max(1, ceil(n / 3))``, *n* in UTF-16 units: what ``length`` gives in JavaScript."""
    units = len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2
    return max(1, -(-units // 3))


def tokens(text: str) -> list[str]:
    """The tokens of *text*, in lower case and in order.

    White space and Unicode punctuation split; letters and digits make words; anything else is deleted
    without splitting. A CJK character is a token, followed by its pair with the CJK character before it.
    """
    return _spaced(text).split()


def _spaced(text: str) -> str:
    """The :func:`tokens` of *text*, with spaces between them."""
    if text.isascii() or _CJK.search(text) is None:
        return text.lower().translate(_KEPT)
    found: list[str] = []
    word = before = ""
    for char in text.lower():
        splits = _splits(char)
        if (splits or _is_cjk(char)) and word:
            found.append(word)
            word = ""
        if _is_cjk(char) and not splits:
            found.append(char)
            if before:
                found.append(before + char)
            before = char
            continue
        before = ""
        if not splits and unicodedata.category(char)[0] in "LN":
            word += char
    if word:
        found.append(word)
    return " ".join(found)


def bm25(query: str, documents: Sequence[Sequence[str]]) -> list[float]:
    """The BM25 score of each document, a list of tokens, for *query*; repeated query terms count again.

    ``idf = ln((N - n + 0.5) / (n + 0.5) + 1)``, a term scores ``idf * tf * 2.2 / (tf + 1.2 * (0.25 + 0.75 *
    length / average))``.
    """
    return DocumentedBm25(documents).scores(tokens(query))


class KeptBm25(dict[str, int]):
    """:func:`bm25` for many queries over nearly the same texts, by number: each is split and counted once."""

    def __init__(self) -> None:
        self._lock, self._index = Lock(), DocumentedBm25([])

    def __missing__(self, text: str) -> int:
        self._index.add(_spaced(text))
        return self.setdefault(text, len(self))

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """The score of each of *texts*."""
        with self._lock:
            if len(self) > 2 * len(texts) + _SPARE:  # most of them are of other histories
                self.clear()
                self._index = DocumentedBm25([])
            return self._index.scores(tokens(query), list(map(self.__getitem__, texts)))


def least_matches(query_tokens: int) -> int:
    """How many distinct tokens of a query a fact must have: all of 2, half of 8, else 30 % up to 6."""
    if query_tokens <= 2:
        return query_tokens
    if query_tokens <= 8:
        return -(-query_tokens // 2)
    return min(-(-query_tokens * 3 // 10), 6)


def hash_vector(text: str, dimension: int = DIMENSION) -> list[float]:
    """The hashed 3-grams of *text*, of length 1; zeros for an empty text.

    Raises:
        ConfigError: *dimension* is below 8.
    """
    if dimension < 8:
        raise ConfigError(f"dimension must be >= 8, got {dimension}", field="dimension", value=dimension)
    cleaned = " ".join(text.lower().split()).translate(_HASHED).strip()
    vector = [0.0] * dimension
    if not cleaned:
        return vector
    padded = f" {cleaned} "
    grams = [cleaned] if len(cleaned) <= 3 else [padded[at : at + 3] for at in range(len(padded) - 2)]
    for hashed, sign in map(_hashed, grams):
        vector[hashed % dimension] += sign
    length = sqrt(sum(map(mul, vector, vector)))
    return [value / length for value in vector] if length else vector


@lru_cache(maxsize=65_536)
def _hashed(gram: str) -> tuple[int, float]:
    """The number and the sign of a 3-gram. Few of them make up most of a text."""
    from hashlib import sha256  # with OpenSSL: only who embeds needs it

    digest = sha256(gram.encode("utf-8", "replace")).digest()
    return int.from_bytes(digest[:4], "little"), -1.0 if digest[4] & 1 else 1.0


def word_vector(text: str, dimension: int = 128) -> list[float]:
    """The hashed words of *text*, of length 1; zeros for a text without words.

    Words are lower case and split at whatever is no letter and no digit; ``h = h * 33 + byte`` from 5,381
    on, over their UTF-8, wrapping in 64 bits, modulo *dimension*.

    Raises:
        ConfigError: *dimension* is below 8.
    """
    if dimension < 8:
        raise ConfigError(f"dimension must be >= 8, got {dimension}", field="dimension", value=dimension)
    vector = [0.0] * dimension
    for word in _WORD.findall(text.lower()):
        hashed = 5381
        for byte in word.encode("utf-8", "replace"):
            hashed = (hashed * 33 + byte) & 0xFFFF_FFFF_FFFF_FFFF
        vector[hashed % dimension] += 1.0
    length = sqrt(sum(value * value for value in vector))
    return [value / length for value in vector] if length else vector


def cosine(one: Sequence[float], other: Sequence[float]) -> float:
    """The cosine of two vectors; 0 with a zero vector.

    Raises:
        ConfigError: their dimensions differ.
    """
    if len(one) != len(other):
        raise ConfigError(
            f"vectors of {len(one)} and {len(other)} dimensions cannot be compared", "dimension", len(other)
        )
    lengths = sqrt(sum(value * value for value in one)) * sqrt(sum(value * value for value in other))
    return sum(a * b for a, b in zip(one, other, strict=True)) / lengths if lengths else 0.0


def decayed(score: float, days: float, per_day: float = 0.995) -> float:
    """*score* after *days*, fractional and at least 0. A decay of 1 takes nothing, of 0 all."""
    if per_day >= 1:
        return score
    return score * per_day ** max(0.0, days) if per_day > 0 else 0.0


def hybrid_scores(
    vectors: Mapping[int, float],
    words: Mapping[int, float],
    ages: Mapping[int, float],
    *,
    vector_weight: float = 0.7,
    bm25_weight: float = 0.3,
    time_decay: float = 0.995,
) -> dict[int, float]:
    """The documented score of every id that one of the two sides has found.

    Args:
        vectors: Cosines, by id.
        words: BM25 scores, by id; each is divided by the best of them.
        ages: Days, by id.
        vector_weight: The weight of the cosine.
        bm25_weight: The weight of BM25.
        time_decay: The share of a score that is left after a day.
    """
    best = max(words.values(), default=0.0)
    scores = {}
    for each in {**vectors, **words}:
        similar = min(1.0, max(0.0, vectors.get(each, 0.0)))
        matched = words.get(each, 0.0) / best if best > 0 else 0.0
        raw = vector_weight * similar + bm25_weight * matched
        scores[each] = decayed(raw, ages.get(each, 0.0), time_decay)
    return scores


def passes(
    score: float,
    least: float,
    *,
    by_vector: bool,
    by_words: bool,
    vector_weight: float = 0.7,
    bm25_weight: float = 0.3,
) -> bool:
    """The documented filter: the score over the weights of the sides that found it is *least* at least."""
    weight = vector_weight * by_vector + bm25_weight * by_words
    return weight > 0 and score / weight >= least


def matching(query: str, texts: Iterable[Sequence[str]]) -> list[int]:
    """The places of the texts, lists of tokens, that have as many tokens of *query* as are asked for."""
    asked = set(tokens(query))
    least = least_matches(len(asked))
    return [place for place, text in enumerate(texts) if asked and len(asked & set(text)) >= least]


def _splits(char: str) -> bool:
    return char.isspace() or unicodedata.category(char).startswith("P")


def _is_cjk(char: str) -> bool:
    return "\u4e00" <= char <= "\u9fff" or "\u3400" <= char <= "\u4dbf" or "\u3000" <= char <= "\u303f"


def mmr(
    scores: Sequence[float], similarities: Sequence[Sequence[float]], count: int, weight: float
) -> list[int]:
    """The places of *count* items; the next one has the largest ``weight * score - (1 - weight) * nearest``.

    *nearest* is the greatest similarity to those that were chosen. Ties go to the earlier place.
    """
    left = dict.fromkeys(range(len(scores)), 0.0)  # place: the greatest similarity to one that was chosen
    chosen: list[int] = []
    while left and len(chosen) < count:
        worth = {place: weight * scores[place] - (1 - weight) * near for place, near in left.items()}
        best = max(worth, key=lambda place: (worth[place], -place))
        del left[best]
        chosen.append(best)
        left = {place: max(near, similarities[place][best]) for place, near in left.items()}
    return chosen
