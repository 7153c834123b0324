"""What goes into an index of texts and what comes out of it: checked lists, and NumPy arrays of bytes.

NumPy is imported when the first array is made, not with the package.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from siltstone.errors import ConfigError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ids: TypeAlias = NDArray[np.uint64]
    Values: TypeAlias = NDArray[np.float64]

__all__ = ["NO_ID", "check_ids", "check_k", "check_text", "check_texts", "first_row", "serial", "table"]

NO_ID = 2**64 - 1  #: stands in a batch where a query found fewer than others


def check_texts(texts: Sequence[str], field: str) -> list[str]:
    """*texts* as a list; one str is not taken for a list of its letters."""
    if isinstance(texts, str):
        raise ConfigError(f"{field} must be a list of str, got one str", field=field, value=texts)
    return list(texts)


def check_text(text: str, field: str) -> str:
    """*text*, which is one str."""
    if not isinstance(text, str):
        message = f"{field} must be a str, got {type(text).__name__}"
        raise ConfigError(message, field=field, value=text)
    return text


def check_k(k: int) -> int:
    """*k*, at least 0, and no larger than an index can be."""
    try:
        number = operator.index(k)
    except TypeError:
        raise ConfigError(f"k must be an int, got {type(k).__name__}", field="k", value=k) from None
    if number < 0:
        raise ConfigError(f"k must be at least 0, got {number}", field="k", value=k)
    return min(number, 2**32)


def check_ids(ids: Iterable[int]) -> list[int]:
    """*ids* as ints from 0 to 2**64 - 1: a list of them, or an array."""
    found = []
    for place, each in enumerate(ids):
        try:
            number = operator.index(each)
        except TypeError:
            message = f"ids[{place}] must be an int, got {type(each).__name__}"
            raise ConfigError(message, field="ids", value=each) from None
        if not 0 <= number <= NO_ID:
            raise ConfigError(f"ids[{place}] must be in 0..2**64 - 1, got {number}", field="ids", value=each)
        found.append(number)
    return found


def serial(first: int, count: int) -> Ids:
    """The ids from *first* on."""
    import numpy as np

    return np.arange(first, first + count, dtype=np.uint64)


def table(found: tuple[bytearray, bytearray], rows: int) -> tuple[Ids, Values]:
    """Ids and values as arrays, a row for each query."""
    import numpy as np

    ids, values = np.frombuffer(found[0], np.uint64), np.frombuffer(found[1], np.float64)
    columns = len(ids) // rows if rows else 0
    return ids.reshape(rows, columns), values.reshape(rows, columns)


def first_row(found: tuple[bytearray, bytearray]) -> tuple[Ids, Values]:
    """Ids and values of one query, without what the row was filled up with."""
    ids, values = table(found, 1)
    known = ids[0] != NO_ID
    return ids[0][known], values[0][known]
