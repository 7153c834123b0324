"""Several processes have one session: who comes second is told, catches up, and nothing is lost."""

import itertools
import json
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from operator import length_hint
from typing import Any

import pytest

from conversations import conversation, small, turns, user
from postgres_stores import PostgresPool
from postgres_working import opened
from servers import Postgres, Proxy, running
from siltstone import MemoryStore, Session
from siltstone.engine import Compacted
from siltstone.errors import ConfigError, StoreError
from siltstone.memory import Entry, Receipt
from siltstone.memory.convert import new_entry
from siltstone.memory.log import NewCompaction, NewMessage
from siltstone.postgres import PostgresStore, schema as statements
from siltstone.testing import ScriptedModel
from storing import contents, entries


@pytest.fixture
def pair(pool: PostgresPool) -> Iterator[tuple[PostgresStore, PostgresStore]]:
    with PostgresStore.open(pool.pool) as one, PostgresStore.open(pool.pool) as other:
        yield one, other


def test_what_one_store_writes_the_other_finds_at_once(pair: tuple[PostgresStore, PostgresStore]) -> None:
    one, other = pair
    for n in range(4):
        for store in pair:
            store.index("a", [Entry(f"silt {n} of {store is one}", (2 * n, 2 * n + 1))])
            for reader in pair:
                assert len(reader.search("a", "silt", limit=20)) == reader.stats("a").entries
    ids = [entry.entry_id for entry in one.entries("a").entries]
    assert len(ids) == 8 == len(set(ids))
    assert [entry.content for entry in one.entries("a").entries] == [
        entry.content for entry in other.entries("a").entries
    ]
    assert one.check() == other.check() == []


def test_compacting_undoing_and_forgetting_elsewhere_are_seen_at_the_next_boundary(
    pair: tuple[PostgresStore, PostgresStore],
) -> None:
    def opened(store: PostgresStore) -> Session:
        return Session.open(None, "a", memory=store, policy=small(), model=ScriptedModel())

    one, other = (opened(store) for store in pair)
    one.append(*(said for turn in turns(8) for said in turn))
    assert other.history() == one.history()
    assert isinstance(one.compact(), Compacted)
    assert other.prepare().messages == one.history()
    assert not all(hit.in_context for hit in other.search("topic1"))
    one.undo_compaction()
    assert all(hit.in_context for hit in other.search("topic1"))
    assert other.prepare().messages == one.history()
    one.forget(text="topic2")
    assert "topic2" not in str([other.prepare().messages, other.log()])
    one.append(user("and now?"))
    assert other.log() == one.log()


def test_a_store_that_is_further_behind_than_the_last_writes_begins_anew(
    pair: tuple[PostgresStore, PostgresStore], pool: PostgresPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statements, "KEPT_STEPS", 3)
    monkeypatch.setattr(statements, "AGED", 4)
    one, other = pair
    one.index("a", entries("silt", "mud"))
    assert len(other.entries("a").entries) == 2
    steps = []
    for n in range(9):
        one.index("a", [Entry(f"clay {n}", (10 + n, 11 + n))])
        with pool.connection() as connection:
            steps += [many for (many,) in connection.execute("SELECT count(*) FROM siltstone.step")]
    assert max(steps) <= 3 + 4
    assert min(steps[-4:]) < max(steps), "the oldest are deleted, several at once"
    one.forget(session_id="a", text="mud")
    assert contents(other.search("a", "mud")) == []
    assert other.stats("a").entries == 10
    assert other.check() == []


@pytest.mark.parametrize("many", [3, 100, 3_000])
def test_a_call_with_many_new_entries_is_made_once(
    pool: PostgresPool, monkeypatch: pytest.MonkeyPatch, many: int
) -> None:
    made = []
    index = MemoryStore.index

    def counted(store: MemoryStore, session_id: str, given: Sequence[Entry]) -> Receipt:
        made.append(length_hint(given))
        return index(store, session_id, given)

    monkeypatch.setattr(MemoryStore, "index", counted)
    with PostgresStore.open(pool.pool) as store:
        for turn in range(3):
            store.index("a", [Entry(f"silt {n}", (n, n + 1)) for n in range(turn, turn + many)])
            assert store.stats("a").entries == many + turn
        assert made == [many] * 3
        with pytest.raises(ConfigError):
            store.index("a", 5)  # type: ignore[arg-type]


