"""The log of what a session recalled: what it tells, what it costs, and what it never keeps."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from conversations import assistant, user
from siltstone import ConfigError, Entry, MemoryStore, RecallConfig, Session, SimpleMemoryStore
from siltstone.errors import EntryNotFoundError
from siltstone.memory import Store
from siltstone.memory.database_log import MOST_RECALLS
from siltstone.memory.log import NewRecall, SessionLog
from siltstone.session import rows
from siltstone.stores.transfer import copy_store
from storing import database, elsewhere, sql

SECRET = "the walrus password for the quarry is basalt-seven"
QUESTION = "which walrus password has the quarry?"


def opened(store: Any, session_id: str = "s", **options: Any) -> Session:
    settings = {"policy": None, "context_window": 16_000, "recall": True, "redaction": False}
    return Session.open(None, session_id, memory=store, knowledge=False, **{**settings, **options})


def asked(session: Session, words: str = QUESTION) -> str:
    """Asks, has the answer logged, and gives the block that stood before the question."""
    session.append(user(words))
    block = session.prepare().recalled
    session.append(assistant("basalt"))
    return block


def filled(store: Any, session_id: str = "s") -> list[int]:
    """An entry that answers the question, one that says less of it, and others."""
    texts = [SECRET, "a walrus was seen at the quarry", *(f"note {n} on silt" for n in range(5))]
    entries = [Entry(text, created_at=1_000.0 + at) for at, text in enumerate(texts)]
    return [each for each in store.index(session_id, entries).entry_ids if each is not None]


def recalls_in(path: Path) -> int:
    """The rows of the table, in a process with another SQLite."""
    code = "import sqlite3, sys; print(*sqlite3.connect(sys.argv[1]).execute('SELECT COUNT(*) FROM recall'))"
    return int(elsewhere(code, database(path)).strip(" (),\n"))


def test_a_recall_is_told_with_what_was_placed_and_what_the_query_was_made_of(tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path) as store:
        ids = filled(store)
        with opened(store) as session:
            session.append(user("good morning, all of you"), assistant("good morning"))
            session.append(user(QUESTION))
            answer = session.prepare()
            [told] = session.recalls()
            assert (told.position, told.query, told.reason) == (3, (2,), "")
            assert told.candidates[0].entry_id == ids[0]
            assert SECRET in answer.recalled
            assert [each.entry_id for each in told.placed][:2] == ids[:2]
            assert 0 < told.tokens <= told.cap == 2_880
            assert 0 < told.seconds < 60
            scores = [each.score for each in told.candidates]
            assert scores == sorted(scores, reverse=True)
            assert all(0 <= score <= 1 for score in scores)
            session.append(assistant("basalt"))
            assert session.recalls() == [told]
    with MemoryStore.open(tmp_path, read_only=True) as store, opened(store) as session:
        assert session.recalls() == [told], "it is in the log"
        assert session.recalls(limit=1) == [told]
        with pytest.raises(ConfigError, match="limit"):
            session.recalls(limit=0)
        assert store.check() == []


def test_a_recall_says_what_had_no_room_and_how_many_scored_too_little() -> None:
    store = SimpleMemoryStore()
    long = "the walrus password of the quarry, once more, number {}: " + "basalt and gneiss " * 60
    store.index("s", [Entry(long.format(n), created_at=1_000.0 + n) for n in range(6)])
    store.index("s", [Entry("a quarry", created_at=2_000.0)])
    config = RecallConfig(hard_cap_tokens=500, expand_neighbors=0, cut=False)
    with opened(store, recall=config) as session:
        asked(session)
        [told] = session.recalls()
        assert told.placed
        assert told.left_out
        assert {each.placing for each in told.left_out} == {"budget"}
        assert sum(each.tokens or 0 for each in told.placed) <= told.tokens <= 500
        assert len(told.candidates) == len(told.placed) + len(told.left_out)
    with opened(store, "t", recall=RecallConfig(auto_recall_min_score=1.0)) as session:
        store.index("t", [Entry("a walrus", created_at=1.0)])
        assert asked(session) == ""
        [told] = session.recalls()
        assert (told.reason, told.candidates, told.below, told.tokens) == ("no_hits", (), 1, 0)


def test_an_entry_that_was_cut_is_told_as_cut() -> None:
    store = SimpleMemoryStore()
    store.index("s", [Entry(f"{SECRET}. " + "It says nothing of silt. " * 900, created_at=1.0)])
    with opened(store) as session:
        assert SECRET in asked(session)
        [told] = session.recalls()
        assert [each.placing for each in told.candidates] == ["cut"]
        assert 0 < (told.candidates[0].tokens or 0) <= told.tokens


def test_the_steps_of_a_tool_loop_are_one_recall_and_each_turn_is_another() -> None:
    store = SimpleMemoryStore()
    filled(store)
    with opened(store) as session:
        session.append(user(QUESTION))
        for _ in range(3):
            session.prepare()
        assert len(session.recalls()) == 1
        session.append(assistant("basalt"))
        asked(session, "and where was the walrus seen, at the quarry?")
        assert [told.position for told in session.recalls()] == [3, 1]
        assert session.recalls(limit=1)[0].position == 3


def test_the_log_of_recalls_has_no_text_of_an_entry_or_of_a_query(tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path) as store:
        filled(store)
        with opened(store) as session:
            asked(session)
            log = store.open_log("s")
            [row] = log.recalls(9)
            for word in ("walrus", "quarry", "basalt", "password"):
                assert word not in row.body
            assert store.forget(text=SECRET).entries == 1
            session.forget(start=0, end=2)
            [told] = session.recalls()
            assert told.candidates, "its figures stay"
            with pytest.raises(EntryNotFoundError):
                store.get(told.candidates[0].entry_id)
    for file in database(tmp_path).parent.rglob("*"):
        assert not file.is_file() or b"basalt" not in file.read_bytes()


def noted(log: SessionLog, *seqs: int) -> None:
    version = log.version()
    assert version is not None
    recalls = [
        NewRecall(seq, 1_000 + seq, '{"q":[],"e":[],"f":0,"b":0,"t":1,"c":2,"u":3,"r":""}') for seq in seqs
    ]
    log.append([], expected=version, clock="", write_id=1, recalls=recalls)


def test_a_log_keeps_the_newest_recalls_alone(tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path) as store:
        log, other = store.open_log("s"), store.open_log("t")
        noted(other, 5)
        noted(log, *range(0, 3 * MOST_RECALLS, 2))
        found = log.recalls(10**6)
        last = 3 * MOST_RECALLS
        assert [row.seq for row in found] == [*range(last - 2, last - 2 - 2 * MOST_RECALLS, -2)]
        assert [row.seq for row in other.recalls(9)] == [5]
        noted(log, last - 2)
        assert len(log.recalls(10**6)) == MOST_RECALLS, "of one place the later one is kept"
    assert recalls_in(tmp_path) <= MOST_RECALLS + 1 + 65


def test_a_damaged_recall_is_found_and_a_repair_takes_it(tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path) as store:
        filled(store)
        with opened(store) as session:
            asked(session)
            asked(session, "where was the walrus seen?")
    sql(tmp_path, "UPDATE recall SET created_at = created_at + 1 WHERE id & 4294967295 = 1")
    with MemoryStore.open(tmp_path) as store:
        [finding] = store.check()
        assert (finding.code, finding.table) == ("checksum", "recall")
        assert [each.repaired for each in store.check(repair=True)] == [True]
        assert store.check() == []
        with opened(store) as session:
            assert [told.position for told in session.recalls()] == [3]


def test_a_recall_goes_with_the_next_write_and_costs_no_sync_of_its_own(store: Store) -> None:
    filled(store)
    log = store.open_log("s")
    with opened(store) as session:
        session.append(user(QUESTION))
        counter = log.state().counter
        session.prepare()
        assert log.recalls(9) == [], "nothing is written before the next message"
        assert log.state().counter == counter
        session.append(assistant("basalt"))
        assert len(log.recalls(9)) == 1
        assert log.state().counter == counter + 1
        asked(session, "where was the walrus seen?")
        session.append(user("and the password of the quarry?"))
        session.prepare()
    assert len(log.recalls(9)) == 3, "a session that is closed writes the last one"
    assert store.check() == []
    store.delete_session("s")
    assert store.open_log("s").recalls(9) == []


DIE = """
import os, sys
from siltstone import Session
session = Session.open(sys.argv[1], "s", policy=None, context_window=16_000, recall=True, knowledge=False)
for turn in range(3):
    session.append({"role": "user", "content": "which walrus password has the quarry?"})
    session.prepare()
    if turn < 2:
        session.append({"role": "assistant", "content": "basalt"})
