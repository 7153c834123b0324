"""The stores of the package: databases of the core, on disk or in memory."""

from siltstone.stores.hnsw import HnswMemoryStore
from siltstone.stores.memory import MemoryStore
from siltstone.stores.simple import SimpleMemoryStore

__all__ = ["HnswMemoryStore", "MemoryStore", "SimpleMemoryStore"]
