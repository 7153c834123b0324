"""A store for a directory, for rooms that know the contract of a store and no store."""

from __future__ import annotations

import os
from typing import Any

from siltstone.late import STORES
from siltstone.memory.base import Store

__all__ = ["open_documented_store", "open_store"]


def open_store(path: str | os.PathLike[str], **options: Any) -> Store:
    """``MemoryStore.open``, with its options and errors."""
    return _opened("MemoryStore", path, options)


def open_documented_store(path: str | os.PathLike[str], **options: Any) -> Store:
    """``HnswMemoryStore.open``, with its options and errors."""
    return _opened("HnswMemoryStore", path, options)


def _opened(kind: str, path: str | os.PathLike[str], options: dict[str, Any]) -> Store:
    store: Store = STORES[kind]().open(path, **options)
    return store
