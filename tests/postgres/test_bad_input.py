"""A wrong database, role, server, version or argument: an error that names it, and nothing half done."""

import json
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row
from psycopg_pool import ConnectionPool

from conversations import user
from postgres_stores import PostgresPool
from postgres_working import hurry, opened
from servers import Postgres
from siltstone import Entry, Session, _native, errors
from siltstone.memory.log import NewMessage
from siltstone.postgres import PostgresStore
from siltstone.postgres.mirror import key_of
from storing import contents, entries

PASSWORD = "grünewald-7"
MIB = 1 << 20


class Place:
    """A database with a store in it, and what its owner may do there."""

    def __init__(self, server: Postgres, database: str) -> None:
        self.server, self.database = server, database
        self.dsn = server.address(database=database)

    def sql(self, *statements: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            cursor = connection.cursor()
            for statement in statements:
                cursor.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def rows(self) -> dict[str, int]:
        tables = self.sql("SELECT tablename FROM pg_tables WHERE schemaname = 'siltstone' ORDER BY 1")
        return {name: self.sql(f"SELECT count(*) FROM siltstone.{name}")[0][0] for (name,) in tables}


@pytest.fixture(params=["newest_postgres", "oldest_postgres"])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    """Both versions directly: statements and errors of the oldest one are its own."""
    server: Postgres = request.getfixturevalue(request.param)
    with server.database() as database:
        made = Place(server, database)
        with opened(made.dsn, setup=True) as store:
            store.index("a", [Entry("silt settles", (0, 1))])
        yield made


@pytest.fixture
def role(place: Place) -> Iterator[str]:
    place.sql(f"CREATE ROLE someone LOGIN PASSWORD '{PASSWORD}'")
    try:
        yield "someone"
    finally:
        place.sql("DROP OWNED BY someone", "DROP ROLE someone")


def message(content: str) -> NewMessage:
    raw = json.dumps({"role": "user", "content": content})
    return NewMessage(raw, "user", "any", "original", 3, 0)


def append(store: Any, session: str, *messages: NewMessage) -> Any:
    log = store.open_log(session)
    return log.append(messages, expected=log.version(), clock="", write_id=7)


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://nobody:{password}@127.0.0.1:{closed}/postgres",
        "host=127.0.0.1 port={port} user=postgres dbname=nowhere password={password}",
        "host=127.0.0.1 port={port} user=nobody dbname=postgres password={password}",
        "host=127.0.0.1 port={port} user=postgres surname=x password={password}",
        "postgresql://nobody:{password} of two words@127.0.0.1:{port}/postgres",
        "{password}",
        "postgresql://127.0.0.1:{password}/postgres",
        "",
    ],
)
def test_a_wrong_address_is_refused_and_no_password_is_told(dsn: str, newest_postgres: Postgres) -> None:
    given = dsn.format(port=newest_postgres.port, closed=1, password=PASSWORD)
    with pytest.raises(errors.StoreOpenError) as raised:
        opened(given or f"host=127.0.0.1 port={newest_postgres.port} user=nobody dbname=postgres")
    seen: BaseException | None = raised.value
    while seen is not None:
        assert PASSWORD not in str(seen)
        assert PASSWORD not in repr(vars(seen))
        seen = seen.__cause__


def test_a_wrong_password_is_refused_and_told_to_nobody(place: Place) -> None:
    place.sql("CREATE ROLE guarded LOGIN PASSWORD 'right'")
    try:
        with pytest.raises(errors.StoreOpenError, match="password authentication failed") as raised:
            opened(place.server.address(database=place.database, user="guarded", password=PASSWORD))
        assert PASSWORD not in str(raised.value)
    finally:
        place.sql("DROP ROLE guarded")


def test_a_role_without_rights_is_refused_by_name(place: Place, role: str) -> None:
    dsn = place.server.address(database=place.database, user=role)
    before = place.rows()
    with pytest.raises(errors.StoreOpenError, match=r"permission denied .*#roles has the grants"):
        opened(dsn)
    with pytest.raises(errors.StoreOpenError, match="permission denied"):
        opened(dsn, schema="of_my_own", setup=True)
    assert place.rows() == before


def test_a_role_that_may_not_create_writes(place: Place, role: str) -> None:
    place.sql(
        f"GRANT USAGE ON SCHEMA siltstone TO {role}",
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA siltstone TO {role}",
        f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA siltstone TO {role}",
    )
    with opened(place.server.address(database=place.database, user=role)) as store:
        assert not store.read_only
        append(store, "b", message("mud"))
        store.index("a", [Entry("mud")])
        store.delete_session("b")
        assert store.check() == []


