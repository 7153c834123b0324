"""The documented store by its own name: hashed term frequencies, and a graph over each session's rows."""

from __future__ import annotations

import os
from typing import Literal, Self

from siltstone.memory.entry import Decay, Ranker, SearchIndex
from siltstone.memory.limits import DEFAULTS, Limits
from siltstone.stores.memory import MemoryStore

__all__ = ["HnswMemoryStore"]


class HnswMemoryStore(MemoryStore):
    """The face of :class:`MemoryStore`, opened as the documented store: cosine, ``poly31``, HNSW.

    A text is the bag of its words: split at white space, ASCII letters lowered, ``h = 31 * h + byte``
    modulo 4,096, counted. A session has a graph over its rows (M 16, 16 layers, efConstruction 200; a search
    takes ``ef = max(limit, 200)``), which the first search of the session builds from the rows of the
    database. ``score = 1 - distance / 2``: 1 for the same words, and no hit without a word in common.

    :class:`MemoryStore` as it opens by default finds more, sooner, and without a graph in memory. This one
    is for hosts that depend on the documented scores. It is the same file: ``MemoryStore.open`` reads it.
    """

    @classmethod
    def open(  # type: ignore[override]  # it takes no embedder, and what comes with one
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
        """Opens the store in the directory *path*; makes one where there is none.

        The arguments are those of :meth:`MemoryStore.open`, with other defaults, and none of an embedder: to
        search by vectors as well, open the file with that one.

        Raises:
            StoreOpenError: not a directory, not a store, no permission. What is there is left as it was.
            StoreVersionError: written by a newer siltstone. It is left as it was.
            ConfigError: an unknown ranker, index or rule, a ranker that needs an embedder, or a store that
                was made with another rule than ``poly31``: open that one with ``hash_rule=None``.
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
