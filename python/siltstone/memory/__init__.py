"""Stores: texts that can be found again, and the log they came from."""

from siltstone.memory.base import Store
from siltstone.memory.entry import (
    RECALL_MIN_SCORE,
    Decay,
    Entry,
    ExpireReport,
    Finding,
    ForgetReport,
    Fusion,
    Page,
    Ranker,
    Receipt,
    ReconcileReport,
    SearchFilters,
    SearchHit,
    SearchIndex,
    SearchScope,
    SessionInfo,
    SessionPage,
    SourceRange,
    Stage,
    StoredEntry,
    StoreStats,
)
from siltstone.memory.hnsw import HnswMemoryStore
from siltstone.memory.limits import Limits
from siltstone.memory.simple import SimpleMemoryStore
from siltstone.memory.store import MemoryStore

__all__ = [
    "RECALL_MIN_SCORE",
    "Decay",
    "Entry",
    "ExpireReport",
    "Finding",
    "ForgetReport",
    "Fusion",
    "HnswMemoryStore",
    "Limits",
    "MemoryStore",
    "Page",
    "Ranker",
    "Receipt",
    "ReconcileReport",
    "SearchFilters",
    "SearchHit",
    "SearchIndex",
    "SearchScope",
    "SessionInfo",
    "SessionPage",
    "SimpleMemoryStore",
    "SourceRange",
    "Stage",
    "Store",
    "StoreStats",
    "StoredEntry",
]
