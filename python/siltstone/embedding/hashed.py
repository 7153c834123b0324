"""Hashed TF embeddings as NumPy arrays: 4,096 buckets, term counts, L2-normalised.

NumPy is imported with the first array, not with the package.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

from siltstone import _native
from siltstone.errors import ConfigError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


__all__ = ["DIMENSION", "HashRule", "embed", "embed_batch", "embed_sparse"]

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
        raise ConfigError(
            "texts must be a list of str, got one str; use embed, or [text]", field="texts", value=texts
        )
    return list(texts)
