"""Turns vectors from users into the float32 arrays that the core reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone.errors import ConfigError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

__all__ = ["as_query", "as_rows"]


def as_rows(vectors: ArrayLike, dim: int, field: str = "vectors") -> NDArray[np.float32]:
    """*vectors* as float32 of shape (n, dim), C-contiguous; the same array if it is that already.

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
        return values  # the usual case: nothing to convert
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise ConfigError(f"{field} must be an array of numbers: {error}", field=field) from error
    if array.dtype.kind not in "fiu":
        raise ConfigError(
            f"{field} must be real numbers, got dtype {array.dtype}", field=field, value=str(array.dtype)
        )
    with np.errstate(over="ignore"):  # too large numbers become infinite, which the core refuses
        return np.ascontiguousarray(array, dtype=np.float32).reshape(array.shape)
