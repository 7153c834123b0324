"""Exact search by cosine: texts are ranked by the words that they share with a query."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from siltstone import _native
from siltstone.index.base import TextIndex

if TYPE_CHECKING:
    from siltstone.embedding import HashRule
    from siltstone.index.arrays import Ids, Scores

__all__ = ["HashedTfIndex"]


class HashedTfIndex(TextIndex):
    """Texts by the cosine of their hashed TF embeddings: exact, and the same on every machine.

    Distances are ``1 - cosine``: 0 for the same counts of words, and below 1, since texts without a common
    bucket are not found. Of equal distances the smaller id comes first. Safe to use from many threads; other
    threads run during a call.

    Args:
        hash_rule: How a text becomes buckets, as in :func:`siltstone.embed`.

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

    def search(self, query: str, k: int = 10) -> tuple[Ids, Scores]:
        """The *k* texts nearest to *query*, the nearest first.

        Returns:
            ids (uint64) and distances (float64), of the same length: *k*, or fewer if fewer texts share a
            bucket.
        """
        return self._best(query, k)

    def search_batch(self, queries: Sequence[str], k: int = 10) -> tuple[Ids, Scores]:
        """The same for each of *queries*, in one call.

        Returns:
            ids (uint64) and distances (float64) of shape (n, min(k, len(index))). The row of a query that
            finds fewer is padded with the id ``2**64 - 1`` and the distance infinity.
        """
        return self._best_of_each(queries, k)

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
