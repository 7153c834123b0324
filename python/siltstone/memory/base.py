"""The contract of a store: entries that can be found again, and the log they came from."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Protocol, Self, Unpack

from siltstone.memory.entry import (
    Entry,
    ExpireReport,
    Finding,
    ForgetReport,
    Page,
    Ranker,
    Receipt,
    ReconcileReport,
    SearchFilters,
    SearchHit,
    SearchOrder,
    SearchScope,
    SessionPage,
    Stage,
    StoredEntry,
    StoreStats,
)
from siltstone.memory.log import SessionLog

__all__ = ["LanguageSettler", "Store"]


class LanguageSettler(Protocol):
    """A store that is told in which languages its texts are read."""

    def settle_language(self, language: str | Sequence[str]) -> None:
        """Settles it, unless it was settled before.

        Raises:
            ConfigError: a language that nobody knows, or another one was settled.
        """


class Store(Protocol):
    """The contract of every store; ``tests/memory/test_contract.py`` holds each store to it.

    A store is safe to use from many threads. Every method raises ``StoreClosedError`` after ``close``,
    and ``InvalidEntryError`` for a session id that is empty, longer than 1,024 bytes, or has lone
    surrogates. Every write raises ``ReadOnlyStoreError`` where the store is open for reading,
    ``StoreBusyError`` where another process wrote for more than 5 seconds, and ``StoreIoError`` where the
    disk is full, or failed: nothing was written then. A store in a directory is durable: what a call wrote
    is on the disk when it returns.
    """

    def index(self, session_id: str, entries: Sequence[Entry]) -> Receipt:
        """Stores and indexes *entries*: all of them, durably, or none. The next search finds them.

        An entry that the session has already (the same text, role, name and kind, of the same range of
        messages) keeps its id, so a call can be repeated. An entry with an empty range is always new. The
        last call decides how long an entry is found: if its ``ttl`` ends at another time, it gets a new id.
        Entries of the session whose ``ttl`` is over leave.

        Raises:
            InvalidEntryError: more entries, or a longer text, than the store's limits; a range that is not
                ``0 <= start <= end``, a time that no datetime can hold, or a ``ttl`` that is not > 0.
        """

    def search(
        self,
        session_id: str,
        query: str,
        limit: int = 5,
        ranker: Ranker | None = None,
        min_score: float = 0.0,
        explain: bool = False,
        *,
        scope: SearchScope = "session",
        order: SearchOrder = "score",
        **filters: Unpack[SearchFilters],
    ) -> list[SearchHit]:
        """The entries of the session most like *query*, best first.

        Args:
            session_id: The session that asks.
            query: Natural language. A query without words gives no hits.
            limit: At most this many hits; 0 gives none, and more than the store's limit gives that many.
            ranker: The ranker, where the store has a choice; None is the store's own.
            min_score: Leaves out hits with a lower score, 0..1, on the ranker's own scale.
            explain: Whether hits say how their scores came about.
            scope: ``"session"`` looks at no other one. ``"namespace"``: what all sessions of its namespace
                said is found, also what is still in their contexts and has no entry yet; what is in the
                context of *session_id* itself is left out. A session without a namespace shares with nobody,
                and finds its own entries.
            order: ``"score"`` gives the best first. ``"time"`` chooses, among four times as many, those that
                are best and spread over the session, and gives them in the order in which they were said;
                those of several sessions by their times.
            filters: ``since``, ``until``, ``role``, ``kind``, ``name``, ``topic`` and ``entity``:
                :class:`SearchFilters`.

        Returns:
            Hits that have something in common with the query; of equal scores the newer first, then by id.

        Raises:
            InvalidEntryError: a limit < 0, a ``min_score`` out of 0..1, or a query over the
                store's limit.
            ConfigError: a ranker that the store does not have, or an unknown scope or order.
            StoreCorruptError: rows are missing, or the file cannot be read. An entry that does not match its
                checksum is left out, as if it had never been there, and counted: see :meth:`quarantined`.
        """

    def get(self, entry_id: int, *, expired: bool = False) -> StoredEntry:
        """The entry of that id.

        Args:
            entry_id: The id.
            expired: Also one whose ``ttl`` is over, as long as its row is there.

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
    ) -> Page:
        """The entries of the session in id order, a page at a time.

        Args:
            session_id: The session.
            overlaps: Only entries whose range shares a message with this half-open one. Ranges that touch,
                and empty ones, share none.
            since: Only entries that are newer, to the millisecond.
            offset: The number of entries to skip, filtered or not.
            limit: The most entries of a page, before the filters.
            expired: Also those whose ``ttl`` is over, as long as their rows are there.

        Raises:
            InvalidEntryError: a limit < 1, an offset < 0, or a range with start > end.
        """

    def stage(self, session_id: str, entries: Sequence[Entry], fingerprint: str) -> str:
        """Keeps *entries* for the session, durably, and shows them to nobody. The batch's token.

        For hosts that keep their own history. They stage what leaves it, write the token into it, and
        finalize; wherever they are stopped in between, :meth:`reconcile` with the tokens of their history
        puts the store in step with it.

        Args:
            session_id: The session.
            entries: As for :meth:`index`.
            fingerprint: The host's own name for the batch, 1 to 1,024 bytes, the same in every retry: of a
                revision of its history, say. The same content under the same one is one batch with one
                token, whatever became of it; times are not part of the content.

        Raises:
            InvalidEntryError: an entry or the fingerprint is out of bounds.
            StoreConflictError: the session has another batch of this fingerprint.
        """

    def finalize(self, token: str) -> Receipt:
        """Makes the entries of a batch findable: all of them, durably. Calling it twice is fine.

        If the session was deleted, before or since, nothing is kept, and every id of the receipt is None. An
        entry that the session has already keeps its id, as with :meth:`index`.

        Raises:
            StageNotFoundError: the batch was aborted, or never handed over.
            StoreCorruptError: the batch is damaged: abort it, and hand it over again.
        """

    def abort(self, token: str) -> bool:
        """Deletes a batch that waits. False where there is none of that token.

        Raises:
            StoreConflictError: it was finalized.
        """

    def reconcile(
        self,
        committed: Collection[str],
        *,
        session_id: str | None = None,
        before: datetime | float | None = None,
    ) -> ReconcileReport:
        """Brings batches that wait in step with the host's history, in one transaction.

        For a host that starts, before it stages anything.

        Args:
            committed: The tokens in the host's history: those that wait are finalized.
            session_id: Only batches of this session are aborted. Without it, batches of every session are: in
                a store that other hosts share, name your session.
            before: Only batches that were handed over earlier are aborted: younger ones may be under way.
        """

    def stages(self, session_id: str | None = None) -> list[Stage]:
        """The batches that wait, of one session or of all, in the order they were handed over."""

    def forget(
        self,
        *,
        entry_ids: Collection[int] | None = None,
        session_id: str | None = None,
        start: int | None = None,
        end: int | None = None,
        name: str | None = None,
        before: datetime | float | None = None,
        text: str | None = None,
        fact_ids: Collection[str] | None = None,
        identifiers: bool = False,
        dry_run: bool = False,
    ) -> ForgetReport:
        """Forgets what was said: it leaves the log, the entries, the summaries, and the files.

        Everything that is given must hold, and at least one criterion is needed. A message that is
        forgotten keeps its sequence number, its tokens, and the ids that tie calls to results; its text is
        replaced. Entries that came from it are deleted. Every summary that covers it is replaced by a
        sentence that says so. Then the file is rewritten, which takes time in proportion to its size.

        Args:
            entry_ids: Entries; the messages that they came from go with them.
            session_id: This session alone, exactly. By itself: all that was said in it.
            start: From this sequence number on. Needs a session.
            end: Up to this one, which stays.
            name: The speaker: the ``name`` of an entry or of a message, or the tool's.
            before: Messages and entries that were stored earlier.
            text: Messages and entries that have this text in them, compared exactly, also where it is written
                as JSON, up to 8 times over. Summaries that have it go as well. Base64, the escapes of
                addresses and markup, and compressed texts are not read.
            fact_ids: Facts, with nothing else but a session. Otherwise a fact goes with a message that it
                was taken from, or where it is meant by what it says itself. The rules that were made of it
                go too, and are made anew of what is left.
            identifiers: The names of tools and the ids of calls of what is forgotten go too, with *text*
                those that have it. Both halves of a pair get the same new one, so a message that has such an
                id is forgotten with the others.
            dry_run: Changes nothing, and reports what would be.

        A session that is open meanwhile, here or in another process, reads its view anew at its next
        boundary; a compaction of it that is still to be committed is refused, so that nothing comes back.

        Raises:
            ConfigError: no criterion, an empty one, or a range without a session.
        """

    def sessions(self, namespace: str | None = None, offset: int = 0, limit: int = 100) -> SessionPage:
        """The sessions in the order of their first writes, a page at a time; none that was deleted.

        Args:
            namespace: Only those that were opened with it; "" is those without one.
            offset: The number of sessions to skip.
            limit: The most sessions of a page.

        Raises:
            InvalidEntryError: a limit < 1, an offset < 0, or a namespace that no session can have.
        """

    def delete_session(self, session_id: str) -> int:
        """Deletes the session: its entries, its log, its compactions. The number of entries it had.

        Its ids are not given to others. A tombstone stays under its name: what is written to it from now
        on, by whoever still has it open, is accepted as nothing, and ``Session.open`` refuses the name until
        :meth:`revive` begins it anew. Its texts in the files of a preset go too: its memories and
        summaries in the vault, its lines and vectors in the archive.
        Freed pages are overwritten; for the bytes in the log beside the file, ``forget`` first.

        Raises:
            StoreIoError: such a file cannot be deleted. The session is: call it again for the files.
        """

    def revive(self, session_id: str) -> bool:
        """Begins a session that was dropped anew, empty. False for one that was not dropped.

        A writer that had it open before the drop is refused what depends on the log, and batches that it had
        staged stay nothing; but what it hands to ``index`` is then stored. Stop such writers first.
        """

    def expire(
        self, session_id: str, *, keep: int | None = None, before: datetime | float | None = None
    ) -> ExpireReport:
        """Takes entries out of what can be found: those whose ``ttl`` is over, and those beyond the bounds.

        A session does so when it is opened and after each compaction. Without bounds, and where no ``ttl`` is
        over, nothing is written. The log keeps what was said: ``expand`` and ``Session.log`` read it. To
        forget it, ``forget``. An entry that expired is a new one when it is handed over again.

        Args:
            session_id: The session; no other is touched.
            keep: The oldest entries go until so many are left, by the time they were said.
            before: Entries from earlier than this go first.

        Raises:
            InvalidEntryError: ``keep`` < 0.
        """

    def stats(self, session_id: str | None = None) -> StoreStats:
        """The sizes of the store, or of one session of it."""

    def check(self, *, repair: bool = False) -> list[Finding]:
        """Everything in the store that is not what it should be; empty for a store that is whole.

        Looks at every page and every row: checksums, counts, ids, sequences, the lineage of views, what they
        cover, batches that wait, and the indexes in memory. Without *repair* nothing is changed, and a
        damaged row does not end it. Searches of this process wait meanwhile.

        Args:
            repair: Make anew what follows from the rest, in one transaction: indexes, counts, fingerprints,
                the mark of ids, a session's place. Entries that do not match their checksums are set
                aside, and batches that are not whole deleted. The log cannot be made anew: damage to
                messages and compactions stays, and stays in the list. docs/design/storage.md says what
                becomes of each kind of damage. Findings that were put right have ``repaired``.

        Raises:
            StoreBusyError: with *repair*: another process is at such work, and was waited for.
            ReadOnlyStoreError: with *repair*: the store is open for reading.
        """

    def quarantined(self, session_id: str) -> tuple[int, ...]:
        """The ids of the session's entries that do not match their checksums, ascending.

        No search finds them, and every other entry is found as if they had never been there. They are those
        that were met: a session that was opened from its cache meets a row when a search leads to it.
        :meth:`check` reads all of them.
        """

    def open_log(self, session_id: str) -> SessionLog:
        """The session's log, which lives and commits with the entries."""

    def close(self) -> None:
        """Lets go of the store. Closing twice is fine.

        When the last store of this process on a file is closed, the file is complete by itself. Entries
        that lack vectors get them when the store is next open with the embedder.
        """

    def __enter__(self) -> Self: ...

    def __exit__(self, *exc: object) -> None: ...
