"""The main store of the package: a database in a directory, searched through indexes in memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, Self, TypeAlias, TypeVar, Unpack

from siltstone import _native
from siltstone._native import BlockWriter, Recalled
from siltstone.errors import ConfigError, StoreConflictError, StoreOpenError, explains
from siltstone.hooks import is_watched, notify, watch_operation
from siltstone.memory import convert
from siltstone.memory.base import SearchSettings
from siltstone.memory.convert import NewEntry
from siltstone.memory.entry import AgedSearchOptions, Decay, Ranker, SearchHit, SearchIndex
from siltstone.memory.limits import DEFAULTS, Limits, checked_limit
from siltstone.memory.opening import Searching, check_has_embedder
from siltstone.stores.database import DatabaseStore
from siltstone.stores.simple import Tags

if TYPE_CHECKING:
    from siltstone.embedding.base import Embedder
    from siltstone.events import StoreHook
    from siltstone.memory.hits import Reranker
    from siltstone.memory.vectors import Vectors
    from siltstone.recall.base import BlockOptions, RecallConditions
    from siltstone.tools.base import AnswerLimit


_Found = TypeVar("_Found", _native.Found, Recalled)
_Vector: TypeAlias = tuple[int, bytes] | None
_Find: TypeAlias = Callable[[list[tuple[str, _Vector]]], _Found]


_BY_VECTORS = frozenset({"dense", "fused"})  #: rankers that need the query's vector


@explains
class MemoryStore(DatabaseStore):
    """A durable store in a directory: the logs of sessions, and their searchable entries.

    The file is ``path/memory/memory.sqlite3``. While a store is open, only this package may open the file; to
    use other tools, close the store or take a copy. A store is safe to use from many threads. Two stores of
    one process on the same path share one database. A store cannot be used after a fork: in the child it
    raises ``StoreForkedError``; open the path again there.

    Rankers:
        ``lexical``: BM25 (k1 1.2, b 0.75) over stems of text, name and date, raised by neighbouring entries
        and by entries of the same day, as a share of the best score that the query could reach. Query words
        that no entry has lower every score. See docs/how-search-ranks.md. ``cosine``: cosine distance of the
        hashed term frequencies, ``score = 1 - distance / 2``, above 0.5 for every entry that shares a word.
        ``hybrid``: the documented ``0.7 * cosine + 0.3 * bm25``, with BM25 as a share of the query's best,
        times 0.995 for each day of age; weaker than ``lexical``, for hosts that need the documented scores.
        ``dense``: cosine distance of an embedder's vectors, ``score = 1 - distance / 2``; entries without a
        vector are not found. ``fused``: ``lexical`` and ``dense`` in one score, by their z-scores over the
        session; neighbours raise the part of the vectors too. If the store has no vector, or the query has
        none, ``dense`` and ``fused`` rank as ``lexical``. Scores of different rankers cannot be compared.
    """

    def __new__(cls, *arguments: object, **_options: object) -> Self:
        """Refuses the arguments of ``open``.

        Raises:
            TypeError: the store was not made by ``open``.
        """
        if not arguments or not isinstance(arguments[0], _native.Store):
            raise TypeError(f'open a store with {cls.__name__}.open("agent-data", ...)')
        return super().__new__(cls)

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
        self._options = options  # the defaults of searches
        self._hooks = hooks
        self._reranker = reranker
        if vectors is not None:
            import weakref

            # Threads end with a store that is garbage-collected, or open at the end of the program.
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
        mode: int | None = None,
        **settings: Unpack[SearchSettings],
    ) -> Self:
        """Opens the store in the directory *path*, or creates it.

        Args:
            path: A directory. It is created if needed, with its parents.
            ranker: The default ranker of searches; None is ``fused`` with an embedder, and ``lexical``
                without.
            embedder: Makes the vectors of entries and queries; needed by ``dense`` and ``fused``. Entries are
                embedded in the background, see :meth:`flush`.
            hash_rule: The rule by which a new store hashes words for ``cosine``, by default ``xxh3``. An
                existing store keeps its own.
            index: The index of ``cosine``. ``exact`` finds the best of all entries. ``hnsw``, a graph over
                each session's rows, is approximate above 200 entries, and slower at any size; it is for hosts
                that need the documented form, see :class:`HnswMemoryStore`. Either can open any store.
            read_only: Opens an existing store for reading, and creates none. A store whose file or directory
                cannot be written is opened read-only by itself, see :attr:`read_only`.
            mode: The permissions of new files, as for ``os.chmod``; new folders get the matching search
                permission. 0o640 lets the group read. Left out: the owner alone (0600, and 0700 for folders).
                The umask is not applied, and existing files keep their permissions.
            decay: The default decay of scores by age. None, the default, is the ranker's own: no decay, and
                for ``hybrid`` 0.995 a day without a floor.
            fusion: The rule by which ``fused`` combines two scores: z-scores (``zscore``, the default), or
                reciprocal ranks (``rrf``).
            reembed: Whether *embedder* may replace another one, whose vectors are then deleted. Vectors of
                two embedders are never mixed: without *reembed*, another embedder is refused.
            embed_timeout: Seconds that a search waits for the vector of its query, by default 5.
            reranker: Reorders the best hits of every search: a function of a query and texts, or a
                :class:`~siltstone.memory.hits.Reranker`. If it fails or is late, the hits keep their order.
                Recall does not use it.
            hooks: Called with ``EmbeddingFailed`` and ``SearchDegraded``, also from other threads.
            limits: The limits of one call.
            language: The languages of texts in Latin letters: ``"auto"``, detected for each entry; a code
                such as ``"de"`` for all entries; or codes such as ``["de", "en"]``, detected among these, and
                the first if the text does not tell. The first opening with a language settles it for the
                store (:meth:`settle_language` changes it). The default is ``"auto"``.

        Raises:
            TypeError: an option does not exist.
            StoreOpenError: not a directory, not a store, no permission. Nothing was changed.
            StoreVersionError: another version of siltstone wrote it. Nothing was changed.
            ConfigError: an unknown ranker, index, rule or language, a rule or language other than the
                store's, an invalid embedder, or an embedder other than the one that made the store's vectors.
        """
        searching = Searching.of(ranker, embedder, index, **settings)
        native = _native.Store.open(_as_path(path), read_only, hash_rule, mode)
        try:
            if searching.language is not None:
                native.settle_language(searching.language, anew=False)
            return cls(
                native,
                searching.options,
                searching.limits,
                searching.vectors(native),
                searching.hooks,
                searching.reranker,
            )
        except BaseException:
            native.close()
            raise

    @property
    def path(self) -> str:
        """The directory by which it was opened."""
        return self._native.path

    @property
    def _directory(self) -> str:
        return self.path

    @property
    def ranker(self) -> Ranker:
        """The ranker of searches that name none."""
        return self._options.ranker

    def search(
        self, session_id: str, query: str, limit: int = 5, **options: Unpack[AgedSearchOptions]
    ) -> list[SearchHit]:
        """The entries of the session that match *query* best, best first.

        Args:
            session_id: The session that asks.
            query: Natural language. A query without words gives no hits.
            limit: At most this many hits; 0 gives none, and more than the store's limit gives that many.
            options: Those of :meth:`Store.search`, ``decay`` and ``now``:
                :class:`~siltstone.memory.entry.AgedSearchOptions`.

        With the scope ``"namespace"``, the weights of words and days come from the whole namespace, and
        neighbours are of one session. The first such search indexes the whole namespace. Messages in contexts
        have no vectors.

        An explanation has ``score``, the score of the hit, and ``decay``, the factor for its age. The other
        parts explain the score before this factor. ``lexical``: ``{"terms": [{"term", "tf", "idf", "score",
        "fields"}, …], "passage", "passages", "own", "neighbors": [{"entry_id", "place", "score"}, …],
        "day"}``; the scores of terms sum up to ``own``, and with those of the neighbours and of the day to
        the hit's (or to more, where that is cut at 1). ``cosine``: ``{"cosine", "distance"}``. ``hybrid``:
        ``{"cosine", "bm25", "terms", "passage", "passages"}``; the scores of terms sum up to ``bm25``.
        ``dense``: ``{"cosine", "distance", "vector", "vectors"}``, the nearest of the entry's vectors, from
        0, and how many it has. ``fused``: both, with None for an entry without vectors, and ``{"lexical",
        "z", "weights", "own", "neighbors"}``: ``lexical`` is the score of that ranker, of which the terms are
        a part, ``own = weights["lexical"] * lexical + weights["dense"] * cosine``, and the vectors of
        neighbours add or take what they are above or below the mean; with ``rrf``, ``{"lexical", "ranks"}``.
        In order of time each has ``"order": {"rank", "kept"}``: the place by score, and the share of the
        score that was left after chosen hits nearby.

        Returns:
            Hits that share a word with the query or, by ``lexical``, are neighbours of one that does: best
            first, of equal scores the newer first, then by id.

        Raises:
            InvalidEntryError: a limit < 0, a ``min_score`` out of 0..1, or a query over the
                store's limit.
            ConfigError: an unknown ranker, scope or order.
            StoreCorruptError: rows are missing, or the file cannot be read. An entry that does not match its
                checksum is left out, and listed by :meth:`quarantined`.
        """
        # Most searches have no filters.
        conditions = convert.conditions_in(options, AgedSearchOptions) if options else {}
        wanted, tags = conditions, None
        if "topic" in options or "entity" in options:  # few searches ask for them
            tags = Tags.of(options)
            if tags is not None:  # a filter avoids the graph, which would not give all hits
                conditions = {"since": -convert.MAX_INTEGER, **wanted}
        most = min(checked_limit(limit), self._limits.hits)
        is_in_order, looked = False, most
        order, explain = options.get("order", "score"), options.get("explain", False)
        if order != "score":
            from siltstone.memory.hits import in_time, is_in_time, looked_at

            is_in_order = is_in_time(order)
            looked = min(looked_at(most), self._limits.hits) if is_in_order and most > 0 else most
        reranker = self._reranker if most > 0 else None
        asked = looked if reranker is None else max(looked, reranker.depth)
        at = convert.milliseconds(options.get("now"))

        def core_options(limit: int) -> _native.SearchOptions:
            return _native.SearchOptions(
                self._options,
                limit=limit,
                ranker=options.get("ranker"),
                min_score=options.get("min_score"),
                explain=explain,
                decay=options.get("decay"),
                now=at,
                **conditions,
            )

        first = core_options(asked)
        check_has_embedder(first.ranker, self._vectors)
        self._limits.check_query(query)
        find = self._across if convert.is_across(options) else self._native.search
        lacking = 0

        def ask(core: _native.SearchOptions) -> list[SearchHit]:
            nonlocal lacking
            found = self._find(
                lambda asked: find(session_id, query, core, asked[0][1]), session_id, [query], core
            )
            lacking = found.lacking
            return [convert.search_hit(hit, session_id, found.asked) for hit in found.hits]

        with watch_operation("search_memory", self, session_id, query) as watched:
            if tags is None or asked < 1:
                hits = ask(first)
            else:
                hits = tags.first(lambda limit: ask(core_options(limit)), asked)
            if reranker is not None:
                hits = reranker.reranked(session_id, query, hits, first.ranker, self._hooks)[:looked]
            if is_in_order:
                hits = in_time(hits, most, explain=explain)
            watched.records(hits)
        if lacking:
            self._wake()
        return convert.with_filters(hits, wanted, options) if explain else hits

    def answer(
        self, session_id: str, query: str, limit: int, most: AnswerLimit
    ) -> tuple[str | list[SearchHit], int, str | None] | None:
        """What :meth:`search` finds in the session, as the JSON text that the tool ``memory_search`` answers.

        Args:
            session_id: The session.
            query: Natural language.
            limit: At most this many hits.
            most: The limit of the text.

        Returns:
            The text, or the hits where it would be too long; the number of entries that :meth:`quarantined`
            lists; and the :meth:`facts_revision` of the same state. None if the store does not search by
            words alone, or if something has to see the hits: then only :meth:`search` has the answer.

        Raises:
            InvalidEntryError: the query is over the store's limit.
        """
        options = self._options
        if (
            self._reranker is not None
            or is_watched()
            or options.ranker in _BY_VECTORS
            or getattr(self.search, "__func__", None) is not MemoryStore.search  # another one decides
        ):
            return None
        self._limits.check_query(query)
        at_most = max(-1, min(limit, self._limits.hits))
        text, found, damaged, facts = _native.answer(
            self._native, session_id, query, options, at_most, convert.milliseconds(None), most
        )
        if found is not None:
            return [convert.search_hit(hit, session_id, found.asked) for hit in found.hits], damaged, facts
        return text or "[]", damaged, facts

    def recall(
        self,
        session_id: str,
        queries: Sequence[str],
        limit: int,
        conditions: RecallConditions,
        writer: BlockWriter,
        facts: Sequence[str],
        options: BlockOptions,
    ) -> Recalled:
        """The block of recalled context, in one step: searches, neighbours of the best hits, and the text.

        Args:
            session_id: The session.
            queries: Any texts: an entry that several find is of the shortest of them.
            limit: The maximum number of hits of each query, including hits in context.
            conditions: The conditions on recalled entries.
            writer: Writes the block.
            facts: Lines of facts.
            options: The limits of the block.
        """
        for query in queries:
            self._limits.check_query(query)
        search = _native.SearchOptions(
            self._options, limit=min(limit, self._limits.hits), now=convert.milliseconds(None)
        )

        def find(asked: list[tuple[str, _Vector]]) -> Recalled:
            while True:
                found, unread = writer.recall(
                    self._native, session_id, asked, conditions, search, facts, options
                )
                if found is not None:
                    return found
                self._take_said(session_id, unread)

        with watch_operation("search_memory", self, session_id, "\n".join(queries)) as watched:
            found = self._find(find, session_id, queries, search)
            watched.count(found.details)
        if found.lacking:
            self._wake()
        return found

    def flush(self, timeout: float | None = None) -> bool:
        """Waits until the embedder has seen every entry; at once without an embedder.

        Args:
            timeout: Seconds; None for no limit.

        Returns:
            Whether every entry has its vectors now. False after the timeout, or if the embedder failed:
            entries without vectors are found by their words, and are tried again later.
        """
        return self._vectors is None or self.read_only or self._vectors.flush(timeout)

    @property
    def lacking_vectors(self) -> int:
        """The number of entries without vectors; all entries, if no embedder was ever used."""
        return self._native.embedded()[1]

    def shrink(self) -> None:
        """Gives the room of deleted rows back to the disk: the file is written anew. No row changes.

        Other processes may use the store meanwhile; their writes wait. The disk needs room for a second copy.

        Raises:
            StoreBusyError: another process works on the store for too long. Nothing is lost; try again.
            StoreIoError: the disk is full, or failed.
        """
        self._native.shrink()

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Copies the committed data to a new store in the directory *path*. This store stays usable.

        The whole copy is checked before it gets its final name, so a store at *path* is always complete. If
        the process is killed, there is none. The copy has no free pages, and no forgotten texts.

        Args:
            path: A directory without a store. It is created if needed, with its parents.

        Raises:
            StoreOpenError: there is a store already, or it cannot be written. Nothing was changed.
            StoreCorruptError: this store is damaged: ``check(repair=True)`` first.
            StoreIoError: the disk is full, or failed.
        """
        self._native.backup(_as_path(path))

    def __repr__(self) -> str:
        mode = ", read_only=True" if self.read_only else ""
        return f"{type(self).__name__}.open({self.path!r}, ranker={self.ranker!r}{mode})"

    def _across(
        self, session_id: str, query: str, options: _native.SearchOptions, vector: _Vector
    ) -> _native.Found:
        """The hits of the namespace. Messages in context that the core has not read are read first."""
        while True:
            found, unread = _native.search_across(self._native, session_id, query, options, vector)
            if found is not None:
                return found
            self._take_said(session_id, unread)

    def _take_said(self, session_id: str, unread: Sequence[_native.Unread]) -> None:
        """Gives the core the entries of messages in context that it has not read."""
        _native.take_said(self._native, session_id, [(each, self._said(each)) for each in unread])

    def _said(self, unread: _native.Unread) -> list[NewEntry | None]:
        """An entry or None for each message."""
        rows = [convert.message_from_row(row) for row in unread.rows]
        log = self.open_log(unread.session_id)
        return self._sayings.of(unread.session_id, log, rows)

    def _find(
        self, find: _Find[_Found], session_id: str, queries: Sequence[str], options: _native.SearchOptions
    ) -> _Found:
        """The answer of the core, with the vectors of the queries if the ranker needs them."""
        asked = [(query, self._vector(session_id, query, options)) for query in queries]
        has_vectors = any(vector for _, vector in asked)
        try:
            found = find(asked)
        except StoreConflictError:
            if not has_vectors:
                raise
            # Another embedder has just replaced this one.
            found = find([(query, None) for query in queries])
        if has_vectors and found.ranker != options.ranker and (found.lacking or found.hits):
            reason: Literal["no_vectors", "stale"] = "no_vectors" if found.lacking else "stale"
            from siltstone.events import SearchDegraded

            notify(self._hooks, SearchDegraded(session_id, options.ranker, reason))
        return found

    def _vector(self, session_id: str, query: str, options: _native.SearchOptions) -> _Vector:
        """The query's vector; None if none is needed, without words in the query, or without an answer."""
        if self._vectors is None or not options.wants_vector or not _native.whitespace_words(query):
            return None
        numbers = self._vectors.query(query)
        if numbers is None:
            from siltstone.events import SearchDegraded

            notify(self._hooks, SearchDegraded(session_id, options.ranker, "no_query_vector"))
            return None
        return self._vectors.key, numbers


