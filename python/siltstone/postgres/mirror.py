"""Mirrors: rows of PostgreSQL in stores of the core in memory, and the log of a session over them."""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from operator import length_hint
from typing import Any, Concatenate, Final, ParamSpec, Protocol, TypeAlias, TypeVar

from siltstone import _native, errors
from siltstone.memory import log as logs
from siltstone.memory.convert import datetime_from
from siltstone.memory.database_log import DatabaseLog
from siltstone.memory.entry import SessionInfo, StoreStats
from siltstone.postgres.database import Database, UniqueViolation
from siltstone.postgres.schema import BLOCK, TABLES, Changed, Changes, Found, Write, weight
from siltstone.stores.memory import MemoryStore

P = ParamSpec("P")
T = TypeVar("T")

BUSY: Final = 5.0  #: seconds that a write is tried again while others write
IDS: Final = (64, BLOCK)  # ids that a mirror takes at once: the first time, and at most later
MOST_IDS: Final = 16 * BLOCK  #: and before a call that has not been checked yet
EMPTY: Final = 512 << 10  #: about how many bytes a mirror takes before it has rows
_REWRITTEN: Final = ("session", "embedder")  # tables whose rows are overwritten often

LOOKED: ContextVar[set[object] | None] = ContextVar("looked", default=None)
"""The mirrors that :func:`one_look` has asked for, and the sessions that it has not found."""


@contextmanager
def one_look() -> Iterator[None]:
    """Inside this context, each mirror asks the server only once for new rows, so all reads see one moment.

    Writes always name the version that they are based on. A refused write reads the new rows first.
    """
    before = LOOKED.set(set())
    try:
        yield
    finally:
        LOOKED.reset(before)


def key_of(name: str, *, spaced: bool) -> int:
    """The key of the mirror of a session or of a namespace: xxh3-64 as a signed number, for PostgreSQL."""
    number = _native.word_hash(("n:" if spaced else "s:") + name)
    return number - 2**64 if number >= 2**63 else number


_HELD: ContextVar[tuple[Database, list[tuple[Mirror, Write]]] | None] = ContextVar("held", default=None)


@contextmanager
def together(database: Database) -> Iterator[None]:
    """Collects the writes of mirrors, and writes all of them at its end in one transaction.

    Until then the changes are only in memory. Another call then finds that the mirror differs from
    PostgreSQL, and reads it again. If the transaction fails, all these mirrors are read again.

    Raises:
        StaleError: others wrote to one of the mirrors meanwhile. Nothing was written.
    """
    held: list[tuple[Mirror, Write]] = []
    before = _HELD.set((database, held))
    try:
        yield
        if held and not database.write(*sorted((write for _, write in held), key=lambda write: write.k)):
            raise StaleError
    except BaseException:
        for mirror, _ in held:
            mirror.begin_anew()
        raise
    finally:
        _HELD.reset(before)


class StaleError(Exception):
    """Others wrote meanwhile. The mirror reads the new rows, and the call runs again."""


class ElsewhereError(Exception):
    """The call begins a session that already exists in another mirror."""


