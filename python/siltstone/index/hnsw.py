"""The approximate index over arrays: a graph that leads to the nearest rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from siltstone import _native
from siltstone.errors import ConfigError
from siltstone.index.arrays import as_k, first_row, serial, table
from siltstone.index.base import RowIndex
from siltstone.index.vectors import as_query, as_rows
from siltstone.values import dataclass

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from siltstone.index.arrays import Distances, Ids

    SparseRows: TypeAlias = tuple[ArrayLike, ArrayLike, ArrayLike]

__all__ = ["HnswIndex", "HnswParams", "Storage"]

Storage: TypeAlias = Literal["auto", "i8", "f16", "f32", "sparse"]
"""How rows lie in memory."""

Plan: TypeAlias = Literal["auto", "scan", "graph"]
"""How a query is answered."""

BUCKETS = 4096


@dataclass(frozen=True, slots=True)
class HnswParams:
    """How a graph is built and searched; the letters of Malkov and Yashunin (2018).

    Attributes:
        m: ``M``: links that a new row makes on a layer, 2 to 128; the lowest layer has up to twice as many.
        ef_construction: ``efConstruction``: candidates for the links of a new row, 1 to 1,048,576.
        ef_search: ``ef``: candidates for an answer, 1 to 1,048,576, where a search does not say.
        max_layer: How many layers there may be, 1 to 32.
        seed: What decides the layers of the rows, 0 to 2**64 - 1.

    Raises:
        ConfigError: a value out of its bounds.
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
                raise ConfigError(
                    f"{field} must be {least} to {most}, got {value!r}", field=field, value=value
                )


