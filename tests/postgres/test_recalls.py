"""The log of recalls in PostgreSQL, and tables of the version that had none."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from conversations import assistant, user
from postgres_stores import PostgresPool
from servers.postgres import Postgres
from siltstone import Entry, MemoryStore, Session
from siltstone.errors import StoreVersionError
from siltstone.postgres import PostgresStore, setup
from siltstone.postgres.schema import SCHEMA_VERSION, TABLES
from siltstone.stores.copying import copy_store

OLDER = (Path(__file__).parent / "version-1.sql").read_text(encoding="utf-8")
SECRET = "the walrus password for the quarry is basalt-seven"
QUESTION = "which walrus password has the quarry?"
LATER = {"recall": None, "compaction": "notes"}  # a table, and a column, that version 1 has not


@pytest.fixture
def pool(newest_pool: PostgresPool) -> PostgresPool:
    newest_pool.empty()
    return newest_pool


def opened(store: PostgresStore | MemoryStore, session_id: str = "s") -> Session:
    return Session.open(
        None, session_id, memory=store, policy=None, context_window=16_000, recall=True, knowledge=False
    )


def asked(session: Session) -> None:
    session.append(user(QUESTION))
    assert SECRET in session.prepare().recalled
    session.append(assistant("basalt"))


def test_a_recall_goes_with_the_next_write_and_another_process_reads_it(pool: PostgresPool) -> None:
    with PostgresStore.open(pool.pool) as one, PostgresStore.open(pool.pool) as two:
        one.index("s", [Entry(SECRET, created_at=1.0)])
        with opened(one) as session:
            asked(session)
            [told] = session.recalls()
            assert told.placed[0].entry_id == one.entries("s").entries[0].entry_id
            with opened(two) as other:
                assert other.recalls() == [told]
            session.append(user(QUESTION))
            session.prepare()
            assert len(two.open_log("s").recalls(9)) == 1, "not written yet"
        assert len(two.open_log("s").recalls(9)) == 2, "a session that is closed writes the last one"
        assert two.check() == []
        two.delete_session("s")
        assert one.open_log("s").recalls(9) == []
        with pool.connection() as connection:
            assert connection.execute("SELECT count(*) FROM siltstone.recall").fetchone() == (0,)


def test_recalls_are_copied_from_a_file_and_back(pool: PostgresPool, tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path / "one") as file, PostgresStore.open(pool.pool) as database:
        file.index("s", [Entry(SECRET, created_at=1.0)])
        with opened(file) as session:
            asked(session)
        assert not copy_store(file, database).differing
        with opened(file) as here, opened(database) as there:
            [mine], [other] = here.recalls(), there.recalls()
            assert (mine.position, mine.at, mine.query, mine.tokens) == (
                other.position, other.at, other.query, other.tokens,
            )  # fmt: skip
            assert file.get(mine.placed[0].entry_id).content == database.get(other.placed[0].entry_id).content


def test_tables_of_the_version_before_are_refused_by_name_and_brought_up_to_date(
    newest_postgres: Postgres,
) -> None:
    with newest_postgres.database() as name:
        address = newest_postgres.address(database=name)
        with PostgresStore.open(address, setup=True) as store:
            store.index("s", [Entry(SECRET, created_at=1.0)])
            with opened(store) as session:
                session.append(user("silt"), assistant("mud"))
            told = store.entries("s"), store.stats("s"), store.open_log("s").read(0, 9)
        with psycopg.connect(address, autocommit=True) as connection:
            older_tables(connection)
            connection.execute("CREATE ROLE clerk LOGIN")
            connection.execute("GRANT USAGE ON SCHEMA older TO clerk")
            connection.execute("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA older TO clerk")
            connection.execute("GRANT USAGE ON ALL SEQUENCES IN SCHEMA older TO clerk")
            try:
                for read_only in (False, True):
                    with pytest.raises(StoreVersionError, match=r"version 1, .* postgres setup"):
                        PostgresStore.open(address, schema="older", read_only=read_only)
                setup(connection, "older")
                setup(connection, "older")
                assert connection.execute("SELECT version FROM older.version").fetchone() == (SCHEMA_VERSION,)
                with PostgresStore.open(f"{address} user=clerk", schema="older") as store:
                    assert (store.entries("s"), store.stats("s"), store.open_log("s").read(0, 9)) == told
                    assert store.check() == []
                    with opened(store) as session:
                        assert session.recalls() == []
                        asked(session)
                        assert len(session.recalls()) == 1
                assert columns(connection, "older") == columns(connection, "siltstone")
            finally:
                connection.execute("DROP OWNED BY clerk")
                connection.execute("DROP ROLE clerk")


def older_tables(connection: psycopg.Connection) -> None:
    """The rows of schema ``siltstone`` in schema ``older``, as version 1 had them."""
    connection.execute("CREATE SCHEMA older")
    connection.execute(OLDER)
    for table in ("meta", "root", "step", *TABLES):
        if LATER.get(table, "") is None:
            continue
        found = connection.execute(
            "SELECT column_name FROM information_schema.columns "
            "WHERE table_schema = 'older' AND table_name = %s",
            [table],
        )
        names = ", ".join(row[0] for row in found)
        connection.execute(f"INSERT INTO older.{table} ({names}) SELECT {names} FROM siltstone.{table}")


def columns(connection: psycopg.Connection, schema: str) -> list[tuple[str, ...]]:
    """What each column of the schema is called and holds, by name."""
    return connection.execute(
        "SELECT table_name, column_name, data_type, is_nullable, collation_name "
        "FROM information_schema.columns WHERE table_schema = %s ORDER BY 1, 2",
        [schema],
    ).fetchall()
