"""Indexes without a store: over texts, and over arrays."""

from siltstone.index.bm25 import Bm25Index, Bm25Params, bm25_scores
from siltstone.index.exact import HashedTfIndex
from siltstone.index.flat import FlatIndex
from siltstone.index.hnsw import HnswIndex, HnswParams, Storage

__all__ = [
    "Bm25Index",
    "Bm25Params",
    "FlatIndex",
    "HashedTfIndex",
    "HnswIndex",
    "HnswParams",
    "Storage",
    "bm25_scores",
]
