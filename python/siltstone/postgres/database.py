"""Connections to PostgreSQL: borrowed for a statement, and what is known when one is lost on the way."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from concurrent.futures import TimeoutError as NotInTime
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from siltstone.errors import (
    ConfigError,
    ReadOnlyStoreError,
    StoreBusyError,
    StoreClosedError,
    StoreCorruptError,
    StoreError,
    StoreForkedError,
    StoreOpenError,
    StoreUnavailableError,
)
from siltstone.extras import requires
from siltstone.postgres.administration import address
from siltstone.postgres.connection import (
    LostError,
    autocommit,
    first_line,
    is_dead,
    losing,
    run,
    run_all,
    values_of,
)
from siltstone.postgres.schema import (
    BLOCK,
    HASH_RULES,
    SCHEMA_VERSION,
    TOKENIZER,
    another,
    quoted,
    setup,
    version_of,
)
from siltstone.postgres.statements import Found, Row, Statements, Write

with requires("postgres", by="siltstone.PostgresStore"):
    import psycopg
    from psycopg import errors
    from psycopg.conninfo import conninfo_to_dict
    from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout, TooManyRequests

if TYPE_CHECKING:
    from typing import TypeAlias

    Pool: TypeAlias = ConnectionPool[Any]
    Connection: TypeAlias = psycopg.Connection[Any]

__all__ = ["Database", "UniqueViolation"]

UniqueViolation = errors.UniqueViolation

_T = TypeVar("_T")
Settled = Literal["done", "moved", "again"]

DEADLINE: Final = 30.0  #: seconds that a write may take, with all that is done to find out what became of it
POOL: Final = 8  #: connections of a pool of our own, at most
_PAUSES: Final = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
_UNREPLICATED: Final = "01000"  # a warning during a write: the wait for a standby was cancelled


class Database:
    """The tables of a schema, over a pool of connections.

    Statements need no state of a session of the server, are not prepared, and stand for themselves, so a pool
    between here and the server may hand each of them to another connection.
    """

    def __init__(
        self,
        pool: Pool,
        schema: str,
        hash_rule: str,
        *,
        owned: bool,
        read_only: bool,
        deadline: float,
        prepare: bool = False,
        language: str | None = None,
    ) -> None:
        self.pool = pool
        self.schema = schema
        self.hash_rule = hash_rule  #: how words are hashed for ``cosine``
        self.name = quoted(schema)
        self.statements = Statements(self.name)
        self.read_only = read_only
        self.language = language  #: that was settled, as the core names it
        self.deadline = deadline
        self._prepare = prepare
        self._owned = owned
        self._process = os.getpid()
        self._closed = False
        self._lock = threading.Lock()
        self._threads: ThreadPoolExecutor | None = None
        self._calls: set[Future[Any]] = set()  # that are under way
        self._lent: dict[int, Connection] = {}  # by the thread that borrowed it
        self._block = range(0)  # ids of entries that were taken, and not given to a mirror

    @classmethod
    def open(
        cls,
        conninfo: str | Pool,
        schema: str,
        *,
        create: bool,
        read_only: bool,
        deadline: float,
        hash_rule: str | None,
        prepare: bool = False,
    ) -> Database:
        """Looks at the database once, and opens a pool where *conninfo* is none.

        Raises:
            StoreOpenError: nobody answers, no rights, or no tables.
            StoreVersionError: another version of siltstone has made the tables.
        """
        quoted(schema)
        if isinstance(conninfo, ConnectionPool):
            with _opening(schema), conninfo.connection() as connection, autocommit(connection):
                writable, rule, language = _look(connection, schema, create and not read_only, hash_rule)
            return cls(
                conninfo,
                schema,
                rule,
                owned=False,
                read_only=read_only or not writable,
                deadline=deadline,
                prepare=prepare,
                language=language,
            )
        with _opening(schema):
            address(
                conninfo
            )  # refuses what is none: libpq would quote a piece of it, which may be a password
            given = conninfo_to_dict(conninfo)
            options: dict[str, Any] = {"autocommit": True, "prepare_threshold": 1 if prepare else None}
            own = {"connect_timeout": "10", "application_name": "siltstone"}
            options |= {
                key: value
                for key, value in own.items()
                if key not in given and not os.environ.get(_ENVIRONMENT[key])
            }
            with psycopg.connect(conninfo, **options) as connection:
                writable, rule, language = _look(connection, schema, create and not read_only, hash_rule)
            pool: Pool = ConnectionPool(
                conninfo,
                min_size=1,
                max_size=POOL,
                kwargs=options,
                timeout=deadline,
                open=True,
                name="siltstone",
            )
        return cls(
            pool,
            schema,
            rule,
            owned=True,
            read_only=read_only or not writable,
            deadline=deadline,
            prepare=prepare,
            language=language,
        )

    def close(self) -> None:
        """Lets go of the pool. In a fork nothing is touched: it is the parent's.

        A write that an interrupt left behind has as long as the deadline; then nobody waits for its answer.
        """
        if os.getpid() != self._process:
            return
        with self._lock:
            was, self._closed = self._closed, True
            threads, self._threads = self._threads, None
            calls = list(self._calls)
        if threads is not None:
            if wait(calls, self.deadline).not_done:
                for thread in list(self._lent):
                    self._hang_up(thread)
            threads.shutdown(wait=True)
        if self._owned and not was:
            self.pool.close()

    def check(self) -> None:
        """Refuses a store that may not be used.

        Raises:
            StoreForkedError: in a process that was forked since it was opened.
            StoreClosedError: after ``close``.
        """
        if os.getpid() != self._process:
            raise StoreForkedError(
                f"the store in schema {self.schema!r} was opened in process {self._process} and is of no "
                f"use in its fork {os.getpid()}: open it again",
                path=self.schema,
            )
        if self._closed:
            raise StoreClosedError(f"the store in schema {self.schema!r} is closed")

    # -- reading

    def rows(self, sql: str, values: Sequence[Any] | dict[str, Any] = ()) -> list[Row]:
        """What a statement gives that only reads; it is asked again where a connection was lost."""
        self.check()
        until = time.monotonic() + self.deadline
        if threading.get_ident() == threading.main_thread().ident:
            # An interrupt comes to this thread alone, and may not take a connection out of the pool for good.
            return self._call(lambda: self._asked(sql, values, until), until, outcome="not written")
        return self._asked(sql, values, until)

    def _asked(self, sql: str, values: Sequence[Any] | dict[str, Any], until: float) -> list[Row]:
        for pause in _pauses():
            try:
                with self._borrowed() as connection:
                    return run(connection, sql, values, prepare=self._prepare)
            except LostError as lost:
                if time.monotonic() + pause > until:
                    raise StoreUnavailableError(
                        f"PostgreSQL did not answer within {self.deadline} seconds: {lost}",
                        outcome="not written",
                    ) from lost
                time.sleep(pause)
        raise AssertionError("pauses do not end")

    def where(self, k: int) -> tuple[int, str | None]:
        """The version and the mark of mirror *k*; 0 where nothing was written of it."""
        ((version, n, mark),) = self._version(self.rows(self.statements.where, [k]))
        self._check_version(version)
        return n or 0, mark

    def lacking(self, k: int, n: int) -> Found:
        """What mirror *k* lacks that stands at *n*; at -1 it lacks everything."""
        found = self.rows(self.statements.read, {"k": k, "n": n})
        if not found:
            self._version(found)
        version, lacking = self.statements.found(n, found)
        self._check_version(version)
        return lacking

    def follow_language(self) -> str | None:
        """The language that was settled, by whomever."""
        rows = self.rows(f"SELECT value FROM {self.name}.meta WHERE key = 'language'")
        self.language = next((str(value) for (value,) in rows), None)
        return self.language

    def settle_language(self, asked: str, *, anew: bool) -> str:
        """Settles the language, unless another one was; the one that holds.

        Raises:
            ReadOnlyStoreError: another one was settled, and the store is open for reading. Where none was, a
                store that is open for reading takes it for itself.
        """
        known = self.follow_language()
        if known != asked and (known is None or anew):
            if self.read_only:
                if known is not None:
                    raise self.refusal()
            else:
                value = "excluded.value" if anew else "m.value"
                ((known,),) = self.rows(
                    f"INSERT INTO {self.name}.meta AS m (key, value) SELECT 'language', %s "
                    f"WHERE (SELECT version FROM {self.name}.version) = {SCHEMA_VERSION} "
                    f"ON CONFLICT (key) DO UPDATE SET value = {value} RETURNING value",
                    [asked],
                )
                self.language = known
                return str(known)
            self.language = known = asked
        return known

    def _version(self, rows: list[Row]) -> list[Row]:
        if not rows:
            raise StoreCorruptError(
                f"the table version of schema {self.schema!r} has lost its row", table="version"
            )
        return rows

    def _check_version(self, version: int) -> None:
        if version != SCHEMA_VERSION:
            raise another(self.schema, version)

    def ids(self, count: int, above: int) -> range:
        """Ids for entries: at least *count*, all of them above *above*, which nobody else gets."""
        with self._lock:
            if len(self._block) >= count and self._block.start > above:
                taken, self._block = self._block[:count], self._block[count:]
                return taken
        sequence = f"{self.name}.entry_ids".replace("'", "''")
        sql = f"SELECT nextval('{sequence}'::regclass) FROM generate_series(1, %s)"
        size = BLOCK
        while True:
            starts = sorted(row[0] for row in self._write_rows(sql, [-(-count // size)]))
            block = range(starts[0], starts[0] + size)
            for start in starts[1:]:
                # Another store may have taken a block in between: the longest run from the end counts.
                block = (
                    range(block.start, start + size) if start == block.stop else range(start, start + size)
                )
            if len(block) >= count and block.start > above:
                with self._lock:
                    self._block = block[count:]
                return block[:count]

    # -- writing

    def write(self, *writes: Write) -> bool:
        """Writes what mirrors change, in one transaction: durable when this returns True, else nothing is.

        Several are in the order of their keys, so that no two wait for each other. A connection that is lost
        meanwhile leaves open what became of it: the row of the first mirror is locked then, which waits for
        whatever is under way, and the mark that it has tells.

        Raises:
            StoreUnavailableError: that could not be found out in time (``outcome="unknown"``), or nobody
                answered at all.
        """
        statements = [self.statements.write(write) for write in writes]
        until = time.monotonic() + self.deadline
        tried = False
        for pause in _pauses():
            try:
                if tried:
                    settled = self._call(lambda: self._settle(writes[0], until), until)
                    if settled != "again":
                        return settled == "done"
                tried = True
                return self._call(lambda: self._write_once(statements), until)
            except LostError as lost:
                if time.monotonic() + pause > until:
                    raise StoreUnavailableError(
                        f"the connection to PostgreSQL was lost in a write, and what became of it is not "
                        f"known after {self.deadline} seconds: {lost}",
                        outcome="unknown",
                    ) from lost
                time.sleep(pause)
        raise AssertionError("pauses do not end")

    def _write_once(self, statements: Sequence[tuple[str, dict[str, Any]]]) -> bool:
        warned: list[str] = []

        def noticed(notice: errors.Diagnostic) -> None:
            if notice.sqlstate == _UNREPLICATED:
                warned.append(notice.message_primary or "")

        with self._borrowed() as connection:
            connection.add_notice_handler(noticed)
            try:
                done = run_all(connection, statements, prepare=self._prepare)
            finally:
                connection.remove_notice_handler(noticed)
        if warned:
            raise StoreUnavailableError(
                f"PostgreSQL has the write, and perhaps its standbys do not: {warned[0]}", outcome="unknown"
            )
        return done

    def _settle(self, write: Write, until: float) -> Settled:
        """What became of a write whose answer was lost."""
        most = max(1, round((until - time.monotonic()) * 1_000))
        with self._borrowed() as connection, losing(connection), connection.transaction():
            connection.execute(f"SET LOCAL lock_timeout = {most}", prepare=False)
            try:
                found = connection.execute(self.statements.settle, [write.n + 1, write.k], prepare=False)
            except errors.LockNotAvailable as error:
                raise LostError("the write is still under way, and waits") from error
            row = found.fetchone()
        if row is None:
            return "again" if write.n == 0 else "moved"
        n, mark, step = values_of(row)
        if step == write.mark or mark == write.mark:
            return "done"
        if (n, mark) == (write.n, write.was):
            return "again"
        if n > write.n and step is None:
            raise StoreUnavailableError(
                "the connection to PostgreSQL was lost in a write, and too much was written since to know "
                "what became of it",
                outcome="unknown",
            )
        return "moved"

    def _write_rows(self, sql: str, values: Sequence[Any]) -> list[Row]:
        """Rows of a statement that may be repeated, whatever became of it before."""
        if self.read_only:
            raise self.refusal()
        return self.rows(sql, values)

    def refusal(self) -> ReadOnlyStoreError:
        """The error of a write to a store that is open for reading."""
        return ReadOnlyStoreError(
            f"the store in schema {self.schema!r} is open for reading only", path=self.schema
        )

    def _call(
        self,
        work: Callable[[], _T],
        until: float,
        *,
        outcome: Literal["unknown", "not written"] = "unknown",
    ) -> _T:
        """Runs *work* in a thread: an interrupt of the caller must not cancel a write.

        PostgreSQL answers a cancelled wait for a standby with success, and psycopg cancels what an interrupt
        finds it waiting for.
        """
        self.check()
        at: list[int] = []

        def run() -> _T:
            at.append(threading.get_ident())
            return work()

        with self._lock:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(max_workers=32, thread_name_prefix="siltstone-postgres")
            future: Future[_T] = self._threads.submit(run)
            self._calls.add(future)
        future.add_done_callback(self._calls.discard)
        try:
            return future.result(max(0.0, until - time.monotonic()) + 1.0)
        except NotInTime:
            if future.done():
                raise
            for thread in at:
                self._hang_up(thread)
            asked = "a write" if outcome == "unknown" else "a question"
            raise StoreUnavailableError(
                f"PostgreSQL did not answer {asked} within {self.deadline} seconds"
                + ("; it may be done yet" if outcome == "unknown" else ""),
                outcome=outcome,
            ) from None

    def _hang_up(self, thread: int) -> None:
        """Ends the wait of a thread for an answer. The server finishes what it has begun."""
        with self._lock:
            connection = self._lent.get(thread)
            if connection is None:
                return
            with suppress(OSError, psycopg.Error):
                line = socket.socket(fileno=connection.fileno())
                try:
                    line.shutdown(socket.SHUT_RDWR)
                finally:
                    line.detach()

    @contextmanager
    def _borrowed(self) -> Iterator[Connection]:
        """A connection that answers, for a statement, in no transaction before or afterwards."""
        until = time.monotonic() + self.deadline
        thread = threading.get_ident()
        connection = None
        try:
            while connection is None:
                connection = self._lent_by_pool(until)
                if is_dead(connection):
                    connection.close()
                    self.pool.putconn(connection)
                    connection = None
            with self._lock:
                self._lent[thread] = connection
            with autocommit(connection):
                yield connection
        finally:
            with self._lock:
                self._lent.pop(thread, None)
            if connection is not None:  # also where an interrupt came before anything was done with it
                self.pool.putconn(connection)

    def _lent_by_pool(self, until: float) -> Connection:
        try:
            connection: Connection = self.pool.getconn(timeout=max(0.001, until - time.monotonic()))
            return connection
        except (PoolTimeout, TooManyRequests) as error:
            raise StoreBusyError(
                f"no connection of the pool {self.pool.name!r} was free, or could be made, within "
                f"{self.deadline} seconds; it has at most {self.pool.max_size}"
            ) from error
        except PoolClosed as error:
            raise StoreClosedError(f"the pool {self.pool.name!r} is closed") from error


_ENVIRONMENT = {"connect_timeout": "PGCONNECT_TIMEOUT", "application_name": "PGAPPNAME"}


def _pauses() -> Iterator[float]:
    yield from _PAUSES
    while True:
        yield _PAUSES[-1]


@contextmanager
def _opening(schema: str) -> Iterator[None]:
    """What goes wrong when a store is opened, without what the connection string says."""
    try:
        yield
    except StoreError:
        raise
    except (psycopg.Error, LostError) as error:
        raise StoreOpenError(
            f"cannot open the store in schema {schema!r}: {first_line(error)}", path=schema
        ) from error
    except PoolTimeout as error:
        raise StoreOpenError(
            f"cannot open the store in schema {schema!r}: the pool gave no connection", path=schema
        ) from error


def _look(
    connection: Connection, schema: str, create: bool, hash_rule: str | None
) -> tuple[bool, str, str | None]:
    """Whether the role may write to the tables, which are made where asked for; their rule and language."""
    if create:
        setup(connection, schema, hash_rule or HASH_RULES[0])
    version = version_of(connection, schema)
    if version is None:
        raise StoreOpenError(
            f"schema {schema!r} has no tables of a store: make them with PostgresStore.open(..., setup=True) "
            "or `siltstone postgres setup`",
            path=schema,
        )
    if version != SCHEMA_VERSION:
        raise another(schema, version)
    ((standby, read_only, allowed, rule, tokenizer, language),) = run(
        connection,
        "SELECT pg_is_in_recovery(), current_setting('transaction_read_only') = 'on', "
        f"has_table_privilege(%s, 'INSERT'), {_meta(schema, 'hash_rule')}, {_meta(schema, 'tokenizer')}, "
        f"{_meta(schema, 'language')}",
        [f"{quoted(schema)}.entry"],
    )
    if rule not in HASH_RULES or tokenizer != TOKENIZER:
        raise StoreOpenError(
            f"the tables in schema {schema!r} need hash rule {rule!r} and tokenizer {tokenizer!r}, and this "
            "siltstone lacks one of them",
            path=schema,
        )
    if hash_rule not in (None, rule):
        raise ConfigError(
            f"the tables in schema {schema!r} were made with hash_rule {rule!r}, not {hash_rule!r}: open "
            "them without one",
            field="hash_rule",
            value=hash_rule,
        )
    return not (standby or read_only or not allowed), rule, language


def _meta(schema: str, key: str) -> str:
    return f"(SELECT value FROM {quoted(schema)}.meta WHERE key = '{key}')"
