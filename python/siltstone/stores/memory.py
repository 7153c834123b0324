"""The store of the package: a database in a directory, searched through indexes in memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Literal, Self, TypeAlias, TypeVar, Unpack

from siltstone import _native, watching
from siltstone._native import BlockOptions, BlockWriter, Recalled, RecallQuery
from siltstone.errors import StoreConflictError, StoreOpenError
from siltstone.memory.chronology import in_time, is_in_time, looked_at
from siltstone.memory.convert import (
    MAX_INTEGER,
    NewEntry,
    filters_in,
    is_across,
    message_from_row,
    milliseconds,
    new_entry,
    search_hit,
    with_filters,
)
from siltstone.memory.entry import (
    Decay,
    Fusion,
    Ranker,
    SearchFilters,
    SearchHit,
    SearchIndex,
    SearchOrder,
    SearchScope,
)
from siltstone.memory.limits import DEFAULTS, Limits
from siltstone.memory.opening import Searching, check_has_embedder
from siltstone.stores.database import DatabaseStore
from siltstone.stores.tagged import Tags

if TYPE_CHECKING:
    from siltstone.embedding.base import Embedder
    from siltstone.events import StoreHook
    from siltstone.memory.reranking import Reranker, Scorer
    from siltstone.memory.vectors import Vectors

__all__ = ["MemoryStore"]

_Found = TypeVar("_Found", _native.Found, Recalled)
_Find: TypeAlias = Callable[[str, str, _native.SearchOptions, tuple[int, bytes] | None], _Found]


class MemoryStore(DatabaseStore):
    """A durable store in a directory: what sessions said, and what can be found again of it.

    The file is ``path/memory/memory.sqlite3``. Only this package may open it while a store is open; to
    look inside with other tools, close the store or take a copy. A store is safe to use from many threads,
    and two stores of one process on the same path are one. It does not cross a fork: in the child it
    raises ``StoreForkedError``, and the path can be opened again there.

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

    _reads_at_once = True

    def __init__(
        self,
        native: _native.Store,
        options: _native.SearchOptions,
        limits: Limits,
        vectors: Vectors | None,
        hooks: tuple[StoreHook, ...],
        reranker: Reranker | None = None,
    ) -> None:
        super().__init__(native, limits, vectors)
        self._options = options  # of searches that do not say
        self._hooks = hooks
        self._reranker = reranker
        if vectors is not None:
            import weakref

            # A store that is let go of, or open at the end of the program, takes its threads along.
            self._stop = weakref.finalize(self, vectors.close)
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
        reranker: Reranker | Scorer | None = None,
        hooks: Iterable[StoreHook] = (),
        limits: Limits = DEFAULTS,
        mode: int | None = None,
        language: str | Sequence[str] | None = None,
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
            reranker: Orders the best hits of every search anew: a function of a query and texts, or a
                :class:`~siltstone.memory.Reranker`. Where it fails or is late, hits stay as they are. Recall
                does not ask it.
            hooks: Told of ``EmbeddingFailed`` and ``SearchDegraded``, also from other threads.
            limits: How much one call may hand over, or ask for.
            mode: Who may read and write files that are made, as ``os.chmod`` takes it, and look into folders
                that are: 0o640 lets the group read. Without it the owner alone (0600, and 0700 for folders).
                The process's umask takes nothing of it, and what is there already stays as it is.
            language: In which languages texts in Latin letters are read: ``"auto"``, where each entry tells
                its own; a code such as ``"de"``, for all of them; or codes such as ``["de", "en"]``, where
                each tells one of these, and is of the first where it tells none. The first who says so
                settles it for the store (:meth:`settle_language` changes it); where nobody has, it is
                ``"auto"``.

        Raises:
            StoreOpenError: not a directory, not a store, no permission. What is there is left as it was.
            StoreVersionError: written by a newer siltstone. It is left as it was.
            ConfigError: an unknown ranker, index, rule or language, a rule or language that is not the
                store's, an embedder that is none, or one whose vectors are not those of the store.
        """
        searching = Searching.of(
            ranker,
            embedder,
            index=index,
            decay=decay,
            fusion=fusion,
            reembed=reembed,
            embed_timeout=embed_timeout,
            reranker=reranker,
            hooks=hooks,
            limits=limits,
            language=language,
        )
        native = _native.Store.open(_as_path(path), read_only, hash_rule, mode)
        try:
            if searching.language is not None:
                native.settle_language(searching.language, anew=False)
            return cls(
                native,
                searching.options,
                limits,
                searching.vectors(native),
                searching.hooks,
                searching.reranker,
            )
        except BaseException:
            native.close()
            raise

    @property
    def path(self) -> str:
        """The directory it was opened by."""
        return self._native.path

    @property
    def _directory(self) -> str:
        return self.path

    @property
    def ranker(self) -> Ranker:
        """The ranker of searches that name none."""
        return self._options.ranker

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
            ranker: How to score; None is the store's own.
            min_score: Leaves out hits with a lower score, 0..1, on the ranker's own scale.
            explain: Whether hits say how their scores came about, see below.
            decay: What age takes of scores; None is the store's own.
            now: From when ages are counted, and when entries with a ``ttl`` must be valid; now, where not
                given.
            scope: ``"session"`` looks at no other one. ``"namespace"``: what all sessions of its namespace
                said is found, also what is still in their contexts and has no entry yet; what is in the
                context of *session_id* itself is left out. A session without a namespace shares with nobody,
                and finds its own entries.
                The weights of words and of days are those of the whole namespace, and neighbours are of one
                session. Its first search indexes all of it; messages in contexts have no vectors.
            order: ``"score"`` gives the best first. ``"time"`` chooses, among four times as many, those that
                are best and spread over the session, and gives them in the order in which they were said;
                those of several sessions by their times.
            filters: ``since``, ``until``, ``role``, ``kind``, ``name``, ``topic`` and ``entity``:
                :class:`SearchFilters`.

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
        In order of time each has ``"order": {"rank", "kept"}``: the place by score, and what was left of the
        score beside chosen hits nearby.

        Returns:
            Hits that share a word with the query or, by ``lexical``, stand beside one that does: the
            best first, of equal scores the newer, then by id.

        Raises:
            InvalidEntryError: a limit < 0, a ``min_score`` out of 0..1, or a query over the
                store's limit.
            ConfigError: an unknown ranker, scope or order.
            StoreCorruptError: rows are missing, or the file cannot be read. An entry that does not match its
                checksum is left out, as if it had never been there, and counted: see :meth:`quarantined`.
        """
        wanted, tags = filters_in(filters), Tags.of(filters)
        most = max(-1, min(limit, self._limits.hits))
        is_in_order = is_in_time(order)
        looked = min(looked_at(most), self._limits.hits) if is_in_order and most > 0 else most
        reranker = self._reranker if most > 0 else None
        asked = looked if reranker is None else max(looked, reranker.depth)
        conditions = wanted._asdict()
        if tags is not None and wanted.since is None:
            conditions["since"] = -MAX_INTEGER  # no graph is asked: it would not know of all
        at = milliseconds(now)

        def options_of(limit: int) -> _native.SearchOptions:
            return _native.SearchOptions(
                self._options,
                limit=limit,
                ranker=ranker,
                min_score=min_score,
                explain=explain,
                decay=decay,
                now=at,
                **conditions,
            )

        options = options_of(asked)
        check_has_embedder(options.ranker, self._vectors)
        self._limits.check_query(query)
        find = self._across if is_across(scope) else self._native.search
        lacking = 0

        def ask(options: _native.SearchOptions) -> list[SearchHit]:
            nonlocal lacking
            found = self._find(find, session_id, query, options)
            lacking = found.lacking
            return [search_hit(hit, session_id, found.asked) for hit in found.hits]

        with watching.operation("search_memory", self, session_id, query) as watched:
            if tags is None or asked < 1:
                hits = ask(options)
            else:
                hits = tags.first(lambda limit: ask(options_of(limit)), asked)
            if reranker is not None:
                hits = reranker.reranked(session_id, query, hits, options.ranker, self._hooks)[:looked]
            if is_in_order:
                hits = in_time(hits, most, explain=explain)
            watched.records(hits)
        if lacking:
            self._wake()
        return with_filters(hits, wanted, filters) if explain else hits

    def recall(
        self,
        session_id: str,
        query: str,
        limit: int,
        asked: RecallQuery,
        writer: BlockWriter,
        facts: Sequence[str],
        options: BlockOptions,
    ) -> Recalled:
        """The block of what a session recalls, in one step: a search, and what is beside the best hit.

        Args:
            session_id: The session.
            query: Any text.
            limit: The most hits, those in context included.
            asked: Both, and what may be recalled.
            writer: Writes the block.
            facts: Lines of facts.
            options: What the block may hold.
        """
        self._limits.check_query(query)
        search = _native.SearchOptions(
            self._options, limit=min(limit, self._limits.hits), now=milliseconds(None)
        )

        def find(
            _session: str, _query: str, search: _native.SearchOptions, vector: tuple[int, bytes] | None
        ) -> Recalled:
            while True:
                found, unread = writer.recall(self._native, asked, search, vector, facts, options)
                if found is not None:
                    return found
                self._take_said(session_id, unread)

        with watching.operation("search_memory", self, session_id, query) as watched:
            found = self._find(find, session_id, query, search)
            watched.count(found.said)
        if found.lacking:
            self._wake()
        return found

    def flush(self, timeout: float | None = None) -> bool:
        """Waits until the embedder has seen every entry; at once without an embedder.

        Args:
            timeout: Seconds; None waits as long as it takes.

        Returns:
            Whether every entry has its vectors now. False where time was up, or the embedder failed: those
            entries are found by their words, and tried again later.
        """
        return self._vectors is None or self.read_only or self._vectors.flush(timeout)

    @property
    def lacking_vectors(self) -> int:
        """How many entries of the store have no vectors; all of them where no embedder was ever used."""
        return self._native.embedded()[1]

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Makes a store in the directory *path* of what is committed now, while others go on with this one.

        Everything in the copy is looked at before it gets its name: where there is a store at *path*
        afterwards, it is whole. A process that is killed meanwhile leaves none. The copy has room for what it
        holds alone, and nothing of what was forgotten.

        Args:
            path: A directory without a store. It is made if need be, with those that lead to it.

        Raises:
            StoreOpenError: there is a store already, or it cannot be written. What is there stays.
            StoreCorruptError: this store is damaged: ``check(repair=True)`` first.
            StoreIoError: the disk is full, or failed.
        """
        self._native.backup(_as_path(path))

    def __repr__(self) -> str:
        mode = ", read_only=True" if self.read_only else ""
        return f"{type(self).__name__}.open({self.path!r}, ranker={self.ranker!r}{mode})"

    def _across(
        self, session_id: str, query: str, options: _native.SearchOptions, vector: tuple[int, bytes] | None
    ) -> _native.Found:
        """The hits of the namespace; messages that the core lacks are read on the way."""
        while True:
            found, unread = _native.search_across(self._native, session_id, query, options, vector)
            if found is not None:
                return found
            self._take_said(session_id, unread)

    def _take_said(self, session_id: str, unread: Sequence[_native.Unread]) -> None:
        """Gives the core the texts of messages that it has to know."""
        _native.take_said(self._native, session_id, [(each, self._said(each)) for each in unread])

    def _said(self, unread: _native.Unread) -> list[NewEntry | None]:
        """The entries of messages: one or none of each."""
        rows = [message_from_row(row) for row in unread.rows]
        log = self.open_log(unread.session_id)
        found = self._sayings.of(unread.session_id, log, rows)
        return [None if entry is None else new_entry(entry) for entry in found]

    def _find(
        self, find: _Find[_Found], session_id: str, query: str, options: _native.SearchOptions
    ) -> _Found:
        """The answer of the core, with the vector of the query where the ranker wants one."""
        vector = self._vector(session_id, query, options) if options.wants_vector else None
        try:
            found = find(session_id, query, options, vector)
        except StoreConflictError:
            if vector is None:
                raise
            # Another embedder took the place of this one just now.
            found = find(session_id, query, options, None)
        if vector is not None and found.ranker != options.ranker and (found.lacking or found.hits):
            reason: Literal["no_vectors", "stale"] = "no_vectors" if found.lacking else "stale"
            from siltstone.events import SearchDegraded, notify

            notify(self._hooks, SearchDegraded(session_id, options.ranker, reason))
        return found

    def _vector(
        self, session_id: str, query: str, options: _native.SearchOptions
    ) -> tuple[int, bytes] | None:
        """The query as the embedder sees it; None where it does not answer, or there is nothing to find."""
        if self._vectors is None or not _native.whitespace_words(query):
            return None
        numbers = self._vectors.query(query)
        if numbers is None:
            from siltstone.events import SearchDegraded, notify

            notify(self._hooks, SearchDegraded(session_id, options.ranker, "no_query_vector"))
            return None
        return self._vectors.key, numbers


def _as_path(path: str | os.PathLike[str]) -> str:
    """*path* as text that a file can be named by.

    Raises:
        StoreOpenError: no file has such a name.
    """
    path = os.fspath(path)
    try:
        os.fsencode(path)
    except UnicodeEncodeError as error:
        raise StoreOpenError(
            f"cannot open a store at {path!r}: no file has such a name", path=path
        ) from error
    return path
