"""How a store grew over the last days, and what of it leaves by itself."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Final

from siltstone.figures.reading import all_sessions
from siltstone.memory import StoredEntry
from siltstone.memory.base import Store
from siltstone.memory.log import LogRow, SessionLog
from siltstone.values import dataclass

__all__ = ["DAYS", "Day", "Keeping", "growth", "keeping"]

DAYS: Final = 30  #: days that the growth is told of
_PAGE = 500  #: rows that are held at once


@dataclass(frozen=True, slots=True)
class Day:
    """What was said on one day, in UTC: messages, and the bytes of their JSON."""

    day: date
    messages: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Keeping:
    """What of the entries of a store leaves by itself.

    Attributes:
        entries: How many entries were looked at.
        expiring: How many of them have a time at which they expire.
        expired: How many of these have passed it: no search finds them, and the next write takes them.
        next_at: When the next one expires; None where none will.
        oldest_at: When the oldest entry was said; None where there is none.
    """

    entries: int
    expiring: int
    expired: int
    next_at: datetime | None
    oldest_at: datetime | None


def growth(store: Store, today: date, days: int = DAYS) -> list[Day]:
    """What was said on each of the last *days* up to *today*, the oldest first; days without a word too."""
    first = today - timedelta(days=days - 1)
    begins = int(datetime(first.year, first.month, first.day, tzinfo=UTC).timestamp() * 1000)
    found = {first + timedelta(days=n): [0, 0] for n in range(days)}
    for each in all_sessions(store):
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
    """What of the entries of *store* leaves by itself."""
    count = expiring = expired = 0
    following: datetime | None = None
    oldest: datetime | None = None
    for each in all_sessions(store):
        for entry in _entries(store, each.session_id):
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


def _entries(store: Store, session_id: str) -> Iterator[StoredEntry]:
    """All entries of a session, those that have expired too."""
    offset: int | None = 0
    while offset is not None:
        page = store.entries(session_id, offset=offset, limit=_PAGE, expired=True)
        yield from page.entries
        offset = page.next_offset
