"""A store for a directory, for rooms that know the contract of a store and no store."""

from __future__ import annotations

import os
from typing import Any

from siltstone.late import STORES
from siltstone.memory.base import Store

__all__ = ["is_database", "open_documented_store", "open_store"]

DATABASES = ("postgresql://", "postgres://")  # as libpq knows them


def open_store(path: str | os.PathLike[str], **options: Any) -> Store:
    """``MemoryStore.open``, or ``PostgresStore.open`` for the address of a database; with its errors."""
    return _opened("PostgresStore" if is_database(path) else "MemoryStore", path, options)


def is_database(path: object) -> bool:
    """Whether that is the address of a database, and no path."""
    return isinstance(path, str) and path.startswith(DATABASES)


def open_documented_store(path: str | os.PathLike[str], **options: Any) -> Store:
    """``HnswMemoryStore.open``, with its options and errors."""
    return _opened("HnswMemoryStore", path, options)


def _opened(kind: str, path: str | os.PathLike[str], options: dict[str, Any]) -> Store:
    store: Store = STORES[kind]().open(path, **options)
    return store