def test_a_session_that_two_stores_begin_at_once_in_different_places_is_one(
    pair: tuple[PostgresStore, PostgresStore],
) -> None:
    one, other = pair
    assert other.entries("a").entries == ()
    one.open_log("a").open("team")
    other.index("a", entries("silt"))
    assert contents(one.search("a", "silt")) == ["silt"]
    assert [each.namespace for each in other.sessions().sessions] == ["team"]


def test_stores_that_write_the_same_entries_at_once_have_each_once_and_give_the_same_ids(pool: PostgresPool):
    rounds, given = 10, [Entry(f"silt {n}", (n, n + 1)) for n in range(5)]
    begin, ids = threading.Barrier(4), []

    def work(_: int) -> None:
        with PostgresStore.open(pool.pool) as store:
            for number in range(rounds):
                begin.wait(60)
                ids.append((number, store.index("a", [*given, Entry(f"mud {number}", (9, 10))]).entry_ids))

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(work, range(4)))
    assert len(ids) == 4 * rounds
    assert len(set(ids)) == rounds
    with pool.connection() as connection:  # as they are in the table, whoever reads it
        texts = [bytes(text) for (text,) in connection.execute("SELECT text FROM siltstone.entry")]
    assert len(texts) == len(set(texts)) == 5 + rounds


def test_writers_whose_role_has_a_stricter_isolation_lose_nothing(pool: PostgresPool) -> None:
    """The server takes such a statement back where another one was faster; it is made again."""
    address = f"{pool.pool.conninfo} options='-c default_transaction_isolation=serializable'"

    def work(name: int) -> None:
        with PostgresStore.open(address) as store:
            for n in range(10):
                store.index("a", [Entry(f"silt {name} {n}")])

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(work, range(4)))
    with PostgresStore.open(pool.pool) as store:
        assert store.stats("a").entries == 40
        assert store.check() == []


def test_a_backup_that_is_put_back_under_an_open_store_gives_no_old_answers(
    pool: PostgresPool, pair: tuple[PostgresStore, PostgresStore]
) -> None:
    one, other = pair
    one.index("a", entries("silt", "mud"))
    with pool.saved() as put_back:
        one.index("a", [Entry("a secret of before", (5, 6))])
        assert contents(one.search("a", "secret")) == ["a secret of before"]
        put_back()
    # As many writes as before, by another process: counters alone would not tell.
    other.index("a", [Entry("what came instead", (5, 6))])
    assert contents(one.search("a", "secret")) == []
    assert contents(one.search("a", "instead")) == ["what came instead"]
    assert one.check() == []


psycopg = pytest.importorskip("psycopg", reason="the client of PostgreSQL comes with the extra 'postgres'")

SECRET = "Grünewald-7-gate"


def test_an_opening_and_a_turn_take_three_exchanges_and_a_warm_search_one(newest_postgres: Postgres) -> None:
    with newest_postgres.database() as database, Proxy(newest_postgres.port) as proxy:
        opened(newest_postgres.address(database=database), setup=True).close()
        address, found = f"{proxy.address(database=database)} #siltstone", []
        for name, options in [("new", {}), ("new", {}), ("shared", {"namespace": "n"}), ("shared", {})]:
            before = proxy.exchanges
            with Session.open(address, name, **options) as session:
                found.append(proxy.exchanges - before)
                session.append(user("silt settles"))
                calls = [session.prepare, partial(session.search, "silt")]
                for call in [*calls, partial(session.memory_search.call, {"query": "silt"})]:
                    before = proxy.exchanges
                    assert call()
                    assert proxy.exchanges - before == 1
        assert found == [3, 3, 5, 3]
        with (
            opened(proxy.address(database=database)) as store,
            Session.open(None, "chat", memory=store) as session,
        ):
            session.append(user("hello"))
            session.prepare()
            taken = []
            for number in range(5):
                before = proxy.exchanges
                session.append(user(f"question {number}"))
                session.prepare()
                session.append({"role": "assistant", "content": f"answer {number}"})
                taken.append(proxy.exchanges - before)
            assert max(taken) <= 3
            store.index("chat", [Entry("silt settles")])
            store.search("chat", "silt")
            before = proxy.exchanges
            assert store.search("chat", "silt")
            assert proxy.exchanges - before <= 1


