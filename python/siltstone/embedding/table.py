"""Vectors of words, looked up in a table and averaged: no model runs, and a text takes microseconds."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from siltstone import _native
from siltstone.embedding.base import MAX_DIMENSION
from siltstone.errors import ConfigError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


__all__ = ["TableEmbedder"]


class TableEmbedder:
    """An embedder over a static table: the mean of the vectors of a text's words, scaled to length 1.

    Words are those of the analyser ``words-1``: runs of letters and digits in lower case, and overlapping
    pairs of characters of Chinese, Japanese and Korean. With a *vocabulary*, row i is the vector of its word
    i, and words that are not in it are left out. Without one, the row of a word is its xxh3-64 modulo the
    number of rows. A text without any such word has the zero vector, whose cosine to anything is 0.

    Args:
        table: Floats of shape (rows, dimension), as float16, float32 or float64.
        vocabulary: A word for each row, in lower case; of a word that occurs twice the first row counts.

    Raises:
        ConfigError: the table does not have two axes with at least one row and one column, its numbers are
            not finite floats, or the vocabulary has another length.
    """

    def __init__(self, table: NDArray[np.floating], vocabulary: Sequence[str] | None = None) -> None:
        self._table = _checked(table)
        self._places = None if vocabulary is None else _places(vocabulary, len(self._table))
        self._id = _identity(self._table, vocabulary)

    @classmethod
    def load(cls, path: str | os.PathLike[str], vocabulary: Sequence[str] | None = None) -> TableEmbedder:
        """The embedder of the table in the ``.npy`` file *path*; the file cannot run code.

        Raises:
            ConfigError: the file is missing, or has no array.
        """
        import numpy as np

        try:
            table = np.load(path, allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            message = f"a table must be a .npy file of floats, got {os.fspath(path)!r}: {error}"
            raise ConfigError(message, field="table", value=path) from error
        return cls(table, vocabulary)

    @property
    def id(self) -> str:
        """The id, made from the shape and contents of the table, and from the vocabulary."""
        return self._id

    @property
    def dimension(self) -> int:
        """The length of a vector."""
        return int(self._table.shape[1])

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """The vectors of *texts*, float32 of shape (n, dimension)."""
        import numpy as np

        rows = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            places = self._rows_of(text)
            if places:
                mean = self._table[places].mean(axis=0, dtype=np.float64)
                length = np.linalg.norm(mean)
                if length > 0:
                    row[:] = mean / length
        return rows

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """The vector of a query, float32 of shape (dimension,)."""
        row: NDArray[np.float32] = self.embed_documents([text])[0]
        return row

    def _rows_of(self, text: str) -> list[int]:
        words = _native.words(text)
        if self._places is None:
            return [_native.word_hash(word) % len(self._table) for word in words]
        return [self._places[word] for word in words if word in self._places]


def _checked(table: NDArray[np.floating]) -> NDArray[np.floating]:
    import numpy as np

    array = np.asarray(table)
    if not np.issubdtype(array.dtype, np.floating):
        raise ConfigError(f"a table must hold floats, got dtype {array.dtype}", field="table", value=table)
    if array.ndim != 2 or not len(array) or not 1 <= array.shape[1] <= MAX_DIMENSION:
        raise ConfigError(
            f"a table must have at least 1 row of 1 to {MAX_DIMENSION} floats, got shape {array.shape}",
            field="table",
            value=table,
        )
    if not np.isfinite(array).all():
        raise ConfigError("a table must hold finite floats, got others", field="table", value=table)
    return array


def _places(vocabulary: Sequence[str], rows: int) -> dict[str, int]:
    if len(vocabulary) != rows:
        raise ConfigError(
            f"a vocabulary must have a word for each of the {rows} rows, got {len(vocabulary)} words",
            field="vocabulary",
            value=vocabulary,
        )
    places: dict[str, int] = {}
    for place, word in enumerate(vocabulary):
        places.setdefault(word, place)
    return places


def _identity(table: NDArray[np.floating], vocabulary: Sequence[str] | None) -> str:
    import numpy as np

    digest = hashlib.sha256(np.ascontiguousarray(table).tobytes())
    if vocabulary is not None:  # a vocabulary of one empty word is one, too
        digest.update(("\x00".join(vocabulary) or "\x00").encode("utf-8", "surrogatepass"))
    rows, columns = table.shape
    return f"table/words-1/{rows}x{columns}/{digest.hexdigest()[:16]}"
