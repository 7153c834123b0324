"""How much of a session can be found, and for how long? Everything, for ever, unless its host says less."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import timedelta

from siltstone.errors import ConfigError, ReadOnlyStoreError, StoreError
from siltstone.events import Hook, MemoryExpired, notify
from siltstone.memory.base import Store

__all__ = ["Retention", "retain"]

_log = logging.getLogger("siltstone")


@dataclass(frozen=True, slots=True)
class Retention:
    """What of a session stays findable. Both bounds are off by default.

    Applied when the session is opened, and after each compaction. What leaves is told (``MemoryExpired``),
    and is in the log still: to forget it, ``forget``.

    Attributes:
        max_entries: At most so many entries, the newest by when they were said.
        max_age: None older than this.
    """

    max_entries: int | None = None
    max_age: timedelta | None = None

    def __post_init__(self) -> None:
        if self.max_entries is not None and (type(self.max_entries) is not int or self.max_entries < 1):
            raise ConfigError(
                f"max_entries must be an integer > 0, or None, got {self.max_entries!r}",
                field="max_entries",
                value=self.max_entries,
            )
        if self.max_age is not None and self.max_age <= timedelta(0):
            raise ConfigError(
                f"max_age must be > 0, or None, got {self.max_age!r}", field="max_age", value=self.max_age
            )


def retain(store: Store, session_id: str, retention: Retention, hooks: tuple[Hook, ...], now: float) -> None:
    """Takes out of the session's entries what *retention* does not keep at *now*, and tells of it.

    Where the store refuses, what was committed stays committed, and the next time makes it good.
    """
    before = None if retention.max_age is None else now - retention.max_age.total_seconds()
    if before is None and retention.max_entries is None:
        return
    try:
        gone = store.expire(session_id, keep=retention.max_entries, before=before)
    except ReadOnlyStoreError:
        return  # opened to look
    except StoreError:
        _log.exception("what session %r no longer retains could not be taken out", session_id)
        return
    if gone.entries:
        notify(hooks, MemoryExpired(session_id, gone.by_age, gone.by_count))
