"""The documented store: hashed term frequencies, and an HNSW graph over each session's rows."""

from __future__ import annotations

import os
from typing import Literal, Self

from siltstone.memory.entry import Decay, Ranker, SearchIndex
from siltstone.memory.limits import DEFAULTS, Limits
from siltstone.stores.memory import MemoryStore

__all__ = ["HnswMemoryStore"]


class HnswMemoryStore(MemoryStore):
    """A :class:`MemoryStore` with the defaults of the documented store: cosine, ``poly31``, HNSW.

    A text is a bag of words: split at white space, ASCII letters in lower case, each word hashed by
    ``h = 31 * h + byte`` modulo 4,096, and counted. Each session has a graph over its rows (M 16, 16 layers,
    efConstruction 200; a search uses ``ef = max(limit, 200)``). The first search of the session builds the
    graph from the database. ``score = 1 - distance / 2``: 1 for equal words; a hit shares at least one word.

    :class:`MemoryStore` with its own defaults finds more, faster, and without a graph in memory. This class
    is for hosts that depend on the documented scores. The file is the same: ``MemoryStore.open`` reads it.
    """

    @classmethod
    def open(  # type: ignore[override]  # no embedder, and no options of one
        cls,
        path: str | os.PathLike[str],
        ranker: Ranker = "cosine",
        *,
        hash_rule: Literal["xxh3", "poly31"] | None = "poly31",
        index: SearchIndex = "hnsw",
        read_only: bool = False,
        decay: Decay | None = None,
        limits: Limits = DEFAULTS,
    ) -> Self:
        """Opens the store in the directory *path*, or creates it.

        The arguments are those of :meth:`MemoryStore.open`, with other defaults, and without an embedder. To
        search by vectors too, use :meth:`MemoryStore.open`.

        Raises:
            StoreOpenError: not a directory, not a store, no permission. Nothing was changed.
            StoreVersionError: another version of siltstone wrote it. Nothing was changed.
            ConfigError: an unknown ranker, index or rule, a ranker that needs an embedder, or a store with
                another rule than ``poly31``: open that one with ``hash_rule=None``.
        """
        return super().open(
            path,
            ranker,
            hash_rule=hash_rule,
            index=index,
            read_only=read_only,
            decay=decay,
            limits=limits,
        )
