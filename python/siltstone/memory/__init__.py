"""The contract of a store: searchable texts, and the log of messages from which they came."""

from typing import TYPE_CHECKING

from siltstone.late import names_of

if TYPE_CHECKING:
    from siltstone.memory.base import Store
    from siltstone.memory.entry import (
        RECALL_MIN_SCORE,
        Decay,
        Entry,
        ExpireReport,
        SearchHit,
        SourceRange,
        StoredEntry,
    )
    from siltstone.memory.kinds import Fusion, Ranker, SearchFilters, SearchIndex, SearchOrder, SearchScope
    from siltstone.memory.limits import Limits
    from siltstone.memory.passage import Passage
    from siltstone.memory.recalled import RecallCandidate, RecallRecord
    from siltstone.memory.reports import (
        Finding,
        ForgetReport,
        Page,
        Receipt,
        ReconcileReport,
        SessionInfo,
        SessionPage,
        Stage,
        StoreStats,
    )
else:
    __getattr__ = names_of(
        __name__,
        {
            "base": "Store",
            "entry": "RECALL_MIN_SCORE Decay Entry ExpireReport SearchHit SourceRange StoredEntry",
            "kinds": "Fusion Ranker SearchFilters SearchIndex SearchOrder SearchScope",
            "limits": "Limits",
            "passage": "Passage",
            "recalled": "RecallCandidate RecallRecord",
            "reports": "Finding ForgetReport Page Receipt ReconcileReport SessionInfo SessionPage Stage "
            "StoreStats",
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
