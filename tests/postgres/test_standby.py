"""What can only be read is read whole: a standby that follows, and a role that may only select."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from conversations import conversation, small, user
from postgres_working import opened, until
from servers import Postgres, running
from siltstone import Entry, Session
from siltstone.engine import Compacted
from siltstone.errors import ReadOnlyStoreError
from siltstone.memory.log import NewMessage
from siltstone.testing import ScriptedModel

pytest.importorskip("psycopg", reason="the client of PostgreSQL comes with the extra 'postgres'")

QUESTION = "what was said of topic1?"


class Followed:
    """A store that is written at one address and read at another one."""

    def __init__(self, written: str, read: str, arrive: Callable[[], None]) -> None:
        self.written, self.read, self.arrive = written, read, arrive


@pytest.fixture(scope="module")
def standby() -> Iterator[tuple[Postgres, Postgres]]:
    with ExitStack() as stack:
        primary = stack.enter_context(running(fsync="off"))
        yield primary, stack.enter_context(primary.standby("s1"))


@pytest.fixture(params=["standby", "role"])
def place(request: pytest.FixtureRequest) -> Iterator[Followed]:
    if request.param == "role":
        server: Postgres = request.getfixturevalue("oldest_postgres")
        with server.database() as database:
            address = server.address(database=database)
            opened(address, setup=True).close()
            import psycopg

            with psycopg.connect(address, autocommit=True) as connection:
                connection.execute("CREATE ROLE reads LOGIN")
                connection.execute("GRANT USAGE ON SCHEMA siltstone TO reads")
                connection.execute("GRANT SELECT ON ALL TABLES IN SCHEMA siltstone TO reads")
            try:
                yield Followed(address, server.address(database=database, user="reads"), lambda: None)
            finally:
                with psycopg.connect(address, autocommit=True) as connection:
                    connection.execute("DROP OWNED BY reads")
                    connection.execute("DROP ROLE reads")
        return
    primary, follows = request.getfixturevalue("standby")
    with primary.database() as database:

        def arrive() -> None:
            (end,) = primary.rows("SELECT pg_current_wal_flush_lsn()::text")[0]
            until(lambda: follows.rows("SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", end) == [(True,)])

        address = primary.address(database=database)
        opened(address, setup=True).close()
        arrive()
        yield Followed(address, follows.address(database=database), arrive)


def filled(store: Any) -> dict[str, Any]:
    """Writes of every kind, and what is read of them."""
    with Session.open(
        None, "chat", memory=store, recall=True, policy=small(), model=ScriptedModel()
    ) as session:
        session.append(*conversation(8))
        assert isinstance(session.compact(), Compacted)
        session.append(user(QUESTION))
    store.put_facts("chat", [(None, "key", "said", "{}")])
    return told(store)


def told(store: Any) -> dict[str, Any]:
    with Session.open(None, "chat", memory=store, recall=True) as session:
        return {
            "history": session.history(),
            "log": session.log(),
            "recalled": session.recall(QUESTION),
            "hits": [(hit.content, hit.score.hex()) for hit in store.search("chat", QUESTION, now=4e9)],
            "facts": store.facts("chat"),
            "sessions": store.sessions(),
            "entries": store.entries("chat", limit=1_000),
            "stats": store.stats("chat").entries,
            "check": store.check(),
            "compactions": len(session.compactions()),
        }


def test_all_that_was_written_is_read_to_the_bit_and_what_comes_is_followed(place: Followed) -> None:
    with opened(place.written) as store:
        expected = filled(store)
        assert "topic1" in expected["recalled"]
        place.arrive()
        with opened(place.read) as reader:
            assert reader.read_only
            assert told(reader) == expected
            with Session.open(None, "chat", memory=reader, recall=True) as session:
                with Session.open(None, "chat", memory=store) as writer:
                    writer.append(user("What came later."))
                store.forget(text="topic2")
                place.arrive()
                assert session.prepare().messages[-1]["content"] == "What came later."
                assert "topic2" not in str([session.log(), reader.search("chat", "topic2")])
                assert reader.check() == []


def test_every_write_is_refused_by_name_and_changes_nothing(place: Followed) -> None:
    message = NewMessage('{"role": "user", "content": "mud"}', "user", "any", "original", 3, 0)
    with opened(place.written) as store:
        expected = filled(store)
    place.arrive()
    with opened(place.read) as reader, Session.open(None, "chat", memory=reader) as session:
        log = reader.open_log("chat")
        for call in (
            lambda: reader.index("chat", [Entry("mud")]),
            lambda: reader.forget(text="topic1"),
            lambda: reader.expire("chat", keep=1),
            lambda: reader.delete_session("chat"),
            lambda: reader.put_facts("chat", [(None, "key", "said", "{}")]),
            lambda: reader.check(repair=True),
            lambda: log.append([message], expected=log.version(), clock="", write_id=7),
            lambda: log.undo(expected=log.version(), clock="", write_id=8),
            lambda: log.save_clock("{}", expected=log.version(), write_id=9),
            lambda: session.append(user("mud")),
            lambda: session.save("Use tabs", "preference"),
            lambda: Session.open(None, "new", memory=reader, namespace="team"),
        ):
            with pytest.raises(ReadOnlyStoreError, match="'siltstone' is open for reading only"):
                call()
        assert told(reader) == expected
