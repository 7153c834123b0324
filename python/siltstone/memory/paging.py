"""Whole lists of a store and of a log. They are read a page at a time, so one page is in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from siltstone.memory.base import Store
from siltstone.memory.entry import StoredEntry
from siltstone.memory.log import LogRow, SessionLog
from siltstone.memory.reports import Page, SessionInfo

__all__ = ["entries_of", "entry_pages", "rows_at", "rows_of", "sessions_of"]

_PAGE: Final = 1_000


def entry_pages(
    store: Store, session_id: str, overlaps: tuple[int, int] | None = None, *, expired: bool = False
) -> Iterator[Page]:
    """The pages of :meth:`Store.entries`, in order."""
    offset: int | None = 0
    while offset is not None:
        page = store.entries(session_id, overlaps=overlaps, offset=offset, limit=_PAGE, expired=expired)
        yield page
        offset = page.next_offset


def entries_of(
    store: Store, session_id: str, overlaps: tuple[int, int] | None = None, *, expired: bool = False
) -> Iterator[StoredEntry]:
    """The entries of a session, in the order of their ids."""
    for page in entry_pages(store, session_id, overlaps, expired=expired):
        yield from page.entries


def sessions_of(store: Store, namespace: str | None = None) -> Iterator[SessionInfo]:
    """The sessions of a store, or of one of its namespaces, in the order of their first writes."""
    offset: int | None = 0
    while offset is not None:
        page = store.sessions(namespace, offset=offset, limit=_PAGE)
        yield from page.sessions
        offset = page.next_offset


def rows_of(log: SessionLog, start: int, end: int) -> Iterator[LogRow]:
    """The messages of a half-open range of sequence numbers, in order."""
    for at in range(start, end, _PAGE):
        yield from log.read(at, min(at + _PAGE, end))


def rows_at(log: SessionLog, seqs: Sequence[int]) -> Iterator[LogRow]:
    """The messages with the ascending numbers *seqs*. Adjacent numbers are read together."""
    start = 0
    for at in range(1, len(seqs) + 1):
        if at == len(seqs) or seqs[at] != seqs[at - 1] + 1 or at - start == _PAGE:
            yield from log.read(seqs[start], seqs[at - 1] + 1)
            start = at
