"""What another process does to a session is seen at the next boundary; and no log has a word of it."""

from __future__ import annotations

import itertools
import json
import logging
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from conversations import conversation, user
from postgres_working import opened
from servers import Postgres, Proxy, running
from siltstone import Entry, Session
from siltstone.errors import StoreError
from siltstone.memory.convert import new_entry
from siltstone.memory.log import NewCompaction, NewMessage

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
