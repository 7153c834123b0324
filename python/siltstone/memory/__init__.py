"""The contract of a store: searchable texts, and the log of messages from which they came."""

from typing import TYPE_CHECKING

from siltstone.late import names_of

if TYPE_CHECKING:
    from siltstone.memory.base import Store as Store
    from siltstone.memory.entry import (
        RECALL_MIN_SCORE as RECALL_MIN_SCORE,
        Decay as Decay,
        Entry as Entry,
        ExpireReport as ExpireReport,
        Fusion as Fusion,
        Ranker as Ranker,
        SearchFilters as SearchFilters,
        SearchHit as SearchHit,
        SearchIndex as SearchIndex,
        SearchOrder as SearchOrder,
        SearchScope as SearchScope,
        SourceRange as SourceRange,
        StoredEntry as StoredEntry,
    )
    from siltstone.memory.limits import Limits as Limits
    from siltstone.memory.passage import Passage as Passage
    from siltstone.memory.recalled import RecallCandidate as RecallCandidate, RecallRecord as RecallRecord
    from siltstone.memory.reports import (
        Finding as Finding,
        ForgetReport as ForgetReport,
        Page as Page,
        Receipt as Receipt,
        SessionInfo as SessionInfo,
        SessionPage as SessionPage,
        StoreStats as StoreStats,
    )
else:
    __getattr__, __dir__, __all__ = names_of(
        __name__,
        {
            "base": "Store",
            "entry": "RECALL_MIN_SCORE Decay Entry ExpireReport Fusion Ranker SearchFilters SearchHit "
            "SearchIndex SearchOrder SearchScope SourceRange StoredEntry",
            "limits": "Limits",
            "passage": "Passage",
            "recalled": "RecallCandidate RecallRecord",
            "reports": "Finding ForgetReport Page Receipt SessionInfo SessionPage StoreStats",
        },
    )
