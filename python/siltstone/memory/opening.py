"""How a store is opened: which kind of store it is, and the settings of its searches."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from siltstone import _native, checks
from siltstone.errors import ConfigError, refuse
from siltstone.hooks import checked_hooks
from siltstone.memory.base import Store
from siltstone.memory.entry import Decay, Fusion, Ranker, SearchIndex
from siltstone.memory.limits import DEFAULTS, Limits, language_name

if TYPE_CHECKING:
    from siltstone.embedding.base import Embedder
    from siltstone.events import StoreHook
    from siltstone.memory.hits import Reranker, Scorer
    from siltstone.memory.vectors import Vectors


#: The address of a database as libpq knows it: a URL, or words such as ``host=db.example dbname=app``.
_DATABASE: Final = re.compile(
    r"postgres(?:ql)?://|\s*(?:host|hostaddr|port|dbname|user|password|passfile|service|sslmode)\s*=\s*\S"
)
DENSE: Final = ("dense", "fused")  # the rankers that need an embedder


def open_store(path: str | os.PathLike[str], **options: Any) -> Store:
    """``MemoryStore.open``, or ``PostgresStore.open`` for the address of a database; with its errors.

    Behind an address there may stand ``#`` and the name of a schema.
    """
    if not is_database(path):
        return _opened("MemoryStore", path, options)
    conninfo, schema = parts_of(os.fspath(path))
    return _opened("PostgresStore", conninfo, {**options, **({"schema": schema} if schema else {})})


def is_database(path: object) -> bool:
    """Whether that is the address of a database, and no path."""
    return isinstance(path, str) and _DATABASE.match(path) is not None


def parts_of(address: str) -> tuple[str, str]:
    """The address of a database for libpq, and the schema behind a ``#``, ``""`` for none.

    A ``#`` between words, such as one of a password, begins no schema; one behind a blank does.
    """
    conninfo, _, schema = address.partition("#" if "://" in address else " #")
    return conninfo, schema


def open_documented_store(path: str | os.PathLike[str], **options: Any) -> Store:
    """``HnswMemoryStore.open``, with its options and errors."""
    return _opened("HnswMemoryStore", path, options)


def _opened(kind: str, path: str | os.PathLike[str], options: dict[str, Any]) -> Store:
    room = import_module("siltstone.postgres" if kind == "PostgresStore" else "siltstone.stores")
    store: Store = getattr(room, kind).open(path, **options)  # of a higher room: its stores open sessions
    return store


class Searching(NamedTuple):
    """The settings of searches, for a store in a directory and for a store over mirrors."""

    options: _native.SearchOptions
    limits: Limits
    embedder: Embedder | None
    embed_timeout: float
    reembed: bool
    hooks: tuple[StoreHook, ...]
    reranker: Reranker | None
    language: str | None

    @classmethod
    def of(
        cls,
        ranker: Ranker | None,
        embedder: Embedder | None,
        index: SearchIndex = "exact",
        *,
        decay: Decay | None = None,
        fusion: Fusion = "zscore",
        reembed: bool = False,
        embed_timeout: float = 5.0,
        reranker: Reranker | Scorer | None = None,
        hooks: Iterable[StoreHook] = (),
        limits: Limits = DEFAULTS,
        language: str | Sequence[str] | None = None,
    ) -> Self:
        """The checked options of ``open``. The defaults are here; ``SearchSettings`` has the types.

        Raises:
            TypeError: an option does not exist.
            ConfigError: the ranker, the index or the language is unknown, the ranker needs an embedder, the
                embedder lacks a method, ``embed_timeout`` is no number of seconds, or ``limits`` is no
                ``Limits``.
        """
        if ranker is None:
            ranker = "lexical" if embedder is None else "fused"
        options = _native.SearchOptions(ranker=ranker, index=index, decay=decay, fusion=fusion)
        check_has_embedder(ranker, embedder)
        if embedder is not None:
            from siltstone.embedding.base import check_embedder  # few stores have one

            check_embedder(embedder)
        checks.seconds("embed_timeout", embed_timeout, "")
        if not isinstance(limits, Limits):
            refuse("limits", "Limits", limits)
        if reranker is not None:
            from siltstone.memory.hits import as_reranker  # few stores have one

            reranker = as_reranker(reranker)
        if language is not None:
            language = language_name(language)
        return cls(
            options, limits, embedder, embed_timeout, reembed, checked_hooks(hooks), reranker, language
        )

    def vectors(self, native: _native.Store, asked: _native.Store | None = None) -> Vectors | None:
        """The maker of the vectors of a store, which remembers its embedder; None without an embedder.

        Args:
            native: The store.
            asked: The object that the threads of the vectors call, if it is not *native* itself.
        """
        if self.embedder is None:
            return None
        from siltstone.memory.vectors import Vectors

        key = native.use_embedder(self.embedder.id, self.embedder.dimension, self.reembed)
        return Vectors(asked or native, self.embedder, key, self.embed_timeout, self.hooks)


def check_has_embedder(ranker: str, embedder: object) -> None:
    """Refuses a ranker over vectors where nothing makes any."""
    if ranker in DENSE and embedder is None:
        raise ConfigError(
            f"ranker {ranker!r} needs an embedder: open the store with embedder=...", "ranker", ranker
        )
