"""The contract of a store: entries that can be found again, and the log they came from."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Protocol, Self

from siltstone.memory.entry import (
    Entry,
    ExpireReport,
    Finding,
    ForgetReport,
    Page,
    Ranker,
    Receipt,
    ReconcileReport,
    SearchHit,
    Stage,
    StoredEntry,
    StoreStats,
)
from siltstone.memory.log import SessionLog

__all__ = ["Store"]


class Store(Protocol):
    """What every store keeps, and ``tests/memory/test_contract.py`` holds it to.

    A store is safe to use from many threads. Every method raises ``StoreClosedError`` after ``close``,
    and ``InvalidEntryError`` for a session id that is empty, longer than 1,024 bytes, or has lone
    surrogates.
    """

    def index(self, session_id: str, entries: Sequence[Entry]) -> Receipt:
        """Stores and indexes *entries*: all of them, durably, or none.

        An entry that the session has already (the same text, role, name and kind, of the same range of
        messages) keeps its id, so a call can be repeated. One with an empty range is always a new one.

        Raises:
            InvalidEntryError: more entries, or a longer text, than the store's limits; a range that is not
                ``0 <= start <= end``, or a time that no datetime can hold.
        """

    def search(
        self,
        session_id: str,
        query: str,
        limit: int = 5,
        ranker: Ranker | None = None,
        min_score: float = 0.0,
        explain: bool = False,
    ) -> list[SearchHit]:
        """The entries of the session most like *query*, best first.

        Args:
            session_id: The session to search; no other is looked at.
            query: Natural language. A query without words gives no hits.
            limit: At most this many hits; 0 gives none, and more than the store's limit gives that many.
            ranker: How to score, where the store has a choice; None is the store's own.
            min_score: Leaves out hits with a lower score, 0..1.
            explain: Whether hits say how their scores came about.

        Returns:
            Hits that have something in common with the query; of equal scores the newer first, then by id.

        Raises:
            InvalidEntryError: a limit < 0, a ``min_score`` out of 0..1, or a query over the
                store's limit.
            ConfigError: a ranker that the store does not have.
        """

    def get(self, entry_id: int) -> StoredEntry:
        """The entry of that id.

        Raises:
            EntryNotFoundError: there is none.
        """

    def entries(
        self,
        session_id: str,
        overlaps: tuple[int, int] | None = None,
        since: datetime | float | None = None,
        offset: int = 0,
        limit: int = 100,
    ) -> Page:
        """The entries of the session in id order, a page at a time.

        Args:
            session_id: The session.
            overlaps: Only entries whose range shares a message with this half-open one.
            since: Only entries that are newer.
            offset: How many entries to leave out first, filtered or not.
            limit: How many entries a page has at most, before the filters.

        Raises:
            InvalidEntryError: a limit < 1, an offset < 0, or a range with start > end.
        """

    def stage(self, session_id: str, entries: Sequence[Entry], fingerprint: str) -> str:
        """Keeps *entries* for the session, durably, and shows them to nobody. The batch's token.

        For hosts that keep their own history: stage what leaves it, write the token into it, finalize.

        Args:
            session_id: The session.
            entries: As for ``index``.
            fingerprint: The host's own name for the batch, 1 to 1,024 bytes, the same in every retry: of a
                revision of its history, say. The same content under the same one is one batch with one
                token, whatever became of it; times are not part of the content.

        Raises:
            InvalidEntryError: an entry or the fingerprint is out of bounds.
            StoreConflictError: the session has another batch of this fingerprint.
        """

    def finalize(self, token: str) -> Receipt:
        """Makes the entries of a batch findable: all of them, durably. Calling it twice is fine.

        Of a session that was dropped, before or since, nothing is kept: a receipt of None alone.

        Raises:
            StageNotFoundError: the batch was aborted, or never handed over.
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
        """Brings batches that wait in step with the host's history, in one step. For a host that starts.

        Args:
            committed: The tokens in the host's history: those that wait are finalized.
            session_id: Of the batches that were not committed, only those of this session are aborted.
                Without it those of every session: of a store that other hosts share, name yours.
            before: And only those handed over earlier than this: younger ones may be under way.
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
    ) -> ForgetReport:
        """Forgets what was said: it leaves the log, the entries and the summaries.

        Everything that is given must hold, and at least one criterion is needed; see
        ``MemoryStore.forget``.
        """

    def delete_session(self, session_id: str) -> int:
        """Deletes the session: its entries, its log, its compactions. The number of entries it had.

        A tombstone stays: what is written to it from now on is accepted as nothing.
        """

    def revive(self, session_id: str) -> bool:
        """Begins a session that was dropped anew, empty. False for one that was not dropped."""

    def expire(
        self, session_id: str, *, keep: int | None = None, before: datetime | float | None = None
    ) -> ExpireReport:
        """Takes entries out of what can be found: those from before *before*, and the oldest but *keep*.

        The log keeps what was said.
        """

    def stats(self, session_id: str | None = None) -> StoreStats:
        """What the store, or one session of it, holds."""

    def check(self, *, repair: bool = False) -> list[Finding]:
        """Everything in the store that is not what it should be; empty for a store that is whole.

        With *repair* what follows from the rest is made anew, and damaged entries are set aside.
        """

    def quarantined(self, session_id: str) -> tuple[int, ...]:
        """The ids of the session's entries that are damaged, ascending. No search finds them."""

    def open_log(self, session_id: str) -> SessionLog:
        """The session's log, which lives and commits with the entries."""

    def close(self) -> None:
        """Releases everything. Closing twice is fine."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *exc: object) -> None: ...
