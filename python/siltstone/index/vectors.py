"""What users hand over as vectors, as the float32 that the core reads; what it answers, as arrays."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from siltstone.errors import ConfigError, EntryNotFoundError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

__all__ = ["as_k", "as_query", "as_rows", "found", "found_by_one", "ids_of", "numbers_from"]

MAX_K = 2**31 - 1  #: more than an index can hold
NO_ID = b"\xff" * 8  # in place of an id: there is no such row


def as_rows(vectors: ArrayLike, dim: int, field: str = "vectors") -> NDArray[np.float32]:
    """*vectors* as float32 of shape (n, dim), C-contiguous; as they are where they are that already.

    Raises:
        ConfigError: another shape, numbers that are not real, or numbers that float32 does not hold.
    """
    array = _as_float32(vectors, field)
    if array.ndim != 2 or array.shape[1] != dim:
        raise ConfigError(
            f"{field} must be of shape (n, {dim}), got {array.shape}", field=field, value=array.shape
        )
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
            field="query",
            value=array.shape,
        )
    return array.reshape(1, dim)


def _as_float32(values: ArrayLike, field: str) -> NDArray[np.float32]:
    import numpy as np

    if type(values) is np.ndarray and values.dtype == np.float32 and values.flags.c_contiguous:
        return values  # as most come: nothing to convert
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise ConfigError(f"{field} must be an array of numbers: {error}", field=field) from error
    if array.dtype.kind not in "fiu":
        raise ConfigError(
            f"{field} must be real numbers, got dtype {array.dtype}", field=field, value=str(array.dtype)
        )
    with np.errstate(over="ignore"):  # what does not fit becomes infinite, and the core refuses that
        return np.ascontiguousarray(array, dtype=np.float32).reshape(array.shape)


def as_k(k: Any, field: str = "k", least: int = 0) -> int:
    """*k* as a number of rows.

    Raises:
        ConfigError: not a whole number, or below *least*.
    """
    try:
        number = k.__index__()
    except AttributeError:
        raise ConfigError(f"{field} must be an int, got {k!r}", field=field, value=k) from None
    if number < least:
        raise ConfigError(f"{field} must be >= {least}, got {number}", field=field, value=number)
    return int(min(number, MAX_K))


def ids_of(ids: Iterable[int] | int) -> list[int]:
    """*ids* as ints from 0 up.

    Raises:
        ConfigError: an id is no whole number.
        EntryNotFoundError: an id that no row can have.
    """
    listed = [ids] if hasattr(ids, "__index__") and not hasattr(ids, "__len__") else list(ids)  # type: ignore[arg-type]
    numbers = []
    for each in listed:
        try:
            number = int(each.__index__())
        except AttributeError:
            raise ConfigError(f"an id must be an int, got {each!r}", field="ids", value=each) from None
        if not 0 <= number < 2**64:
            raise EntryNotFoundError(f"the index has no row {number}", entry_id=number)
        numbers.append(number)
    return numbers


def numbers_from(first: int, end: int) -> NDArray[np.uint64]:
    """The ids from *first* to below *end*."""
    import numpy as np

    return np.arange(first, end, dtype=np.uint64)


def found(
    answer: tuple[bytearray, bytearray], queries: int
) -> tuple[NDArray[np.uint64], NDArray[np.float32]]:
    """Ids and distances of shape (queries, k), as the core gave them."""
    import numpy as np

    ids, distances = (np.frombuffer(part, kind) for part, kind in zip(answer, "Qf", strict=True))
    k = len(ids) // queries if queries else 0
    return ids.reshape(queries, k), distances.reshape(queries, k)


def found_by_one(answer: tuple[bytearray, bytearray]) -> tuple[NDArray[np.uint64], NDArray[np.float32]]:
    """Ids and distances of one query, as many as there are."""
    import numpy as np

    ids, distances = np.frombuffer(answer[0], "Q"), np.frombuffer(answer[1], "f")
    if answer[0].endswith(NO_ID):
        there = np.isfinite(distances)
        return ids[there], distances[there]
    return ids, distances
