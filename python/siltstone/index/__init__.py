"""Indexes that need no store: texts in memory, by what they have in common with a query."""

from siltstone.index.bm25 import Bm25Index, Bm25Params
from siltstone.index.exact import ExactIndex

__all__ = ["Bm25Index", "Bm25Params", "ExactIndex"]
