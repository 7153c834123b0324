"""Indexes over texts: exact search by words, and by cosine of hashed words."""

from __future__ import annotations

import math
from dataclasses import dataclass

from siltstone import _native
from siltstone.embedding import HashRule
from siltstone.errors import ConfigError
from siltstone.index.base import TextIndex

# Exact search by words: texts are ranked by the terms that they share with a query.


@dataclass(frozen=True, slots=True)
class Bm25Params:
    """The two constants of BM25, as in Robertson and Zaragoza (2009).

    Args:
        k1: How slowly the effect of a repeated word saturates: finite, at least 0. At 0 a word counts once.
        b: How much long texts are discounted: 0 not at all, 1 in proportion to their length.

    Raises:
        ConfigError: a value is out of its bounds.
    """

    k1: float = 1.2
    b: float = 0.75

    def __post_init__(self) -> None:
        if not (math.isfinite(self.k1) and self.k1 >= 0):
            message = f"k1 must be finite and >= 0, got {self.k1!r}"
            raise ConfigError(message, field="k1", value=self.k1)
        if not 0 <= self.b <= 1:
            raise ConfigError(f"b must be in 0..1, got {self.b!r}", field="b", value=self.b)


class Bm25Index(TextIndex):
    """Texts by BM25 over their terms: English stems without stop words, as for the ranker ``lexical``.

    ``idf`` is Lucene's, computed over the current texts: a removed text leaves no trace. A score is the sum
    over the query's terms, divided by three quarters of the largest possible sum, and at most 1. Texts
    without a common term are not found; of equal scores the smaller id comes first. Every sum is float64 in a
    fixed order of terms, so scores are the same on every SIMD path. Safe to use from many threads; other
    threads run during a call.
    """

    _core: _native.Bm25Index
    _core_type = _native.Bm25Index

    def __init__(self, params: Bm25Params | None = None) -> None:
        params = Bm25Params() if params is None else params
        self._core = _native.Bm25Index(params.k1, params.b)

    @property
    def params(self) -> Bm25Params:
        """The parameters of the index."""
        return Bm25Params(*self._core.params())

    def stats(self) -> dict[str, int | str]:
        """Its sizes: ``entries``, ``removed``, ``terms`` (different ones), ``postings`` and ``bytes``."""
        added, removed, terms, postings, size = self._core.stats()
        return {
            "index": "bm25",
            "entries": added - removed,
            "removed": removed,
            "terms": terms,
            "postings": postings,
            "bytes": size,
        }


# Exact search by cosine: texts are ranked by the words that they share with a query.


class HashedTfIndex(TextIndex):
    """Texts by the cosine of their hashed TF embeddings: exact, and the same on every machine.

    Distances are ``1 - cosine``: 0 for the same counts of words, and below 1, since texts without a common
    bucket are not found. Of equal distances the smaller id comes first. Safe to use from many threads; other
    threads run during a call.

    Args:
        hash_rule: How a text becomes buckets, as in :func:`siltstone.embedding.embed`.

    Raises:
        ConfigError: *hash_rule* is unknown.
    """

    _core: _native.HashedTfIndex
    _core_type = _native.HashedTfIndex

    def __init__(self, hash_rule: HashRule = "xxh3") -> None:
        self._core = _native.HashedTfIndex(hash_rule)

    @property
    def hash_rule(self) -> str:
        """How a text becomes buckets: ``"xxh3"`` or ``"poly31"``."""
        return self._core.hash_rule

    def stats(self) -> dict[str, int | str]:
        """Its sizes: ``entries``, ``removed``, ``postings``, ``bytes``; and ``simd``, the path in use."""
        added, removed, postings, size, simd = self._core.stats()
        return {
            "index": "exact",
            "entries": added - removed,
            "removed": removed,
            "postings": postings,
            "bytes": size,
            "simd": simd,
        }
