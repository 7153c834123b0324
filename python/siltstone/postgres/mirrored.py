"""The parts of a store in a directory that differ over a mirror: its files, and the access to its vectors."""

from __future__ import annotations

from typing import Any

from siltstone.postgres.mirror import Mirror
from siltstone.stores.memory import MemoryStore

__all__ = ["MirrorStore", "MirrorVectors"]


class MirrorStore(MemoryStore):
    """The store of the core over a mirror. There are no files beside it."""

    @property
    def _directory(self) -> None:  # type: ignore[override]
        return None


class MirrorVectors:
    """The calls that the worker for vectors makes to a store. Each runs in the mirror."""

    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror

    def embedded(self) -> tuple[int | None, int]:
        """The same call of the core."""
        return self._mirror.read(lambda store: store._native.embedded(), fresh=False)

    def missing_vectors(self, after: int, limit: int) -> Any:
        """The same call of the core."""
        return self._mirror.read(lambda store: store._native.missing_vectors(after, limit), fresh=False)

    def store_vectors(self, key: int, rows: list[tuple[int, bytes]]) -> int:
        """The same call of the core."""
        return self._mirror.run(lambda store: store._native.store_vectors(key, rows), fresh=False)
