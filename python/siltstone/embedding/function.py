"""Any callable as an embedder."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from siltstone.embedding.base import as_rows, check_embedder

__all__ = ["FunctionEmbedder"]


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
