"""Several processes have one session: who comes second is told, catches up, and nothing is lost."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from operator import length_hint

import pytest

from conversations import small, turns, user
from postgres_stores import PostgresPool
from siltstone import MemoryStore, Session
from siltstone.engine import Compacted
from siltstone.errors import ConfigError
from siltstone.memory import Entry, Receipt
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


def test_stores_that_write_the_same_entries_at_once_have_each_once_and_give_the_same_ids(
    pool: PostgresPool,
) -> None:
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
