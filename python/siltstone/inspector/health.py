"""The page of a store's health: its contents, the size of its files, and the result of a check."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

from siltstone.errors import StoreCorruptError
from siltstone.figures import DAYS, Day, Keeping, growth, keeping
from siltstone.inspector.sessions import Subject
from siltstone.memory import SessionInfo, StoreStats
from siltstone.memory.base import sessions_of

_LARGEST = 10  #: sessions that are named
_FEW = 5_000  #: messages and entries that are counted without being asked for
_WHAT = {
    "memory.sqlite3": "messages, entries, compactions and facts",
    "memory.sqlite3-wal": "the last writes, until they go into the file",
    "memory.sqlite3-shm": "memory that processes share while the store is open",
}


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file of the store: its name, its bytes, and what is in it."""

    name: str
    size: int
    what: str


def condition(subject: Subject, *, check: bool = False) -> SimpleNamespace:
    """The state of the store; with *check* every row of it is read.

    It has:
        stats: The contents of the store in numbers; None if it cannot tell.
        files: Its files; of a store without any that can be seen, none.
        largest: The sessions with the most tokens.
        tokens: The tokens of all sessions.
        most: The tokens of the largest session.
        days: How many sessions were last active on each of the last days, the oldest first.
        findings: The findings of ``check``; None if it was not asked for.
        cached: Of the largest sessions: how many entries are in a cache, where that is known.
        growth: The messages of each of the last days, oldest first; None if they were not counted.
        keeping: The entries that will expire; None if they were not counted.
    """
    store = subject.store
    findings = store.check() if check else None
    sessions = list(sessions_of(store))
    largest = sorted(sessions, key=lambda each: each.tokens, reverse=True)[:_LARGEST]
    stats: StoreStats | None = None
    with suppress(StoreCorruptError):
        stats = store.stats()
    counted = _counted(subject, stats, check=check)
    return SimpleNamespace(
        stats=stats,
        files=_files(getattr(store, "path", None)),
        largest=largest,
        tokens=sum(each.tokens for each in sessions),
        most=max((each.tokens for each in largest), default=0),
        days=_days(sessions),
        findings=findings,
        cached={each.session_id: _cached(subject, each.session_id) for each in largest},
        growth=counted[0],
        keeping=counted[1],
    )


def _counted(
    subject: Subject, stats: StoreStats | None, *, check: bool
) -> tuple[list[Day] | None, Keeping | None]:
    """The growth and the expiring entries; of a large store only with its check, which reads every row."""
    if stats is None or (not check and stats.messages + stats.entries > _FEW):
        return None, None
    now = datetime.now(UTC)
    with suppress(StoreCorruptError):
        return growth(subject.store, now.date(), DAYS), keeping(subject.store, now)
    return None, None


def _cached(subject: Subject, session_id: str) -> int:
    with suppress(StoreCorruptError):
        return int(subject.store.stats(session_id).detail.get("cached", 0))
    return 0


def _files(path: object) -> list[StoredFile]:
    """The files below the directory of a store, the largest first."""
    if not isinstance(path, str) or not path or not Path(path, "memory").is_dir():
        return []
    found, caches = [], [0, 0]
    for directory, _, names in os.walk(Path(path, "memory")):
        for name in names:
            file = Path(directory, name)
            with suppress(OSError):
                held = file.stat().st_size
                if file.suffix == ".postings":
                    caches = [caches[0] + 1, caches[1] + held]
                else:
                    shown = str(file.relative_to(path))
                    found.append(StoredFile(shown, held, _WHAT.get(name, "")))
    if caches[0]:
        found.append(StoredFile(f"memory/cache ({caches[0]})", caches[1], "indexes that open at once"))
    return sorted(found, key=lambda each: each.size, reverse=True)


def _days(sessions: list[SessionInfo]) -> list[tuple[date, int]]:
    """For each of the last days the number of sessions that were last active then."""
    today = datetime.now(UTC).date()
    counts: dict[date, int] = {}
    for each in sessions:
        if each.last_at is not None:
            day = each.last_at.astimezone(UTC).date()
            counts[day] = counts.get(day, 0) + 1
    return [
        (day, counts.get(day, 0)) for day in (today - timedelta(days=ago) for ago in range(DAYS - 1, -1, -1))
    ]
