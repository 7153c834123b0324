"""The common parts of indexes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

from siltstone.index.arrays import as_ids, as_k, halves, serial, table
from siltstone.index.texts import check_text, check_texts

if TYPE_CHECKING:
    from siltstone import _native
    from siltstone.index.arrays import Ids, Scores

__all__ = ["Index", "TextIndex"]


class Index:
    """An index of any kind as a file: it is saved, loaded and pickled as the same bytes."""

    _core: Any
    _core_type: ClassVar[Any]  # the class of *_core* in the compiled module

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Reads the index that :meth:`save` wrote to *path*: it gives the same answers and continues its ids.

        Raises:
            StoreIoError: the file cannot be read.
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
    """An index over texts; subclasses define the meaning of its numbers."""

    _core: _native.Bm25Index | _native.HashedTfIndex

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the index to *path*: the whole file, or it stays as it was.

        The file has the ids, and hashes of the terms with their counts, but no texts.

        Raises:
            StoreIoError: the file cannot be written.
        """
        self._core.save(os.fspath(path))

    def add(self, texts: Sequence[str]) -> Ids:
        """Adds *texts*, all of them or none.

        Returns:
            uint64 of shape (n,): their ids, serial from 0 and never reused. A text without words has an id
            too, and is never found.
        """
        checked = check_texts(texts, "texts")
        first = self._core.add(checked)
        return serial(first, first + len(checked))

    def remove(self, ids: Iterable[int] | int) -> None:
        """Removes all of *ids*, or none if one is wrong.

        Raises:
            ConfigError: an id is not a whole number.
            EntryNotFoundError: an id is unknown, or was removed before. Carries ``entry_id``.
        """
        self._core.remove(as_ids(ids, "text"))

    def _best(self, query: str, k: int) -> tuple[Ids, Scores]:
        try:
            found = self._core.search_one(query, k)
        except (TypeError, OverflowError):  # a wrong type, or k is out of bounds
            found = self._core.search_one(check_text(query, "query"), as_k(k))
        return halves(found)

    def _best_of_each(self, queries: Sequence[str], k: int) -> tuple[Ids, Scores]:
        checked = check_texts(queries, "queries")
        return table(self._core.search(checked, as_k(k)), len(checked), "d")

    def __len__(self) -> int:
        return self._core.len()
