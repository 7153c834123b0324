"""The answers of a store about its writes and its contents: receipts, pages, reports.

They are apart from entries and hits: a process may open a session, and never ask for one of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from siltstone.memory.entry import Remaining, StoredEntry

__all__ = [
    "Finding",
    "ForgetReport",
    "Page",
    "Receipt",
    "SessionInfo",
    "SessionPage",
    "StoreStats",
]


@dataclass(frozen=True, slots=True)
class Receipt:
    """The result of ``index``.

    Attributes:
        entry_ids: An id for each entry, in order; None for a blank text, which is not stored.
    """

    entry_ids: tuple[int | None, ...]

    @property
    def indexed(self) -> int:
        """The number of entries that were stored."""
        return sum(1 for entry_id in self.entry_ids if entry_id is not None)


@dataclass(frozen=True, slots=True)
class Page:
    """A page of ``entries``. Filters apply after paging, so it may be short.

    Attributes:
        entries: The entries in id order.
        next_offset: The offset of the next page; None at the end.
        damaged: The ids of rows of the page that do not match their checksums. They are left out.
    """

    entries: tuple[StoredEntry, ...]
    next_offset: int | None
    damaged: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """A session in a list.

    Attributes:
        session_id: Its id.
        namespace: The text that it shares with others; empty for none.
        title: The beginning of its first request, up to 200 characters; empty if it had none, or if the
            request was forgotten.
        messages: The number of messages ever appended.
        entries: The number of entries that can be found.
        compactions: The number of committed compactions and branches.
        tokens: The sum of its messages' tokens, counted when they were appended.
        first_at: The time of its first message; None if it has none, for example if entries were only indexed
            directly.
        last_at: The time of its last message; None if it has none.
    """

    session_id: str
    namespace: str
    title: str
    messages: int
    entries: int
    compactions: int
    tokens: int
    first_at: datetime | None
    last_at: datetime | None


@dataclass(frozen=True, slots=True)
class SessionPage:
    """A page of ``sessions``.

    Attributes:
        sessions: The sessions in the order of their first writes.
        next_offset: The offset of the next page; None at the end.
    """

    sessions: tuple[SessionInfo, ...]
    next_offset: int | None


@dataclass(frozen=True, slots=True)
class Finding:
    """A damaged place in a store.

    Attributes:
        code: The kind of damage, a stable word: ``integrity`` (SQLite's own check),
            ``foreign_key``, ``unreadable``, ``checksum``, ``fingerprint``, ``count``, ``sequence``,
            ``allocator``, ``head``, ``parent``, ``view``, ``covers``, ``origin``, ``vector``,
            ``index``, ``digest``, ``namespace``, ``text`` or ``cache``.
        table: The table; empty if unknown.
        id: The id of the row; None if the damage is not in one row.
        message: A description in one sentence.
        repaired: Whether a repair has corrected the damage, or set the row aside.
    """

    code: str
    table: str
    id: int | None
    message: str
    repaired: bool = False


@dataclass(frozen=True, slots=True)
class ForgetReport:
    """The result of ``forget``.

    Attributes:
        sessions: The number of affected sessions.
        messages: The number of messages that are tombstones now.
        entries: The number of deleted entries.
        summaries: The number of replaced summaries.
        erased: Whether the bytes are gone from every file of the store.
        renewed: The number of summaries that a model wrote again from the remaining messages
            (``Session.forget`` alone).
        kept: Names of tools and servers and ids of calls and items that the tombstones still have, each once,
            sorted; after a ``forget`` by text, only those that contain the text. ``identifiers=True`` forgets
            them too. Also the id of a session that contains the text, which is never forgotten.
        remaining: The reasons why bytes are left: ``"identifiers"``, a name or an id in ``kept`` contains the
            text; ``"files"``, another process was using the store, and the bytes go with the next ``forget``
            or the next opening of the store. For PostgreSQL also ``"pages"`` (dead rows, until ``siltstone
            postgres erase``), ``"wal"`` (the write-ahead log, until it is recycled) and ``"copies"``
            (standbys and backups).
        dry_run: Whether nothing was changed: the numbers are those of a ``forget`` at this moment.
        facts: The number of deleted facts and corrections.
    """

    sessions: int
    messages: int
    entries: int
    summaries: int
    erased: bool
    renewed: int = 0
    kept: tuple[str, ...] = ()
    remaining: tuple[Remaining, ...] = ()
    dry_run: bool = False
    facts: int = 0


@dataclass(frozen=True, slots=True)
class StoreStats:
    """The sizes of a store, or of one session of it.

    Attributes:
        sessions: The number of sessions with a message or an entry.
        messages: The number of messages in their logs.
        entries: The number of entries.
        compactions: The number of committed compactions.
        text_bytes: Bytes of the entries' texts.
        disk_bytes: Bytes of the files of the whole store, also for one session; 0 for a store in process
            memory.
        detail: For one session: the name of its index, and the index's sizes.
        quarantined: The number of entries that do not match their checksums, which no search finds: entries
            read since the store was opened (for one session: all), and entries that a repair set aside.
    """

    sessions: int
    messages: int
    entries: int
    compactions: int
    text_bytes: int
    disk_bytes: int
    detail: dict[str, Any] = field(default_factory=dict)
    quarantined: int = 0
