"""Tables are made, or brought up to date, whole or not at all, whoever is killed on the way."""

from __future__ import annotations

import gzip
import json
import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from postgres_working import context, opened, seen
from servers import Postgres, running
from siltstone import Entry
from siltstone.errors import StoreVersionError
from siltstone.postgres import setup
from siltstone.postgres.schema import SCHEMA_VERSION, version_of

HERE = Path(__file__).parent
LONG = os.environ.get("SILTSTONE_TORTURE_POSTGRES") == "long"
KILLS = 100 if LONG else 6

VERSIONS = {int(path.stem.partition("-")[2]): path for path in HERE.glob("version-*.json")}
BEGINNINGS = [0, *sorted(VERSIONS)]  #: no tables, and those of each version there was: make_version.py


class Beginning:
    """A database that has the tables of a version, or none (0)."""

    def __init__(self, server: Postgres, database: str, version: int) -> None:
        self.server, self.database, self.version = server, database, version
        self.dsn = server.address(database=database)
        self.told: dict[str, Any] = json.loads(VERSIONS[version].read_text()) if version else {}
        self.begin()
        self.before = self.tables()

    def begin(self) -> None:
        """The tables as they were."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute("DROP SCHEMA IF EXISTS siltstone CASCADE")
            if self.version:
                dump = VERSIONS[self.version].with_suffix(".sql.gz").read_bytes()
                connection.execute(gzip.decompress(dump))

    def tables(self) -> list[tuple[Any, ...]]:
        """Every column, index and sequence that there is."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            return connection.execute(
                "SELECT table_name, column_name, data_type, collation_name, is_nullable "
                "FROM information_schema.columns WHERE table_schema = 'siltstone' UNION ALL "
                "SELECT tablename, indexname, NULL, NULL, NULL FROM pg_indexes "
                "WHERE schemaname = 'siltstone' UNION ALL SELECT sequencename, NULL, NULL, NULL, NULL "
                "FROM pg_sequences WHERE schemaname = 'siltstone' ORDER BY 1, 2"
            ).fetchall()

    def judge(self, after: list[tuple[Any, ...]]) -> None:
        """Nothing is half done, and whoever comes next ends it; what was there is there."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            # A server that goes on with what a killed client has asked for holds the lock as long as it does.
            connection.execute("SELECT pg_advisory_lock(0x73746E65), pg_advisory_unlock(0x73746E65)")
            found = version_of(connection, "siltstone") or 0
            assert found in (self.version, SCHEMA_VERSION)
            assert self.tables() == (after if found == SCHEMA_VERSION else self.before)
            setup(connection)
        assert self.tables() == after
        with opened(self.dsn) as store:
            assert store.check() == []
            assert seen(store) == self.told
            ids = {each.entry_id for each in store.entries("a").entries}
            (new,) = store.index("a", [Entry("written afterwards")]).entry_ids
            assert new not in ids
            assert store.check() == []


@pytest.fixture(params=BEGINNINGS, ids=lambda version: f"version {version}" if version else "nothing")
def beginning(request: pytest.FixtureRequest, newest_postgres: Postgres) -> Iterator[Beginning]:
    with newest_postgres.database() as database:
        yield Beginning(newest_postgres, database, request.param)


@pytest.fixture
def after(newest_postgres: Postgres) -> list[tuple[Any, ...]]:
    """The tables of this version, as they are made from nothing."""
    with newest_postgres.database() as database:
        made = Beginning(newest_postgres, database, 0)
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
    """How the process ended."""
    process = context().Process(target=set_up, args=(dsn, at, is_after), daemon=True)
    process.start()
    process.join(300)
    assert process.exitcode is not None
    return process.exitcode


def test_a_set_up_that_is_killed_at_any_statement_is_ended_by_the_next(
    beginning: Beginning, after: list[tuple[Any, ...]]
) -> None:
    statements = killed(beginning.dsn)
    assert statements > 0
    beginning.judge(after)
    for at in range(1, statements + 1):
        for is_after in (False, True):
            beginning.begin()
            assert killed(beginning.dsn, at, is_after) == -signal.SIGKILL
            beginning.judge(after)


def test_a_set_up_that_is_killed_at_any_moment_is_ended_by_the_next(
    beginning: Beginning, after: list[tuple[Any, ...]]
) -> None:
    chance = random.Random(beginning.version)
    for _ in range(KILLS):
        beginning.begin()
        process = context().Process(target=set_up, args=(beginning.dsn, 0, False), daemon=True)
        process.start()
        time.sleep(chance.uniform(0, 0.1))
        process.kill()
        process.join()
        beginning.judge(after)


def test_a_server_that_is_killed_in_a_set_up_has_it_whole_or_not_at_all(
    after: list[tuple[Any, ...]],
) -> None:
    chance = random.Random(7)
    with running() as server:
        for version in BEGINNINGS:
            made = Beginning(server, "postgres", version)
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


def test_eight_set_ups_at_once_bring_tables_up_to_date_once(
    beginning: Beginning, after: list[tuple[Any, ...]]
) -> None:
    for _ in range(10 if LONG else 2):
        beginning.begin()
        working = [
            context().Process(target=set_up, args=(beginning.dsn, 0, False), daemon=True) for _ in range(8)
        ]
        for process in working:
            process.start()
        for process in working:
            process.join(300)
        assert all(process.exitcode and process.exitcode > 0 for process in working)
        beginning.judge(after)


def test_tables_of_an_earlier_version_are_not_written_to_before_they_are_brought_up_to_date(
    newest_postgres: Postgres,
) -> None:
    for version in BEGINNINGS[1:]:
        if version == SCHEMA_VERSION:
            continue
        with newest_postgres.database() as database:
            made = Beginning(newest_postgres, database, version)
            with pytest.raises(StoreVersionError, match=f"version {version}.*siltstone postgres setup"):
                opened(made.dsn)
            assert made.tables() == made.before
