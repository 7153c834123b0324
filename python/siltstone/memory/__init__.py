"""The contract of a store: searchable texts, and the log of messages from which they came."""

from siltstone.late import names_of

TYPE_CHECKING = False
if TYPE_CHECKING:
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
        SearchOrder,
        SearchScope,
        SessionInfo,
        SessionPage,
        SourceRange,
        Stage,
        StoredEntry,
        StoreStats,
    )
    from siltstone.memory.limits import Limits
    from siltstone.memory.passage import Passage
    from siltstone.memory.recalled import RecallCandidate, RecallRecord
else:
    __getattr__ = names_of(
        __name__,
        {
            "base": "Store",
            "entry": "RECALL_MIN_SCORE Decay Entry ExpireReport Finding ForgetReport Fusion Page "
            "Ranker Receipt ReconcileReport SearchFilters SearchHit SearchIndex SearchOrder "
            "SearchScope SessionInfo SessionPage SourceRange Stage StoredEntry StoreStats",
            "limits": "Limits",
            "passage": "Passage",
            "recalled": "RecallCandidate RecallRecord",
        },
    )

__all__ = [
    "RECALL_MIN_SCORE",
    "Decay",
    "Entry",
    "ExpireReport",
    "Finding",
    "ForgetReport",
    "Fusion",
    "Limits",
    "Page",
    "Passage",
    "Ranker",
    "RecallCandidate",
    "RecallRecord",
    "Receipt",
    "ReconcileReport",
    "SearchFilters",
    "SearchHit",
    "SearchIndex",
    "SearchOrder",
    "SearchScope",
    "SessionInfo",
    "SessionPage",
    "SourceRange",
    "Stage",
    "Store",
    "StoreStats",
    "StoredEntry",
]
