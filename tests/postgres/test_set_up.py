"""Tables are made whole or not at all, whoever is killed on the way."""

import os
import random
import signal
import time
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from postgres_working import context, opened
from servers import Postgres, running
from siltstone import Entry
from siltstone.postgres import setup
from siltstone.postgres.schema import SCHEMA_VERSION, version_of

LONG = os.environ.get("SILTSTONE_TORTURE_POSTGRES") == "long"


class Empty:
    """A database without the tables of a store."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self.begin()

    def begin(self) -> None:
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute("DROP SCHEMA IF EXISTS siltstone CASCADE")

    def tables(self) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            return connection.execute(
                "SELECT table_name, column_name, data_type, collation_name, is_nullable "
                "FROM information_schema.columns WHERE table_schema = 'siltstone' UNION ALL "
                "SELECT tablename, indexname, NULL, NULL, NULL FROM pg_indexes "
                "WHERE schemaname = 'siltstone' UNION ALL SELECT sequencename, NULL, NULL, NULL, NULL "
                "FROM pg_sequences WHERE schemaname = 'siltstone' ORDER BY 1, 2"
            ).fetchall()

    def judge(self, after: list[tuple[Any, ...]]) -> None:
        """Nothing is half done, and whoever comes next ends it."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            # A server that goes on with what a killed client has asked for holds the lock as long as it does.
            connection.execute("SELECT pg_advisory_lock(0x73746E65), pg_advisory_unlock(0x73746E65)")
            found = version_of(connection, "siltstone")
            assert found in (None, SCHEMA_VERSION)
            assert self.tables() == ([] if found is None else after)
            setup(connection)
        assert self.tables() == after
        with opened(self.dsn) as store:
            store.index("a", [Entry("written afterwards")])
            assert store.check() == []


@pytest.fixture
def empty(newest_postgres: Postgres) -> Iterator[Empty]:
    with newest_postgres.database() as database:
        yield Empty(newest_postgres.address(database=database))


@pytest.fixture
def after(newest_postgres: Postgres) -> list[tuple[Any, ...]]:
    """The tables, as an undisturbed set-up makes them."""
    with newest_postgres.database() as database:
        made = Empty(newest_postgres.address(database=database))
        with psycopg.connect(made.dsn, autocommit=True) as connection:
            setup(connection)
        return made.tables()


class Dying(psycopg.Connection[Any]):
    """Kills its process before, or after, its ``at``-th statement."""

    at, is_after, seen = 0, False, 0

    def execute(self, *given: Any, **options: Any) -> Any:
        type(self).seen += 1
        if self.seen == self.at and not self.is_after:
            os.kill(os.getpid(), signal.SIGKILL)
        done = super().execute(*given, **options)
        if self.seen == self.at and self.is_after:
            os.kill(os.getpid(), signal.SIGKILL)
        return done


def set_up(dsn: str, at: int, is_after: bool) -> None:
    """Sets up, and is killed on the way; else it ends with the number of its statements."""
    Dying.at, Dying.is_after = at, is_after
    with Dying.connect(dsn, autocommit=True) as connection:
        setup(connection)
    os._exit(Dying.seen)


def killed(dsn: str, at: int = 0, is_after: bool = False) -> int:
    process = context().Process(target=set_up, args=(dsn, at, is_after), daemon=True)
    process.start()
    process.join(300)
    assert process.exitcode is not None
    return process.exitcode


def test_a_set_up_that_is_killed_at_any_statement_is_ended_by_the_next(
    empty: Empty, after: list[tuple[Any, ...]]
) -> None:
    statements = killed(empty.dsn)
    assert statements > 0
    empty.judge(after)
    for at in range(1, statements + 1):
        for is_after in (False, True):
            empty.begin()
            assert killed(empty.dsn, at, is_after) == -signal.SIGKILL
            empty.judge(after)


def test_a_server_that_is_killed_in_a_set_up_has_it_whole_or_not_at_all(after: list[tuple[Any, ...]]) -> None:
    chance = random.Random(7)
    with running() as server:
        made = Empty(server.address(database="postgres"))
        for _ in range(10 if LONG else 1):
            made.begin()
            server.rows("CHECKPOINT")
            process = context().Process(target=set_up, args=(made.dsn, 0, False), daemon=True)
            process.start()
            time.sleep(chance.uniform(0, 0.1))
            server.kill()
            process.join()
            server.start()
            made.dsn = server.address()
            made.judge(after)


def test_eight_set_ups_at_once_make_the_tables_once(empty: Empty, after: list[tuple[Any, ...]]) -> None:
    for _ in range(10 if LONG else 2):
        empty.begin()
        working = [
            context().Process(target=set_up, args=(empty.dsn, 0, False), daemon=True) for _ in range(8)
        ]
        for process in working:
            process.start()
        for process in working:
            process.join(300)
        assert all(process.exitcode and process.exitcode > 0 for process in working)
        empty.judge(after)
