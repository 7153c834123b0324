"""Do the servers of the tests do what tests believe of them?"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from servers import Moment, PgBouncer, Postgres, Proxy, running

psycopg = pytest.importorskip("psycopg", reason="the client of PostgreSQL comes with the extra 'postgres'")


@pytest.fixture
def table(newest_postgres: Postgres) -> Iterator[str]:
    with newest_postgres.database() as database:
        with psycopg.connect(newest_postgres.address(database=database), autocommit=True) as connection:
            connection.execute("CREATE TABLE heard (word text)")
        yield database


def heard(server: Postgres, database: str) -> list[str]:
    with psycopg.connect(server.address(database=database)) as connection:
        return [word for (word,) in connection.execute("SELECT word FROM heard ORDER BY word")]


@pytest.mark.parametrize("which", ["oldest", "newest"])
def test_a_server_is_of_the_version_it_says_and_listens_on_the_loopback_alone(
    which: str, request: pytest.FixtureRequest
) -> None:
    server: Postgres = request.getfixturevalue(f"{which}_postgres")
    assert server.rows("SHOW server_version")[0][0].startswith(f"{server.version}.")
    assert server.version >= 15
    assert server.rows("SHOW listen_addresses") == [("127.0.0.1",)]
    assert server.rows("SHOW unix_socket_directories") == [("",)]


def test_one_role_needs_its_password(newest_postgres: Postgres) -> None:
    newest_postgres.rows("CREATE ROLE guarded LOGIN PASSWORD 'right'")
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(newest_postgres.address(user="guarded", password="wrong"))
    with psycopg.connect(newest_postgres.address(user="guarded", password="right")) as connection:
        assert connection.execute("SELECT current_user").fetchone() == ("guarded",)
    newest_postgres.rows("DROP ROLE guarded")


@pytest.mark.parametrize(
    ("moment", "kept"), [(Moment.BEFORE, []), (Moment.DURING, ["silt"]), (Moment.AFTER, ["silt"])]
)
def test_a_cut_is_made_where_it_was_ordered(
    moment: Moment, kept: list[str], newest_postgres: Postgres, table: str
) -> None:
    with Proxy(newest_postgres.port) as proxy:
        connection = psycopg.connect(proxy.address(database=table), autocommit=True)
        before = proxy.exchanges
        assert connection.execute("SELECT 1 WHERE 1 = %s", (1,)).fetchall() == [(1,)]
        assert proxy.exchanges == before + 1
        proxy.cut_next(moment, lambda request: b"silt" in request)
        connection.execute("SELECT 'sand'")
        with pytest.raises(psycopg.OperationalError):
            connection.execute("INSERT INTO heard VALUES (%s)", ("silt",))
        assert proxy.cuts == 1
        with psycopg.connect(proxy.address(database=table)) as other:
            other.execute("SELECT 1")
    end = time.monotonic() + 300  # the server goes on with what it was sent
    while heard(newest_postgres, table) != kept and time.monotonic() < end:
        time.sleep(0.01)
    assert heard(newest_postgres, table) == kept


def test_everybody_is_cut_off_at_once(newest_postgres: Postgres) -> None:
    with Proxy(newest_postgres.port) as proxy:
        connections = [psycopg.connect(proxy.address(), autocommit=True) for _ in range(3)]
        waiting = threading.Thread(target=proxy.hang_up)
        waiting.start()
        waiting.join()
        for connection in connections:
            with pytest.raises(psycopg.OperationalError):
                connection.execute("SELECT 1")


def test_pgbouncer_gives_clients_the_connections_of_others(
    pgbouncer: PgBouncer, oldest_postgres: Postgres
) -> None:
    with psycopg.connect(pgbouncer.address(), autocommit=True, prepare_threshold=None) as one:
        assert one.execute("SHOW server_version").fetchone()[0].startswith(f"{oldest_postgres.version}.")
        with psycopg.connect(pgbouncer.address(), autocommit=True, prepare_threshold=None) as two:
            ids = {each.execute("SELECT pg_backend_pid()").fetchone()[0] for each in (one, two) * 4}
    assert len(ids) == 1, "nobody was in a transaction, so one connection was enough"


def test_a_server_that_was_killed_starts_again_with_what_it_acknowledged() -> None:
    with running() as server:
        server.rows("CREATE TABLE heard (word text)")
        for number, end in enumerate((server.kill, server.crash, server.stop)):
            server.rows("INSERT INTO heard VALUES (%s)", str(number))
            end()
            assert not server.runs
            server.start()
            assert len(server.rows("SELECT word FROM heard")) == number + 1


def test_a_standby_has_what_was_acknowledged_when_the_primary_is_gone() -> None:
    with running() as primary, primary.standby("s1") as standby:
        primary.rows("ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 (s1)'")
        primary.rows("SELECT pg_reload_conf()")
        primary.rows("CREATE TABLE heard (word text)")
        primary.rows("INSERT INTO heard VALUES ('silt')")
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            standby.rows("INSERT INTO heard VALUES ('sand')")
        primary.delete()
        standby.promote()
        standby.rows("INSERT INTO heard VALUES ('sand')")
        assert standby.rows("SELECT word FROM heard ORDER BY word") == [("sand",), ("silt",)]
