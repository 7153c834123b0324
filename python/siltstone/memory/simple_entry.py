"""What a store in process memory takes: checked, repaired, and told apart as the core does it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from siltstone import _native
from siltstone.errors import ConfigError, InvalidEntryError
from siltstone.memory.convert import datetime_from, milliseconds, range_of
from siltstone.memory.entry import (
    Entry,
    Ranker,
    SourceRange,
    StoredEntry,
)
from siltstone.memory.limits import Limits
from siltstone.messages import well_formed

__all__ = ["check_search", "check_session_id", "has_text", "identity", "passes", "stored_of"]

MAX_SESSION_ID_BYTES = 1024


def check_session_id(session_id: str) -> None:
    """Refuses a session id that is empty, too long, or not valid Unicode."""
    try:
        size = len(session_id.encode())
    except UnicodeEncodeError as error:
        raise InvalidEntryError("a session id must not hold lone surrogates") from error
    if not 0 < size <= MAX_SESSION_ID_BYTES:
        raise InvalidEntryError(f"a session id must be 1 to {MAX_SESSION_ID_BYTES} bytes, got {size} bytes")


def check_search(limits: Limits, query: str, limit: int, ranker: Ranker | None, min_score: float) -> None:
    """Refuses a search that is out of its bounds."""
    limits.check_query(query)
    if limit < 0:
        raise InvalidEntryError(f"limit must be at least 0, got {limit}")
    if not 0.0 <= min_score <= 1.0:
        raise InvalidEntryError(f"min_score must be in 0..1, got {min_score}")
    if ranker is not None:
        raise ConfigError(
            f"a SimpleMemoryStore has one ranker; ranker must be None, got {ranker!r}",
            field="ranker",
            value=ranker,
        )


def stored_of(session_id: str, entry: Entry) -> StoredEntry:
    """*entry* as it is kept, without its number."""
    text = well_formed(entry.content)
    return StoredEntry(
        entry_id=0,
        session_id=session_id,
        content=text,
        source_range=SourceRange(*range_of(entry.source_range, "source_range")),
        role=well_formed(entry.role),
        name=None if entry.name is None else well_formed(entry.name),
        kind=well_formed(entry.kind),
        created_at=datetime_from(milliseconds(entry.created_at)),
        repaired=text != entry.content,
    )


def identity(entry: StoredEntry) -> tuple[Any, ...] | None:
    """What makes two entries one; None for an entry that says of no message that it came from it."""
    start, end = entry.source_range
    if start == end:
        return None
    return start, end, entry.role, entry.name, entry.kind, entry.content


def has_text(text: str) -> bool:
    """Whether there is more in *text* than white space."""
    return bool(_native.whitespace_words(text))  # the core's notion of white space, which is not Python's


def passes(entry: StoredEntry, overlaps: tuple[int, int] | None, since: datetime | None) -> bool:
    """Half-open ranges share a message where each begins before the other ends; an empty one has none."""
    if since is not None and entry.created_at <= since:
        return False
    if overlaps is None:
        return True
    start = max(entry.source_range.start, overlaps[0])
    end = min(entry.source_range.end, overlaps[1])
    return start < end
