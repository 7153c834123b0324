"""The page of a store's health: its contents, the size of its files, and the result of a check."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

from siltstone.errors import StoreCorruptError
from siltstone.figures import DAYS, Day, Keeping, growth, keeping
from siltstone.inspector.sessions import Subject
from siltstone.memory import StoreStats
from siltstone.memory.base import sessions_of

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
        tokens: The tokens of all sessions.
        findings: The findings of ``check``; None if it was not asked for.
        growth: The messages of each of the last days, oldest first; None if they were not counted.
        keeping: The entries that will expire; None if they were not counted.
    """
    store = subject.store
    findings = store.check() if check else None
    stats: StoreStats | None = None
    with suppress(StoreCorruptError):
        stats = store.stats()
    counted = _counted(subject, stats, check=check)
    return SimpleNamespace(
        stats=stats,
        files=_files(getattr(store, "path", None)),
        tokens=sum(each.tokens for each in sessions_of(store)),
        findings=findings,
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