def _as_path(path: str | os.PathLike[str]) -> str:
    """*path* as a text that is a valid file name, and was not meant as something else.

    Raises:
        ConfigError: it is no path, ``:memory:``, or an address.
        StoreOpenError: no file can have that name.
    """
    given = os.fspath(path) if isinstance(path, str | os.PathLike) else path
    remedy = "" if isinstance(given, str) else "give it as a text or a pathlib.Path"
    if isinstance(given, str) and given.startswith((":memory:", "file::memory:")):
        remedy = "a session in memory is Session.open(None, id, memory=SimpleMemoryStore())"
    elif isinstance(given, str) and "://" in given:
        remedy = "of all addresses, Session.open and PostgresStore.open take those of PostgreSQL"
    if remedy:
        raise ConfigError(f"path must be a directory, got {path!r}: {remedy}", field="path", value=path)
    path = os.fspath(path)
    try:
        os.fsencode(path)
    except UnicodeEncodeError as error:
        raise StoreOpenError(
            f"cannot open a store at {path!r}: no file has such a name", path=path
        ) from error
    return path


# The documented store: hashed term frequencies, and an HNSW graph over each session's rows.


class HnswMemoryStore(MemoryStore):
    """A :class:`MemoryStore` with the defaults of the documented store: cosine, ``poly31``, HNSW.

    A text is a bag of words: split at white space, ASCII letters in lower case, each word hashed by
    ``h = 31 * h + byte`` modulo 4,096, and counted. Each session has a graph over its rows (M 16, 16 layers,
    efConstruction 200; a search uses ``ef = max(limit, 200)``). The first search of the session builds the
    graph from the database. ``score = 1 - distance / 2``: 1 for equal words; a hit shares at least one word.

    :class:`MemoryStore` with its own defaults finds more, faster, and without a graph in memory. This class
    is for hosts that depend on the documented scores. The file is the same: ``MemoryStore.open`` reads it.
    """

    @classmethod
    def open(  # type: ignore[override]  # no embedder, and no options of one
        cls,
        path: str | os.PathLike[str],
        ranker: Ranker = "cosine",
        *,
        hash_rule: Literal["xxh3", "poly31"] | None = "poly31",
        index: SearchIndex = "hnsw",
        read_only: bool = False,
        decay: Decay | None = None,
        limits: Limits = DEFAULTS,
    ) -> Self:
        """Opens the store in the directory *path*, or creates it.

        The arguments are those of :meth:`MemoryStore.open`, with other defaults, and without an embedder. To
        search by vectors too, use :meth:`MemoryStore.open`.

        Raises:
            StoreOpenError: not a directory, not a store, no permission. Nothing was changed.
            StoreVersionError: another version of siltstone wrote it. Nothing was changed.
            ConfigError: an unknown ranker, index or rule, a ranker that needs an embedder, or a store with
                another rule than ``poly31``: open that one with ``hash_rule=None``.
        """
        return super().open(
            path, ranker, hash_rule=hash_rule, index=index, read_only=read_only, decay=decay, limits=limits
        )
