"""The exact index over arrays: each query is compared with every row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from siltstone import _native
from siltstone.index.arrays import as_k, first_row, serial, table
from siltstone.index.base import RowIndex
from siltstone.index.vectors import as_query, as_rows

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from siltstone.index.arrays import Distances, Ids

__all__ = ["FlatIndex"]


class FlatIndex(RowIndex):
    """Exact cosine search over rows of floats.

    Distances are cosine distances: 0 for the same direction, 1 for a right angle, 2 for the opposite
    direction; ties by id. They are computed from the given float32 numbers, summed in float64. A row of zeros
    has an id and is never found. Ids are serial from 0 and never reused.

    A query scans one byte a number, and computes exact distances only where the bytes do not decide: about
    0.2 ms for 10,000 rows of 384 numbers. Safe to use from many threads: a search does not wait for writers.

    Args:
        dim: The length of a row, 1 to 65,536.

    Raises:
        ConfigError: *dim* is out of these bounds.
    """

    _core: _native.Flat
    _core_type = _native.Flat

    def __init__(self, dim: int) -> None:
        self._core = _native.Flat(as_k(dim, "dim"))

    def add(self, vectors: ArrayLike) -> Ids:
        """Adds all of the rows, or none.

        Args:
            vectors: Shape (n, dim), real numbers of any size and order; taken as float32.

        Returns:
            Their ids, uint64 of shape (n,).

        Raises:
            ConfigError: another shape or kind, NaN, or a number that float32 does not hold.
        """
        return serial(*self._core.add(as_rows(vectors, self.dim)))

    def search(self, query: ArrayLike, k: int = 10) -> tuple[Ids, Distances]:
        """The rows nearest to *query*, the nearest first, ties by id.

        Args:
            query: Shape (dim,). A query of zeros finds nothing.
            k: The most rows; a larger number than there are gives all.

        Returns:
            Ids (uint64) and distances (float32), of the same shape.

        Raises:
            ConfigError: another shape or kind, a number that is not finite, or ``k < 0``.
        """
        return first_row(self._core.search(as_query(query, self.dim), as_k(k)), "f")

    def search_batch(self, queries: ArrayLike, k: int = 10) -> tuple[Ids, Distances]:
        """The answers of :meth:`search` for each of *queries*; other threads run meanwhile.

        Returns:
            Ids and distances of shape (n, min(k, len(self))). The row of a query that finds fewer is padded
            with the id 2**64 - 1 and the distance infinity.
        """
        rows = as_rows(queries, self.dim, "queries")
        return table(self._core.search(rows, as_k(k)), len(rows), "f")

    def stats(self) -> dict[str, Any]:
        """Its sizes: ``index``, ``entries`` (not removed), ``removed``, ``dim``; and ``plan``, a scan."""
        return self._figures("flat", self._core.rows, dim=self.dim, plan="scan")

    def __repr__(self) -> str:
        return f"<FlatIndex of {len(self)} rows of {self.dim}>"