os.kill(os.getpid(), 9)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
def test_a_process_that_is_killed_loses_the_last_recall_alone(tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path) as store:
        filled(store)
    done = subprocess.run([sys.executable, "-c", DIE, str(tmp_path)], check=False)
    assert done.returncode == -9
    with MemoryStore.open(tmp_path) as store, opened(store) as session:
        assert [told.position for told in session.recalls()] == [3, 1]
        assert store.check() == []


def test_a_copy_tells_the_recalls_by_the_ids_of_its_own_entries(store: Store, tmp_path: Path) -> None:
    target = store
    with MemoryStore.open(tmp_path / "one") as source:
        target.index("elsewhere", [Entry("so that ids differ", created_at=1.0)])
        filled(source)
        with opened(source) as session:
            asked(session)
            asked(session, "where was the walrus seen, and which password has it?")
        gone = source.open_log("s").recalls(9)
        source.forget(text="a walrus was seen at the quarry")
        assert not copy_store(source, target).differing
        assert copy_store(source, target).skipped == 1
        ours, theirs = source.open_log("s").recalls(9), target.open_log("s").recalls(9)
        assert ours == gone
        for mine, other in zip(ours, theirs, strict=True):
            assert (mine.seq, mine.created_at) == (other.seq, other.created_at)
            pairs = zip(json.loads(mine.body)["e"], json.loads(other.body)["e"], strict=True)
            for (here, *figures), (there, *same) in pairs:
                assert figures == same
                if there:
                    assert source.get(here).content == target.get(there).content
                else:
                    with pytest.raises(EntryNotFoundError):
                        source.get(here)
        assert target.check() == []


def test_a_session_that_is_read_only_tells_its_own_recall_and_writes_none(tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path) as store:
        filled(store)
        with opened(store, recall=False) as session:
            session.append(user(QUESTION))
    before = database(tmp_path).read_bytes()
    with MemoryStore.open(tmp_path, read_only=True) as store, opened(store) as session:
        assert session.prepare().recalled
        assert len(session.recalls()) == 1
    assert database(tmp_path).read_bytes() == before


def test_a_write_goes_on_while_another_thread_recalls(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread appends an answer while another one prepares the next request."""
    written = rows._recall_body

    with SimpleMemoryStore() as store, opened(store) as session:
        filled(store)
        asked(session)
        session.append(user(QUESTION))
        session.prepare()

        def meanwhile(recall: Any) -> str:
            session._core.recalls[1_000] = recall
            return written(recall)

        monkeypatch.setattr(rows, "_recall_body", meanwhile)
        session.append(assistant("basalt"))
        assert len(session.log()) == 4
