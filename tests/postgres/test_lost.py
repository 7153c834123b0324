"""A connection that is cut in a write leaves open what became of it; nothing is lost or done twice."""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import psycopg
import pytest
from psycopg_pool import ConnectionPool

from postgres_stores import PostgresPool
from postgres_working import hurry, until
from servers import Moment, PgBouncer, Postgres, Proxy, running
from siltstone import Session
from siltstone.errors import (
    ReadOnlyStoreError,
    StoreBusyError,
    StoreError,
    StoreIoError,
    StoreOpenError,
    StoreUnavailableError,
)
from siltstone.memory import Entry
from siltstone.postgres import PostgresStore, database, mirror, protocol as exchange
from siltstone.postgres.database import Database
from siltstone.postgres.schema import Write


def is_write(request: bytes) -> bool:
    return b"WITH root AS" in request


@contextmanager
def through(proxy: Proxy, pool: PostgresPool, **options: Any) -> Iterator[PostgresStore]:
    with PostgresStore.open(proxy.address(database=pool.name), **options) as store:
        yield store


@pytest.fixture
def proxy(newest_postgres: Postgres, pool: PostgresPool) -> Iterator[Proxy]:
    with Proxy(newest_postgres.port) as proxy:
        yield proxy


@pytest.mark.parametrize("moment", Moment)
def test_a_write_whose_connection_is_cut_is_done_once(proxy: Proxy, pool: PostgresPool, moment: Moment):
    with through(proxy, pool) as store:
        for n in range(6):
            proxy.cut_next(moment, is_write)
            assert store.index("a", [Entry(f"silt {n}")]).indexed == 1  # of no message: twice would be two
        assert proxy.cuts == 6
        assert [each.content for each in store.entries("a").entries] == [f"silt {n}" for n in range(6)]
        with PostgresStore.open(pool.pool) as other:
            assert other.entries("a") == store.entries("a")
            assert other.check() == store.check() == []


