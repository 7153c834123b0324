"""What is forgotten, or settled, of several sessions is one transaction: all of it, or nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from postgres_stores import PostgresPool
from servers import Moment, Postgres, Proxy
from siltstone import Entry
from siltstone.errors import StoreBusyError, StoreIoError
from siltstone.postgres import PostgresStore, mirror
from siltstone.postgres.database import Database
from siltstone.postgres.schema import Write

NAMES = ("one", "two", "three")


@pytest.fixture
def store(pool: PostgresPool) -> Iterator[PostgresStore]:
    with PostgresStore.open(pool.pool) as store:
        fill(store)
        yield store


def fill(store: PostgresStore) -> None:
    for name in NAMES:
        store.index(name, [Entry("a secret of the house", (0, 1)), Entry("silt", (1, 2))])


def texts(store: Any) -> dict[str, list[str]]:
    return {name: [each.content for each in store.entries(name).entries] for name in NAMES}


WHOLE = {name: ["a secret of the house", "silt"] for name in NAMES}
FORGOTTEN = {name: ["silt"] for name in NAMES}


def test_what_fails_for_one_session_is_forgotten_in_none(store: PostgresStore, pool: PostgresPool) -> None:
    (last,) = (each for each in store._mirrors.all() if each.name == "three")
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
            store.forget(text="secret")
        assert texts(store) == WHOLE
        assert all(store.search(name, "secret")[0].content == WHOLE[name][0] for name in NAMES)
    finally:
        with pool.connection() as connection:
            connection.execute("DROP FUNCTION siltstone.full_disk CASCADE")
    assert store.forget(text="secret").entries == 3
    assert texts(store) == FORGOTTEN
    with PostgresStore.open(pool.pool) as other:
        assert texts(other) == FORGOTTEN
        assert other.check() == store.check() == []


def test_who_writes_meanwhile_has_it_forgotten_as_well(
    store: PostgresStore, pool: PostgresPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = Database.write
    tried: list[int] = []

    def overtaken(self: Database, *writes: Write) -> bool:
        if len(writes) > 1:
            tried.append(len(writes))
            if len(tried) == 1:
                with PostgresStore.open(pool.pool) as other:
                    other.index("two", [Entry("another secret", (5, 6))])
                assert texts(store) == {**WHOLE, "two": [*WHOLE["two"], "another secret"]}
        return write(self, *writes)

    monkeypatch.setattr(Database, "write", overtaken)
    assert store.forget(text="secret").entries == 4
    assert tried == [3, 3]
    assert texts(store) == FORGOTTEN
    assert store.check() == []


def test_who_is_overtaken_again_and_again_has_forgotten_nothing(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = Database.write
    monkeypatch.setattr("siltstone.postgres.store.BUSY", 0.2)
    monkeypatch.setattr(Database, "write", lambda self, *writes: len(writes) == 1 and write(self, *writes))
    with pytest.raises(StoreBusyError, match="3 sessions"):
        store.forget(text="secret")
    assert texts(store) == WHOLE
    assert mirror.BUSY == 5.0


@pytest.mark.parametrize("moment", Moment)
def test_a_commit_whose_connection_is_cut_is_done_once(
    newest_postgres: Postgres, pool: PostgresPool, moment: Moment
) -> None:
    with Proxy(newest_postgres.port) as proxy, PostgresStore.open(proxy.address(database=pool.name)) as store:
        fill(store)
        proxy.cut_next(moment, lambda request: b"COMMIT" in request)
        report = store.forget(text="secret")
        assert (proxy.cuts, report.entries, report.sessions) == (1, 3, 3)
        assert texts(store) == FORGOTTEN
        with PostgresStore.open(pool.pool) as other:
            assert texts(other) == FORGOTTEN
            assert other.check() == []
