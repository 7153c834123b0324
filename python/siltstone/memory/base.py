"""The contract of a store: searchable entries, and the log of messages from which they came."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from typing import TYPE_CHECKING, Final, Protocol, Self, TypeAlias, TypedDict, Unpack

from siltstone.memory import entry
from siltstone.memory.entry import Finding, ForgetReport, Receipt, SessionPage, StoreStats
from siltstone.memory.limits import Limits
from siltstone.memory.log import LogRow, SessionLog

if TYPE_CHECKING:
    from siltstone.events import StoreHook
    from siltstone.memory.hits import Reranker, Scorer


HURRIED: ContextVar[bool] = ContextVar("siltstone_hurried", default=False)
"""Whether this call can do without its store: one on a server that is away fails it soon."""


@contextmanager
def hurried() -> Iterator[None]:
    """Meanwhile no call waits for a server that takes no connection."""
    token = HURRIED.set(True)
    try:
        yield
    finally:
        HURRIED.reset(token)


FactRow: TypeAlias = tuple[int, str, str, str, str, int, int]
"""Id, namespace, state, key, body as JSON, when it was made and changed (ms)."""

NewFactRow: TypeAlias = tuple[int | None, str, str, str]
"""Id (None for a new row), key, state, body as JSON."""


class Store(Protocol):
    """The contract of every store; ``tests/memory/test_contract.py`` holds each store to it.

    A store is safe to use from many threads. Every method raises ``StoreClosedError`` after ``close``,
    and ``InvalidEntryError`` for a session id that is empty, longer than 1,024 bytes, or has lone
    surrogates. A write raises ``ReadOnlyStoreError`` if the store is open read-only, ``StoreBusyError`` if
    another process writes for more than 5 seconds, and ``StoreIoError`` if the disk is full or fails. Nothing
    was written then. A store in a directory is durable: a write is on the disk when the call returns.
    """

    def index(self, session_id: str, entries: Sequence[entry.Entry]) -> Receipt:
        """Stores and indexes *entries*: all of them, durably, or none. The next search finds them.

        An entry that the session has already (the same text, role, name and kind, of the same range of
        messages) keeps its id, so a call can be repeated. An entry with an empty range is always new. The
        last call decides how long an entry is found: if its ``ttl`` ends at another time, it gets a new id.
        Entries of the session whose ``ttl`` is over are removed if an ``index`` a day ago found so, too.

        Raises:
            InvalidEntryError: more entries, or a longer text, than the store's limits; a range that is not
                ``0 <= start <= end``, a time that no datetime can hold, or a ``ttl`` that is not > 0.
        """

    def search(
        self, session_id: str, query: str, limit: int = 5, **options: Unpack[entry.SearchOptions]
    ) -> list[entry.SearchHit]:
        """The entries of the session that match *query* best, best first.

        Args:
            session_id: The session that asks.
            query: Natural language. A query without words gives no hits.
            limit: At most this many hits; 0 gives none, and more than the store's limit gives that many.
            options: ``ranker``, ``min_score``, ``explain``, ``scope``, ``order``, and the filters ``since``,
                ``until``, ``role``, ``kind``, ``name``, ``topic`` and ``entity``:
                :class:`~siltstone.memory.entry.SearchOptions`.

        Returns:
            Hits that have something in common with the query; of equal scores the newer first, then by id.

        Raises:
            InvalidEntryError: a limit < 0, a ``min_score`` out of 0..1, or a query over the
                store's limit.
            ConfigError: a ranker that the store does not have, or an unknown scope or order.
            StoreCorruptError: rows are missing, or the file cannot be read. An entry that does not match its
                checksum is left out, and listed by :meth:`quarantined`.
        """

    def get(self, entry_id: int, *, expired: bool = False) -> entry.StoredEntry:
        """The entry with the id *entry_id*.

        Args:
            entry_id: The id.
            expired: Whether to give an entry whose ``ttl`` is over, as long as its row exists.

        Raises:
            EntryNotFoundError: there is none.
            StoreCorruptError: it does not match its checksum.
        """

    def entries(
        self,
        session_id: str,
        overlaps: tuple[int, int] | None = None,
        since: datetime | float | None = None,
        offset: int = 0,
        limit: int = 100,
        *,
        expired: bool = False,
    ) -> entry.Page:
        """The entries of the session in id order, a page at a time.

        Args:
            session_id: The session.
            overlaps: Only entries whose range shares a message with this half-open range. Ranges that touch,
                and empty ranges, share none.
            since: Only entries newer than this time, to the millisecond.
            offset: The number of entries to skip, counted before the filters.
            limit: The maximum number of entries of a page, counted before the filters.
            expired: Whether to give entries whose ``ttl`` is over, as long as their rows exist.

        Raises:
            InvalidEntryError: a limit < 1, an offset < 0, or a range with start > end.
        """

    def put_facts(
        self, session_id: str, facts: Sequence[NewFactRow], was: Mapping[int, str] | None = None
    ) -> list[int]:
        """Writes rows ``(id, key, state, body)`` in one transaction; returns their ids.

        Raises:
            StoreConflictError: a row no longer has the body that *was* gives for its id.
        """

    def facts(self, session_id: str, state: str | None = None) -> list[FactRow]:
        """The rows of the session, in the order of their first writes."""

    def namespace_facts(self, namespace: str, state: str | None = None) -> list[FactRow]:
        """The rows of all sessions of the namespace."""

    def facts_revision(self, session_id: str, namespace: str = "") -> str | None:
        """A text that changes with every change of a row of the session, or of the namespace.

        Other changes may change it too. None if it cannot be told.
        """

    def session_with_settings(self, has: str, lacks: str = "") -> tuple[str, str] | None:
        """The id and settings of the first session whose settings contain *has* and not *lacks*, or None."""

    def take_back(self, session_id: str, writes: Collection[int], entries: int) -> bool:
        """Empties a session that one writer alone has written, in one transaction. Returns whether it did.

        Args:
            session_id: The session.
            writes: The ids of that writer's writes. If the last write has another id, the session stays.
            entries: The most entries that the writer may have indexed. If there are more, the session stays.
        """

    def restore_marks(
        self, session_id: str, salt: bytes, digests: Sequence[tuple[int, bytes]], redacted: Sequence[int]
    ) -> None:
        """Gives a copied session the marks of forgotten texts from its first store."""

    def forget(self, **criteria: Unpack[entry.StoreForgetCriteria]) -> ForgetReport:
        """Forgets messages: removes their texts from the log, the entries, the summaries, and the files.

        A message must meet all given criteria, and at least one criterion is needed. A forgotten message
        keeps its sequence number, its tokens, and the ids that tie calls to results; its text is replaced.
        Entries from it are deleted. Every summary that covers it is replaced by a sentence that says so. Then
        the files are cleared of all bytes that left, now or earlier, in time in proportion to their size.

        Args:
            entry_ids: Ids of entries. The messages behind them are forgotten too.
            session_id: Only this session, exactly. Alone: the whole session.
            start: Only messages from this sequence number on. Needs a session.
            end: Only messages before this sequence number. Needs a session.
            name: Only this speaker: the ``name`` of an entry or of a message, or the name of the tool.
            before: Only messages and entries stored before this time.
            text: Only messages and entries that contain this text in any canonically equal spelling, also in
                JSON inside JSON, up to 8 levels. Summaries that contain it are forgotten too. Base64 and
                compressed texts are not decoded. ``ForgetReport.near`` names near spellings, which stay.
            near: Whether to forget the near spellings of *text* too.
            fact_ids: Ids of facts; the only other criterion allowed is a session. Without it, a fact is
                forgotten with a message from which it was taken, or if its own text meets the criteria. Rules
                made from such facts are forgotten too, and are made again from the remaining facts.
            identifiers: Whether to forget the names of tools and the ids of calls too; with *text*, only
                those that contain it. Both halves of a pair get the same new id, so every message with such
                an id is forgotten.
            dry_run: Changes nothing, and reports what a real call would do.

        A session that is open meanwhile, here or in another process, reads its view again at its next
        boundary. A compaction that it has not committed yet is refused, so that no forgotten text comes back.

        Raises:
            ConfigError: no criterion, an empty one, or a range without a session.
        """

    def sessions(self, namespace: str | None = None, offset: int = 0, limit: int = 100) -> SessionPage:
        """The sessions in the order of their first writes, a page at a time, without deleted ones.

        Args:
            namespace: Only sessions opened with it; "" for sessions without a namespace.
            offset: The number of sessions to skip.
            limit: The maximum number of sessions of a page.

        Raises:
            InvalidEntryError: a limit < 1, an offset < 0, or a namespace that no session can have.
        """

    def delete_session(self, session_id: str) -> int:
        """Deletes the session: its entries, its log, its compactions. Returns the number of its entries.

        Its ids are never used again. A tombstone keeps its name: writes of a process that still has the
        session open are accepted and dropped, and ``Session.open`` refuses the name until :meth:`revive`
        begins the session again. Its texts in the files of a preset are deleted too: its memories and
        summaries in the vault, its lines and vectors in the archive.
        Freed pages are overwritten. To erase the bytes in the write-ahead log beside the file, call
        ``forget`` first.

        Raises:
            StoreIoError: such a file cannot be deleted. The session is deleted: call again for the files.
        """

    def revive(self, session_id: str) -> bool:
        """Begins a deleted session again, empty. False if the session was not deleted.

        A writer that had it open before the deletion cannot write to the log, and STAYX
        dropped; but ``index`` accepts its entries. Stop such writers first.
        """

    def expire(
        self,
        session_id: str,
        *,
        keep: int | None = None,
        before: datetime | float | None = None,
        asked: bool = True,
    ) -> entry.ExpireReport:
        """Removes entries from the search: entries whose ``ttl`` is over, and entries beyond the bounds.

        A session calls it when it is opened, and after each compaction. Without bounds, and if no ``ttl`` is
        over, nothing is written. The log keeps the messages: ``expand`` and ``Session.log`` read them;
        ``forget`` removes them. If an expired entry is indexed again, it is a new entry.

        Args:
            session_id: The session; no other is changed.
            keep: The number of entries that stay: the newest, by the time of their messages.
            before: Entries older than this time are removed first.
            asked: Whether the clock is believed. If not, a ``ttl`` is over only by a time that one ``index``
                has seen, and another one a day later: a clock that is wrong once removes nothing for good.

        Raises:
            InvalidEntryError: ``keep`` < 0.
        """

    def stats(self, session_id: str | None = None) -> StoreStats:
        """The sizes of the store, or of one session of it."""

    def check(self, *, repair: bool = False) -> list[Finding]:
        """The list of all damage in the store; empty for an intact store.

        Checks every page and every row: checksums, counts, ids, sequences, the lineage of views, their
        covered ranges, and the indexes in memory. Without *repair* nothing is changed. A
        damaged row does not end the check. Searches of this process wait meanwhile.

        Args:
            repair: Whether to rebuild, in one transaction, all data that follows from other data: indexes,
                counts, fingerprints, the next id, a session's head. Entries that do not match their checksums
                are set aside. The log cannot be rebuilt: damaged messages
                and compactions stay, and stay in the list. docs/design/storage.md describes the repair of
                each kind of damage. Repaired findings have ``repaired``.

        Raises:
            StoreBusyError: with *repair*: another process was repairing for longer than the wait.
            ReadOnlyStoreError: with *repair*: the store is open read-only.
        """

    def quarantined(self, session_id: str) -> tuple[int, ...]:
        """The ids of the session's entries that do not match their checksums, ascending.

        No search finds them, and they do not change the scores of other entries. The list has only rows that
        were read: after an opening from the cache, a row is read when a search leads to it. :meth:`check`
        reads all rows.
        """

    def open_log(self, session_id: str) -> SessionLog:
        """The session's log, which is in the same store and transactions as the entries."""

    def close(self) -> None:
        """Closes the store. A second call does nothing.

        After the last store of this process on a file is closed, the file is complete without its write-ahead
        log. Entries without vectors get them when the store is next opened with the embedder.
        """

    def __enter__(self) -> Self: ...

    def __exit__(self, *exc: object) -> None: ...