def test_a_dead_line_that_only_the_client_has_noticed_is_a_lost_connection(
    pool: PostgresPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error of the client's own, while libpq still takes the connection for a good one."""
    answers = exchange._results
    armed: list[Any] = []

    def noticed(line: Any, *given: Any, **options: Any) -> Any:
        answer = answers(line, *given, **options)
        if armed:
            armed.pop()
            assert line.status == psycopg.pq.ConnStatus.OK
            raise psycopg.OperationalError("connection socket closed")
        return answer

    monkeypatch.setattr(exchange, "_results", noticed)
    with PostgresStore.open(pool.pool) as store:
        for n in range(3):
            armed.append(n)
            assert store.index("a", [Entry(f"silt {n}")]).indexed == 1
            assert armed == []
            armed.append(n)
            assert len(store.entries("a").entries) == n + 1
        assert [each.content for each in store.entries("a").entries] == [f"silt {n}" for n in range(3)]
        assert store.check() == []


@pytest.mark.parametrize("moment", Moment)
def test_a_store_whose_connection_is_cut_while_it_opens_is_not_opened(
    proxy: Proxy, pool: PostgresPool, moment: Moment
) -> None:
    proxy.cut_next(moment, lambda request: b"pg_is_in_recovery" in request)
    with pytest.raises(StoreOpenError, match="cannot open the store in schema 'siltstone'"):
        through(proxy, pool).__enter__()
    assert proxy.cuts == 1


def test_reads_are_asked_again(proxy: Proxy, pool: PostgresPool) -> None:
    with through(proxy, pool) as store:
        store.index("a", [Entry("silt")])
        for moment in Moment:
            proxy.cut_next(moment)
            assert len(store.search("a", "silt")) == 1
        proxy.hang_up()
        assert len(store.search("a", "silt")) == 1


def test_where_nobody_answers_any_more_the_outcome_is_told(proxy: Proxy, pool: PostgresPool) -> None:
    with through(proxy, pool) as store:
        store.index("a", [Entry("silt")])
        hurry(store)
        proxy.target = 1  # nobody listens there
        proxy.hang_up()
        with pytest.raises((StoreUnavailableError, StoreBusyError)) as read:
            store.search("a", "silt")
        assert vars(read.value).get("outcome", "not written") == "not written"


@pytest.mark.parametrize("moment", Moment)
def test_a_write_that_is_cut_where_nobody_answers_any_more_is_unknown(
    proxy: Proxy, newest_postgres: Postgres, pool: PostgresPool, moment: Moment
) -> None:
    with (
        ConnectionPool(proxy.address(database=pool.name), min_size=1, max_size=1, open=True) as one,
        PostgresStore.open(one) as store,
    ):
        store.index("a", [Entry("silt")])
        hurry(store)
        proxy.cut_next(moment, is_write)
        proxy.target = 1  # for who comes new: nobody listens there
        with pytest.raises(StoreUnavailableError) as caught:
            store.index("a", [Entry("mud")])
        assert vars(caught.value)["outcome"] == "unknown"
        proxy.target = newest_postgres.port
    with PostgresStore.open(pool.pool) as store:
        found = [each.content for each in store.entries("a").entries]
        assert found in (["silt"], ["silt", "mud"])
        assert moment is not Moment.AFTER or found == ["silt", "mud"]
        assert store.check() == []


@pytest.mark.parametrize(
    "refusal",
    [ReadOnlyStoreError("a standby"), StoreIoError("too many clients"), StoreBusyError("a full pool")],
)
def test_a_question_about_a_write_that_is_refused_tells_nothing_of_it(
    proxy: Proxy, pool: PostgresPool, monkeypatch: pytest.MonkeyPatch, refusal: StoreError
) -> None:
    settle = database.Database._settle
    asked: list[Any] = []

    def refused(self: database.Database, write: Any, until: float) -> Any:
        asked.append(write)
        if len(asked) < 3:
            raise refusal
        return settle(self, write, until)

    monkeypatch.setattr(database.Database, "_settle", refused)
    with through(proxy, pool) as store:
        store.index("a", [Entry("silt")])
        proxy.cut_next(Moment.AFTER, is_write)
        store.index("a", [Entry("mud")])
        assert [each.content for each in store.entries("a").entries] == ["silt", "mud"]
    assert len(asked) == 3


def test_a_write_that_waits_longer_than_the_deadline_is_unknown_and_seen_afterwards(pool: PostgresPool):
    with PostgresStore.open(pool.pool) as store:
        store.index("a", [Entry("silt")])
        hurry(store)
        with pool.connection() as held, held.transaction():
            held.execute("SELECT * FROM siltstone.root FOR UPDATE")  # as a backend that waits for its standby
            with pytest.raises(StoreUnavailableError) as caught:
                store.index("a", [Entry("mud")])
            assert vars(caught.value)["outcome"] == "unknown"
        store.close()
    with PostgresStore.open(pool.pool) as store:
        found = {each.content for each in store.entries("a").entries}
        assert found in ({"silt"}, {"silt", "mud"})
        assert store.check() == []


def test_a_silent_server_that_is_full_is_waited_for(
    newest_postgres: Postgres, pool: PostgresPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[str] = []
    refusal = "connection failed: FATAL:  sorry, too many clients already"
    monkeypatch.setattr(database, "PATIENCE", 0.1)
    with PostgresStore.open(newest_postgres.address(database=pool.name)) as store:
        store.index("a", [Entry("silt")])
        monkeypatch.setattr(database.Database, "_looked", lambda _: looks.append("look") or refusal)
        with pool.connection() as held, held.transaction():
            held.execute("SELECT * FROM siltstone.root FOR UPDATE")
            writing = threading.Thread(target=store.index, args=("a", [Entry("mud")]))
            writing.start()
            until(lambda: len(looks) > 1)
        writing.join()
        assert [each.content for each in store.entries("a").entries] == ["silt", "mud"]


def test_a_warning_of_a_cancelled_wait_makes_the_outcome_unknown(pool: PostgresPool) -> None:
    with PostgresStore.open(pool.pool) as store:
        store.index("a", [Entry("silt")])
        with pool.connection() as connection:
            connection.execute(
                """CREATE FUNCTION siltstone.warned() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                   RAISE WARNING USING ERRCODE = '01000',
                       MESSAGE = 'canceling wait for synchronous replication';
                   RETURN NEW; END $$"""
            )
            connection.execute(
                "CREATE TRIGGER warned AFTER INSERT ON siltstone.step FOR EACH ROW "
                "EXECUTE FUNCTION siltstone.warned()"
            )
        try:
            with pytest.raises(StoreUnavailableError, match="synchronous replication") as caught:
                store.index("a", [Entry("mud")])
            assert vars(caught.value)["outcome"] == "unknown"
        finally:
            with pool.connection() as connection:
                connection.execute("DROP FUNCTION siltstone.warned CASCADE")
        assert [each.content for each in store.entries("a").entries] == ["silt", "mud"]


def test_an_interrupt_does_not_cancel_a_write(pool: PostgresPool, monkeypatch: pytest.MonkeyPatch) -> None:
    done = threading.Event()
    write = database.Database._write_once

    def slow(self: database.Database, statements: Any, until: float) -> Any:
        try:
            return write(self, statements, until)
        finally:
            done.set()

    with PostgresStore.open(pool.pool) as store:
        store.index("a", [Entry("silt")])
        monkeypatch.setattr(database.Database, "_write_once", slow)
        with psycopg.connect(pool.pool.conninfo) as held:
            held.execute("SELECT * FROM siltstone.root FOR UPDATE")
            main = threading.main_thread().ident or 0

            def interrupt() -> None:
                with pool.connection() as connection:
                    waiting = (
                        "SELECT 1 FROM pg_stat_activity "
                        "WHERE datname = current_database() AND wait_event_type = 'Lock'"
                    )
                    until(lambda: connection.execute(waiting).fetchone() is not None)
                signal.pthread_kill(main, signal.SIGINT)

            before = signal.signal(
                signal.SIGINT, signal.default_int_handler
            )  # a job in the background ignores it
            try:
                interrupting = threading.Thread(target=interrupt)
                interrupting.start()
                with pytest.raises(KeyboardInterrupt):
                    store.index("a", [Entry("mud")])
            finally:
                signal.signal(signal.SIGINT, before)
        interrupting.join()
        assert done.wait(300)
        assert [each.content for each in store.entries("a").entries] == ["silt", "mud"]


@pytest.mark.parametrize("behind_a_pooler", [False, True])
def test_a_server_that_is_away_fails_calls_soon_and_then_at_once_until_it_is_back(behind_a_pooler: bool):
    with running() as server, ExitStack() as stack:
        port = stack.enter_context(PgBouncer(server)).port if behind_a_pooler else server.port
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            old = "CREATE DATABASE old ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"
            connection.execute(old)
        with pytest.raises(StoreOpenError, match="'old' has the encoding LATIN1, and a store needs UTF8"):
            PostgresStore.open(server.url(database="old"), setup=True)
        words = f"host=127.0.0.1 port={port} user=postgres dbname=postgres client_encoding=LATIN1"
        PostgresStore.open(words, setup=True).close()
        with Session.open(f"{words} #siltstone", "a") as session:
            session.append({"role": "user", "content": "\u6de4 silt"})
            server.kill()
            for most in (5, 0.5):
                began = time.monotonic()
                with pytest.raises(
                    StoreUnavailableError, match=r"PostgreSQL (takes no|did not answer a write)"
                ):
                    session.append({"role": "user", "content": "more"})
                assert time.monotonic() - began < most
            assert [each["content"] for each in session.history()] == ["\u6de4 silt"]
            with pytest.raises(StoreOpenError, match="cannot open the store in schema 'siltstone'"):
                Session.open(f"{words} #siltstone", "b")
            server.start()
            until(lambda: _appends(session))
            server.kill()
            began = time.monotonic()
        assert time.monotonic() - began < 2


def _appends(session: Session) -> bool:
    try:
        return bool(session.append({"role": "user", "content": "back"}))
    except StoreUnavailableError:
        return False


NAMES = ("one", "two", "three")


@pytest.fixture
def filled(pool: PostgresPool) -> Iterator[PostgresStore]:
    with PostgresStore.open(pool.pool) as filled:
        fill(filled)
        yield filled


def fill(filled: PostgresStore) -> None:
    for name in NAMES:
        filled.index(name, [Entry("a secret of the house", (0, 1)), Entry("silt", (1, 2))])


def texts(filled: Any) -> dict[str, list[str]]:
    return {name: [each.content for each in filled.entries(name).entries] for name in NAMES}


WHOLE = {name: ["a secret of the house", "silt"] for name in NAMES}
FORGOTTEN = {name: ["silt"] for name in NAMES}


def test_what_fails_for_one_session_is_forgotten_in_none(filled: PostgresStore, pool: PostgresPool) -> None:
    (last,) = (each for each in filled._mirrors.all() if each.name == "three")
    with pool.connection() as connection:
        connection.execute(
            "CREATE FUNCTION siltstone.full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            f"IF OLD.k = {last.k} THEN RAISE EXCEPTION 'No space left' USING ERRCODE = 'disk_full'; END IF; "
            "RETURN OLD; END $$"
        )
        connection.execute(
            "CREATE TRIGGER full_disk BEFORE DELETE ON siltstone.entry FOR EACH ROW "
            "EXECUTE FUNCTION siltstone.full_disk()"
        )
    try:
        with pytest.raises(StoreIoError, match="No space left"):
            filled.forget(text="secret")
        assert texts(filled) == WHOLE
        assert all(filled.search(name, "secret")[0].content == WHOLE[name][0] for name in NAMES)
    finally:
        with pool.connection() as connection:
            connection.execute("DROP FUNCTION siltstone.full_disk CASCADE")
    assert filled.forget(text="secret").entries == 3
    assert texts(filled) == FORGOTTEN
    with PostgresStore.open(pool.pool) as other:
        assert texts(other) == FORGOTTEN
        assert other.check() == filled.check() == []


def test_who_writes_meanwhile_has_it_forgotten_as_well(
    filled: PostgresStore, pool: PostgresPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = Database.write
    tried: list[int] = []

    def overtaken(self: Database, *writes: Write) -> bool:
        if len(writes) > 1:
            tried.append(len(writes))
            if len(tried) == 1:
                with PostgresStore.open(pool.pool) as other:
                    other.index("two", [Entry("another secret", (5, 6))])
                assert texts(filled) == {**WHOLE, "two": [*WHOLE["two"], "another secret"]}
        return write(self, *writes)

    monkeypatch.setattr(Database, "write", overtaken)
    assert filled.forget(text="secret").entries == 4
    assert tried == [3, 3]
    assert texts(filled) == FORGOTTEN
    assert filled.check() == []


def test_who_is_overtaken_again_and_again_has_forgotten_nothing(
    filled: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = Database.write
    monkeypatch.setattr("siltstone.postgres.store.BUSY", 0.2)
    monkeypatch.setattr(Database, "write", lambda self, *writes: len(writes) == 1 and write(self, *writes))
    with pytest.raises(StoreBusyError, match="3 sessions"):
        filled.forget(text="secret")
    assert texts(filled) == WHOLE
    assert mirror.BUSY == 5.0


@pytest.mark.parametrize("moment", Moment)
def test_a_commit_whose_connection_is_cut_is_done_once(
    newest_postgres: Postgres, pool: PostgresPool, moment: Moment
) -> None:
    with (
        Proxy(newest_postgres.port) as proxy,
        PostgresStore.open(proxy.address(database=pool.name)) as filled,
    ):
        fill(filled)
        proxy.cut_next(moment, lambda request: b"COMMIT" in request)
        report = filled.forget(text="secret")
        assert (proxy.cuts, report.entries, report.sessions) == (1, 3, 3)
        assert texts(filled) == FORGOTTEN
        with PostgresStore.open(pool.pool) as other:
            assert texts(other) == FORGOTTEN
            assert other.check() == []
