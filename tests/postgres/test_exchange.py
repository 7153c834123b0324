"""A statement and its values as they go to the server: prepared where that is safe, and waited for no longer
than a call may take."""

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg_pool import ConnectionPool

from postgres_stores import PostgresPool
from postgres_working import hurry
from servers import Postgres
from siltstone import Entry
from siltstone.errors import StoreClosedError, StoreUnavailableError
from siltstone.memory.log import NewMessage
from siltstone.postgres import PostgresStore, protocol
from siltstone.postgres.protocol import Apart, LateError, NotInTimeError, Wait, ask

ECHO = (
    "SELECT %(whole)s::bigint, %(said)s::text, %(raw)s::bytea, %(is_so)s::boolean, %(mark)s::uuid::text, "
    "%(wholes)s::bigint[], %(texts)s::text[], %(raws)s::bytea[]"
)
VALUES: list[dict[str, Any]] = [
    {
        "whole": -(2**63), "said": "Schlick 🪨", "raw": b"\x00\xff", "is_so": True,
        "mark": "00000000-0000-4000-8000-0000000000ff", "wholes": [2**63 - 1, None, -1],
        "texts": ["{", None, '"', "NULL"], "raws": [b"", None, b"\x00"],
    },
    dict.fromkeys(["whole", "said", "raw", "is_so", "mark", "wholes", "texts", "raws"]),
    {
        "whole": 0, "said": "", "raw": "text of a user", "is_so": False, "mark": None,
        "wholes": [], "texts": ("a tuple",), "raws": ["text"],
    },
]  # fmt: skip


@pytest.fixture
def connection(newest_postgres: Postgres) -> Iterator[psycopg.Connection[Any]]:
    with newest_postgres.connect() as connection:
        yield connection


def known(connection: psycopg.Connection[Any]) -> list[str]:
    """The names that are prepared on a connection."""
    return [name for (name,) in connection.execute("SELECT name FROM pg_prepared_statements").fetchall()]


def through_one(pool: PostgresPool, **options: Any) -> ConnectionPool[Any]:
    """A pool of one connection to the same tables."""
    return ConnectionPool(pool.pool.conninfo, min_size=1, max_size=1, open=True, **options)


@pytest.mark.parametrize("values", VALUES)
def test_values_come_back_as_they_went_prepared_or_not(
    connection: psycopg.Connection[Any], values: dict[str, Any]
) -> None:
    prepared: set[bytes] = set()
    for names in (None, prepared, prepared):
        ((*given, raws),) = ask(connection, ECHO, values, prepared=names)
        expected = [values[name] for name in ("whole", "said", "raw", "is_so", "mark", "wholes", "texts")]
        expected[2] = values["raw"].encode() if isinstance(values["raw"], str) else values["raw"]
        expected[6] = list(values["texts"]) if values["texts"] else values["texts"]
        assert given == expected
        texts = values["raws"]
        assert raws == (texts and [each.encode() if isinstance(each, str) else each for each in texts])
    assert [name.encode() for name in known(connection)] == list(prepared)


def test_a_statement_that_is_refused_leaves_the_connection_as_it_was(connection: psycopg.Connection[Any]):
    prepared: set[bytes] = set()
    for names in (None, prepared, prepared):
        with pytest.raises(psycopg.errors.DivisionByZero, match="division by zero"):
            ask(connection, "SELECT 1 / %(n)s::bigint", {"n": 0}, prepared=names)
        with pytest.raises(psycopg.errors.UndefinedTable):
            ask(connection, "SELECT 1 FROM nowhere", {}, prepared=names)
        assert ask(connection, "SELECT 1 / %(n)s::bigint", {"n": 1}, prepared=names) == [(1,)]
        assert connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


def test_an_answer_is_waited_for_as_long_as_it_may_take(connection: psycopg.Connection[Any]) -> None:
    with pytest.raises(LateError):
        ask(connection, "SELECT pg_sleep(60)", {}, wait=Wait(time.monotonic() + 0.1))
    connection.close()  # it is of no more use


def test_a_large_value_goes_out_while_an_answer_comes_in(connection: psycopg.Connection[Any]) -> None:
    text = "silt" * (4 << 20)
    assert ask(connection, "SELECT %(said)s::text", {"said": text}, wait=Wait(time.monotonic() + 300)) == [
        (text,)
    ]


