"""The growth of a store over the last days, and its entries that will expire."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Final

from siltstone.memory.base import Store
from siltstone.memory.log import LogRow, SessionLog
from siltstone.memory.paging import entries_of, sessions_of

__all__ = ["DAYS", "Day", "Keeping", "growth", "keeping"]

DAYS: Final = 30  #: days that the growth is told of
_PAGE = 500  #: rows that are held at once


@dataclass(frozen=True, slots=True)
class Day:
    """The messages of one day, in UTC: their number, and the bytes of their JSON."""

    day: date
    messages: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Keeping:
    """The expiring entries of a store, in numbers.

    Attributes:
        entries: The number of entries.
        expiring: The number of entries with an expiry time.
        expired: The number of entries whose time has passed. Searches skip them; the next write deletes them.
        next_at: The time of the next expiry; None if no entry will expire.
        oldest_at: The time of the oldest entry; None for a store without entries.
    """

    entries: int
    expiring: int
    expired: int
    next_at: datetime | None
    oldest_at: datetime | None


def growth(store: Store, today: date, days: int = DAYS) -> list[Day]:
    """The messages of each of the last *days* up to *today*, oldest first; also of days without messages."""
    first = today - timedelta(days=days - 1)
    begins = int(datetime(first.year, first.month, first.day, tzinfo=UTC).timestamp() * 1000)
    found = {first + timedelta(days=n): [0, 0] for n in range(days)}
    for each in sessions_of(store):
        if each.last_at is None or each.last_at.timestamp() * 1000 < begins:
            continue
        for row in _newest(store.open_log(each.session_id), each.messages, begins):
            figures = found.get(datetime.fromtimestamp(row.created_at / 1000, UTC).date())
            if figures is not None:
                figures[0] += 1
                figures[1] += len(row.raw.encode())
    return [Day(day, *figures) for day, figures in found.items()]


def _newest(log: SessionLog, end: int, begins: int) -> Iterator[LogRow]:
    """The messages of a log from the newest on, up to the page that begins before that time."""
    while end > 0:
        page = log.read(max(0, end - _PAGE), end)
        yield from page
        if page[0].created_at < begins:
            return
        end -= len(page)


def keeping(store: Store, now: datetime) -> Keeping:
    """The expiring entries of *store*, in numbers."""
    count = expiring = expired = 0
    following: datetime | None = None
    oldest: datetime | None = None
    for each in sessions_of(store):
        for entry in entries_of(store, each.session_id, expired=True):
            count += 1
            oldest = entry.created_at if oldest is None else min(oldest, entry.created_at)
            if entry.expires_at is None:
                continue
            expiring += 1
            if entry.expires_at <= now:
                expired += 1
            else:
                following = entry.expires_at if following is None else min(following, entry.expires_at)
    return Keeping(count, expiring, expired, following, oldest)
