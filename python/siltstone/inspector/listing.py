"""The page of all sessions: which there are, filtered and sorted."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from siltstone import tokens
from siltstone.errors import SiltstoneError
from siltstone.figures.filling import in_context
from siltstone.inspector.subject import Subject
from siltstone.memory import SessionInfo
from siltstone.memory.paging import sessions_of

__all__ = ["SORTS", "Listing", "contexts", "listing"]

PAGE = 50  #: sessions of a page
_RULE = "blocks"  #: how the command line counts a context where nobody says otherwise
_LONG = 1_000  #: messages without a compaction that are not counted anew: the log has their tokens
_NEVER = datetime.min.replace(tzinfo=UTC)

#: By what the list is sorted: the word of the address, the head of the column, and the key.
SORTS: dict[str, tuple[str, Callable[[SessionInfo], Any]]] = {
    "active": ("Last activity", lambda each: each.last_at or _NEVER),
    "name": ("Session", lambda each: each.session_id),
    "messages": ("Messages", lambda each: each.messages),
    "tokens": ("Tokens", lambda each: each.tokens),
    "entries": ("Entries", lambda each: each.entries),
    "compactions": ("Compactions", lambda each: each.compactions),
}


@dataclass(frozen=True, slots=True)
class Listing:
    """A page of the list.

    Attributes:
        sessions: The sessions of the page.
        found: How many fit the filter.
        known: How many there are.
        namespaces: All that there are, sorted.
        start: The place of the first of the page.
        before: Where the page before begins; None at the beginning.
        after: Where the next one begins; None at the end.
        sort: The word that it is sorted by.
        is_up: Whether the smallest comes first.
        contexts: The tokens in context of each session of the page; None where its log cannot be read.
        namespace: The namespace that is asked for; None for all of them.
        words: The text that is asked for.
    """

    sessions: tuple[SessionInfo, ...]
    found: int
    known: int
    namespaces: tuple[str, ...]
    start: int
    before: int | None
    after: int | None
    sort: str
    is_up: bool
    contexts: dict[str, int | None]
    namespace: str | None
    words: str


def listing(
    subject: Subject,
    words: str = "",
    namespace: str | None = None,
    sort: str = "active",
    *,
    is_up: bool = False,
    start: int = 0,
    page: int = PAGE,
) -> Listing:
    """The sessions whose id or title has *words*, of one namespace where one is named."""
    known = list(sessions_of(subject.store))
    sort = sort if sort in SORTS else "active"
    wanted = words.casefold().strip()
    found = [
        each
        for each in known
        if (namespace is None or each.namespace == namespace)
        and (wanted in each.session_id.casefold() or wanted in each.title.casefold())
    ]
    found.sort(key=SORTS[sort][1], reverse=not is_up)
    start = max(0, min(start, max(0, (len(found) - 1) // page * page)))
    end = start + page
    return Listing(
        tuple(found[start:end]),
        len(found),
        len(known),
        tuple(sorted({each.namespace for each in known})),
        start,
        None if start == 0 else max(0, start - page),
        end if end < len(found) else None,
        sort,
        is_up,
        contexts(subject, found[start:end]),
        namespace,
        words,
    )


def contexts(subject: Subject, sessions: Iterable[SessionInfo]) -> dict[str, int | None]:
    """The tokens in context of each of *sessions*; None where its log cannot be read."""
    return {each.session_id: _context(subject, each) for each in sessions}


def _context(subject: Subject, info: SessionInfo) -> int | None:
    if not info.compactions and info.messages > _LONG:
        return info.tokens
    log = subject.store.open_log(info.session_id)
    try:
        version = log.version()
        return subject.kept(info.session_id, "context", version, lambda: in_context(log, tokens.rule(_RULE)))
    except SiltstoneError:
        return None
