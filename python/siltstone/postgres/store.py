"""The store in PostgreSQL."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial, wraps
from inspect import getdoc
from operator import length_hint, methodcaller
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Final,
    Literal,
    NoReturn,
    ParamSpec,
    Self,
    TypeVar,
    Unpack,
    cast,
)

from siltstone import _native, checks
from siltstone.embedding.base import Embedder
from siltstone.errors import EntryNotFoundError, StoreBusyError, StoreOpenError, explains
from siltstone.memory import entry
from siltstone.memory.base import FactRow, SearchSettings, Store
from siltstone.memory.convert import MAX_INTEGER
from siltstone.memory.limits import Limits
from siltstone.memory.log import SessionLog
from siltstone.memory.opening import Searching
from siltstone.postgres import mirror as mirrors
from siltstone.postgres.database import DEADLINE, Database
from siltstone.postgres.mirror import BUSY
from siltstone.session import Session, StoreOptions
from siltstone.stores.memory import MemoryStore

if TYPE_CHECKING:
    from siltstone.postgres.database import Pool


P = ParamSpec("P")
T = TypeVar("T")

MIRRORED: Final = 1 << 29  #: approximate bytes of all mirrors; above, the least recently used are dropped
REMAINING: Final[tuple[entry.Remaining, ...]] = ("pages", "wal", "copies")


def _mirrored(
    run: Callable[[mirrors.Mirror, Callable[[MemoryStore], Any], int], Any],
) -> Callable[[Callable[Concatenate[Any, P], T]], Callable[Concatenate[Any, P], T]]:
    """Makes methods of the store from those of :class:`MemoryStore`, with their arguments and docstrings.

    *run* calls each in the mirror of the session, which is its first argument. It gets a number of entries,
    too, for which ids are reserved.
    """

    def made(method: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[Any, P], T]:
        takes_entries = method is MemoryStore.index

        @wraps(method)
        def call(self: Any, /, *args: P.args, **options: P.kwargs) -> T:
            work: Callable[[MemoryStore], T] = methodcaller(method.__name__, *args, **options)
            name: Any = args[0] if args else options.get("session_id")
            ids = length_hint(args[1] if args[1:] else options.get("entries", ())) if takes_entries else 0
            answer: T = self._in_place(name, lambda mirror: run(mirror, work, ids))
            return answer

        call.__doc__ = getdoc(method)  # also where the method has that of the contract
        return call

    return made


_read = _mirrored(lambda mirror, work, _: mirror.read(work))
_known = _mirrored(lambda mirror, work, _: mirror.read(work, fresh=False))
_write = _mirrored(lambda mirror, work, ids: mirror.run(work, fresh=False, ids=ids))
_fresh_write = _mirrored(lambda mirror, work, _: mirror.run(work))  # its answer depends on the current rows


@explains
class PostgresStore(Store):
    """A store with its data in PostgreSQL. Searches run in this process, in indexes of the core.

    The process has a mirror of every session in use: its rows from PostgreSQL, in a database of the core in
    memory. A call first reads new rows of other processes, and then answers from memory. When a call that
    writes returns, its write is in PostgreSQL; if it raises, nothing was written, unless the error says that
    the outcome is unknown. So a search gives the same hits and exactly the same scores as with
    :class:`MemoryStore`, and any number of processes may have a session open. Sessions of a namespace share
    one mirror.

    A store is safe to use from many threads. After a fork it raises ``StoreForkedError`` in the child. It
    holds no connection between calls. docs/how-to/use-postgres.md tells how safe a write is with standbys.
    """

    def __init__(self, database: Database, searching: Searching, mirrored: int) -> None:
        self._database = database
        self._listing = mirrors.Listing(database)
        self._searching = searching
        self._mirrors = mirrors.Mirrors(
            lambda name, spaced: mirrors.Mirror(database, name, spaced=spaced, made=self._made), mirrored
        )
        self._sessions = mirrors.Routes()
        self._blank = _native.Store.open_memory()  # checks arguments, as every store does
        self._stop = weakref.finalize(self, database.close)

    @classmethod
    def open(
        cls,
        conninfo: str | Pool,
        ranker: entry.Ranker | None = None,
        embedder: Embedder | None = None,
        *,
        schema: str = "siltstone",
        setup: bool = False,
        read_only: bool = False,
        hash_rule: Literal["xxh3", "poly31"] | None = None,
        deadline: float = DEADLINE,
        mirrored: int = MIRRORED,
        prepare: bool | None = None,
        **settings: Unpack[SearchSettings],
    ) -> Self:
        """Opens the store in a schema of a database.

        Args:
            conninfo: A connection string of libpq: ``postgresql://...``, or ``host=... dbname=...`` with any
                of its keys. Or a pool, which you close yourself; its connections may be of any kind.
            ranker: As for :meth:`MemoryStore.open`, like ``embedder``, ``decay``, ``fusion``, ``reembed``,
                ``embed_timeout``, ``reranker``, ``hooks``, ``limits`` and ``language``.
            embedder: Makes the vectors of entries and queries.
            schema: The schema of the tables; each schema is one store.
            setup: Creates missing tables, which needs a role with that right.
            read_only: Refuses writes. With a role that may not write, and on a standby, the store is always
                read-only, see :attr:`read_only`.
            hash_rule: The rule by which new tables hash words for ``cosine``.
            deadline: The most seconds that a call waits for a connection, and for an answer.
            mirrored: The approximate maximum bytes of the sessions in memory. The least recently used are
                dropped first.
            prepare: Whether the server keeps the plans of statements. By default it does where no pooler
                such as pgbouncer stands between; True lets it also there, for a pooler that knows prepared
                statements. Where they turn out to be lost, the store goes on without them.

        Raises:
            TypeError: an option does not exist.
            StoreOpenError: the server does not answer, a right is missing, or there are no tables.
            StoreVersionError: another version of siltstone has made the tables; *setup* upgrades earlier
                ones.
            ConfigError: an option out of its bounds.
            ImportError: the extra ``postgres`` is not installed.
        """
        searching = Searching.of(ranker, embedder, **settings)
        checks.seconds("deadline", deadline, "")
        database = Database.open(
            conninfo,
            schema,
            create=setup,
            read_only=read_only,
            deadline=deadline,
            hash_rule=hash_rule,
            prepare=prepare,
        )
        store = cls(database, searching, mirrored)
        if searching.language is not None:
            try:
                store.settle_language(searching.language)
            except BaseException:
                store.close()
                raise
        return store

    @property
    def limits(self) -> Limits:
        """The bounds of one call."""
        return self._searching.limits

    @property
    def ranker(self) -> entry.Ranker:
        """The ranker of searches that name none."""
        return self._searching.options.ranker

    @property
    def schema(self) -> str:
        """The schema of its tables."""
        return self._database.schema

    @property
    def hash_rule(self) -> str:
        """The rule by which words are hashed for ``cosine``."""
        return self._database.hash_rule

    @property
    def language(self) -> str | tuple[str, ...]:
        """The languages that texts are read in: ``"auto"``, a code, or several codes, the default first."""
        codes = tuple((self._database.language or "auto").split(","))
        return codes if len(codes) > 1 else codes[0]

    def settle_language(self, language: str | Sequence[str], *, anew: bool = False) -> None:
        """Settles the languages of all texts, as :meth:`MemoryStore.settle_language`."""
        from siltstone.memory.limits import language_name  # few stores say

        asked, before = language_name(language), self._database.language
        found = self._database.settle_language(asked, anew=anew)
        if found != asked:
            self._blank.settle_language(found, anew=True)
            self._blank.settle_language(asked, anew=False)  # raises the error for another language
        if found != before:
            for mirror in self._mirrors.all():
                mirror.begin_anew()

    @property
    def read_only(self) -> bool:
        """Whether it refuses writes: as asked for, or because of the role's rights, or on a standby."""
        return self._database.read_only

    # -- entries

    index = _write(MemoryStore.index)
    search = _read(MemoryStore.search)
    recall = _read(MemoryStore.recall)
    entries = _read(MemoryStore.entries)
    expire = _fresh_write(MemoryStore.expire)

    def get(self, entry_id: int, *, expired: bool = False) -> entry.StoredEntry:
        self._database.check()
        place = None if abs(entry_id) > MAX_INTEGER else self._listing.place_of_entry(entry_id)
        if place is None:
            raise EntryNotFoundError(f"the store has no entry {entry_id}", entry_id=entry_id)
        return self._mirror(*place).read(lambda store: store.get(entry_id, expired=expired))

    def flush(self, timeout: float | None = None) -> bool:
        """Waits until every entry of the sessions in use has its vectors.

        Args:
            timeout: Seconds for all sessions together; None for no limit.

        Returns:
            Whether all of these entries have vectors now; True without an embedder.
        """
        if self._searching.embedder is None or self.read_only:
            return True
        until = None if timeout is None else time.monotonic() + timeout

        def flushed(store: MemoryStore) -> bool:
            return store.flush(None if until is None else max(0.0, until - time.monotonic()))

        # Each is asked, also after one that has none: its worker may be done, or begins now.
        are_done = [mirror.read(flushed) for mirror in self._mirrors.all()]
        return all(are_done)

    @property
    def lacking_vectors(self) -> int:
        """How many entries of the store have no vectors; all entries if no embedder was ever used."""
        return self._listing.lacking_vectors()

    # -- forgetting

    def forget(self, **criteria: Unpack[entry.StoreForgetCriteria]) -> entry.ForgetReport:
        """Forgets as :meth:`MemoryStore.forget`, in one transaction.

        PostgreSQL itself keeps old bytes for a while, also of what left earlier, so ``erased`` is always
        False. ``remaining`` names the places: ``"pages"`` (dead rows, until ``siltstone postgres erase``
        or ``VACUUM FULL``), ``"wal"`` (the log, until it is recycled) and ``"copies"`` (standbys, backups).
        """
        forget = methodcaller("forget", **criteria)
        calls = [partial(mirror.run, forget) for mirror in self._forgetting(criteria)]
        reports: list[entry.ForgetReport] = self._all_or_none(calls)
        figures = ("sessions", "messages", "entries", "summaries", "facts")
        totals = {each: sum(getattr(report, each) for report in reports) for each in figures}
        remaining: tuple[entry.Remaining, ...] = tuple(
            dict.fromkeys(each for report in reports for each in report.remaining)
        )
        return replace(
            reports[0],
            **totals,
            kept=tuple(sorted({each for report in reports for each in report.kept})),
            near=tuple(sorted({each for report in reports for each in report.near})),
            erased=False,
            remaining=remaining + (() if criteria.get("dry_run") else REMAINING),
        )

    def _forgetting(self, criteria: entry.StoreForgetCriteria) -> Iterator[mirrors.Mirror]:
        """The mirrors that a forget must change. There is at least one, which checks the criteria."""
        session_id, entry_ids = criteria.get("session_id"), criteria.get("entry_ids")
        if session_id is not None:
            yield self._mirror(*self._place(session_id))
            return
        places = self._listing.places(None if entry_ids is None else list(entry_ids))
        for place in places or [("", False)]:
            yield self._mirror(*place)

    # -- facts

    put_facts = _write(MemoryStore.put_facts)
    facts = _read(MemoryStore.facts)

    def namespace_facts(self, namespace: str, state: str | None = None) -> list[FactRow]:
        """The facts of every session of the namespace, in the form of :meth:`facts`."""
        if not namespace:
            return []
        return self._mirror(namespace, True).read(lambda store: store.namespace_facts(namespace, state))

    def facts_revision(self, session_id: str, namespace: str = "") -> str | None:
        """A text that changes with every change of a fact of the session, or of the namespace."""
        places = dict.fromkeys([self._place(session_id), *([(namespace, True)] if namespace else [])])
        found = [self._mirror(*place).read(lambda store: store.facts_revision()) for place in places]
        return None if None in found else " ".join(filter(None, found))

    # -- sessions

    def sessions(self, namespace: str | None = None, offset: int = 0, limit: int = 100) -> entry.SessionPage:
        self._database.check()
        offset, limit = max(-1, min(offset, MAX_INTEGER)), max(-1, min(limit, MAX_INTEGER - 1))
        self._blank.sessions(namespace, offset, limit)  # checks the arguments
        found = self._listing.sessions(namespace, offset, limit + 1)
        return entry.SessionPage(tuple(found[:limit]), offset + limit if len(found) > limit else None)

    def session_with_settings(self, has: str, lacks: str = "") -> tuple[str, str] | None:
        """The first session whose settings, a JSON text, contain *has* and not *lacks*; and its settings."""
        return self._listing.session_with_settings(has, lacks)

    restore_marks = _write(MemoryStore.restore_marks)
    delete_session = _fresh_write(MemoryStore.delete_session)
    revive = _fresh_write(MemoryStore.revive)
    take_back = _fresh_write(MemoryStore.take_back)

    def session(self, session_id: str, **options: Unpack[StoreOptions]) -> Session:
        """Opens the session *session_id* over this store, which stays yours to close.

        Options and errors are those of ``Session.open``, without *memory*.
        """
        from siltstone.session import Session  # a store that is only searched does without it

        return Session.open(None, session_id, memory=self, **options)

    one_look = staticmethod(mirrors.one_look)

    def open_log(self, session_id: str) -> SessionLog:
        return mirrors.PostgresLog(session_id, self._in_place)

    # -- the whole

    def stats(self, session_id: str | None = None) -> entry.StoreStats:
        whole = self._listing.stats()
        if session_id is None:
            return whole
        own: entry.StoreStats = self._in_place(
            session_id, lambda mirror: mirror.read(lambda store: store.stats(session_id))
        )
        return replace(own, disk_bytes=whole.disk_bytes)

    def check(self, *, repair: bool = False) -> list[entry.Finding]:
        if repair and self.read_only:
            raise self._database.refusal()
        found = []
        for place in self._listing.places(None):
            mirror = self._mirror(*place)
            found += mirror.run(lambda store: store.check(repair=repair))
        return found

    # Only the entries that this process has found damaged, so PostgreSQL is not asked.
    quarantined = _known(MemoryStore.quarantined)

    def close(self) -> None:
        for mirror in self._mirrors.clear():
            mirror.close()
        self._stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{self!r} cannot be pickled or copied: open it again, or hand it on")

    def __repr__(self) -> str:
        mode = ", read_only=True" if self.read_only else ""
        return f"PostgresStore.open(..., schema={self.schema!r}, ranker={self.ranker!r}{mode})"

    # -- mirrors

    def _all_or_none(self, calls: Sequence[Callable[[], T]]) -> list[T]:
        """Calls several mirrors, and writes all of their changes in one transaction. Returns the answers."""
        if len(calls) == 1:
            return [calls[0]()]
        until = time.monotonic() + BUSY
        while True:
            try:
                with mirrors.together(self._database):
                    return [call() for call in calls]
            except mirrors.StaleError:
                if time.monotonic() > until:
                    raise StoreBusyError(
                        f"others wrote to one of {len(calls)} sessions for {BUSY} seconds, again and again"
                    ) from None

    def _in_place(
        self, session_id: str, work: Callable[[mirrors.Mirror], T], *, namespace: str | None = None
    ) -> T:
        """Calls *work* with the mirror of the session, and returns its answer."""
        while True:
            place = self._place(session_id, namespace)
            mirror = self._mirror(*place)
            try:
                answer = work(mirror)
            except mirrors.ElsewhereError as error:
                # Another process has just begun the session, and perhaps with another namespace.
                (mirrors.LOOKED.get() or set()).discard((self, session_id))
                if self._place(session_id, namespace) == place:
                    raise StoreOpenError(
                        f"a session that is begun with {session_id!r} has the hash of another one: choose "
                        "another name",
                        path=self.schema,
                    ) from error
            else:
                # Its own mirror has the session if it has rows; that of a namespace has it once it is opened.
                if mirror.is_written and (namespace or not place[1]) and not self.read_only:
                    self._sessions.settle(session_id, place)
                return answer

    def _place(self, session_id: str, namespace: str | None = None) -> tuple[str, bool]:
        """The owner of the mirror that has the session: the session itself, or its namespace."""
        self._database.check()
        known, looked = self._sessions.get(session_id), mirrors.LOOKED.get()
        if known is None and (looked is None or (self, session_id) not in looked):
            self._blank.version(session_id)  # checks the id
            known = self._listing.place(session_id)
            if known is not None:
                self._sessions.settle(session_id, known)
            elif looked is not None:
                looked.add((self, session_id))
                self._mirror(session_id, False).begin_empty(looked)
        return known or ((namespace, True) if namespace else (session_id, False))

    def _mirror(self, name: str, spaced: bool) -> mirrors.Mirror:
        """The mirror of a session, or of a namespace."""
        self._database.check()
        return self._mirrors.at((name, spaced))

    def _made(self, mirror: mirrors.Mirror) -> MemoryStore:
        """The store over a mirror."""
        native, how = mirror.native, self._searching
        vectors = None
        if mirror.is_written:
            vectors = how.vectors(native, cast(_native.Store, mirrors.MirrorVectors(mirror)))
        return mirrors.MirrorStore(native, how.options, how.limits, vectors, how.hooks, how.reranker)
