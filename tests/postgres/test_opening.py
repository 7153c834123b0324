"""How a store in PostgreSQL is opened: by whom, where, and what is refused with which words."""

from __future__ import annotations

import psycopg
import pytest
from psycopg.rows import dict_row
from psycopg_pool import ConnectionPool

from conversations import user
from postgres_stores import PostgresPool
from servers import Postgres
from siltstone import Session, _native
from siltstone.errors import ConfigError, StoreOpenError
from siltstone.postgres import PostgresStore
from siltstone.postgres.mirror import key_of
from storing import contents, entries


@pytest.fixture
def pool(newest_pool: PostgresPool) -> PostgresPool:
    newest_pool.empty()
    return newest_pool


def test_the_tables_have_the_columns_of_the_core(pool: PostgresPool) -> None:
    kinds = {"INTEGER": "bigint", "TEXT": "bytea", "BLOB": "bytea"}
    _, tables = _native.mirror_schema()
    with pool.connection() as connection:
        for table, columns in tables:
            made = connection.execute(
                "SELECT column_name, data_type, is_nullable = 'YES' FROM information_schema.columns "
                "WHERE table_schema = 'siltstone' AND table_name = %s ORDER BY ordinal_position",
                [table],
            ).fetchall()
            ours = [(name, kinds[kind], optional) for name, kind, optional, _ in columns]
            assert [column for column in made if column[0] not in ("k", "n", "born")] == ours


def test_a_session_is_opened_by_the_address_of_its_database(
    newest_postgres: Postgres, pool: PostgresPool
) -> None:
    address = newest_postgres.url(database=pool.name)
    with Session.open(address, "a") as session:
        session.append(user("silt"))
    with Session.open(address, "a") as session:
        assert session.history() == [user("silt")]
        with pytest.raises(ConfigError, match="preset"):
            Session.open(address, "b", preset="openclaw")


def test_a_rule_that_is_not_that_of_the_tables_is_refused(pool: PostgresPool) -> None:
    with pytest.raises(ConfigError, match="hash_rule"):
        PostgresStore.open(pool.pool, hash_rule="poly31")


def test_a_pool_of_the_callers_own_may_have_any_kind_of_connections_and_stays_open(
    pool: PostgresPool,
) -> None:
    options = {"row_factory": dict_row, "cursor_factory": psycopg.ClientCursor}
    with ConnectionPool(pool.pool.conninfo, kwargs=options, min_size=1, max_size=2, open=True) as own:
        with PostgresStore.open(own) as store:
            store.index("a", entries("silt"))
            assert contents(store.search("a", "silt")) == ["silt"]
            with own.connection() as connection:
                assert connection.autocommit is False
                assert connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
        with own.connection() as connection:
            assert connection.execute("SELECT 1 AS one").fetchone() == {"one": 1}


def test_no_connection_is_idle_in_a_transaction(pool: PostgresPool) -> None:
    with PostgresStore.open(pool.pool.conninfo) as store, Session.open(None, "a", memory=store) as session:
        session.append(user("silt"))
        session.prepare()
        store.search("a", "silt")
        with pool.connection() as connection:
            states = connection.execute(
                "SELECT state FROM pg_stat_activity "
                "WHERE datname = current_database() AND application_name = 'siltstone'"
            ).fetchall()
    assert states
    assert {state for (state,) in states} == {"idle"}


def test_names_of_one_key_or_one_hash_are_refused_by_both_names(
    pool: PostgresPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with PostgresStore.open(pool.pool) as store:
        store.index("silt", entries("silt"))
        with pool.connection() as connection:
            connection.execute("UPDATE siltstone.root SET k = %s", [key_of("mud", spaced=False)])
            connection.execute("UPDATE siltstone.session SET k = %s", [key_of("mud", spaced=False)])
        with pytest.raises(StoreOpenError, match=r"'mud'.*'silt'"):
            store.search("mud", "silt")
        with pool.connection() as connection:
            connection.execute("UPDATE siltstone.session SET name_hash = %s", [_hash("clay")])
        with pytest.raises(StoreOpenError, match=r"'clay'.*'silt'"):
            store.search("clay", "silt")


def _hash(name: str) -> int:
    number = _native.word_hash(name)
    return number - 2**64 if number >= 2**63 else number


def test_a_row_that_was_changed_in_the_database_is_noticed(pool: PostgresPool) -> None:
    with PostgresStore.open(pool.pool) as store:
        store.index("a", entries("silt", "silt and mud"))
        with pool.connection() as connection:
            connection.execute("UPDATE siltstone.entry SET text = 'clay' WHERE id = 1")
    with PostgresStore.open(pool.pool) as store:
        assert contents(store.search("a", "silt clay")) == ["silt and mud"]
        assert store.quarantined("a") == (1,)
        assert ("checksum", "entry", 1) in {(each.code, each.table, each.id) for each in store.check()}
        assert any(each.repaired for each in store.check(repair=True))
        assert store.check() == []
