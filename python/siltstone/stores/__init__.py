"""The stores of the package: databases of the core, on disk or in memory."""

from siltstone.stores.memory import HnswMemoryStore, MemoryStore
from siltstone.stores.simple import SimpleMemoryStore

__all__ = ["HnswMemoryStore", "MemoryStore", "SimpleMemoryStore"]
