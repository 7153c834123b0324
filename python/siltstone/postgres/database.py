"""Connections to PostgreSQL: each is borrowed for one statement. If one is lost, the outcome is looked up."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import copy_context
from functools import partial
from typing import Any, Final, Literal, NoReturn, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

from siltstone.errors import (
    ConfigError,
    InvalidEntryError,
    ReadOnlyStoreError,
    StoreBusyError,
    StoreClosedError,
    StoreCorruptError,
    StoreError,
    StoreForkedError,
    StoreIoError,
    StoreOpenError,
    StoreUnavailableError,
    requires,
)
from siltstone.memory.base import HURRIED
from siltstone.postgres import protocol, schema as tables
from siltstone.postgres.administration import address

with requires("postgres", by="siltstone.PostgresStore"):
    import psycopg
    from psycopg import errors
    from psycopg.conninfo import conninfo_to_dict
    from psycopg.rows import tuple_row
    from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout, TooManyRequests


Connection: TypeAlias = psycopg.Connection[Any]
Pool: TypeAlias = ConnectionPool[Any]

UniqueViolation = errors.UniqueViolation

# One statement on a connection of PostgreSQL: how it is run, and what its errors mean.

_DISK: Final = ("53100", "58030", "53200")  # disk full, input or output failed, out of memory
#: The server cancelled the statement by itself: a deadlock, or on a standby rows that its primary removes.
_TAKEN_BACK: Final = (errors.SerializationFailure, errors.DeadlockDetected)


class LostError(Exception):
    """A connection was lost, or the server cancelled a statement. Whether it was done is still unknown."""


def run_all(
    connection: Connection,
    statements: Sequence[tuple[str, dict[str, Any]]],
    *,
    prepared: set[bytes] | None,
    wait: protocol.Wait,
) -> bool:
    """Runs statements in one transaction. Returns whether each gave a row; if not, nothing is done."""
    if len(statements) == 1:
        return protocol.answered(connection, *statements[0], prepared=prepared, wait=wait).ntuples > 0
    with connection.transaction() as transaction:
        for sql, values in statements:
            if not protocol.answered(connection, sql, values, prepared=prepared, wait=wait).ntuples:
                raise psycopg.Rollback(transaction)
        return True
    return False


@contextmanager
def losing(connection: Connection) -> Iterator[None]:
    """Turns the errors of PostgreSQL into those of a store, see :func:`raise_told`."""
    try:
        yield
    except (psycopg.Error, UnicodeEncodeError) as error:
        raise_told(connection, error)


def raise_told(connection: Connection, error: psycopg.Error | UnicodeEncodeError) -> NoReturn:
    """Raises what an error of PostgreSQL means to a store. ``UniqueViolation`` is raised as it is.

    Raises:
        LostError: the connection was lost. Any other error means that the statement was refused.
    """
    if isinstance(error, (errors.DataError, UnicodeEncodeError)):
        raise InvalidEntryError(f"PostgreSQL cannot hold a value: {error}") from error
    if isinstance(error, (errors.ReadOnlySqlTransaction, errors.InsufficientPrivilege)):
        raise ReadOnlyStoreError(f"PostgreSQL takes no write: {first_line(error)}") from error
    if isinstance(error, (errors.UndefinedTable, errors.InvalidSchemaName, errors.UndefinedColumn)):
        raise StoreOpenError(f"the tables are not there, or others: {first_line(error)}") from error
    if (
        connection.closed
        or connection.broken
        or isinstance(error, _TAKEN_BACK)
        or (error.sqlstate or "").startswith(("57P", "08"))
    ):
        raise LostError(first_line(error)) from error
    if error.sqlstate is None and isinstance(error, psycopg.OperationalError):
        # The error is the client's own: no answer of the server came. libpq may not have noticed yet that
        # the line is dead, and would give this connection to the next borrower.
        connection.close()
        raise LostError(first_line(error)) from error
    if error.sqlstate in _DISK or isinstance(error, (errors.QueryCanceled, errors.OperationalError)):
        raise StoreIoError(f"PostgreSQL could not do it: {first_line(error)}") from error
    if isinstance(error, errors.UniqueViolation):
        raise error
    raise StoreError(f"PostgreSQL refused it: {first_line(error)}") from error


def first_line(error: BaseException) -> str:
    """The first line of an error. The other lines may quote values."""
    return (str(error).splitlines() or [type(error).__name__])[0]


def is_dead(connection: Connection) -> bool:
    """Whether the server has closed the connection. No round trip: an idle connection has nothing to read."""
    with suppress(psycopg.Error, OSError, ValueError):
        if connection.closed:
            return True
        if not protocol.is_readable(connection.pgconn.socket):
            return False
        connection.pgconn.consume_input()
        return bool(connection.pgconn.status != psycopg.pq.ConnStatus.OK)
    return True


# The checks at the opening of a store in PostgreSQL, and their errors.


@contextmanager
def opening(schema: str) -> Iterator[None]:
    """The error of a failed opening, without any part of the connection string."""
    try:
        yield
    except StoreError:
        raise
    except (psycopg.Error, LostError, protocol.LateError) as error:
        why = first_line(error)
        if isinstance(error, errors.InsufficientPrivilege):
            why += "; docs/how-to/use-postgres.md#roles has the grants that a role needs"
        raise StoreOpenError(f"cannot open the store in schema {schema!r}: {why}", path=schema) from error


def look(
    connection: Connection, schema: str, create: bool, hash_rule: str | None
) -> tuple[bool, str, str | None, bool]:
    """Looks at the tables, which are made where asked for.

    Returns:
        Whether the role may write to them, their rule, their language, and whether the connection is direct:
        a pooler gives each client a number of its own in place of the server process's.
    """
    tables.check_encoding(connection)
    name, version = tables.quoted(schema), None
    sql = (
        "SELECT version, pg_is_in_recovery(), current_setting('transaction_read_only') = 'on', "
        "has_table_privilege(%(entry)s::text, 'INSERT'), pg_backend_pid(), "
        f"(SELECT coalesce(json_object_agg(key, value), '{{}}') FROM {name}.meta) FROM {name}.version"
    )
    wait = protocol.Wait(time.monotonic() + HURRIED_DEADLINE)
    with suppress(errors.UndefinedTable):
        for row in protocol.ask(connection, sql, {"entry": f"{name}.entry"}, wait=wait):
            version, standby, read_only, allowed, process, meta = row
    if version is None:
        if create:
            tables.setup(connection, schema, hash_rule or tables.HASH_RULES[0])
            return look(connection, schema, False, hash_rule)
        raise StoreOpenError(
            f"schema {schema!r} has no tables of a store: make them with PostgresStore.open(..., setup=True) "
            "or `siltstone postgres setup`",
            path=schema,
        )
    if version != tables.SCHEMA_VERSION:
        raise tables.another(schema, version)
    rule, tokenizer = meta.get("hash_rule"), meta.get("tokenizer")
    if rule not in tables.HASH_RULES or tokenizer != tables.TOKENIZER:
        raise StoreOpenError(
            f"the tables in schema {schema!r} need hash rule {rule!r} and tokenizer {tokenizer!r}, and this "
            "siltstone lacks one of them",
            path=schema,
        )
    if hash_rule not in (None, rule):
        raise ConfigError(
            f"the tables in schema {schema!r} were made with hash_rule {rule!r}, not {hash_rule!r}: open "
            "them without one",
            "hash_rule",
            hash_rule,
        )
    is_direct = process == connection.info.backend_pid
    return not (standby or read_only or not allowed), rule, meta.get("language"), is_direct


_T = TypeVar("_T")
Settled = Literal["done", "moved", "again"]

DEADLINE: Final = 30.0  #: seconds that a write may take, including the steps that find out its outcome
POOL: Final = 8  #: connections of a pool of our own, at most
PATIENCE: Final = 2.0  #: seconds that a call waits for a connection before it looks for the server
HURRY: Final = 0.3  #: the same, of a call that may do without the server
HURRIED_DEADLINE: Final = 5.0  #: seconds for the answer to such a call
LOOK: Final = 2  #: seconds of such a look, at most
AGAIN: Final = 0.5  #: seconds between two looks at a server that was not there
_PAUSES: Final = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
_UNREPLICATED: Final = "01000"  # a warning during a write: the wait for a standby was cancelled


def _beginning_with(connection: Connection) -> type[Connection]:
    """The class of the connections of a pool: *connection* is its first, and others are made."""
    first = [connection]

    class Connected(psycopg.Connection[Any]):
        @classmethod
        def connect(cls, *given: Any, **options: Any) -> Any:
            return first.pop() if first else super().connect(*given, **options)

    return Connected


class Database:
    """The tables of a schema, over a pool of connections.

    Statements need no state of a session of the server, and stand for themselves, so a pool between here and
    the server may hand each of them to another connection. They are prepared where no such pool is.
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
        self.name = tables.quoted(schema)
        self.statements = tables.Statements(self.name)
        self.read_only = read_only
        self.language = language  #: the settled language, as the core names it
        self.deadline = deadline
        self._prepare = prepare and psycopg.Pipeline.is_supported()  # a libpq before 14 cannot
        self._prepared: WeakKeyDictionary[Connection, set[bytes]] = WeakKeyDictionary()
        self._owned = owned
        self._process = os.getpid()
        self._closed = False
        self._lock = threading.Lock()
        self._apart = protocol.Apart()
        self._lent: dict[int, Connection] = {}  # borrowed connections, by thread
        self._down = ""  # why the server takes no connection; "" while it does
        self._block = range(0)  # reserved ids of entries that no mirror has yet

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
        prepare: bool | None = None,
    ) -> Database:
        """Checks the database once, and opens a pool, unless *conninfo* is a pool.

        Raises:
            StoreOpenError: the server does not answer, a right is missing, or the tables are missing.
            StoreVersionError: another version of siltstone has made the tables.
        """
        tables.quoted(schema)
        create = create and not read_only
        with opening(schema):
            if isinstance(conninfo, ConnectionPool):
                pool = conninfo
                with pool.connection() as connection:
                    was, connection.autocommit = connection.autocommit, True
                    try:
                        writable, rule, language, direct = look(connection, schema, create, hash_rule)
                    finally:
                        connection.autocommit = was
            else:
                address(conninfo)  # else libpq would quote a piece of what is none, perhaps a password
                given = conninfo_to_dict(conninfo)
                options: dict[str, Any] = {
                    "autocommit": True, "prepare_threshold": None, "client_encoding": "UTF8",
                }  # fmt: skip
                options |= {key: value for key, name, value in _OWN if not (key in given or os.getenv(name))}
                connection = psycopg.connect(conninfo, **options)
                try:
                    writable, rule, language, direct = look(connection, schema, create, hash_rule)
                except BaseException:
                    connection.close()
                    raise
                how: dict[str, Any] = {"kwargs": options, "timeout": deadline, "name": "siltstone"}
                # It gives up soon: the next call has it connect anew, at once when the server is back.
                how |= {"reconnect_timeout": PATIENCE, "connection_class": _beginning_with(connection)}
                pool = ConnectionPool(conninfo, min_size=1, max_size=POOL, open=True, **how)
                pool.wait()  # it takes the first at once
        return cls(
            pool,
            schema,
            rule,
            owned=pool is not conninfo,
            read_only=read_only or not writable,
            deadline=deadline,
            prepare=direct if prepare is None else prepare,
            language=language,
        )

    def close(self) -> None:
        """Closes the store's own pool. In a forked child it does nothing, because the pool is the parent's.

        It waits up to the deadline for writes that an interrupt left behind.
        """
        if os.getpid() != self._process:
            return
        with self._lock:
            was, self._closed = self._closed, True
        self._apart.close(HURRY if self._down else self.deadline, self._hang_up_all)
        if self._owned and not was:
            self.pool.close(HURRY if self._down else DEADLINE)

    def check(self) -> None:
        """Checks that the store may be used.

        Raises:
            StoreForkedError: the process was forked after the store was opened.
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

    def rows(self, sql: str, *, prepare: bool = False, **values: Any) -> list[tables.Row]:
        """The result of a statement, which is run again if a connection was lost.

        A statement that runs often is prepared.
        """
        self.check()
        until = time.monotonic() + self._limit()

        def ask(connection: Connection, prepared: set[bytes] | None, wait: protocol.Wait) -> list[tables.Row]:
            return protocol.ask(connection, sql, values, prepared=prepared if prepare else None, wait=wait)

        def read() -> list[tables.Row]:
            began = time.monotonic()
            for pause in _pauses():
                try:
                    return self._exchange(ask, until)
                except LostError as lost:
                    if time.monotonic() + pause > until:
                        raise self._unanswered(lost, "not written") from lost
                    self._pause(pause, began)
                except protocol.LateError as late:
                    raise self._unanswered(late, "not written") from None
            raise AssertionError("pauses do not end")

        # An interrupt comes to the main thread alone, and may not take a connection out of the pool for good.
        return self._call(read, until, outcome="not written") if protocol.is_main() else read()

    def _limit(self) -> float:
        return min(self.deadline, HURRIED_DEADLINE) if HURRIED.get() else self.deadline

    def _unanswered(self, why: object, outcome: Literal["unknown", "not written"]) -> StoreUnavailableError:
        what = "a question" if outcome == "not written" else "a write, which may be done yet"
        return StoreUnavailableError(f"PostgreSQL did not answer {what}: {why}", outcome=outcome)

    def _pause(self, seconds: float, began: float) -> None:
        """Waits before a call that began then is tried again; looks for the server if that takes long."""
        if self._owned and time.monotonic() > began + _patience():
            self._answers()
        time.sleep(seconds)

    def _look(self) -> None:
        if not self._answers(but_is_full=True):
            raise protocol.LateError(self._down)

    def _exchange(
        self, work: Callable[[Connection, set[bytes] | None, protocol.Wait], _T], until: float
    ) -> _T:
        """The result of *work*, which gets a connection, the names prepared on it, and the time limit.

        Raises:
            LostError: the connection was lost, or the statement taken back.
            LateError: no answer came in time.
        """
        with _Loan(self, until) as connection:
            wait = protocol.Wait(until, *((self._look, _patience()) if self._owned else ()))
            try:
                try:
                    return work(connection, self._names(connection), wait)
                except protocol.UnpreparedError:
                    self._prepare = False  # somebody between here and the server keeps no names
                    return work(connection, None, wait)
            except (psycopg.Error, UnicodeEncodeError) as error:
                raise_told(connection, error)
            except protocol.LateError:
                connection.close()
                raise

    def _names(self, connection: Connection) -> set[bytes] | None:
        """The names that are prepared on a connection; None where nothing is to be prepared."""
        if not self._prepare:
            return None
        try:
            return self._prepared[connection]
        except KeyError:
            return self._prepared.setdefault(connection, set())

    def where(self, k: int) -> tuple[int, str | None]:
        """The version and the mark of mirror *k*; 0 where nothing was written of it."""
        rows = self.rows(self.statements.where, prepare=True, k=k)
        version, n, mark = rows[0] if rows else (None, 0, None)
        self._check_version(version)
        return n or 0, mark

    def lacking(self, k: int, n: int) -> tables.Found:
        """The rows that mirror *k* lacks if it stands at *n*; at -1 it lacks all."""
        # The query for new rows runs often and is prepared; the one for all rows has a plan of its own.
        found = self.rows(self.statements.read, prepare=n >= 0, k=k, n=n)
        version, lacking = self.statements.found(n, found)
        self._check_version(version)
        return lacking

    def settle_language(self, asked: str, *, anew: bool) -> str:
        """Settles the language, and returns the settled one. Without *anew* an earlier one stays.

        If none is settled, a store that is open for reading uses *asked* for itself alone.

        Raises:
            ReadOnlyStoreError: another one is settled, *anew* is set, and the store is open for reading.
        """
        # Another process may have changed it.
        rows = self.rows(f"SELECT value FROM {self.name}.meta WHERE key = 'language'")
        known = self.language = next((str(value) for (value,) in rows), None)
        if known != asked and (known is None or anew):
            if self.read_only:
                if known is not None:
                    raise self.refusal()
            else:
                value = "excluded.value" if anew else "m.value"
                ((known,),) = self.rows(
                    f"INSERT INTO {self.name}.meta AS m (key, value) SELECT 'language', %(asked)s::text "
                    f"WHERE (SELECT version FROM {self.name}.version) = {tables.SCHEMA_VERSION} "
                    f"ON CONFLICT (key) DO UPDATE SET value = {value} RETURNING value",
                    asked=asked,
                )
                self.language = known
                return str(known)
            self.language = known = asked
        return known

    def _check_version(self, version: int | None) -> None:
        if version is None:
            raise StoreCorruptError(
                f"the table version of schema {self.schema!r} has lost its row", table="version"
            )
        if version != tables.SCHEMA_VERSION:
            raise tables.another(self.schema, version)

    def ids(self, count: int, above: int) -> range:
        """Reserves *count* ids for entries, all above *above*. No other store gets them."""
        if self.read_only:
            raise self.refusal()
        with self._lock:
            if len(self._block) >= count and self._block.start > above:
                taken, self._block = self._block[:count], self._block[count:]
                return taken
        sequence = f"{self.name}.entry_ids".replace("'", "''")
        sql = f"SELECT nextval('{sequence}'::regclass) FROM generate_series(1, %(blocks)s::bigint)"
        size = tables.BLOCK
        while True:
            starts = sorted(row[0] for row in self.rows(sql, blocks=-(-count // size)))
            block = range(starts[0], starts[0] + size)
            for start in starts[1:]:
                # Another store may have taken a block in between, so only the last run of blocks is used.
                block = (
                    range(block.start, start + size) if start == block.stop else range(start, start + size)
                )
            if len(block) >= count and block.start > above:
                with self._lock:
                    self._block = block[count:]
                return block[:count]

    # -- writing

    def write(self, *writes: tables.Write) -> bool:
        """Writes the changes of mirrors in one transaction.

        Several writes must be in the order of their keys, so that two callers never wait for each other. If
        the connection is lost, the outcome is looked up: the row of the first mirror is locked, which waits
        for transactions in progress, and its mark tells the outcome.

        Returns:
            True if all is written and durable; False if a mirror has moved on, and nothing was written.

        Raises:
            StoreUnavailableError: the outcome could not be found out in time (``outcome="unknown"``).
        """
        statements = [self.statements.write(write) for write in writes]
        until = time.monotonic() + self._limit()
        # One statement keeps to the time by itself, and an interrupt comes to the main thread alone.
        is_apart = len(writes) > 1 or protocol.is_main()
        began, tried, is_open = time.monotonic(), False, False
        for pause in _pauses():
            try:
                if tried:
                    settled = self._call(lambda: self._settled(writes[0], until), until, begun=True)
                    if settled != "again":
                        return settled == "done"
                again, tried = tried, True
                if is_apart:
                    return self._call(lambda: self._write_once(statements, until), until, begun=again)
                return self._write_once(statements, until)
            except StoreUnavailableError as error:
                if is_open:  # what was sent before may be done
                    raise StoreUnavailableError(str(error), outcome="unknown") from error
                raise
            except LostError as lost:
                is_open = True
                if time.monotonic() + pause > until:
                    raise StoreUnavailableError(
                        f"the connection to PostgreSQL was lost in a write, and what became of it is not "
                        f"known after {self.deadline} seconds: {lost}",
                        outcome="unknown",
                    ) from lost
                self._pause(pause, began)
            except protocol.LateError as late:
                raise self._unanswered(late, "unknown") from None
        raise AssertionError("pauses do not end")

    def _write_once(self, statements: Sequence[tuple[str, dict[str, Any]]], until: float) -> bool:
        warned: list[str] = []

        def noticed(notice: errors.Diagnostic) -> None:
            if notice.sqlstate == _UNREPLICATED:
                warned.append(notice.message_primary or "")

        def written(connection: Connection, prepared: set[bytes] | None, wait: protocol.Wait) -> bool:
            connection.add_notice_handler(noticed)
            try:
                return run_all(connection, statements, prepared=prepared, wait=wait)
            finally:
                connection.remove_notice_handler(noticed)

        done = self._exchange(written, until)
        if warned:
            raise StoreUnavailableError(
                f"PostgreSQL has the write, and perhaps its standbys do not: {warned[0]}", outcome="unknown"
            )
        return done

    def _settled(self, write: tables.Write, until: float) -> Settled:
        """The outcome of a write whose answer was lost; a question that is refused tells nothing of it."""
        try:
            return self._settle(write, until)
        except (StoreUnavailableError, StoreClosedError):
            raise
        except StoreError as error:
            raise LostError(str(error)) from error

    def _settle(self, write: tables.Write, until: float) -> Settled:
        """Finds out the outcome of a write whose answer was lost."""
        most = max(1, round((until - time.monotonic()) * 1_000))
        with _Loan(self, until) as connection, losing(connection), connection.transaction():
            # The rows of a caller's own pool may be dicts.
            cursor = psycopg.Cursor(connection, row_factory=tuple_row)
            cursor.execute(f"SET LOCAL lock_timeout = {most}".encode(), prepare=False)
            try:
                cursor.execute(self.statements.settle.encode(), [write.n + 1, write.k], prepare=False)
            except errors.LockNotAvailable as error:
                raise LostError("the write is still under way, and waits") from error
            row = cursor.fetchone()
        if row is None:
            return "again" if write.n == 0 else "moved"
        n, mark, step = row
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
        begun: bool = False,
    ) -> _T:
        """Runs *work* in a thread, so that an interrupt of the caller does not cancel a write.

        psycopg cancels a statement if an interrupt comes while it waits, and PostgreSQL answers a cancelled
        wait for a standby with success. *begun* says that the write was sent before.
        """
        self.check()
        try:
            return self._apart.run(partial(copy_context().run, work), until - time.monotonic())
        except protocol.NotInTimeError as late:
            if late.thread is not None:
                self._hang_up(late.thread)
            elif not begun:
                raise StoreUnavailableError(
                    f"a call that an interrupt left behind still waits for PostgreSQL after {self.deadline} "
                    "seconds, and this one was not begun",
                    outcome="not written",
                ) from None
            why = f"the {self.deadline} seconds of its deadline are over"
            raise self._unanswered(why, outcome) from None

    def _hang_up_all(self) -> None:
        for thread in list(self._lent):
            self._hang_up(thread)

    def _hang_up(self, thread: int) -> None:
        """Closes the socket of a thread's connection, so that it stops waiting. The server may go on."""
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

    def borrow(self, until: float) -> Connection:
        """A connection that answers, and is in no transaction. It must be given back."""
        while True:
            connection = self._lent_by_pool(until)
            if not is_dead(connection):
                self._lent[threading.get_ident()] = connection
                return connection
            connection.close()
            self.pool.putconn(connection)

    def give_back(self, connection: Connection) -> None:
        """Ends a loan."""
        with self._lock:  # nobody hangs up a connection that is another's by then
            self._lent.pop(threading.get_ident(), None)
        self.pool.putconn(connection)

    def _lent_by_pool(self, until: float) -> Connection:
        most = min(until, time.monotonic() + _patience()) if self._owned else until
        while True:
            if self._down:
                raise StoreUnavailableError(
                    f"PostgreSQL takes no connection: {self._down}; calls fail at once until it does",
                    outcome="not written",
                )
            try:
                connection: Connection = self.pool.getconn(timeout=max(0.001, most - time.monotonic()))
                return connection
            except (PoolTimeout, TooManyRequests) as error:
                if self._owned and not self._answers():
                    continue
                if most >= until:
                    raise StoreBusyError(
                        f"no connection of the pool {self.pool.name!r} was free within {self.deadline} "
                        f"seconds; it has at most {self.pool.max_size}"
                    ) from error
                most = until
            except PoolClosed as error:
                raise StoreClosedError(f"the pool {self.pool.name!r} is closed") from error

    def _answers(self, *, but_is_full: bool = False) -> bool:
        """Whether the server takes a connection. If not, a thread waits until it does.

        With *but_is_full* one that refuses it by an error of its own ("FATAL:  sorry, ...") answers as well.
        """
        why = self._looked()
        why = "" if but_is_full and ":  " in why else why
        with self._lock:
            if why and not self._down:
                threading.Thread(target=self._wait_for_it, name="siltstone-postgres", daemon=True).start()
            self._down = why
        return not why

    def _looked(self) -> str:
        """Why the server answers nobody; "" if it does. The pool is not asked: it may be busy.

        A pooler takes a connection also while its server is away, so the server is asked something.
        """
        pool: Any = self.pool  # of our own: its settings are values, not functions
        wait = protocol.Wait(time.monotonic() + LOOK)
        try:
            with psycopg.connect(pool.conninfo, **{**pool.kwargs, "connect_timeout": LOOK}) as connection:
                protocol.ask(connection, "SELECT 1", {}, wait=wait)
        except psycopg.Error as error:
            return first_line(error)
        except protocol.LateError:
            return f"it has not answered within {LOOK} seconds"
        return ""

    def _wait_for_it(self) -> None:
        while not self._closed and (why := self._looked()):
            self._down = why
            time.sleep(AGAIN)
        self._down = ""


class _Loan:
    """A connection for a statement, in autocommit. A context manager in two methods: it is entered often."""

    __slots__ = ("_connection", "_database", "_until", "_was")

    def __init__(self, database: Database, until: float) -> None:
        self._database, self._until = database, until

    def __enter__(self) -> Connection:
        connection = self._connection = self._database.borrow(self._until)
        self._was = connection.autocommit
        if not self._was:  # a connection of the caller's own pool may be in a transaction
            try:
                connection.autocommit = True
            except BaseException:
                self._database.give_back(connection)
                raise
        return connection

    def __exit__(self, *exc: object) -> None:
        connection = self._connection
        try:
            if not self._was and not connection.closed:
                connection.autocommit = False
        finally:
            self._database.give_back(connection)


_OWN: Final = (("connect_timeout", "PGCONNECT_TIMEOUT", "5"), ("application_name", "PGAPPNAME", "siltstone"))


def _patience() -> float:
    return HURRY if HURRIED.get() else PATIENCE


def _pauses() -> Iterator[float]:
    yield from _PAUSES
    while True:
        yield _PAUSES[-1]
