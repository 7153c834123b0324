"""Checks the arguments of indexes (``k`` and ids), and makes arrays of the bytes that the core returns.

NumPy is imported when the first array is made, not with the package.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from siltstone.errors import ConfigError, EntryNotFoundError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ids: TypeAlias = NDArray[np.uint64]
    Scores: TypeAlias = NDArray[np.float64]  # of texts: sums in float64, given as they are
    Distances: TypeAlias = NDArray[np.float32]  # of arrays: as exact as the float32 that was handed over


Kind: TypeAlias = Literal["d", "f"]
"""The type of the values: float64, or float32."""

__all__ = ["MAX_K", "NO_ID", "as_ids", "as_k", "first_row", "halves", "serial", "table"]

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
