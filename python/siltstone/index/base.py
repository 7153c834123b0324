"""The common part of indexes, over texts and over rows of floats."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

from siltstone.index.arrays import as_ids, as_k, halves, serial, table
from siltstone.index.texts import check_text, check_texts

if TYPE_CHECKING:
    from siltstone import _native
    from siltstone.index.arrays import Ids, Scores

__all__ = ["RowIndex", "TextIndex"]


class Index:
    """An index of any kind as a file: saved, loaded and pickled as the same bytes."""

    _core: Any
    _core_type: ClassVar[Any]  # the class of the compiled module that *_core* is of

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """The index that :meth:`save` wrote to *path*: it answers as that one did, and its ids go on.

        Raises:
            StoreIoError: it cannot be read.
            StoreOpenError: it is another kind of file, or its terms were made by another analyser.
            StoreVersionError: another version of siltstone wrote it.
            StoreCorruptError: it was cut short, or changed since it was saved.
        """
        return cls._of(cls._core_type.load(os.fspath(path)))

    @classmethod
    def _of(cls, core: Any) -> Self:
        index = cls.__new__(cls)
        index._core = core
        return index

    @classmethod
    def _of_bytes(cls, file: bytes) -> Self:
        return cls._of(cls._core_type.from_bytes(file))

    def __reduce__(self) -> tuple[Any, tuple[bytes]]:
        return self._of_bytes, (self._core.to_bytes(),)


class TextIndex(Index):
    """An index over texts; a member says what its numbers mean."""

    _core: _native.Bm25Index | _native.HashedTfIndex

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the index to *path*: all of it, or the file stays as it was.

        Texts are not in it, only hashes of what occurs in them, and how often; their ids stay.

        Raises:
            StoreIoError: it cannot be written.
        """
        self._core.save(os.fspath(path))

    def add(self, texts: Sequence[str]) -> Ids:
        """Adds *texts*, all of them or none.

        Returns:
            uint64 of shape (n,): their ids, serial from 0, never used again. A text without words has one
            too, and is never found.
        """
        checked = check_texts(texts, "texts")
        first = self._core.add(checked)
        return serial(first, first + len(checked))

    def remove(self, ids: Iterable[int] | int) -> None:
        """Removes texts: all of *ids*, or none of them.

        Raises:
            ConfigError: one of them is no whole number.
            EntryNotFoundError: one of them is unknown, or was removed before. Carries ``entry_id``.
        """
        self._core.remove(as_ids(ids, "text"))

    def _best(self, query: str, k: int) -> tuple[Ids, Scores]:
        try:
            found = self._core.search_one(query, k)
        except (TypeError, OverflowError):  # one of them is of another kind, or k is out of bounds
            found = self._core.search_one(check_text(query, "query"), as_k(k))
        return halves(found)

    def _best_of_each(self, queries: Sequence[str], k: int) -> tuple[Ids, Scores]:
        checked = check_texts(queries, "queries")
        return table(self._core.search(checked, as_k(k)), len(checked), "d")

    def __len__(self) -> int:
        return self._core.len()


class RowIndex(Index):
    """An index over rows of floats; a member says how it adds and searches."""

    _core: _native.Flat | _native.Hnsw

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the index to *path*, whole or not at all. Removed rows are not in the file.

        Raises:
            StoreIoError: it cannot be written.
        """
        self._core.save(os.fspath(path))

    @property
    def dim(self) -> int:
        """Numbers of a row."""
        return self._core.dim

    def remove(self, ids: Iterable[int] | int) -> None:
        """Removes rows: all of them, or none. They are no answers from then on.

        Raises:
            EntryNotFoundError: an id was never given, or was removed before.
        """
        self._core.remove(as_ids(ids, "row"))

    def _figures(self, kind: str, rows: int, **others: Any) -> dict[str, Any]:
        """What is left of *rows*, and how many are not."""
        return {"index": kind, "entries": len(self), "removed": rows - len(self), **others}

    def __len__(self) -> int:
        return len(self._core)
