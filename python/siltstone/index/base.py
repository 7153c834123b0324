"""The common parts of indexes: checks of arguments and texts, and arrays of what the core returns."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeAlias

from siltstone import _native
from siltstone.errors import ConfigError, EntryNotFoundError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray


# Checks the arguments of indexes (``k`` and ids), and makes arrays of the bytes that the core returns.
#
# NumPy is imported when the first array is made, not with the package.

if TYPE_CHECKING:
    Ids: TypeAlias = NDArray[np.uint64]
    Scores: TypeAlias = NDArray[np.float64]  # of texts: sums in float64, given as they are
    Distances: TypeAlias = NDArray[np.float32]  # of arrays: as exact as the float32 that was handed over


Kind: TypeAlias = Literal["d", "f"]
"""The type of the values: float64, or float32."""


NO_ID = 2**64 - 1  #: the id of an empty place in the answer of a batch
FILL = NO_ID.to_bytes(8, "little")  # all bits are set: the same in every byte order
MAX_K = 2**31 - 1  #: more than an index can hold


def as_k(k: Any, field: str = "k", least: int = 0) -> int:
    """*k* as a number of rows, cut to the most rows that an index can hold.

    Raises:
        ConfigError: not a whole number, or below *least*.
    """
    try:
        number = operator.index(k)
    except TypeError:
        raise ConfigError(f"{field} must be an int, got {k!r}", field=field, value=k) from None
    if number < least:
        raise ConfigError(f"{field} must be >= {least}, got {number}", field=field, value=number)
    return min(number, MAX_K)


def as_ids(ids: Iterable[int] | int, what: str) -> list[int]:
    """*ids* as ints: a single id, a list or an array. *what* names the thing that has the ids in errors.

    Raises:
        ConfigError: an id is not a whole number.
        EntryNotFoundError: an id is out of the range of ids.
    """
    one = hasattr(ids, "__index__") and not hasattr(ids, "__len__")
    listed: list[Any] = [ids] if one else list(ids)  # type: ignore[arg-type]
    found = []
    for place, each in enumerate(listed):
        try:
            number = operator.index(each)
        except TypeError:
            message = f"ids[{place}] must be an int, got {each!r}"
            raise ConfigError(message, field="ids", value=each) from None
        if not 0 <= number <= NO_ID:
            raise EntryNotFoundError(f"the index has no {what} {number}", entry_id=number)
        found.append(number)
    return found


def serial(first: int, end: int) -> Ids:
    """The ids from *first* to below *end*."""
    import numpy as np

    return np.arange(first, end, dtype=np.uint64)


def table(found: tuple[bytearray, bytearray], rows: int, kind: Kind) -> tuple[Ids, NDArray[Any]]:
    """Ids and values as arrays, with a row for each query."""
    import numpy as np

    ids, values = np.frombuffer(found[0], np.uint64), np.frombuffer(found[1], kind)
    columns = len(ids) // rows if rows else 0
    return ids.reshape(rows, columns), values.reshape(rows, columns)


def first_row(found: tuple[bytearray, bytearray], kind: Kind) -> tuple[Ids, NDArray[Any]]:
    """Ids and values of one query, without the padding."""
    ndarray, kinds = _numpy()
    shape = (len(found[0]) // 8,)
    ids, values = ndarray(shape, kinds["Q"], found[0]), ndarray(shape, kinds[kind], found[1])
    if found[0].endswith(FILL):  # padding is at the end
        known = ids != NO_ID
        return ids[known], values[known]
    return ids, values


def halves(found: bytearray) -> tuple[Ids, Scores]:
    """Ids and values of one query: the two halves of *found*."""
    ndarray, kinds = _numpy()
    shape = (len(found) // 16,)
    return ndarray(shape, kinds["Q"], found), ndarray(shape, kinds["d"], found, len(found) // 2)


@cache
def _numpy() -> tuple[Callable[..., Any], dict[str, np.dtype[Any]]]:
    """``ndarray`` and number types, cached: looking them up takes as long as a small search.

    ``ndarray`` is faster than ``frombuffer``, which also makes a ``memoryview``. Without one nothing prevents
    the ``bytearray`` from being resized; but only the array has it, as its ``base``.
    """
    import numpy as np

    return np.ndarray, {"Q": np.dtype(np.uint64), "d": np.dtype(np.float64), "f": np.dtype(np.float32)}


# Checks texts from users.


def check_texts(texts: Sequence[str], field: str) -> list[str]:
    """*texts* as a list; a single str is refused, since it would be a list of its letters."""
    if isinstance(texts, str):
        raise ConfigError(f"{field} must be a list of str, got one str", field=field, value=texts)
    return list(texts)


def check_text(text: str, field: str) -> str:
    """*text*, if it is a str."""
    if not isinstance(text, str):
        message = f"{field} must be a str, got {type(text).__name__}"
        raise ConfigError(message, field=field, value=text)
    return text


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

    def search(self, query: str, k: int = 10) -> tuple[Ids, Scores]:
        """The *k* best texts for *query*, the best first.

        Returns:
            ids (uint64), and scores or distances (float64), of the same length: *k*, or fewer if fewer texts
            share a term or a bucket.
        """
        try:
            found = self._core.search_one(query, k)
        except (TypeError, OverflowError):  # a wrong type, or k is out of bounds
            found = self._core.search_one(check_text(query, "query"), as_k(k))
        return halves(found)

    def search_batch(self, queries: Sequence[str], k: int = 10) -> tuple[Ids, Scores]:
        """The same for each of *queries*, in one call.

        Returns:
            ids (uint64), and scores or distances (float64), of shape (n, min(k, len(index))). The row of a
            query that finds fewer is padded with the id ``2**64 - 1`` and the score 0 or infinite distance.
        """
        checked = check_texts(queries, "queries")
        return table(self._core.search(checked, as_k(k)), len(checked), "d")

    def __len__(self) -> int:
        return self._core.len()


# Turns vectors from users into the float32 arrays that the core reads.


def as_rows(vectors: ArrayLike, dim: int, field: str = "vectors") -> NDArray[np.float32]:
    """*vectors* as float32 of shape (n, dim), C-contiguous; the same array if it is that already.

    Raises:
        ConfigError: another shape, numbers that are not real, or numbers that float32 does not hold.
    """
    array = _as_float32(vectors, field)
    if array.ndim != 2 or array.shape[1] != dim:
        raise ConfigError(f"{field} must be of shape (n, {dim}), got {array.shape}", field, array.shape)
    return array


def as_query(query: ArrayLike, dim: int) -> NDArray[np.float32]:
    """*query* as float32 of shape (1, dim).

    Raises:
        ConfigError: another shape, numbers that are not real, or numbers that float32 does not hold.
    """
    array = _as_float32(query, "query")
    if array.shape != (dim,):
        raise ConfigError(
            f"query must be of shape ({dim},), got {array.shape}; use search_batch for several",
            "query",
            array.shape,
        )
    return array.reshape(1, dim)


def _as_float32(values: ArrayLike, field: str) -> NDArray[np.float32]:
    import numpy as np

    if type(values) is np.ndarray and values.dtype == np.float32 and values.flags.c_contiguous:
        return values  # the usual case: nothing to convert
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise ConfigError(f"{field} must be an array of numbers: {error}", field=field) from error
    if array.dtype.kind not in "fiu":
        raise ConfigError(f"{field} must be real numbers, got dtype {array.dtype}", field, str(array.dtype))
    with np.errstate(over="ignore"):  # too large numbers become infinite, which the core refuses
        return np.ascontiguousarray(array, dtype=np.float32).reshape(array.shape)
