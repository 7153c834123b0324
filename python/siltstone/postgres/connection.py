"""One statement on a connection of PostgreSQL: how it is run, and what its errors mean."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, NoReturn, TypeAlias

from siltstone.errors import (
    InvalidEntryError,
    ReadOnlyStoreError,
    StoreError,
    StoreIoError,
    StoreOpenError,
    requires,
)
from siltstone.postgres.exchange import answered, ask, is_readable
from siltstone.postgres.statements import Row

with requires("postgres", by="siltstone.PostgresStore"):
    import psycopg
    from psycopg import errors
    from psycopg.rows import tuple_row


Connection: TypeAlias = psycopg.Connection[Any]

__all__ = [
    "LostError", "autocommit", "first_line", "is_dead", "is_direct", "losing", "raise_told",
    "run", "run_all", "values_of",
]  # fmt: skip

_DISK: Final = ("53100", "58030", "53200")  # disk full, input or output failed, out of memory
#: The server cancelled the statement by itself: a deadlock, or on a standby rows that its primary removes.
_TAKEN_BACK: Final = (errors.SerializationFailure, errors.DeadlockDetected)


class LostError(Exception):
    """A connection was lost, or the server cancelled a statement. Whether it was done is still unknown."""


def values_of(row: Any) -> tuple[Any, ...]:
    """The values of a row. The rows of a caller's own pool may be tuples or dicts."""
    return tuple(row.values()) if isinstance(row, dict) else tuple(row)


def run(connection: Connection, sql: str, values: Sequence[Any] | dict[str, Any] = ()) -> list[Row]:
    """The rows that a statement gives which is seldom asked; it is not prepared."""
    # Of this class whatever the pool's connections have: it binds values, and never writes them into the SQL.
    with losing(connection), psycopg.Cursor(connection, row_factory=tuple_row) as cursor:
        cursor.execute(sql, values or None, prepare=False, binary=True)
        return cursor.fetchall()


def run_all(
    connection: Connection,
    statements: Sequence[tuple[str, dict[str, Any]]],
    *,
    prepared: set[bytes] | None,
    until: float,
) -> bool:
    """Runs statements in one transaction. Returns whether each gave a row; if not, nothing is done."""
    if len(statements) == 1:
        return answered(connection, *statements[0], prepared=prepared, until=until).ntuples > 0
    with connection.transaction() as transaction:
        for sql, values in statements:
            if not answered(connection, sql, values, prepared=prepared, until=until).ntuples:
                raise psycopg.Rollback(transaction)
        return True
    return False


def is_direct(connection: Connection, until: float) -> bool:
    """Whether the server itself is at the other end, and no pooler that hands statements to one of many.

    A pooler gives each client a number of its own in place of the server process's.
    """
    own = connection.info.backend_pid
    asked = [ask(connection, "SELECT pg_catalog.pg_backend_pid()", {}, until=until) for _ in range(2)]
    return asked == [[(own,)]] * 2


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
        if not is_readable(connection.pgconn.socket):
            return False
        connection.pgconn.consume_input()
        return bool(connection.pgconn.status != psycopg.pq.ConnStatus.OK)
    return True


@contextmanager
def autocommit(connection: Connection) -> Iterator[None]:
    """Each statement is a transaction of its own, also on a connection of the caller's own pool."""
    if connection.autocommit:
        yield
        return
    connection.autocommit = True
    try:
        yield
    finally:
        if not connection.closed:
            connection.autocommit = False