# Whole lists of a store and of a log. They are read a page at a time, so one page is in memory.

_PAGE: Final = 1_000


def entry_pages(
    store: Store, session_id: str, overlaps: tuple[int, int] | None = None, *, expired: bool = False
) -> Iterator[entry.Page]:
    """The pages of :meth:`Store.entries`, in order."""
    offset: int | None = 0
    while offset is not None:
        page = store.entries(session_id, overlaps=overlaps, offset=offset, limit=_PAGE, expired=expired)
        yield page
        offset = page.next_offset


def entries_of(
    store: Store, session_id: str, overlaps: tuple[int, int] | None = None, *, expired: bool = False
) -> Iterator[entry.StoredEntry]:
    """The entries of a session, in the order of their ids."""
    for page in entry_pages(store, session_id, overlaps, expired=expired):
        yield from page.entries


def sessions_of(store: Store, namespace: str | None = None) -> Iterator[entry.SessionInfo]:
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


# The types of the options of ``open`` that several stores have. Only annotations use them.


class SearchSettings(TypedDict, total=False):
    """The settings of a store's searches; ``MemoryStore.open`` explains each."""

    decay: entry.Decay | None
    fusion: entry.Fusion
    reembed: bool
    embed_timeout: float
    reranker: Reranker | Scorer | None
    hooks: Iterable[StoreHook]
    limits: Limits
    language: str | Sequence[str] | None
