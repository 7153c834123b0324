"""The expectations of users of three tiers of memory beside their compactions, row by row."""

from __future__ import annotations

from pathlib import Path

import pytest

from compacting import system
from playing import said
from shapes import ask, call, result, say
from siltstone import MemoryStore, Session, WindowCompactor, WindowConfig
from siltstone.errors import StoreError, StoreOpenError
from siltstone.messages import encode, read_history, repair, validate_history
from siltstone.messages.dialects.base import NO_RESULT
from siltstone.systems.rustant import tiers

POLICY = WindowCompactor(WindowConfig(working_limit=3, retry_delay=0))


def opened(path: Path, session_id: str = "s") -> Session:
    return Session.open(
        path, session_id, policy=POLICY, model=lambda _: "What was said.", context_window=4_000
    )


def test_ru_02_a_window_of_three_over_six_messages_shows_the_last_three(tmp_path: Path):
    with opened(tmp_path) as session:
        session.append(*said(6))
        session.compact()
        shown = [message.seq for message in read_history(session.history()) if not message.covers]
        assert shown == [3, 4, 5]
        parts = tiers(read_history(session.history()), len(session.log()))
        assert (list(parts.working), list(parts.short_term)) == ([(3, 6)], [(0, 3)])


def test_ru_06_what_is_cleared_is_gone_pins_too(tmp_path: Path):
    with MemoryStore.open(tmp_path) as store:
        with Session.open(None, "s", memory=store, policy=POLICY, model=lambda _: "Short.") as session:
            session.append(*said(6))
            session.pin(2)
            session.compact()
            assert session.search("Entry 0")
        store.delete_session("s")
        store.revive("s")
        with Session.open(None, "s", memory=store, policy=POLICY, model=lambda _: "Short.") as session:
            assert (session.history(), session.log(), session.search("Entry")) == ([], [], [])
            session.append(*said(6))
            session.compact()
            assert 2 not in [message.seq for message in read_history(session.history()) if not message.covers]


def test_ru_50_a_session_comes_back_and_its_folders_are_made(tmp_path: Path):
    path = tmp_path / "not" / "there"
    with opened(path) as session:
        session.append(system("Be brief."), *said(8))
        session.compact()
        view, log = [encode(raw) for raw in session.history()], session.log()
    with opened(path) as session:
        assert ([encode(raw) for raw in session.history()], session.log()) == (view, log)


def test_ru_50_a_store_that_is_missing_or_damaged_is_a_typed_error(tmp_path: Path):
    with pytest.raises(StoreError):
        MemoryStore.open(tmp_path / "nowhere", read_only=True)
    with opened(tmp_path) as session:
        session.append(*said(8))
    file = max(tmp_path.rglob("*.sqlite*"), key=lambda path: path.stat().st_size)
    file.write_bytes(b"this is no database" * 100)
    with pytest.raises(StoreOpenError):
        opened(tmp_path)


def test_ru_51_nothing_waits_to_be_written(tmp_path: Path):
    """There is no flusher: appended messages are in the file while the session is open."""
    with opened(tmp_path) as session:
        for count in range(1, 6):
            session.append(*said(1, count))
            with MemoryStore.open(tmp_path, read_only=True) as other:
                assert other.open_log("s").state().next_seq == count


def test_ru_54_rules_between_a_call_and_its_result_are_moved_and_unanswered_calls_are_answered():
    rule = {"role": "system", "content": "Be brief."}
    history = [ask(), call("a"), rule, result("a"), say(), call("b"), ask()]
    healed = repair(history)
    assert validate_history(healed.messages) == []
    assert {"role": "tool", "tool_call_id": "b", "content": NO_RESULT} in healed.messages
    assert rule in healed.messages
