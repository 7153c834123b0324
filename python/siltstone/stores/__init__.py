"""The stores of the package: databases of the core, on disk or in memory."""

from typing import TYPE_CHECKING

from siltstone.late import names_of

if TYPE_CHECKING:
    from siltstone.stores.hnsw import HnswMemoryStore
    from siltstone.stores.memory import MemoryStore
    from siltstone.stores.simple import SimpleMemoryStore
else:
    __getattr__ = names_of(
        __name__,
        {
            "hnsw": "HnswMemoryStore",
            "memory": "MemoryStore",
            "simple": "SimpleMemoryStore",
        },
    )

__all__ = ["HnswMemoryStore", "MemoryStore", "SimpleMemoryStore"]