@pytest.mark.skipif(sys.platform == "win32", reason="files have no such numbers there")
def test_a_process_with_more_than_a_thousand_files_reaches_the_server(pool: PostgresPool) -> None:
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    if before[1] != resource.RLIM_INFINITY and before[1] < 2_048:
        pytest.skip("a process may have fewer files here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (2_048, before[1]))
    taken: list[int] = []
    try:
        while not taken or taken[-1] < 1_100:
            taken.append(os.open(os.devnull, os.O_RDONLY))
        with through_one(pool) as one, PostgresStore.open(one) as store:
            store.index("a", [Entry("silt")])
            assert len(store.search("a", "silt")) == 1
    finally:
        for file in taken:
            os.close(file)
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def use(store: PostgresStore, number: int) -> None:
    store.index("a", [Entry(f"silt {number}")])
    assert store.search("a", f"silt {number}")[0].content == f"silt {number}"


def test_a_store_prepares_its_statements_where_the_server_itself_is_at_the_other_end(pool: PostgresPool):
    for prepare in (None, True, False):
        pool.empty()
        with through_one(pool) as one:
            with PostgresStore.open(one, prepare=prepare) as store:
                for number in range(3):
                    use(store, number)
            with one.connection() as connection:
                assert bool(known(connection)) is (prepare is not False)


def test_a_store_prepares_nothing_with_a_libpq_that_has_no_pipelines(
    pool: PostgresPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(psycopg.Pipeline, "is_supported", lambda: False)
    with through_one(pool) as one:
        with PostgresStore.open(one, prepare=True) as store:
            for number in range(3):
                use(store, number)
        with one.connection() as connection:
            assert known(connection) == []


def test_a_store_prepares_nothing_behind_a_pooler_unless_it_is_asked_to(pooled_pool: PostgresPool) -> None:
    def at_the_server() -> set[str]:
        found: set[str] = set()
        with pooled_pool.connection() as connection:
            found |= {name for name in known(connection) if name.startswith("siltstone_")}
        return found

    pooled_pool.empty()
    with PostgresStore.open(pooled_pool.pool) as store:
        for number in range(6):
            use(store, number)
        assert at_the_server() == set()


def test_prepared_statements_that_a_pooler_loses_are_done_without(pooled_pool: PostgresPool) -> None:
    pooled_pool.empty()
    address = pooled_pool.pool.conninfo
    with (
        PostgresStore.open(address, prepare=True) as one,
        PostgresStore.open(address, prepare=True) as other,
        ConnectionPool(address, min_size=2, max_size=2, open=True) as busy,
    ):
        for number in range(12):
            # Transactions of others hold connections of the pooler, so a client gets now this one, now that.
            with busy.connection() as held:
                if number % 2:
                    held.execute("SELECT 1")
                use((one, other)[number // 2 % 2], number)
        assert one.check() == other.check() == []
    with pooled_pool.connection() as connection:  # the pooler keeps its connections for the next test
        connection.execute("DEALLOCATE ALL")


@pytest.mark.parametrize("count", [1, 2])
def test_prepared_statements_that_were_taken_away_are_done_without(pool: PostgresPool, count: int) -> None:
    with through_one(pool) as one, PostgresStore.open(one) as store:
        store.index("a", [Entry("silt and a secret")])
        store.index("b", [Entry("silt and a secret")])
        store.forget(text="nothing", session_id="a")
        store.index("a", [Entry("silt")])
        store.index("b", [Entry("silt")])
        with one.connection() as connection:
            assert known(connection)
            connection.execute("DEALLOCATE ALL", prepare=False)
        if count == 1:
            store.index("a", [Entry("more silt")])
        else:  # several statements in one transaction
            assert store.forget(text="secret").entries == 2
        with one.connection() as connection:
            assert known(connection) == []
    with PostgresStore.open(pool.pool) as store:
        assert len(store.entries("a").entries) == (3 if count == 1 else 1)
        assert store.check() == []


def test_tables_that_change_under_a_prepared_statement_are_asked_without_it(pool: PostgresPool) -> None:
    with through_one(pool) as one, PostgresStore.open(one) as store:
        for number in range(8):
            use(store, number)
        with pool.connection() as connection:
            connection.execute("ALTER TABLE siltstone.version ALTER version TYPE bigint")
        try:
            use(store, 8)
        finally:
            with pool.connection() as connection:
                connection.execute("ALTER TABLE siltstone.version ALTER version TYPE integer")
        use(store, 9)


def append(store: PostgresStore, said: str) -> None:
    log = store.open_log("a")
    raw = json.dumps({"role": "user", "content": said}, ensure_ascii=False)
    log.append(
        [NewMessage(raw, "user", "any", "original", 3, 0)],
        expected=log.open("").version,
        clock="",
        write_id=len(said),
    )


def test_a_connection_may_have_another_encoding(pool: PostgresPool) -> None:
    with PostgresStore.open(f"{pool.pool.conninfo} client_encoding=latin1") as store:
        append(store, "Größe")
        store.index("a", [Entry("Größe 🪨")])
        append(store, "Stein 🪨")  # texts are bytes, in every encoding
    with PostgresStore.open(pool.pool) as store:
        assert [json.loads(row.raw)["content"] for row in store.open_log("a").read(0, 9)] == [
            "Größe",
            "Stein 🪨",
        ]
        assert store.search("a", "größe")[0].content == "Größe 🪨"
        assert store.check() == []


def test_a_thread_gives_up_a_server_that_is_silent_and_says_what_it_knows(pool: PostgresPool) -> None:
    caught: list[StoreUnavailableError] = []

    with PostgresStore.open(pool.pool) as store:
        store.index("a", [Entry("silt")])
        store.search("a", "silt")  # from here on the store knows where the session is
        hurry(store)

        def work() -> None:
            for call in (lambda: store.index("a", [Entry("mud")]), lambda: store.search("a", "silt")):
                try:
                    call()
                except StoreUnavailableError as error:
                    caught.append(error)

        with pool.connection() as held, held.transaction():
            held.execute("LOCK TABLE siltstone.root IN ACCESS EXCLUSIVE MODE")
            thread = threading.Thread(target=work)
            thread.start()
            thread.join(300)
            assert not thread.is_alive()
    assert [error.outcome for error in caught] == ["unknown", "not written"]


LONG = 60.0


@pytest.fixture
def threads() -> Iterator[Apart]:
    threads = Apart()
    yield threads
    threads.close(LONG, pytest.fail)


def interrupted(threads: Apart, work: Any) -> None:
    """Makes a call that an interrupt leaves behind once *work* runs."""
    runs, main = threading.Event(), threading.main_thread().ident or 0

    def interrupt() -> None:
        runs.wait()
        signal.pthread_kill(main, signal.SIGINT)

    def told() -> Any:
        runs.set()
        return work()

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
    interrupting = threading.Thread(target=interrupt)
    interrupting.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            threads.run(told, LONG)
    finally:
        interrupting.join()
        signal.signal(signal.SIGINT, before)


def test_answers_and_errors_come_back_and_the_main_thread_has_one_thread(threads: Apart) -> None:
    places = [threads.run(threading.get_ident, LONG) for _ in range(3)]
    assert len(set(places)) == 1
    assert places[0] != threading.get_ident()
    with pytest.raises(ZeroDivisionError):
        threads.run(lambda: 1 // 0, LONG)
    assert threads.run(threading.get_ident, LONG) == places[0]


def test_other_threads_share_the_idle_ones_and_none_waits_for_another(threads: Apart) -> None:
    meeting, places = threading.Barrier(4), []

    def call() -> None:
        threads.run(meeting.wait, LONG)  # all four must run at once
        places.append(threads.run(threading.get_ident, LONG))

    callers = [threading.Thread(target=call) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert len(places) == 4
    before = threading.active_count()
    for _ in range(4):
        caller = threading.Thread(target=lambda: places.append(threads.run(threading.get_ident, LONG)))
        caller.start()
        caller.join()
    assert threading.active_count() == before
    assert len(set(places)) <= 4


def test_a_call_that_an_interrupt_leaves_behind_ends_before_the_next_begins(threads: Apart) -> None:
    free, done = threading.Event(), []
    interrupted(threads, lambda: (free.wait(), done.append("left behind")))
    assert done == []
    threading.Timer(0.05, free.set).start()
    threads.run(lambda: done.append("next"), LONG)
    assert done == ["left behind", "next"]


def test_a_call_that_was_not_begun_in_time_is_never_made(threads: Apart, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(protocol, "GRACE", 0.05)
    free, done = threading.Event(), []
    interrupted(threads, free.wait)
    with pytest.raises(NotInTimeError) as caught:
        threads.run(lambda: done.append("never"), 0.0)
    assert caught.value.thread is None
    free.set()
    threads.run(lambda: done.append("later"), LONG)
    assert done == ["later"]


def test_a_call_that_does_not_end_in_time_names_its_thread(threads: Apart, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(protocol, "GRACE", 0.05)
    where = threads.run(threading.get_ident, LONG)
    free = threading.Event()
    with pytest.raises(NotInTimeError) as caught:
        threads.run(free.wait, 0.0)
    assert caught.value.thread == where
    free.set()


def test_closing_waits_for_what_was_left_behind_and_then_hangs_up() -> None:
    threads, free = Apart(), threading.Event()
    interrupted(threads, free.wait)
    began = time.monotonic()
    threads.close(0.05, free.set)  # it ends by nothing else
    assert time.monotonic() - began < LONG
    with pytest.raises(StoreClosedError):
        threads.run(threading.get_ident, LONG)
    threads.close(LONG, pytest.fail)  # once more does no harm
