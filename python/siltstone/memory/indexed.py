"""The store of the package: entries and logs in SQLite, searched through exact indexes in memory."""

from __future__ import annotations

import os
import weakref
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Literal, NoReturn, Self

from siltstone import _native
from siltstone.embedding.base import Embedder
from siltstone.errors import EntryNotFoundError
from siltstone.events import StoreHook
from siltstone.memory.convert import (
    MAX_INTEGER,
    entry_from_row,
    milliseconds,
    range_of,
)
from siltstone.memory.database_base import as_path
from siltstone.memory.database_checks import DatabaseChecks
from siltstone.memory.database_log import DatabaseLog
from siltstone.memory.database_stages import DatabaseStages
from siltstone.memory.entry import (
    Decay,
    Entry,
    ExpireReport,
    ForgetReport,
    Fusion,
    Page,
    Ranker,
    Receipt,
    SearchHit,
    SearchIndex,
    StoredEntry,
)
from siltstone.memory.forgetting import REPLACEMENT, Criteria, targets
from siltstone.memory.limits import DEFAULTS, Limits
from siltstone.memory.log import SessionLog
from siltstone.memory.searcher import Options, Searcher

__all__ = ["MemoryStore"]


class MemoryStore(DatabaseStages, DatabaseChecks):
    """A durable store in a directory: what sessions said, and what can be found again of it.

    The file is ``path/memory/memory.sqlite3``. Only this package may open it while a store is open; to
    look inside with other tools, close the store or take a copy. A store is safe to use from many threads,
    and two stores of one process on the same path are one. It does not cross a fork: open it again there.

    Rankers:
        ``lexical``: BM25 (k1 1.2, b 0.75) over stems of text, name and date, lifted by the entries beside
        it and by its day, as a share of what the query could reach at best; words that no entry has lower
        every score.
        How it works: docs/how-search-ranks.md. ``cosine``: cosine distance of the hashed term
        frequencies, ``score = 1 - distance / 2``, above 0.5 for whatever has a word in common. ``hybrid``:
        the documented ``0.7 * cosine + 0.3 * bm25``, BM25 as a share of the query's best, times 0.995 a day
        of age; weaker than ``lexical``, for those who need it as it is. ``dense``: cosine distance of an
        embedder's vectors, ``score = 1 - distance / 2``; entries without a vector are not found. ``fused``:
        ``lexical`` and ``dense`` in one score by their z-scores over the session, the vectors lifted by
        those beside. Where there is no vector at all, or none of the query, both rank as ``lexical``. Scores
        of different rankers do not compare.
    """

    def __init__(self, native: _native.Store, searcher: Searcher) -> None:
        self._native = native
        self._searcher = searcher
        self._limits = searcher.options.limits
        if searcher.vectors is not None:
            # A store that is let go of, or open at the end of the program, takes its threads along.
            self._stop = weakref.finalize(self, searcher.vectors.close)
            if self.lacking_vectors:
                self._wake()  # entries that a process left without vectors

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        ranker: Ranker | None = None,
        embedder: Embedder | None = None,
        *,
        hash_rule: Literal["xxh3", "poly31"] | None = None,
        index: SearchIndex = "exact",
        read_only: bool = False,
        decay: Decay | None = None,
        fusion: Fusion = "zscore",
        reembed: bool = False,
        embed_timeout: float = 5.0,
        hooks: Iterable[StoreHook] = (),
        limits: Limits = DEFAULTS,
    ) -> Self:
        """Opens the store in the directory *path*; makes one where there is none.

        Args:
            path: A directory. It is made if need be, with those that lead to it.
            ranker: How searches score that do not say; None is ``fused`` with an embedder, and ``lexical``
                without.
            embedder: What makes vectors of entries and queries; needed by ``dense`` and ``fused``. Entries
                are embedded in the background, see :meth:`flush`.
            hash_rule: How a new store hashes words for ``cosine``: ``xxh3`` where not given. An existing
                store knows its own.
            index: What ``cosine`` looks into. ``exact`` finds the best of all entries; ``hnsw``, a graph over
                each session's rows, is approximate above 200 entries and slower in a store of any size: for
                those who need the documented form, see :class:`HnswMemoryStore`. Either can open any store.
            read_only: Open an existing store for reading; none is made. A store whose file or directory
                cannot be written is opened like that by itself, see :attr:`read_only`.
            decay: What age takes of scores, in searches that do not say. None is the ranker's own: nothing,
                and for ``hybrid`` 0.995 a day without a floor.
            fusion: How ``fused`` makes one score of two: by z-scores, or by reciprocal ranks (``rrf``).
            reembed: Whether *embedder* may take the place of another one, whose vectors are deleted. Vectors
                of two embedders are never mixed: without it, another one is refused.
            embed_timeout: Seconds that a search waits for the vector of its query.
            hooks: Told of ``EmbeddingFailed`` and ``SearchDegraded``, also from other threads.
            limits: How much one call may hand over, or ask for.

        Raises:
            StoreOpenError: not a directory, not a store, no permission. What is there is left as it was.
            StoreVersionError: written by a newer siltstone. It is left as it was.
            ConfigError: an unknown ranker, index or rule, a rule that is not the store's, an embedder that is
                none, or one whose vectors are not those of the store.
        """
        options = Options.of(ranker, embedder, index, decay, fusion, embed_timeout, limits)
        native = _native.Store.open(as_path(path), read_only, hash_rule)
        try:
            return cls(native, Searcher.of(native, options, embedder, reembed, tuple(hooks)))
        except BaseException:
            native.close()
            raise

    @property
    def ranker(self) -> Ranker:
        """How searches score that do not say."""
        return self._searcher.options.ranker

    def index(self, session_id: str, entries: Sequence[Entry]) -> Receipt:
        """Stores and indexes *entries*: all of them, durably, or none.

        When it returns they are on the disk and found by the next search. An entry that the session has
        already (the same text, role, name and kind, of the same range of messages) keeps its id, so a
        call can be repeated. One with an empty range is always a new one.

        Raises:
            InvalidEntryError: more entries, or a longer text, than the store's limits; a range that is not
                ``0 <= start <= end``, or a time that no datetime can hold.
            ReadOnlyStoreError: the store is open for reading.
            StoreBusyError: another process wrote for more than 5 seconds.
            StoreIoError: the disk is full, or failed.
        """
        receipt = Receipt(tuple(self._native.insert_entries(session_id, self._batch(entries))))
        self._wake()
        return receipt

    def search(
        self,
        session_id: str,
        query: str,
        limit: int = 5,
        ranker: Ranker | None = None,
        min_score: float = 0.0,
        explain: bool = False,
        decay: Decay | None = None,
        now: datetime | float | None = None,
    ) -> list[SearchHit]:
        """The entries of the session most like *query*, best first.

        Args:
            session_id: The session to search; no other is looked at.
            query: Natural language. A query without words gives no hits.
            limit: At most this many hits; 0 gives none, and more than the store's limit gives that many.
            ranker: How to score; None is the store's own.
            min_score: Leaves out hits with a lower score, 0..1, on the ranker's own scale.
            explain: Whether hits say how their scores came about, see below.
            decay: What age takes of scores; None is the store's own.
            now: From when ages are counted; now, where not given.

        An explanation has ``score``, that of the hit, and ``decay``, the factor that age left of it: the
        parts are those of the score without it. ``lexical``: ``{"terms": [{"term", "tf", "idf", "score",
        "fields"}, …], "passage", "passages", "own", "neighbors": [{"entry_id", "place", "score"}, …],
        "day"}``; the scores of terms sum up to ``own``, and with those of the neighbours and of the day to
        the hit's (or to more, where that is cut at 1). ``cosine``: ``{"cosine", "distance"}``. ``hybrid``:
        ``{"cosine", "bm25", "terms", "passage", "passages"}``; the scores of terms sum up to ``bm25``.
        ``dense``: ``{"cosine", "distance", "vector", "vectors"}``, the nearest of the entry's vectors, from
        0, and how many it has. ``fused``: both, with None for an entry without vectors, and ``{"lexical",
        "z", "weights", "own", "neighbors"}``: ``lexical`` is the score of that ranker, of which the terms are
        a part, ``own = weights["lexical"] * lexical + weights["dense"] * cosine``, and the vectors of
        neighbours add or take what they are above or below the mean; with ``rrf``, ``{"lexical", "ranks"}``.

        Returns:
            Hits that share a word with the query or, by ``lexical``, stand beside one that does: the
            best first, of equal scores the newer, then by id.

        Raises:
            InvalidEntryError: a limit < 0, a ``min_score`` out of 0..1, or a query over the
                store's limit.
            ConfigError: an unknown ranker.
            StoreCorruptError: rows are missing, or the file cannot be read. An entry that does not match its
                checksum is left out, as if it had never been there, and counted: see :meth:`quarantined`.
        """
        hits, lacking = self._searcher.search(
            session_id, query, limit, ranker, min_score, explain, decay, milliseconds(now)
        )
        if lacking:
            self._wake()
        return hits

    def flush(self, timeout: float | None = None) -> bool:
        """Waits until the embedder has seen every entry; at once without an embedder.

        Args:
            timeout: Seconds; None waits as long as it takes.

        Returns:
            Whether every entry has its vectors now. False where time was up, or the embedder failed: those
            entries are found by their words, and tried again later.
        """
        vectors = self._searcher.vectors
        return vectors is None or self.read_only or vectors.flush(timeout)

    @property
    def lacking_vectors(self) -> int:
        """How many entries of the store have no vectors; all of them where no embedder was ever used."""
        return self._native.embedded()[1]

    def get(self, entry_id: int) -> StoredEntry:
        """The entry of that id.

        Raises:
            EntryNotFoundError: there is none.
            StoreCorruptError: it does not match its checksum.
        """
        if abs(entry_id) > MAX_INTEGER:
            raise EntryNotFoundError(f"the store has no entry {entry_id}", entry_id=entry_id)
        return entry_from_row(self._native.get(entry_id))

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
            overlaps: Only entries whose range shares a message with this half-open one. Ranges that touch,
                and empty ones, share none.
            since: Only entries that are newer, to the millisecond.
            offset: How many entries to leave out first, filtered or not.
            limit: How many entries a page has at most, before the filters.

        Raises:
            InvalidEntryError: a limit < 1, an offset < 0, or a range with start > end.
        """
        rows, next_offset, damaged = self._native.entries(
            session_id,
            None if overlaps is None else range_of(overlaps, "overlaps"),
            None if since is None else milliseconds(since),
            max(-1, min(offset, MAX_INTEGER)),
            max(-1, min(limit, MAX_INTEGER)),
        )
        return Page(tuple(entry_from_row(row) for row in rows), next_offset, tuple(damaged))

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
            name: Who said it: the ``name`` of an entry or of a message, or the tool's.
            before: What was stored earlier than this.
            text: What has this text in it, compared exactly. Summaries that have it go as well.

        A session that is open meanwhile, here or in another process, reads its view anew at its next
        boundary; a compaction of it that is still to be committed is refused, so that nothing comes back.

        Raises:
            ConfigError: no criterion, an empty one, or a range without a session.
            ReadOnlyStoreError: the store is open for reading.
        """
        criteria = Criteria.of(
            entry_ids=entry_ids,
            session_id=session_id,
            start=start,
            end=end,
            name=name,
            before=before,
            text=text,
        )
        chosen = targets(self, self._native.sessions(), criteria, self._staged)
        return ForgetReport(*self._native.forget(chosen, REPLACEMENT))

    def _staged(self, session_id: str) -> list[StoredEntry]:
        return [entry_from_row(row) for row in self._native.staged_entries(session_id)]

    def delete_session(self, session_id: str) -> int:
        """Deletes the session: its entries, its log, its compactions. The number of entries it had.

        Its ids are not given to others. A tombstone stays under its name: what is written to it from now
        on, by whoever still has it open, is accepted as nothing, and ``Session.open`` refuses the name until
        :meth:`revive` begins it anew.
        Freed pages are overwritten; for the bytes in the log beside the file, ``forget`` first.
        """
        return self._native.delete_session(session_id)

    def revive(self, session_id: str) -> bool:
        """Begins a session that was dropped anew, empty. False for one that was not dropped.

        A writer that had it open before the drop is refused what depends on the log, and batches that it had
        staged stay nothing; but what it hands to ``index`` is then stored. Stop such writers first.
        """
        return self._native.revive(session_id)

    def expire(
        self, session_id: str, *, keep: int | None = None, before: datetime | float | None = None
    ) -> ExpireReport:
        """Takes entries out of what can be found. Nothing does so by itself.

        The log keeps what was said: ``expand`` and ``Session.log`` read it. To forget it, ``forget``. An
        entry that expired is a new one when it is handed over again.

        Args:
            session_id: The session; no other is touched.
            keep: The oldest entries go until so many are left, by the time they were said.
            before: Entries from earlier than this go first.
        """
        stamp = None if before is None else milliseconds(before)
        kept = None if keep is None else max(-1, min(keep, MAX_INTEGER))
        return ExpireReport(*self._native.expire(session_id, kept, stamp))

    def open_log(self, session_id: str) -> SessionLog:
        """The session's log, which lives and commits with the entries."""
        return DatabaseLog(self._native, session_id, self._limits, self._wake)

    def close(self) -> None:
        """Lets go of the store. Closing twice is fine.

        When the last store of this process on the path is closed, the file is complete by itself. Entries
        that lack vectors get them when the store is next open with the embedder.
        """
        if self._searcher.vectors is not None:
            self._searcher.vectors.close()
        self._native.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        mode = ", read_only=True" if self.read_only else ""
        return f"{type(self).__name__}.open({self.path!r}, ranker={self.ranker!r}{mode})"

    def _wake(self, *, anew: bool = False) -> None:
        if self._searcher.vectors is not None and not self.read_only:
            self._searcher.vectors.wake(anew=anew)

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{self!r} cannot be pickled or copied: open the path again")