class LacksIdsError(Exception):
    """The call needs more ids for entries than the mirror has reserved."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.count = count


class Mirror:
    """The rows of one key, and the store of the core over them.

    A call changes the store in memory. Before the core commits, the changes are written to PostgreSQL. If
    PostgreSQL has a newer version, the core rolls them back. So the mirror never has a row that PostgreSQL
    lacks.
    """

    def __init__(
        self, database: Database, name: str, *, spaced: bool, made: Callable[[Mirror], MemoryStore]
    ) -> None:
        self.k = key_of(name, spaced=spaced)
        self.name = name
        self.spaced = spaced
        self._bytes = 0  # the approximate size of its rows
        self._rows = 0  # the number of its rows
        self._logs: dict[str, DatabaseLog] = {}
        self._database = database
        self._made = made
        self._lock = threading.RLock()
        self._native: _native.Store | None = None
        self._store: MemoryStore | None = None
        self._n = 0
        self._mark: str | None = None
        self._high_water = 0  # the highest id of an entry in this mirror
        self._last_id = 0  # the highest id that PostgreSQL has reserved for this mirror
        self._ids = IDS[0]  # the number of ids that the next reservation takes
        self._is_new = False  # whether this call has looked into PostgreSQL
        self._shipped = False  # whether this call has written to PostgreSQL
        self._is_bare = False  # PostgreSQL had no row of this mirror when its store was made
        self._is_making = False  # the store is being made

    @property
    def place(self) -> tuple[str, bool]:
        """Its name, of a session or a namespace; and whether it is a namespace."""
        return self.name, self.spaced

    @property
    def native(self) -> _native.Store:
        """The core's store."""
        if self._native is None:
            raise errors.InternalError("a mirror is asked for its store before it has read anything")
        return self._native

    @property
    def size(self) -> int:
        """The approximate number of bytes that it takes in memory."""
        return 0 if self._native is None else EMPTY + self._bytes

    @property
    def is_written(self) -> bool:
        """Whether PostgreSQL has rows of it."""
        return self._n > 0

    def run(self, work: Callable[[MemoryStore], T], *, fresh: bool = True, ids: int = 0) -> T:
        """Calls *work* with the store, and returns its answer. The store has all writes before the call.

        Without *fresh* the store may lack new rows of others; they are read when *work* writes or fails.
        *ids* are reserved before, so that a call with so many new entries is not made a second time.

        Raises:
            StoreBusyError: others wrote again and again for 5 seconds.
            StoreUnavailableError: PostgreSQL does not answer, or the outcome of a write is unknown.
        """
        self._database.check()
        until = time.monotonic() + BUSY
        with self._lock:
            self._shipped = False
            looked = LOOKED.get()
            self._is_new = self._native is None or (fresh and (looked is None or self not in looked))
            if self._is_new:
                self._catch_up()
                if looked is not None:
                    looked.add(self)
            if ids > self._last_id - self._high_water and not self._database.read_only:
                self._take_ids(min(ids, MOST_IDS))
            while True:
                try:
                    return work(self._of())
                except StaleError:
                    if time.monotonic() > until:
                        raise errors.StoreBusyError(
                            f"others wrote to {self._title()} for {BUSY} seconds, again and again"
                        ) from None
                    self._catch_up()
                    self._is_new = True
                except LacksIdsError as lacking:
                    self._take_ids(lacking.count)
                except (errors.StoreUnavailableError, errors.StoreClosedError):
                    raise  # the outcome of a write is unknown, so it must not be repeated
                except errors.StoreError:
                    if self._shipped:
                        self._forget()
                        raise
                    if self._is_new:
                        raise
                    self._is_new = True  # the error may come from old rows of the mirror
                    if not self._catch_up():
                        raise
                except BaseException:
                    if self._shipped:
                        self._forget()
                    raise

    def read(self, work: Callable[[MemoryStore], T], *, fresh: bool = True) -> T:
        """The same for work that only reads. Other threads may use the mirror meanwhile."""
        return work(self.run(_itself, fresh=fresh))

    def close(self) -> None:
        """Drops the rows and closes the store."""
        with self._lock:
            store = self._store
            self._forget()
            if store is not None:
                store.close()

    def log(self, session_id: str, store: MemoryStore) -> DatabaseLog:
        """The log of a session over *store*; it is kept as long as the mirror has this store.

        An open session asks for its log at each call, so the session itself holds no rows.
        """
        known = self._logs.get(session_id)
        if known is not None and store is self._store:
            return known
        log = store.open_log(session_id)
        if not isinstance(log, DatabaseLog):
            raise errors.InternalError("the store of a mirror has another log")
        with self._lock:
            if store is self._store:
                self._logs[session_id] = log
        return log

    def begin_empty(self, looked: set[object]) -> None:
        """Begins without rows: PostgreSQL has just said, in this look, that it has none."""
        with self._lock:
            if self._native is None:
                self._begin()
                looked.add(self)

    def begin_anew(self) -> None:
        """Reads everything again at its next use."""
        with self._lock:
            self._forget()

    def is_idle(self) -> bool:
        """Drops the rows if no call is running; returns whether it did."""
        if not self._lock.acquire(blocking=False):
            return False
        try:
            self._forget()
        finally:
            self._lock.release()
        return True

    def _of(self) -> MemoryStore:
        # The store of a mirror without rows has no embedder, because to remember an embedder is a write.
        if self._store is None or (self._is_bare and self.is_written):
            self._is_bare = not self.is_written
            with self._making():
                self._store = self._made(self)
            self._logs = {}
        return self._store

    @contextmanager
    def _making(self) -> Iterator[None]:
        """Meanwhile empty changes are not compared with PostgreSQL: the store is only being set up."""
        self._is_making = True
        try:
            yield
        finally:
            self._is_making = False

    def _forget(self) -> None:
        # Running reads continue with the old store, which is freed after the last of them.
        self._native, self._store, self._logs = None, None, {}
        self._n, self._mark = 0, None
        self._bytes = self._rows = 0
        self._high_water = self._last_id = 0

    def _catch_up(self) -> bool:
        """Reads the new rows of others. Returns whether there were any."""
        if self._native is None:
            self._load()
            return True
        n, mark = self._database.where(self.k)
        if (n, mark) == (self._n, self._mark):
            return False
        found = self._database.lacking(self.k, self._n) if 0 < self._n < n else None
        if found is None or found.was != self._mark:
            # Another lineage, such as a restored backup, or too far behind: everything is read again.
            self._forget()
            self._load()
            return True
        self._take(found)
        return True

    def _load(self) -> None:
        found = self._database.lacking(self.k, -1)
        if found.n and (found.name, found.spaced) != (self.name.encode(), self.spaced):
            raise errors.StoreOpenError(
                f"{self._title()} has the same key as {(found.name or b'').decode(errors='replace')!r} "
                f"({self.k}): choose another name",
                path=self._database.schema,
            )
        self._begin()
        if found.n:
            self._take(found)

    def _begin(self) -> None:
        native = _native.open_mirror(self._database.hash_rule, self._keep)
        if self._database.language is not None:
            with self._making():
                native.settle_language(self._database.language, anew=True)
        self._native = native

    def _take(self, found: Found) -> None:
        _native.mirror_take(self.native, found.tables, found.sequences, found.salt)
        self._n, self._mark = found.n, found.mark
        self._count(found.tables, found.size)
        highest = max(
            (row[0] for name, rows, _ in found.tables if name == "entry" for row in rows), default=0
        )
        if highest > self._high_water:
            # Ids must grow in the order of the writes, so ids that were reserved before cannot be used.
            self._high_water = self._last_id = highest
            _native.mirror_ids_above(self.native, highest)

    def _take_ids(self, count: int) -> None:
        # A call that has too few is made again. Who asks often takes more, so that it seldom comes to that.
        most, self._ids = self._ids, min(2 * self._ids, IDS[1])
        left = self._last_id - self._high_water
        taken = self._database.ids(max(count - left, most), self._last_id)
        if taken.start != self._last_id + 1 and len(taken) < count:
            taken = self._database.ids(max(count, most), self._last_id)
        if taken.start != self._last_id + 1:  # others took what lies between
            self._high_water = taken.start - 1
            _native.mirror_ids_above(self.native, self._high_water)
        self._last_id = taken.stop - 1

    def _keep(
        self, tables: list[Changed], high_water: int, sequences: list[tuple[str, int]], salt: str
    ) -> None:
        """Called by the core before it commits: writes the changes to PostgreSQL."""
        if self._is_making and not tables:
            return
        if self._database.read_only:
            raise self._database.refusal()
        if high_water > self._last_id:
            raise LacksIdsError(high_water - self._high_water)
        if not tables:
            # The answer of a call without changes must be right for the current rows of PostgreSQL.
            if not self._is_new and self._database.where(self.k) != (self._n, self._mark):
                raise StaleError
            return
        mark = _random_mark()
        changes = Changes(tables, high_water, sequences, salt)
        write = Write(self.k, self.name, self.spaced, self._n, self._mark, mark, changes)
        held = _HELD.get()
        if held is not None and held[0] is self._database:
            held[1].append((self, write))
        else:
            try:
                done = self._database.write(write)
            except UniqueViolation as error:
                raise ElsewhereError from error
            if not done:
                raise StaleError
        self._shipped = True
        self._n, self._mark, self._high_water = self._n + 1, mark, high_water
        taken = (rows for table, rows, _ in tables if table not in _REWRITTEN)
        self._count(tables, sum(weight(row) for rows in taken for row in rows))

    def _count(self, tables: list[Changed], taken: int) -> None:
        """Updates the size: adds new rows of *taken* bytes, and subtracts deleted rows at the mean size."""
        left = min(self._rows, sum(len(keys) for _, _, keys in tables))
        self._bytes += taken - (self._bytes * left // self._rows if left else 0)
        self._rows += sum(len(rows) for table, rows, _ in tables if table not in _REWRITTEN) - left

    def _title(self) -> str:
        return f"{'namespace' if self.spaced else 'session'} {self.name!r}"


def _random_mark() -> str:
    """A random uuid (version 4), as PostgreSQL writes it. ``uuid.uuid4`` takes five times as long."""
    digits = os.urandom(16).hex()
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"


def _itself(store: MemoryStore) -> MemoryStore:
    return store


# The parts of a store in a directory that differ over a mirror: its files, and the access to its vectors.


class MirrorStore(MemoryStore):
    """The store of the core over a mirror. There are no files beside it."""

    @property
    def _directory(self) -> None:  # type: ignore[override]
        return None


class MirrorVectors:
    """The calls that the worker for vectors makes to a store. Each runs in the mirror."""

    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror

    def embedded(self) -> tuple[int | None, int]:
        """The same call of the core."""
        return self._mirror.read(lambda store: store._native.embedded(), fresh=False)

    def missing_vectors(self, after: int, limit: int) -> Any:
        """The same call of the core."""
        return self._mirror.read(lambda store: store._native.missing_vectors(after, limit), fresh=False)

    def store_vectors(self, key: int, rows: list[tuple[int, bytes]]) -> int:
        """The same call of the core."""
        return self._mirror.run(lambda store: store._native.store_vectors(key, rows), fresh=False)


# Queries over the tables of all mirrors: the mirror of a session, lists of sessions, and totals.

Place: TypeAlias = tuple[str, bool]
"""The owner of a mirror: the name of a session or of a namespace, and whether it is a namespace."""


class Listing:
    """Queries to a database that no single mirror can answer."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._schema = database.name

    def place(self, session_id: str) -> Place | None:
        """The mirror of a session; None if the session was never written."""
        number = _native.word_hash(session_id)
        rows = self._rows(
            "SELECT s.name, r.name, r.spaced FROM {s}.session s JOIN {s}.root r ON r.k = s.k "
            "WHERE s.name_hash = %(hash)s::bigint",
            hash=number - 2**64 if number >= 2**63 else number,
        )
        for name, own, spaced in rows:
            if name != session_id.encode():
                raise errors.StoreOpenError(
                    f"session {session_id!r} has the hash of {name.decode(errors='replace')!r}: "
                    "choose another name",
                    path=self._database.schema,
                )
            return own.decode(), spaced
        return None

    def place_of_entry(self, entry_id: int) -> Place | None:
        """The mirror that has the entry; None if there is no such entry."""
        rows = self._rows(
            "SELECT r.name, r.spaced FROM {s}.entry t JOIN {s}.root r ON r.k = t.k "
            "WHERE t.id = %(id)s::bigint",
            id=entry_id,
        )
        return next(((name.decode(), spaced) for name, spaced in rows), None)

    def places(self, entry_ids: Collection[int] | None) -> list[Place]:
        """The mirrors of those entries; for None, all mirrors."""
        if entry_ids is None:
            rows = self._rows("SELECT name, spaced FROM {s}.root ORDER BY k")
        else:
            known = [each for each in entry_ids if abs(each) < 2**63]
            rows = self._rows(
                "SELECT name, spaced FROM {s}.root WHERE k IN "
                "(SELECT k FROM {s}.entry WHERE id = ANY(%(known)s::bigint[]) UNION "
                "SELECT k FROM {s}.quarantine WHERE id = ANY(%(known)s::bigint[])) ORDER BY k",
                known=known,
            )
        return [(name.decode(), spaced) for name, spaced in rows]

    def sessions(self, namespace: str | None, offset: int, limit: int) -> list[SessionInfo]:
        """Sessions that were not deleted, in the order of their first writes."""
        rows = self._rows(
            "SELECT name, namespace, title, next_seq, entries, compactions, tokens, first_at, last_at "
            "FROM {s}.session WHERE dropped = 0 AND (%(own)s::bytea IS NULL OR namespace = %(own)s::bytea) "
            "AND (redactions = 0 OR next_seq + entries > 0 OR settings <> '' OR id IN "
            "(SELECT session FROM {s}.fact)) ORDER BY born OFFSET %(offset)s::bigint LIMIT %(most)s::bigint",
            own=None if namespace is None else namespace.encode(),
            offset=offset,
            most=limit,
        )
        return [_info(row) for row in rows]

    def session_with_settings(self, has: str, lacks: str) -> tuple[str, str] | None:
        """The first session whose settings contain the text *has*, and do not contain a non-empty *lacks*."""
        rows = self._rows(
            "SELECT name, settings FROM {s}.session WHERE settings <> '' AND dropped = 0 "
            "AND position(%(has)s::bytea IN settings) > 0 AND (%(lacks)s::bytea = '' "
            "OR position(%(lacks)s::bytea IN settings) = 0) ORDER BY born LIMIT 1",
            has=has,
            lacks=lacks,
        )
        return next(((name.decode(), settings.decode()) for name, settings in rows), None)

    def stats(self) -> StoreStats:
        """The totals of the store."""
        names = ", ".join(
            f"('{self._schema.replace(chr(39), chr(39) * 2)}.{table}')" for table in (*TABLES, "root", "step")
        )
        ((sessions, messages, entries, compactions, size, aside, disk),) = self._rows(
            "SELECT count(*) FILTER (WHERE next_seq > 0 OR entries > 0), coalesce(sum(next_seq), 0)::bigint, "
            "coalesce(sum(entries), 0)::bigint, coalesce(sum(compactions), 0)::bigint, "
            "(SELECT coalesce(sum(octet_length(text)), 0)::bigint FROM {s}.entry), "
            "(SELECT count(*) FROM {s}.quarantine), "
            f"(SELECT sum(pg_total_relation_size(name::regclass))::bigint FROM (VALUES {names}) AS t (name)) "
            "FROM {s}.session"
        )
        return StoreStats(sessions, messages, entries, compactions, size, disk, quarantined=aside)

    def lacking_vectors(self) -> int:
        """How many entries have no vectors."""
        sql = "SELECT (SELECT count(*) FROM {s}.entry) - (SELECT count(*) FROM {s}.vector)"
        ((lacking,),) = self._rows(sql)
        return int(lacking)

    def _rows(self, sql: str, **values: Any) -> list[tuple[Any, ...]]:
        return self._database.rows(sql.replace("{s}", self._schema), **values)


def _info(row: tuple[Any, ...]) -> SessionInfo:
    name, namespace, title, messages, entries, compactions, tokens, first_at, last_at = row
    begun, active = (None if at is None else datetime_from(at) for at in (first_at, last_at))
    counts = messages, entries, compactions, tokens
    return SessionInfo(name.decode(), namespace.decode(), title.decode(), *counts, begun, active)


# The mirrors of a store, up to a limit of memory, and the places of sessions and batches among them.

CALLS: Final = 64  # calls between two checks of the memory: mirrors grow with every write
ROUTES: Final = 65_536  #: names whose mirror is remembered; for others PostgreSQL is asked again

Make: TypeAlias = Callable[[str, bool], Mirror]


class Routes:
    """The places of names, up to a bound. The place of a name never changes. For any number of threads."""

    def __init__(self) -> None:
        self._places: dict[str, Place] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._places)

    def get(self, name: str) -> Place | None:
        """The place of *name*, if it is remembered."""
        return self._places.get(name)

    def settle(self, name: str, place: Place) -> None:
        """Remembers a place that was written."""
        if name in self._places:
            return
        with self._lock:
            if len(self._places) >= ROUTES:
                del self._places[next(iter(self._places))]
            self._places[name] = place


class Mirrors:
    """Mirrors by their places. The least recently used are dropped, and read again. For any threads.

    Args:
        make: Makes the mirror of a place.
        most: The approximate limit of their bytes together. Mirrors that run a call stay, even above it.
    """

    def __init__(self, make: Make, most: int) -> None:
        self._make = make
        self._most = most
        self._held: OrderedDict[Place, Mirror] = OrderedDict()  # the most recently used at the end
        self._calls = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._held)

    @property
    def size(self) -> int:
        """The approximate number of bytes that they take."""
        with self._lock:
            return self._taken()

    def at(self, place: Place) -> Mirror:
        """The mirror of a place."""
        with self._lock:
            mirror = self._held.get(place)
            self._calls += 1
            if mirror is None or self._calls % CALLS == 0:
                self._make_room(mirror)
            if mirror is None:
                mirror = self._held[place] = self._make(*place)
            self._held.move_to_end(place)
            return mirror

    def all(self) -> list[Mirror]:
        """The mirrors in memory."""
        with self._lock:
            return list(self._held.values())

    def clear(self) -> list[Mirror]:
        """Removes all mirrors, and returns them."""
        with self._lock:
            there = list(self._held.values())
            self._held.clear()
            return there

    def _taken(self) -> int:
        return sum(each.size for each in self._held.values())

    def _make_room(self, kept: Mirror | None) -> None:
        left = self._taken() - self._most
        for place, mirror in list(self._held.items()):
            if left <= 0:
                return
            size = mirror.size
            if mirror is not kept and mirror.is_idle():
                del self._held[place]
                left -= size


# The log of a session in PostgreSQL. Each call goes to the session's mirror, which is brought up to date.


class InMirror(Protocol):
    """Runs work in the mirror of a session."""

    def __call__(
        self, session_id: str, work: Callable[[Mirror], T], *, namespace: str | None = None
    ) -> T: ...


def _in_log(
    method: Callable[Concatenate[Any, P], T], *, writes: bool = False
) -> Callable[Concatenate[Any, P], T]:
    """A method of :class:`DatabaseLog` that is called in the session's mirror."""
    takes_entries = method is DatabaseLog.commit

    @wraps(method)
    def call(self: PostgresLog, /, *args: P.args, **options: P.kwargs) -> T:
        ids = length_hint(args[1]) if takes_entries else 0

        def run(mirror: Mirror) -> T:
            def work(store: MemoryStore) -> T:
                return method(mirror.log(self._session_id, store), *args, **options)

            return mirror.run(work, fresh=False, ids=ids) if writes else mirror.read(work)

        return self._in_mirror(self._session_id, run)

    return call


class PostgresLog(DatabaseLog):
    """A log whose rows are in PostgreSQL: every method is called in the session's mirror.

    A write goes to PostgreSQL at once, and is refused there if others wrote meanwhile. A read includes every
    write from before the call.
    """

    def __init__(self, session_id: str, in_mirror: InMirror) -> None:
        self._session_id = session_id
        self._in_mirror = in_mirror

    def open(self, namespace: str | None) -> logs.LogState:
        def opened(mirror: Mirror) -> logs.LogState:
            return mirror.run(lambda store: mirror.log(self._session_id, store).open(namespace))

        return self._in_mirror(self._session_id, opened, namespace=namespace)

    state = _in_log(DatabaseLog.state)
    version = _in_log(DatabaseLog.version)
    read = _in_log(DatabaseLog.read)
    messages = _in_log(DatabaseLog.messages)
    compactions = _in_log(DatabaseLog.compactions)
    compaction = _in_log(DatabaseLog.compaction)
    recalls = _in_log(DatabaseLog.recalls)
    derived = _in_log(DatabaseLog.derived)
    derived_after = _in_log(DatabaseLog.derived_after)
    derived_like = _in_log(DatabaseLog.derived_like)
    forgotten = _in_log(DatabaseLog.forgotten)
    salt = _in_log(DatabaseLog.salt)
    append = _in_log(DatabaseLog.append, writes=True)
    commit = _in_log(DatabaseLog.commit, writes=True)
    rewrite = _in_log(DatabaseLog.rewrite, writes=True)
    undo = _in_log(DatabaseLog.undo, writes=True)
    save_clock = _in_log(DatabaseLog.save_clock, writes=True)
    save_settings = _in_log(DatabaseLog.save_settings, writes=True)
    renew = _in_log(DatabaseLog.renew, writes=True)