def test_a_schema_without_tables_is_refused_and_not_made(place: Place) -> None:
    with pytest.raises(errors.StoreOpenError, match=r"nowhere.*siltstone postgres setup"):
        opened(place.dsn, schema="nowhere")
    assert place.sql("SELECT count(*) FROM pg_namespace WHERE nspname = 'nowhere'") == [(0,)]
    for name in ("", "a\0b", "x" * 64):
        with pytest.raises(errors.StoreOpenError, match="1 to 63 bytes"):
            opened(place.dsn, schema=name, setup=True)
    with opened(place.dsn, schema='odd "name"; DROP', setup=True) as store:
        store.index("a", [Entry("mud")])
        assert store.check() == []


def test_tables_of_another_version_are_refused_also_by_who_has_them_open(place: Place) -> None:
    with opened(place.dsn) as store:
        store.search("a", "silt")
        place.sql("UPDATE siltstone.version SET version = version + 1")
        before = place.rows()
        with pytest.raises(errors.StoreVersionError, match="use the siltstone that made them"):
            opened(place.dsn)
        with pytest.raises(errors.StoreVersionError, match="use the siltstone that made them"):
            opened(place.dsn, setup=True)
        for call in (
            lambda: store.index("a", [Entry("mud")]),
            lambda: append(store, "b", message("mud")),
            lambda: store.search("a", "silt"),
        ):
            with pytest.raises(errors.StoreVersionError, match="use the siltstone that made them"):
                call()
        assert place.rows() == before
        place.sql("UPDATE siltstone.version SET version = version - 1")
        store.index("a", [Entry("mud")])
        assert store.check() == []


HOSTILE = "a\0b \\u0000 \ud800 \udfff 😀 \u202e é e\u0301 %s %(n)s $1 ' \" \\"


def test_nul_and_lone_surrogates_come_back_as_they_were(place: Place) -> None:
    said = {"role": "user", "content": HOSTILE, "x\0": {"\ud800": [1e300, -0.0, 2**80]}}
    with opened(place.dsn) as store:
        with Session.open(None, "chat\0%s", memory=store, namespace="na\0me é") as session:
            session.append(said)
            session.save("a\0b", "preference", tags=["\0"])
        store.index("chat\0%s", [Entry(HOSTILE, role="r\0", name="n\0", kind="k\0")])
    with opened(place.dsn) as store:
        with Session.open(None, "chat\0%s", memory=store) as session:
            assert session.history() == [said]
        (entry,) = store.entries("chat\0%s").entries
        assert entry.content == HOSTILE.replace("\ud800", "\ufffd").replace("\udfff", "\ufffd")
        assert (entry.role, entry.name, entry.kind, entry.repaired) == ("r\0", "n\0", "k\0", True)
        assert "chat\0%s" in [info.session_id for info in store.sessions(namespace="na\0me é").sessions]
        assert store.check() == []


def test_messages_of_32_mib_are_taken_and_larger_ones_refused_before_anything_is_sent(place: Place) -> None:
    room = 32 * MIB - len(message("").raw)
    with opened(place.dsn) as store:
        before = place.rows()
        with pytest.raises(errors.MessageRefusedError, match="the limit of the store is 33554432"):
            append(store, "big", message("x" * (room + 1)))
        assert place.rows() == before
        append(store, "big", message("x" * room))
        store.index("big", [Entry("mud " * (4 * MIB - 1))])
    with opened(place.dsn) as store:
        (row,) = store.open_log("big").read(0, 1)
        assert len(row.raw) == 32 * MIB
        assert store.check() == []


def test_a_pool_that_is_exhausted_raises_by_name_after_its_time(place: Place) -> None:
    with ConnectionPool(place.dsn, min_size=1, max_size=1, open=True, name="small") as pool:
        pool.wait(300)
        with opened(pool) as store:
            hurry(store)
            with pool.connection(), pytest.raises(errors.StoreBusyError, match=r"'small'.*at most 1"):
                store.index("a", [Entry("mud")])
            hurry(store, 30)
            assert [each.content for each in store.entries("a").entries] == ["silt settles"]
            store.index("a", [Entry("mud")])


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


def test_a_session_is_opened_by_the_address_of_its_database(newest_postgres: Postgres, pool: PostgresPool):
    address = newest_postgres.url(database=pool.name)
    with Session.open(address, "a") as session:
        session.append(user("silt"))
    with Session.open(address, "a") as session:
        assert session.history() == [user("silt")]
        with pytest.raises(errors.ConfigError, match="preset"):
            Session.open(address, "b", preset="openclaw")


def test_a_rule_that_is_not_that_of_the_tables_is_refused(pool: PostgresPool) -> None:
    with pytest.raises(errors.ConfigError, match="hash_rule"):
        PostgresStore.open(pool.pool, hash_rule="poly31")


def test_a_pool_of_the_callers_own_may_have_any_kind_of_connections_and_stays_open(pool: PostgresPool):
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
        with pytest.raises(errors.StoreOpenError, match=r"'mud'.*'silt'"):
            store.search("mud", "silt")
        with pool.connection() as connection:
            connection.execute("UPDATE siltstone.session SET name_hash = %s", [_hash("clay")])
        with pytest.raises(errors.StoreOpenError, match=r"'clay'.*'silt'"):
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
