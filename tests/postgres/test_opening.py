"""How a store in PostgreSQL is opened: by whom, where, and what is refused with which words."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import psycopg
import pytest
from psycopg.rows import dict_row
from psycopg_pool import ConnectionPool

from conversations import user
from postgres_stores import PostgresPool
from postgres_working import hurry
from servers import Postgres
from siltstone import Session, _native
from siltstone.errors import (
    ConfigError,
    ReadOnlyStoreError,
    StoreBusyError,
    StoreClosedError,
    StoreOpenError,
    StoreVersionError,
)
from siltstone.memory import Entry
from siltstone.postgres import PostgresStore, setup
from siltstone.postgres.mirror import key_of
from siltstone.postgres.schema import SCHEMA_VERSION
from storing import contents, elsewhere, entries


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


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("host=127.0.0.1 port=1 connect_timeout=60", "refused"),
        ("postgresql://nobody:secret@127.0.0.1:1/nowhere?connect_timeout=60", "refused"),
        ("this is no address", "no address"),
        ("host=127.0.0.1 unknown_key=1", "no address"),
    ],
)
def test_an_address_that_leads_nowhere_is_refused_without_its_password(address: str, said: str) -> None:
    with pytest.raises(StoreOpenError, match=said) as caught:
        PostgresStore.open(address)
    assert "secret" not in str(caught.value)


def test_a_schema_without_tables_is_refused_and_set_up_where_that_is_asked_for(pool: PostgresPool) -> None:
    with pytest.raises(StoreOpenError, match="siltstone postgres setup"):
        PostgresStore.open(pool.pool, schema="other")
    with pytest.raises(StoreOpenError, match="1 to 63 bytes"):
        PostgresStore.open(pool.pool, schema="")
    strange = 'an "other" one; it\'s'
    with PostgresStore.open(pool.pool, schema=strange, setup=True) as store:
        store.index("a", entries("silt"))
        assert contents(store.search("a", "silt")) == ["silt"]
        assert store.stats().disk_bytes > 0
    with PostgresStore.open(pool.pool) as store:
        assert store.entries("a").entries == ()


def test_a_rule_that_is_not_that_of_the_tables_is_refused(pool: PostgresPool) -> None:
    with pytest.raises(ConfigError, match="hash_rule"):
        PostgresStore.open(pool.pool, hash_rule="poly31")


def test_tables_of_another_version_are_refused_also_under_an_open_store(pool: PostgresPool) -> None:
    with PostgresStore.open(pool.pool) as store, pool.connection() as connection:
        store.index("a", entries("silt"))
        connection.execute("UPDATE siltstone.version SET version = version + 1")
        try:
            for call in (
                lambda: store.search("a", "silt"),
                lambda: store.index("a", [Entry("mud")]),
                lambda: setup(connection),
                lambda: PostgresStore.open(pool.pool),
            ):
                with pytest.raises(
                    StoreVersionError, match=f"this siltstone reads and writes version {SCHEMA_VERSION:08x}"
                ):
                    call()
        finally:
            connection.execute("UPDATE siltstone.version SET version = version - 1")
        assert contents(store.search("a", "silt")) == ["silt"]
        assert store.stats("a").entries == 1


def test_eight_set_ups_at_once_make_the_tables_once(newest_postgres: Postgres) -> None:
    failures: list[BaseException] = []

    def work(address: str) -> None:
        try:
            with psycopg.connect(address, autocommit=True) as connection:
                setup(connection)
        except BaseException as error:
            failures.append(error)

    with newest_postgres.database() as name:
        address = newest_postgres.address(database=name)
        threads = [threading.Thread(target=work, args=(address,)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        with PostgresStore.open(address) as store:
            store.index("a", entries("silt"))


@pytest.fixture
def roles(pool: PostgresPool) -> Iterator[dict[str, str]]:
    """Addresses of a role that may read and write rows, and of one that may read them."""
    rights = {"writer": "SELECT, INSERT, UPDATE, DELETE", "reader": "SELECT"}
    with pool.connection() as connection:
        for role, right in rights.items():
            connection.execute(f"CREATE ROLE {role} LOGIN")
            connection.execute(f"GRANT USAGE ON SCHEMA siltstone TO {role}")
            connection.execute(f"GRANT {right} ON ALL TABLES IN SCHEMA siltstone TO {role}")
        connection.execute("GRANT USAGE ON ALL SEQUENCES IN SCHEMA siltstone TO writer")
        yield {role: f"{pool.pool.conninfo} user={role}" for role in rights}
        for role in rights:
            connection.execute(f"DROP OWNED BY {role}")
            connection.execute(f"DROP ROLE {role}")


def test_a_role_that_may_write_rows_is_enough_and_one_that_may_read_them_reads(roles: dict[str, str]) -> None:
    with PostgresStore.open(roles["writer"]) as writer, PostgresStore.open(roles["reader"]) as reader:
        assert (writer.read_only, reader.read_only) == (False, True)
        writer.index("a", entries("silt"))
        assert contents(reader.search("a", "silt")) == ["silt"]
        assert reader.sessions() == writer.sessions()
        for call in (
            lambda: reader.index("a", entries("mud")),
            lambda: reader.delete_session("a"),
            lambda: reader.forget(text="silt"),
            lambda: reader.open_log("b").open("team"),
        ):
            with pytest.raises(ReadOnlyStoreError, match="reading only"):
                call()
        writer.index("a", entries("silt", "mud"))
        assert len(reader.entries("a").entries) == 2
        assert reader.check() == []
    with pytest.raises(StoreOpenError, match="permission denied"):
        PostgresStore.open(roles["reader"], schema="third", setup=True)


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


def test_a_pool_without_a_free_connection_raises_by_name_and_holds_nothing_between_calls(
    pool: PostgresPool,
) -> None:
    options = {"autocommit": True}
    with (
        ConnectionPool(
            pool.pool.conninfo, kwargs=options, min_size=1, max_size=1, open=True, name="one"
        ) as own,
        PostgresStore.open(own) as store,
    ):
        store.index("a", entries("silt"))
        hurry(store)
        with own.connection(), pytest.raises(StoreBusyError, match="'one'"):
            store.search("a", "silt")
        hurry(store, 30)
        assert contents(store.search("a", "silt")) == ["silt"]


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


CHILD = """
import os, sys
from siltstone.errors import StoreForkedError
from siltstone.memory import Entry
from siltstone.postgres import PostgresStore
store = PostgresStore.open(sys.argv[1])
store.index("a", [Entry("silt", (0, 1))])
if os.fork() == 0:
    for call in (lambda: store.search("a", "silt"), lambda: store.index("a", [Entry("mud")]), store.sessions):
        try:
            call()
        except StoreForkedError as error:
            print(error, flush=True)
    store.close()
    with PostgresStore.open(sys.argv[1]) as own:
        print([hit.content for hit in own.search("a", "silt")], flush=True)
    os._exit(0)
