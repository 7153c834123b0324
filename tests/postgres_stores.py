"""Stores in PostgreSQL for tests. The tables are made once for each server, and emptied for each test."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest
from psycopg import Connection
from psycopg_pool import ConnectionPool

from siltstone.postgres import PostgresStore, setup
from siltstone.postgres.schema import TABLES

ALL = (*TABLES, "root", "step")


class PostgresPool:
    """A pool of connections to the database *name* with the tables of a store."""

    def __init__(self, pool: ConnectionPool[Any], name: str) -> None:
        self.pool = pool
        self.name = name

    def connection(self) -> AbstractContextManager[Connection[Any]]:
        """A connection of the pool, in autocommit."""
        return self.pool.connection()

    def empty(self) -> None:
        """Deletes all rows, so that the tables are as they were made.

        A write that another test gave up may be under way in the server. It has a lock on the roots, so it is
        waited for.
        """
        first = ["SET LOCAL lock_timeout = '300s'", "LOCK TABLE siltstone.root IN ACCESS EXCLUSIVE MODE"]
        tables = [f"DELETE FROM siltstone.{table}" for table in ALL]
        sequences = [f"ALTER SEQUENCE siltstone.{name} RESTART" for name in ("entry_ids", "arrivals")]
        with self.connection() as connection, connection.transaction():
            connection.execute("; ".join([*first, *tables, *sequences]), prepare=False)

    @contextmanager
    def saved(self) -> Iterator[Callable[[], None]]:
        """Makes a backup of all rows, and returns a function that restores it."""
        with self.connection() as connection:
            for table in ALL:
                connection.execute(f"CREATE TABLE saved_{table} AS TABLE siltstone.{table}")

        def put_back() -> None:
            with self.connection() as connection, connection.transaction():
                for table in ALL:
                    connection.execute(f"DELETE FROM siltstone.{table}")
                    connection.execute(f"INSERT INTO siltstone.{table} TABLE saved_{table}")

        try:
            yield put_back
        finally:
            with self.connection() as connection:
                connection.execute("; ".join(f"DROP TABLE saved_{table}" for table in ALL))


def over_postgres(request: pytest.FixtureRequest, **options: Any) -> PostgresStore:
    """An empty store in the newest installed PostgreSQL."""
    pool: PostgresPool = request.getfixturevalue("newest_pool")
    pool.empty()
    return PostgresStore.open(pool.pool, **options)


@contextmanager
def pooled(address: str, name: str) -> Iterator[PostgresPool]:
    """A pool for that address, with the tables in its database *name*."""
    options = {"autocommit": True, "prepare_threshold": None}
    # Some are there at any time: a test that gives a store half a second has none of it for a new connection.
    with ConnectionPool(address, min_size=4, max_size=8, kwargs=options, open=True) as pool:
        pool.wait(300)
        with pool.connection() as connection:
            setup(connection)
        yield PostgresPool(pool, name)
