"""The indexes without a store, as the compiled core provides them.

The other names of the compiled module are in ``_native.pyi``, which exports these as well.
"""

from collections.abc import Sequence
from typing import Any, final

__all__ = ["Bm25Index", "DocumentedBm25", "HashedTfIndex", "Hnsw"]

@final
class DocumentedBm25:
    """An index over texts as lists of words, by the documented BM25."""

    def __new__(cls, texts: Sequence[Sequence[str]]) -> DocumentedBm25: ...
    def __len__(self) -> int: ...
    def add(self, words: str) -> None:
        """Adds a text after the others: its words, with spaces between them."""

    def scores(self, query: Sequence[str], chosen: Sequence[int] | None = None) -> list[float]:
        """The score of each text; of the numbers *chosen*, as if there were no others.

        A word that the query has twice counts twice. A number that is none of a text is an
        ``InternalError``.
        """

    def best(self, query: Sequence[str], least: int, limit: int) -> list[tuple[int, float]]:
        """The best texts with *least* or more different words of the query: place, score; ties by place."""

@final
class Hnsw:
    """A graph over rows. The public class is ``siltstone.HnswIndex``, which is built on it.

    Safe to use from many threads; every method lets other threads run. Arrays are C-contiguous buffers of
    float32. Values out of bounds raise ``ConfigError``.
    """

    def __new__(cls, dim: int, storage: str, params: tuple[int, int, int, int, int]) -> Hnsw: ...
    @staticmethod
    def load(path: str) -> Hnsw:
        """Reads the file *path*. Raises as :meth:`from_bytes`, and ``StoreIoError``."""

    def save(self, path: str) -> None:
        """Writes the file *path*, whole or not at all."""

    @staticmethod
    def from_bytes(file: bytes) -> Hnsw:
        """The index of a file in memory; ``StoreOpenError``, ``StoreVersionError``, ``StoreCorruptError``."""

    def to_bytes(self) -> bytes:
        """The bytes that :meth:`save` writes."""

    def add(self, vectors: Any) -> tuple[int, int]:
        """Adds rows; returns the first of their ids, and the end of the range.

        Rows are float32, all finite; or counts, or numbers proportional to counts, as the three arrays of CSR
        (int64, int32, float32).
        """

    def remove(self, ids: Sequence[int]) -> None:
        """Removes all of the rows, or none; ``EntryNotFoundError`` for an id that is not there."""

    def search(self, queries: Any, k: int, ef: int | None, plan: str | None) -> tuple[bytearray, bytearray]:
        """The nearest rows of each query: ids (uint64) and distances (float32), native byte order.

        There are ``min(k, len(self))`` places for each query; places without a row have the id 2**64 - 1
        and the distance infinity. *plan* is ``"scan"``, ``"graph"``, or None for the faster one.
        """

    def __len__(self) -> int: ...
    @property
    def dim(self) -> int:
        """The length of a row, in numbers."""

    @property
    def storage(self) -> str:
        """``"i8"`` or ``"sparse"``."""

    @property
    def params(self) -> tuple[int, int, int, int, int]:
        """``m``, ``ef_construction``, ``ef_search``, ``max_layer`` and ``seed``."""

    def figures(self) -> tuple[int, int, int, str]:
        """Rows ever added, removed rows that are still linked, layers, and the plan."""

@final
class HashedTfIndex:
    """An index over texts by cosine. ``siltstone.index.HashedTfIndex`` is the public class over it.

    Raises:
        ConfigError: *hash_rule* is unknown.
    """

    def __new__(cls, hash_rule: str) -> HashedTfIndex: ...
    @staticmethod
    def load(path: str) -> HashedTfIndex:
        """The index of a file that :meth:`save` wrote."""

    def save(self, path: str) -> None:
        """Writes the whole file, or leaves it unchanged."""

    @staticmethod
    def from_bytes(file: bytes) -> HashedTfIndex:
        """The index of a file that is in memory. Raises as :meth:`load`."""

    def to_bytes(self) -> bytes:
        """The bytes that :meth:`save` writes."""

    @property
    def hash_rule(self) -> str:
        """The hash rule: how a text becomes buckets."""

    def add(self, texts: list[str]) -> int:
        """Adds *texts*; returns the id of the first, which the others follow."""

    def search_one(self, query: str, k: int) -> bytearray:
        """Ids (uint64) of the texts nearest to one query, at most *k*, and then their distances (float64)."""

    def search(self, queries: list[str], k: int) -> tuple[bytearray, bytearray]:
        """Ids (uint64) and distances (float64) of the nearest to each query, ``min(k, len)`` for each.

        A shorter row is padded with the id ``2**64 - 1`` and the distance infinity.
        """

    def len(self) -> int:
        """The number of texts that were not removed."""

    def remove(self, ids: list[int]) -> None:
        """Removes all of *ids*, or raises ``EntryNotFoundError`` and removes none."""

    def stats(self) -> tuple[int, int, int, int, str]:
        """Texts added, texts removed, postings, bytes, and the SIMD path in use."""

@final
class Bm25Index:
    """An index over texts by BM25. The public class is ``siltstone.index.Bm25Index``, which is built on it.

    Raises:
        ConfigError: *k1* or *b* is out of its bounds.
    """

    def __new__(cls, k1: float, b: float) -> Bm25Index: ...
    @staticmethod
    def load(path: str) -> Bm25Index:
        """The index of a file that :meth:`save` wrote."""

    def save(self, path: str) -> None:
        """Writes the whole file, or leaves it unchanged."""

    @staticmethod
    def from_bytes(file: bytes) -> Bm25Index:
        """The index of a file that is in memory. Raises as :meth:`load`."""

    def to_bytes(self) -> bytes:
        """The bytes that :meth:`save` writes."""

    def params(self) -> tuple[float, float]:
        """``k1`` and ``b``."""

    def add(self, texts: list[str]) -> int:
        """Adds *texts*; returns the id of the first, which the others follow."""

    def search_one(self, query: str, k: int) -> bytearray:
        """Ids (uint64) of the best texts for one query, at most *k*, and then their scores (float64)."""

    def search(self, queries: list[str], k: int) -> tuple[bytearray, bytearray]:
        """Ids (uint64) and scores (float64) of the best for each query, ``min(k, len)`` for each.

        A shorter row is padded with the id ``2**64 - 1`` and the score 0.
        """

    def len(self) -> int:
        """The number of texts that were not removed."""

    def remove(self, ids: list[int]) -> None:
        """Removes all of *ids*, or raises ``EntryNotFoundError`` and removes none."""

    def stats(self) -> tuple[int, int, int, int, int]:
        """Texts added, texts removed, different terms, postings, and bytes."""