os.wait()
print([hit.content for hit in store.search("a", "silt")])
store.close()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
def test_a_store_is_refused_by_name_in_a_fork_and_goes_on_in_the_parent(pool: PostgresPool) -> None:
    *refused, child, parent = elsewhere(CHILD, pool.pool.conninfo).splitlines()
    assert len(refused) == 3
    assert all("'siltstone'" in line and "fork" in line for line in refused)
    assert (child, parent) == ("['silt']",) * 2


def test_a_closed_store_is_refused(pool: PostgresPool) -> None:
    store = PostgresStore.open(pool.pool)
    log = store.open_log("a")
    store.close()
    store.close()
    for call in (
        lambda: store.search("a", "x"),
        store.sessions,
        store.check,
        log.state,
        lambda: store.get(1),
    ):
        with pytest.raises(StoreClosedError):
            call()


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


def test_texts_that_postgresql_has_no_type_for_come_back(pool: PostgresPool) -> None:
    strange = "a\x00b \\u0000 \ud800 " + "x" * 1_000_000
    name = "session \x00"
    with PostgresStore.open(pool.pool) as store:
        store.index(name, [Entry(strange, (0, 1), name="\x00", role="\x00")])
        with Session.open(None, name, memory=store) as session:
            session.append(user("silt \x00 \ud800"))
    with PostgresStore.open(pool.pool) as store:
        (entry,) = store.entries(name).entries
        assert entry.content == strange.replace("\ud800", "\ufffd")
        assert store.search(name, "b")[0].entry_id == entry.entry_id
        with Session.open(None, name, memory=store) as session:
            assert session.history() == [user("silt \x00 \ud800")]
        assert store.check() == []


def test_values_are_bound_and_errors_leave_none_in_the_log_of_the_server(
    newest_postgres: Postgres, pool: PostgresPool
) -> None:
    secret = "AKIA-river-delta-77"
    with PostgresStore.open(pool.pool) as store:
        store.index("a", entries("silt"))
        with pool.connection() as connection:
            connection.execute(
                "ALTER TABLE siltstone.entry ADD CONSTRAINT short CHECK (octet_length(text) < 10)"
            )
            try:
                with pytest.raises(Exception, match="short") as caught:
                    store.index("a", [Entry(secret)])
            finally:
                connection.execute("ALTER TABLE siltstone.entry DROP CONSTRAINT short")
        assert secret not in str(caught.value)
        assert store.stats("a").entries == 1
        store.index("a", [Entry(secret)])
        store.forget(text=secret)
    assert secret not in newest_postgres.log.read_text("utf-8", "replace")
