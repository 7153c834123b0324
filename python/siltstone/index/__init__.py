"""Indexes without a store: over texts, and over arrays."""

from siltstone.index.hnsw import HnswIndex, HnswParams, Storage
from siltstone.index.texts import Bm25Index, Bm25Params, HashedTfIndex

__all__ = ["Bm25Index", "Bm25Params", "HashedTfIndex", "HnswIndex", "HnswParams", "Storage"]
