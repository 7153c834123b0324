"""The contract of an embedder, which turns texts into vectors; any callable, and hashed words, as one."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, runtime_checkable

from siltstone import _native
from siltstone.errors import ConfigError, EmbeddingError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


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
        raise ConfigError(f"embedder.id must be a str of 1 to {MAX_ID_BYTES} bytes, got {name!r}", "id", name)
    if not isinstance(dimension, int) or not 1 <= dimension <= MAX_DIMENSION:
        raise ConfigError(
            f"embedder.dimension must be an integer in 1..{MAX_DIMENSION}, got {dimension!r}",
            "dimension",
            dimension,
        )
    for method in ("embed_documents", "embed_query"):
        if not callable(getattr(embedder, method, None)):
            raise ConfigError(
                f"embedder {name!r} must have a method {method}, got {embedder!r}", method, embedder
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


# Any callable as an embedder.


@dataclass(frozen=True)
class FunctionEmbedder:
    """An embedder made of a callable from texts to vectors, plain or async.

    Its results are checked: as many vectors as texts, of the right dimension, floats, all finite.

    Attributes:
        function: Takes a ``list[str]``, returns floats of shape (n, dimension): an array, nested lists, or an
            awaitable.
        id: Names the model and everything that its vectors depend on; another id is another embedder.
        dimension: The length of a vector.
        query_function: The function for queries, for models that treat them differently; None is *function*.

    Raises:
        ConfigError: an empty id, or a dimension out of its bounds.
    """

    function: Callable[[list[str]], object]
    id: str
    dimension: int
    query_function: Callable[[list[str]], object] | None = None

    def __post_init__(self) -> None:
        check_embedder(self)

    def embed_documents(self, texts: Sequence[str]) -> object:
        """The vectors of *texts*, float32 of shape (n, dimension), or an awaitable of them.

        Raises:
            EmbeddingError: the function returned something else.
        """
        given = list(texts)
        answer = self.function(given)
        if inspect.isawaitable(answer):
            return self._later(answer, len(given))
        return as_rows(answer, self, len(given))

    def embed_query(self, text: str) -> object:
        """The vector of a query, float32 of shape (dimension,), or an awaitable of it.

        Raises:
            EmbeddingError: the function returned something else.
        """
        answer = (self.query_function or self.function)([text])
        if inspect.isawaitable(answer):
            return self._one_later(answer)
        return as_rows(answer, self, 1)[0]

    async def _later(self, answer: Awaitable[object], count: int) -> object:
        return as_rows(await answer, self, count)

    async def _one_later(self, answer: Awaitable[object]) -> object:
        return as_rows(await answer, self, 1)[0]


# Hashed TF embeddings as NumPy arrays: 4,096 buckets, term counts, L2-normalised.
#
# NumPy is imported with the first array, not with the package.

DIMENSION = 4096  #: buckets of an embedding

HashRule: TypeAlias = Literal["xxh3", "poly31"]
"""The rule that cuts a text into words, and hashes each word to a bucket."""


def embed(text: str, hash_rule: HashRule = "xxh3") -> NDArray[np.float32]:
    """The hashed TF embedding of one text.

    Args:
        text: Any text. Lone surrogates count as U+FFFD.
        hash_rule: ``"xxh3"`` (Unicode words in lower case, xxh3-64 modulo 4,096) or ``"poly31"`` (split at
            white space, ASCII lower case, ``h = 31 * h + byte`` modulo 2**64, modulo 4,096).

    Returns:
        float32 of shape (4096,): counts of the buckets divided by their L2 norm; all zeros for a text
        without words.

    Raises:
        ConfigError: *hash_rule* is unknown.
    """
    if not isinstance(text, str):
        raise ConfigError(f"text must be a str, got {type(text).__name__}", field="text", value=text)
    vector: NDArray[np.float32] = embed_batch([text], hash_rule)[0]
    return vector


def embed_batch(texts: Sequence[str], hash_rule: HashRule = "xxh3") -> NDArray[np.float32]:
    """The embeddings of *texts*, one in each row; other threads run during the call.

    Returns:
        float32 of shape (n, 4096), C-contiguous, writable.
    """
    import numpy as np

    buffer = _native.embed_batch(_checked(texts), hash_rule)
    return np.frombuffer(buffer, dtype=np.float32).reshape(-1, DIMENSION)


def embed_sparse(
    texts: Sequence[str], hash_rule: HashRule = "xxh3"
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]:
    """The same rows in CSR form, which saves the 16 KB of a dense row.

    Returns:
        ``indptr`` (int64, n + 1), ``indices`` (int32, ascending within a row) and ``values`` (float32):
        row i has ``values[indptr[i]:indptr[i + 1]]`` at ``indices[indptr[i]:indptr[i + 1]]``.
        ``scipy.sparse.csr_array((values, indices, indptr), shape=(n, 4096))`` takes them as they are.
    """
    import numpy as np

    indptr, indices, values = _native.embed_sparse(_checked(texts), hash_rule)
    return (
        np.frombuffer(indptr, dtype=np.int64),
        np.frombuffer(indices, dtype=np.int32),
        np.frombuffer(values, dtype=np.float32),
    )


def _checked(texts: Sequence[str]) -> list[str]:
    if isinstance(texts, str):
        raise ConfigError("texts must be a list of str, got one str; use embed, or [text]", "texts", texts)
    return list(texts)
