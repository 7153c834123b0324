"""The contract of a store: searchable texts, and the log of messages from which they came."""

from siltstone.memory.base import Store as Store
from siltstone.memory.database_log import RecallCandidate as RecallCandidate, RecallRecord as RecallRecord
from siltstone.memory.entry import (
    AGENT_MIN_SCORE as AGENT_MIN_SCORE,
    RECALL_MIN_SCORE as RECALL_MIN_SCORE,
    AgedSearchOptions as AgedSearchOptions,
    Decay as Decay,
    Entry as Entry,
    ExpireReport as ExpireReport,
    Finding as Finding,
    ForgetCriteria as ForgetCriteria,
    ForgetReport as ForgetReport,
    Fusion as Fusion,
    Page as Page,
    Ranker as Ranker,
    Receipt as Receipt,
    SearchFilters as SearchFilters,
    SearchHit as SearchHit,
    SearchIndex as SearchIndex,
    SearchOptions as SearchOptions,
    SearchOrder as SearchOrder,
    SearchScope as SearchScope,
    SessionInfo as SessionInfo,
    SessionPage as SessionPage,
    SourceRange as SourceRange,
    StoredEntry as StoredEntry,
    StoreStats as StoreStats,
)
from siltstone.memory.limits import Limits as Limits
