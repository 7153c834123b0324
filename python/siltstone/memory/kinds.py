"""The types of the arguments of a search, and of what a forget may leave, for annotations alone."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, TypeAlias, TypedDict

__all__ = ["Fusion", "Ranker", "Remaining", "SearchFilters", "SearchIndex", "SearchOrder", "SearchScope"]

Ranker: TypeAlias = Literal["lexical", "cosine", "hybrid", "dense", "fused"]
Fusion: TypeAlias = Literal["zscore", "rrf"]
SearchIndex: TypeAlias = Literal["exact", "hnsw"]  #: the index of the ranker ``cosine``
SearchOrder: TypeAlias = Literal["score", "time"]  #: best first, or in the order of the messages
SearchScope: TypeAlias = Literal["session", "namespace"]  #: one session, or all of its namespace

Remaining: TypeAlias = Literal["identifiers", "files", "pages", "wal", "copies"]
"""The places that may still have bytes of forgotten texts."""


class SearchFilters(TypedDict, total=False):
    """Conditions on hits. A hit must meet all given ones. Scores do not depend on them.

    Entries are filtered before they are ranked, so a search returns as many hits as requested, if enough
    entries pass.

    Attributes:
        since: Messages from this time on, to the millisecond. A datetime without a zone is UTC.
        until: Messages before this time.
        role: The exact role.
        kind: The exact kind.
        name: The exact name of the speaker or tool.
        topic: Texts about this topic of the documented table: ``database``, ``deployment``, ....
        entity: Texts that name this entity, such as ``person:Ann``, or ``Ann``. Topics and entities are
            computed by rules from the text of each hit during the search, so a rare one makes a search read
            many entries.
    """

    since: datetime | float | None
    until: datetime | float | None
    role: str | None
    kind: str | None
    name: str | None
    topic: str | None
    entity: str | None