class HnswIndex(RowIndex):
    """Approximate cosine search over rows of floats, by a graph (HNSW).

    Distances and ids are those of :class:`FlatIndex`. With ``k`` rows left, ``k`` are found; every row is
    within reach of every search whose ``ef`` is large enough, after any inserts and removals
    (docs/design/hnsw.md has the reason). The same inserts give the same graph.

    Safe to use from many threads: a search takes no lock that a writer holds, and looks at the rows that
    were there when it began. Small indexes are scanned, which is quicker there and exact: see ``plan``.

    Args:
        dim: Numbers of a row, 1 to 65,536.
        params: How the graph is built and searched.
        storage: ``"i8"`` (what ``"auto"`` takes): bytes lead the way, float32 beside them give exact
            distances of what was found. ``"f16"``: float16 alone, half the memory of floats, distances of the
            rounded rows. ``"f32"``: float32 alone. ``"sparse"``: rows of 4,096 counts, as
            ``siltstone.embed_sparse`` gives them, 2 bytes a bucket that is not 0.

    Raises:
        ConfigError: a dimension out of its bounds, an unknown storage, or ``"sparse"`` without 4,096.
    """

    _core: _native.Hnsw
    _core_type = _native.Hnsw

    def __init__(self, dim: int, params: HnswParams | None = None, storage: Storage = "auto") -> None:
        params = HnswParams() if params is None else params
        dim, storage = as_k(dim, "dim"), "i8" if storage == "auto" else storage
        if storage == "sparse" and dim != BUCKETS:
            raise ConfigError(
                f"dim must be {BUCKETS} for storage 'sparse', got {dim}", field="dim", value=dim
            )
        numbers = (params.m, params.ef_construction, params.ef_search, params.max_layer, params.seed)
        self._core = _native.Hnsw(dim, storage, numbers)

    @property
    def params(self) -> HnswParams:
        """How the graph is built and searched."""
        return HnswParams(*self._core.params)

    @property
    def storage(self) -> str:
        """How rows lie in memory."""
        return self._core.storage

    def add(self, vectors: ArrayLike | SparseRows) -> Ids:
        """Adds rows, one after another.

        Args:
            vectors: Shape (n, dim), real numbers of any size and order; taken as float32. For storage
                ``"sparse"`` also ``(indptr, indices, values)`` of the same rows in CSR form. There, values
                are counts, or counts divided by a common number, such as their norm.

        Returns:
            Their ids, uint64 of shape (n,).

        Raises:
            ConfigError: another shape or kind, NaN, a number that float32 does not hold, or for ``"sparse"``
                a negative number or no counts. Nothing is added then.
        """
        if self.storage == "sparse":
            return serial(*self._core.add_sparse(*_csr(vectors)))
        return serial(*self._core.add(as_rows(vectors, self.dim)))  # type: ignore[arg-type]

    def remove(self, ids: Iterable[int] | int) -> None:
        """Removes rows: all of them, or none. They are no answers from then on.

        Every now and then a removal takes longer: removed rows lead the way until there is one for eight
        that are left, and are unlinked then.

        Raises:
            EntryNotFoundError: an id was never given, or was removed before.
        """
        super().remove(ids)

    def search(
        self, query: ArrayLike | SparseRows, k: int = 10, ef: int | None = None, *, plan: Plan = "auto"
    ) -> tuple[Ids, Distances]:
        """The rows nearest to *query*, the nearest first, ties by id.

        Args:
            query: Shape (dim,). A query of zeros finds nothing.
            k: How many at most; more than there are gives all.
            ef: Candidates for the answer: more find more and take longer. ``params.ef_search`` where None; at
                least *k*.
            plan: ``"scan"`` looks at every row and is exact, ``"graph"`` follows the links, ``"auto"`` takes
                what is quicker for so many rows of that dimension (:meth:`stats` says which).

        Returns:
            Ids (uint64) and distances (float32), of one shape.

        Raises:
            ConfigError: another shape or kind, a number that is not finite, ``k < 0``, ``ef < 1``, or an
                unknown plan.
        """
        if self.storage == "sparse":
            matrix = _csr(query if isinstance(query, tuple) else as_query(query, self.dim))
            if len(matrix[0]) != 2:
                raise ConfigError(
                    f"query must be one row, got {len(matrix[0]) - 1}; use search_batch", field="query"
                )
            return first_row(self._core.search_sparse(*matrix, *_options(k, ef, plan)), "f")
        row = as_query(query, self.dim)  # type: ignore[arg-type]
        return first_row(self._core.search(row, *_options(k, ef, plan)), "f")

    def search_batch(
        self, queries: ArrayLike | SparseRows, k: int = 10, ef: int | None = None, *, plan: Plan = "auto"
    ) -> tuple[Ids, Distances]:
        """The answers of :meth:`search` for each of *queries*; other threads run meanwhile.

        Returns:
            Ids and distances of shape (n, min(k, len(self))). Where a query finds fewer, the rest are the id
            2**64 - 1 at an infinite distance.
        """
        if self.storage == "sparse":
            matrix = _csr(queries)
            answer = self._core.search_sparse(*matrix, *_options(k, ef, plan))
            return table(answer, len(matrix[0]) - 1, "f")
        rows = as_rows(queries, self.dim, "queries")  # type: ignore[arg-type]
        return table(self._core.search(rows, *_options(k, ef, plan)), len(rows), "f")

    def stats(self) -> dict[str, Any]:
        """Its sizes.

        ``index``, ``entries`` (left), ``removed``, ``lingering`` (those of them that are still linked),
        ``dim``, ``storage``, ``layers``, and ``plan``: how a query is answered that does not say.
        """
        rows, lingering, layers, plan = self._core.figures()
        own = {"lingering": lingering, "dim": self.dim, "storage": self.storage, "layers": layers}
        return self._figures("hnsw", rows, **own, plan=plan)

    def __repr__(self) -> str:
        return f"<HnswIndex of {len(self)} rows of {self.dim}, storage {self.storage!r}>"


def _options(k: int, ef: int | None, plan: Plan) -> tuple[int, int | None, str | None]:
    return as_k(k), None if ef is None else as_k(ef, "ef", 1), None if plan == "auto" else plan


def _csr(
    rows: ArrayLike | SparseRows,
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]:
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
