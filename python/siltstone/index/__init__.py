"""Indexes without a store: over texts, and over arrays."""

from siltstone.index.bm25 import Bm25Index, Bm25Params
from siltstone.index.exact import HashedTfIndex
from siltstone.index.hnsw import HnswIndex, HnswParams, Storage

__all__ = [
    "Bm25Index",
    "Bm25Params",
    "HashedTfIndex",
    "HnswIndex",
    "HnswParams",
    "Storage",
]
