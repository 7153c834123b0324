"""Bounds of a session's search entries. By default every entry can be found for ever."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from siltstone import checks
from siltstone.errors import ReadOnlyStoreError, StoreError, refuse
from siltstone.hooks import notify
from siltstone.memory.base import Store, entries_of
from siltstone.memory.convert import NewEntry

if TYPE_CHECKING:
    from siltstone.events import Hook


_log = logging.getLogger("siltstone")

_FIRST: Final = -62_135_596_800.0  #: the year 1, in seconds since 1970: no datetime is before it


@dataclass(frozen=True, slots=True)
class Retention(checks.Settings):
    """Bounds of the search entries of a session. All are off by default.

    The bounds apply when the session is opened, and after each compaction. Removed entries are told to hooks
    (``MemoryExpired``). Their messages stay in the log; ``forget`` removes them there.

    Attributes:
        max_entries: The maximum number of entries. The newest stay, by the time of their messages.
        max_age: The maximum age of an entry.
        once: Whether an equal text of the same role is indexed only once. Texts are compared by SHA-256 over
            session, role and content, all 32 bytes. A later equal text is in the log alone.
    """

    max_entries: int | None = checks.setting(None, checks.at_least, 1, unless=(None,))
    max_age: timedelta | None = None
    once: bool = False

    def _check_together(self) -> None:
        age = self.max_age
        if age is not None and not (isinstance(age, timedelta) and age > timedelta(0)):
            refuse("max_age", "a timedelta > 0, or None", age)

    @classmethod
    def documented(cls, *, max_segments: int = 20_000, eviction_days: int = 90) -> Retention:
        """The documented bounds: 20,000 entries, 90 days, each text once.

        Args:
            max_segments: The maximum number of entries, 1 or more.
            eviction_days: Entries strictly older than this number of days are removed; 0 for never.

        Raises:
            ConfigError: a value out of its bounds.
        """
        from siltstone.recall.base import MAX_EVICTION_DAYS

        checks.at_least("max_segments", max_segments, 1)
        checks.within("eviction_days", eviction_days, 0, MAX_EVICTION_DAYS)
        return cls(max_segments, timedelta(days=eviction_days) if eviction_days else None, once=True)


def only_new(store: Store, session_id: str, entries: Iterable[NewEntry]) -> list[NewEntry]:
    """*entries* without texts that the session has already with the same role, and without repetitions."""
    from siltstone.archive.files import dedup_key

    known = {dedup_key(session_id, each.role, each.content) for each in entries_of(store, session_id)}
    new = []
    for entry in entries:
        key = dedup_key(session_id, entry.role, entry.content)
        if key not in known:
            known.add(key)
            new.append(entry)
    return new


def retain(
    store: Store, session_id: str, retention: Retention | None, hooks: tuple[Hook, ...], now: float
) -> None:
    """Removes the session's entries that are beyond *retention* at *now*, and entries that have expired.

    An error of the store is logged, and the next call tries again. A compaction committed before stays.
    """
    keep = None if retention is None else retention.max_entries
    age = None if retention is None else retention.max_age
    before = None if age is None else now - age.total_seconds()
    if before is not None and before < _FIRST:
        before = None  # no entry can be that old
    try:
        gone = store.expire(session_id, keep=keep, before=before, asked=False)
    except ReadOnlyStoreError:
        return  # a read-only store keeps all
    except StoreError:
        _log.exception("what session %r no longer retains could not be taken out", session_id)
        return
    if gone.entries:
        from siltstone.events import MemoryExpired

        notify(hooks, MemoryExpired(session_id, gone.by_age, gone.by_count, gone.by_ttl))
