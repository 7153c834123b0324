"""A store read page by page: its sessions, the messages of a log; and values as JSON carries them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import Any

from siltstone.errors import ConfigError
from siltstone.memory.base import Store
from siltstone.memory.log import LogRow, SessionLog
from siltstone.memory.paging import rows_of

__all__ = ["log_rows", "plain", "require_session"]


def require_session(store: Store, session_id: str) -> None:
    """Refuses a session that the store does not have.

    Raises:
        ConfigError: it has neither a message nor an entry of it.
    """
    version = store.open_log(session_id).version()
    if version is not None and version.next_seq:
        return  # as nearly always, and in microseconds
    stats = store.stats(session_id)
    if not stats.messages and not stats.entries:
        place = getattr(store, "path", None)
        said = f"the store {place!r}" if place else "the store"
        raise ConfigError(f"{said} has no session {session_id!r}", field="session", value=session_id)


def log_rows(log: SessionLog, start: int, end: int | None) -> Iterator[LogRow]:
    """The messages of a log from *start* on, up to *end* where there is one, a page in memory at a time."""
    last = log.state().next_seq
    last = last if end is None else min(end, last)
    yield from rows_of(log, start, last)


def plain(value: Any) -> Any:
    """*value* as JSON can carry it: moments as ISO 8601, ranges as lists."""
    if isinstance(value, date):  # a moment is one as well
        return value.isoformat()
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, (list, tuple)) else value
