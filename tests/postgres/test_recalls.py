"""The log of recalls in PostgreSQL."""

from __future__ import annotations

from pathlib import Path

import pytest

from conversations import assistant, user
from postgres_stores import PostgresPool
from siltstone import Entry, MemoryStore, Session
from siltstone.postgres import PostgresStore
from siltstone.stores.transfer import copy_store

SECRET = "the walrus password for the quarry is basalt-seven"
QUESTION = "which walrus password has the quarry?"


@pytest.fixture
def pool(newest_pool: PostgresPool) -> PostgresPool:
    newest_pool.empty()
    return newest_pool


def opened(store: PostgresStore | MemoryStore, session_id: str = "s") -> Session:
    return Session.open(
        None, session_id, memory=store, policy=None, context_window=16_000, recall=True, knowledge=False
    )


def asked(session: Session) -> None:
    session.append(user(QUESTION))
    assert SECRET in session.prepare().recalled
    session.append(assistant("basalt"))


def test_a_recall_goes_with_the_next_write_and_another_process_reads_it(pool: PostgresPool) -> None:
    with PostgresStore.open(pool.pool) as one, PostgresStore.open(pool.pool) as two:
        one.index("s", [Entry(SECRET, created_at=1.0)])
        with opened(one) as session:
            asked(session)
            [told] = session.recalls()
            assert told.placed[0].entry_id == one.entries("s").entries[0].entry_id
            with opened(two) as other:
                assert other.recalls() == [told]
            session.append(user(QUESTION))
            session.prepare()
            assert len(two.open_log("s").recalls(9)) == 1, "not written yet"
        assert len(two.open_log("s").recalls(9)) == 2, "a session that is closed writes the last one"
        assert two.check() == []
        two.delete_session("s")
        assert one.open_log("s").recalls(9) == []
        with pool.connection() as connection:
            assert connection.execute("SELECT count(*) FROM siltstone.recall").fetchone() == (0,)


def test_recalls_are_copied_from_a_file_and_back(pool: PostgresPool, tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path / "one") as file, PostgresStore.open(pool.pool) as database:
        file.index("s", [Entry(SECRET, created_at=1.0)])
        with opened(file) as session:
            asked(session)
        assert not copy_store(file, database).differing
        with opened(file) as here, opened(database) as there:
            [mine], [other] = here.recalls(), there.recalls()
            assert (mine.position, mine.at, mine.query, mine.tokens) == (
                other.position, other.at, other.query, other.tokens,
            )  # fmt: skip
            assert file.get(mine.placed[0].entry_id).content == database.get(other.placed[0].entry_id).content
