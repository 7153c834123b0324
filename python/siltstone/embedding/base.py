"""The contract of an embedder, which turns texts into vectors; and the check of its results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from siltstone.errors import ConfigError, EmbeddingError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


__all__ = ["MAX_DIMENSION", "MAX_ID_BYTES", "Embedder", "as_row", "as_rows", "check_embedder"]

MAX_DIMENSION = 65_536  #: floats of the longest vector
MAX_ID_BYTES = 256  #: bytes of the longest id of an embedder, as UTF-8


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into vectors.

    Both methods may be plain or async: they return an array, anything that NumPy converts to one, or an
    awaitable of it. They are called from threads of the store, never while it holds a lock, and each of them
    one call at a time. ``id`` and ``dimension`` may be plain attributes.

    ``id`` and ``dimension`` may be plain attributes.
    """

    @property
    def id(self) -> str:
        """Names the model and everything that its vectors depend on, in 1 to 256 bytes.

        It is stored with the vectors: vectors with different ids are never compared.
        """

    @property
    def dimension(self) -> int:
        """The length of a vector, 1 to 65,536."""

    def embed_documents(self, texts: Sequence[str]) -> object:
        """The vectors of *texts*: floats of shape (n, dimension), all finite."""

    def embed_query(self, text: str) -> object:
        """The vector of a query: floats of shape (dimension,), all finite."""


def check_embedder(embedder: Embedder) -> None:
    """Checks that *embedder* fulfils the contract.

    Raises:
        ConfigError: the id is not a text of 1 to 256 bytes, the dimension is out of 1..65,536, or a method is
            missing; the message says which.
    """
    name, dimension = getattr(embedder, "id", None), getattr(embedder, "dimension", None)
    if not isinstance(name, str) or not 0 < len(name.encode("utf-8", "surrogatepass")) <= MAX_ID_BYTES:
        raise ConfigError(
            f"embedder.id must be a str of 1 to {MAX_ID_BYTES} bytes, got {name!r}", field="id", value=name
        )
    if not isinstance(dimension, int) or not 1 <= dimension <= MAX_DIMENSION:
        raise ConfigError(
            f"embedder.dimension must be an int in 1..{MAX_DIMENSION}, got {dimension!r}",
            field="dimension",
            value=dimension,
        )
    for method in ("embed_documents", "embed_query"):
        if not callable(getattr(embedder, method, None)):
            raise ConfigError(
                f"embedder {name!r} must have a method {method}, got {embedder!r}",
                field=method,
                value=embedder,
            )


def as_rows(value: object, embedder: Embedder, count: int) -> NDArray[np.float32]:
    """*value*, the result of *embedder* for *count* texts, as float32 of shape (count, dimension).

    Raises:
        EmbeddingError: *value* is something else; the message says what it is, and what it should be.
    """
    rows = _floats(value, embedder)
    if rows.ndim != 2:
        raise _wrong(embedder, f"an array of 2 axes, (texts, {embedder.dimension})", f"shape {rows.shape}")
    if len(rows) != count:
        raise _wrong(embedder, f"{count} vectors for {count} texts", f"{len(rows)} vectors")
    if rows.shape[1] != embedder.dimension:
        raise _wrong(embedder, f"vectors of dimension {embedder.dimension}", f"dimension {rows.shape[1]}")
    return _finite(rows, embedder)


def as_row(value: object, embedder: Embedder) -> NDArray[np.float32]:
    """*value*, the result of *embedder* for a query, as float32 of shape (dimension,).

    Raises:
        EmbeddingError: *value* is something else; the message says what it is, and what it should be.
    """
    row = _floats(value, embedder)
    if row.shape != (embedder.dimension,):
        raise _wrong(embedder, f"one vector of dimension {embedder.dimension}", f"shape {row.shape}")
    return _finite(row, embedder)


def _floats(value: object, embedder: Embedder) -> NDArray[np.floating]:
    import numpy as np

    try:
        array = np.asarray(value)
    except (TypeError, ValueError) as error:
        raise _wrong(embedder, "an array of floats", f"{type(value).__name__}: {error}") from error
    if not np.issubdtype(array.dtype, np.floating):
        raise _wrong(embedder, "an array of floats", f"{type(value).__name__} of dtype {array.dtype}")
    return array


def _finite(array: NDArray[np.floating], embedder: Embedder) -> NDArray[np.float32]:
    import numpy as np

    with np.errstate(over="ignore"):  # too large numbers become infinite, and are refused as that
        narrow = np.ascontiguousarray(array, dtype=np.float32)
    wrong = np.argwhere(~np.isfinite(narrow))
    if len(wrong):
        place = tuple(int(index) for index in wrong[0])
        raise _wrong(embedder, "finite float32", f"{array[place]} at {list(place)}")
    return narrow


def _wrong(embedder: Embedder, expected: str, got: str) -> EmbeddingError:
    return EmbeddingError(
        f"embedder {embedder.id!r} must give {expected}, got {got}", embedder=embedder.id, reason="invalid"
    )