def test_each_write_takes_one_exchange(newest_postgres: Postgres) -> None:
    """One statement is one commit: what a log and a store write while a session runs."""
    row = NewCompaction("r", (), ((0, 1),), 1, "", 0, 0, 0, 0, 0, "p")
    said = [NewMessage(json.dumps(user("hello")), "user", "any", "original", 8, 1_000)]
    with newest_postgres.database() as database, Proxy(newest_postgres.port) as proxy:
        opened(newest_postgres.address(database=database), setup=True).close()
        with opened(proxy.address(database=database)) as store:
            log = store.open_log("s")
            numbers = itertools.count(1)
            taken: dict[str, list[int]] = {}

            def write(name: str, work: Callable[..., Any], *values: Any, **more: Any) -> Any:
                if more or name in ("append", "commit", "undo"):
                    more = {"expected": log.version(), "clock": "", "write_id": next(numbers), **more}
                before = proxy.exchanges
                answer = work(*values, **more)
                taken.setdefault(name, []).append(proxy.exchanges - before)
                return answer

            for turn in range(4):
                texts = [Entry(f"silt {turn} {n}", (n, n + 1)) for n in range(3)]
                write("append", log.append, said)
                write("index", store.index, "s", texts)
                write("commit", log.commit, row, [new_entry(Entry(f"mud {turn}", (0, 1)))])
                head = write("undo", log.undo).head
                write(
                    "rewrite", log.rewrite, row, said, [new_entry(Entry(f"clay {turn}", (0, 1)))],
                    withdrawn=[] if head is None else [head], parent=None,
                )  # fmt: skip
            # The first of a session also asks for its place and for ids of entries.
            assert {name: each[1:] for name, each in taken.items()} == {name: [1, 1, 1] for name in taken}
            assert store.check() == []


def everything(store: Any) -> None:
    """A write of every kind, and errors of the server, each with the secret in it."""
    with Session.open(None, f"chat {SECRET}", memory=store, namespace=f"of {SECRET}") as session:
        session.append(user(f"the code is {SECRET}"), *conversation(6))
        session.compact()
        session.save(f"code: {SECRET}", "preference")
        session.undo_compaction()
        session.pin(0)
    store.index("notes", [Entry(SECRET, name=SECRET, role=SECRET, kind=SECRET)])
    store.search("notes", f"what is {SECRET}?")
    store.forget(text=SECRET, dry_run=True)
    store.delete_session("notes")


def test_no_value_is_in_the_log_of_the_server() -> None:
    # All statements are logged, without the values that are bound: to log those is an operator's choice.
    with running(log_statement="all", log_parameter_max_length="0", log_min_messages="debug1") as server:
        with opened(server.dsn, setup=True) as store:
            everything(store)
            with server.connect() as connection:  # a write that fails in the middle
                connection.execute(
                    "CREATE FUNCTION fails() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
                    "RAISE EXCEPTION 'no room' USING ERRCODE = 'disk_full'; END $$; "
                    "CREATE TRIGGER fails BEFORE INSERT ON siltstone.entry "
                    "FOR EACH ROW EXECUTE FUNCTION fails()"
                )
            with pytest.raises(StoreError) as raised:
                store.index("notes again", [Entry(SECRET)])
            assert SECRET not in str(raised.value)
        server.stop()
        log = server.log.read_bytes()
        assert b"INSERT INTO" in log
        assert b"no room" in log
        for form in (
            SECRET.encode(),
            b"-7-gate",
            SECRET.encode().hex().encode(),
            json.dumps(SECRET).encode(),
        ):
            assert form not in log


def test_no_value_is_in_the_log_of_the_client(dsn: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with opened(dsn) as store:
        everything(store)
    assert SECRET not in caplog.text
