"""The approximate index over arrays: a graph that leads to the nearest rows."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from siltstone import _native
from siltstone.errors import ConfigError, refuse
from siltstone.index.base import Index, as_ids, as_k, as_query, as_rows, first_row, serial, table

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from siltstone.index.base import Distances, Ids

    SparseRows: TypeAlias = tuple[ArrayLike, ArrayLike, ArrayLike]


Storage: TypeAlias = Literal["i8", "sparse"]
"""The storage of rows in memory."""

Plan: TypeAlias = Literal["auto", "scan", "graph"]
"""The way a query is answered."""

BUCKETS = 4096


@dataclass(frozen=True, slots=True)
class HnswParams:
    """The parameters of building and searching a graph, named after Malkov and Yashunin (2018).

    Attributes:
        m: ``M``: the links that a new row makes on a layer, 2 to 128; a row on the lowest layer has at most
            twice as many.
        ef_construction: ``efConstruction``: the number of candidates for the links of a new row, 1 to
            1,048,576.
        ef_search: ``ef``: the number of candidates for an answer, 1 to 1,048,576, unless a search gives its
            own.
        max_layer: The most layers, 1 to 32.
        seed: The seed that decides the layers of the rows, 0 to 2**64 - 1.

    Raises:
        ConfigError: a value is out of its bounds.
    """

    m: int = 16
    ef_construction: int = 200
    ef_search: int = 200
    max_layer: int = 16
    seed: int = 0

    def __post_init__(self) -> None:
        bounds = {
            "m": (2, 128),
            "ef_construction": (1, 2**20),
            "ef_search": (1, 2**20),
            "max_layer": (1, 32),
            "seed": (0, 2**64 - 1),
        }
        for field, (least, most) in bounds.items():
            value = getattr(self, field)
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
                refuse(field, f"{least} to {most}", value)


class HnswIndex(Index):
    """Approximate cosine search over rows of floats, by a graph (HNSW).

    Distances are cosine distances: 0 for the same direction, 1 for a right angle, 2 for the opposite
    direction; ties by id. A row of zeros has an id and is never found. Ids are serial from 0 and never
    reused. If ``k`` rows are left, ``k`` are found. Every search with a large enough ``ef`` can reach every
    row, after any inserts and removals (docs/design/hnsw.md has the proof). The same inserts give the same
    graph.

    Safe to use from many threads: a search does not wait for writers, and searches the rows that were there
    when it began. Small indexes are scanned, which is faster there and exact: see ``plan``.

    Args:
        dim: The length of a row, 1 to 65,536.
        params: The parameters of the graph.
        storage: ``"i8"``: bytes for the search, and float32 for the exact distances of the rows found.
            ``"sparse"``: rows of 4,096 counts, as ``siltstone.embedding.embed_sparse`` gives them, with 2
            bytes for each bucket that is not 0.

    Raises:
        ConfigError: a dimension is out of its bounds, the storage is unknown, or ``"sparse"`` has another
            dimension than 4,096.
    """

    _core: _native.Hnsw
    _core_type = _native.Hnsw

    def __init__(self, dim: int, params: HnswParams | None = None, storage: Storage = "i8") -> None:
        params = HnswParams() if params is None else params
        dim = as_k(dim, "dim")
        if storage == "sparse" and dim != BUCKETS:
            raise ConfigError(f"dim must be {BUCKETS} for storage 'sparse', got {dim}", "dim", dim)
        numbers = (params.m, params.ef_construction, params.ef_search, params.max_layer, params.seed)
        self._core = _native.Hnsw(dim, storage, numbers)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the index to *path*: the whole file, or it stays as it was. Removed rows are not in it.

        Raises:
            StoreIoError: the file cannot be written.
        """
        self._core.save(os.fspath(path))

    @property
    def dim(self) -> int:
        """The length of a row, in numbers."""
        return self._core.dim

    @property
    def params(self) -> HnswParams:
        """The parameters of the graph."""
        return HnswParams(*self._core.params)

    @property
    def storage(self) -> str:
        """The storage of rows in memory."""
        return self._core.storage

    def add(self, vectors: ArrayLike | SparseRows) -> Ids:
        """Adds rows, one after another.

        Args:
            vectors: Shape (n, dim), real numbers of any size and order; taken as float32. For the storage
                ``"sparse"`` also ``(indptr, indices, values)`` of the same rows in CSR form; its values are
                counts, or counts divided by a common number, such as their norm.

        Returns:
            Their ids, uint64 of shape (n,).

        Raises:
            ConfigError: another shape or type, NaN, a number that float32 cannot hold, or for ``"sparse"`` a
                negative number or numbers that are not proportional to counts. Nothing is added then.
        """
        return serial(*self._core.add(self._rows(vectors, "vectors")[0]))

    def remove(self, ids: Iterable[int] | int) -> None:
        """Removes all of the rows, or none. They are not found from then on.

        Removed rows stay linked as a way to others, until there are more than 64 and more than one for eight
        that are left; then they are unlinked together, and that removal takes longer.

        Raises:
            EntryNotFoundError: an id was never returned, or was removed before.
        """
        self._core.remove(as_ids(ids, "row"))

    def search(
        self, query: ArrayLike | SparseRows, k: int = 10, ef: int | None = None, *, plan: Plan = "auto"
    ) -> tuple[Ids, Distances]:
        """The rows nearest to *query*, the nearest first, ties by id.

        Args:
            query: Shape (dim,). A query of zeros finds nothing.
            k: The most rows; a larger number than there are gives all.
            ef: The number of candidates for the answer: more of them find more and take longer. None is
                ``params.ef_search``; it is raised to at least *k*.
            plan: ``"scan"`` compares every row and is exact, ``"graph"`` follows the links, ``"auto"`` takes
                the faster one for the number of rows and their dimension (:meth:`stats` says which).

        Returns:
            Ids (uint64) and distances (float32), of the same shape.

        Raises:
            ConfigError: another shape or type, a number that is not finite, ``k < 0``, ``ef < 1``, or an
                unknown plan.
        """
        row, count = self._rows(query if isinstance(query, tuple) else as_query(query, self.dim), "query")
        if count != 1:
            raise ConfigError(f"query must be one row, got {count}; use search_batch", field="query")
        return first_row(self._core.search(row, *_options(k, ef, plan)), "f")

    def search_batch(
        self, queries: ArrayLike | SparseRows, k: int = 10, ef: int | None = None, *, plan: Plan = "auto"
    ) -> tuple[Ids, Distances]:
        """The answers of :meth:`search` for each of *queries*; other threads run meanwhile.

        Returns:
            Ids and distances of shape (n, min(k, len(self))). The row of a query that finds fewer is padded
            with the id 2**64 - 1 and the distance infinity.
        """
        rows, count = self._rows(queries, "queries")
        return table(self._core.search(rows, *_options(k, ef, plan)), count, "f")

    def stats(self) -> dict[str, Any]:
        """Its sizes.

        ``index``, ``entries`` (not removed), ``removed``, ``lingering`` (removed but still linked), ``dim``,
        ``storage``, ``layers``, and ``plan``: the plan of a query that does not choose one.
        """
        rows, lingering, layers, plan = self._core.figures()
        return {
            "index": "hnsw",
            "entries": len(self),
            "removed": rows - len(self),
            "lingering": lingering,
            "dim": self.dim,
            "storage": self.storage,
            "layers": layers,
            "plan": plan,
        }

    def _rows(self, rows: ArrayLike | SparseRows, field: str) -> tuple[Any, int]:
        """*rows* as the core takes them, and their number."""
        if self.storage == "sparse":
            matrix = _csr(rows)
            return matrix, len(matrix[0]) - 1
        array = as_rows(rows, self.dim, field)  # type: ignore[arg-type]
        return array, len(array)

    def __len__(self) -> int:
        return len(self._core)

    def __repr__(self) -> str:
        return f"<HnswIndex of {len(self)} rows of {self.dim}, storage {self.storage!r}>"


def _options(k: int, ef: int | None, plan: Plan) -> tuple[int, int | None, str | None]:
    return as_k(k), None if ef is None else as_k(ef, "ef", 1), None if plan == "auto" else plan


def _csr(rows: ArrayLike | SparseRows) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]:
    """Rows of counts in CSR form, from CSR or from an array."""
    import numpy as np

    if isinstance(rows, tuple) and len(rows) == 3:
        indptr, indices, values = rows
        starts = np.ascontiguousarray(indptr, dtype=np.int64)
        if len(starts) == 0:
            raise ConfigError(
                "indptr must have one number more than there are rows, got none", field="indptr"
            )
        return starts, np.ascontiguousarray(indices, dtype=np.int32), np.ascontiguousarray(values, np.float32)
    array = as_rows(rows, BUCKETS)
    where, buckets = np.nonzero(array)
    starts = np.zeros(len(array) + 1, np.int64)
    np.cumsum(np.bincount(where, minlength=len(array)), out=starts[1:])
    return starts, buckets.astype(np.int32), array[where, buckets]
