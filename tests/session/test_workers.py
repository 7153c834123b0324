"""Two workers hold one session: reads follow, writes onto what has grown are a conflict, nothing is lost."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from conversations import conversation, user
from siltstone import CompactionConfig, Session, ThresholdCompactor
from siltstone.archive.records import Record
from siltstone.engine import Compacted
from siltstone.errors import ConfigError, StoreConflictError, StoreCorruptError
from siltstone.knowledge import FactRows
from siltstone.memory.base import Store
from siltstone.session.transfer import records_of, write_session
from siltstone.testing import RecordingHook, ScriptedModel

POLICY = ThresholdCompactor(CompactionConfig(auto_compact_threshold=600, max_summary_tokens=50))


def worker(store: Store, **options: Any) -> Session:
    given: dict[str, Any] = {"policy": POLICY, "model": ScriptedModel(), "context_window": 1_500} | options
    return Session.open(None, "s", memory=store, **given)


def test_every_reading_call_follows_another_workers_compaction_and_undo(store: Store) -> None:
    one, other = worker(store), worker(store)
    one.append(*conversation(6))
    assert len(other.history()) == 24
    assert isinstance(one.compact(), Compacted)
    assert other.history() == one.history()
    assert [each.id for each in other.compactions()] == [each.id for each in one.compactions()]
    assert other.view_at(1) == one.view_at(1)
    assert other.search("topic0")
    one.undo_compaction()
    assert other.prepare().messages == one.history()
    assert other.compactions() == []


def test_a_compaction_that_lost_the_race_reads_the_session_anew_and_tries_once_more(store: Store) -> None:
    hook, asked = RecordingHook(), []

    def model(request: Any) -> str:
        asked.append(request)
        if len(asked) == 1:
            assert isinstance(one.compact(), Compacted)
            one.append(*conversation(4))
        return "What was said."

    one = worker(store)
    one.append(*conversation(6))
    other = worker(store, model=model, hooks=[hook])
    outcome = other.compact()
    assert isinstance(outcome, Compacted)
    assert [event for event in hook.names if event.startswith("Compaction")] == [
        "CompactionStarted",
        "CompactionFailed",
        "CompactionStarted",
        "CompactionCompleted",
    ]
    assert other.history() == one.history()
    covered = {seq for start, end in one.compactions()[-1].covers for seq in range(start, end)}
    assert set(range(16)) <= covered


def test_a_list_that_lacks_what_another_worker_appended_is_a_conflict(store: Store) -> None:
    one, other = worker(store), worker(store)
    mine = conversation(2)
    other.observe(mine)
    one.reload()
    one.append(user("from one"))
    with pytest.raises(StoreConflictError):
        other.observe([*mine, user("from the other")])
    assert one.log() == [*mine, user("from one")]
    theirs = [*mine, user("from one"), user("and the other")]
    assert other.observe(theirs) == 1
    assert one.history() == theirs


def test_what_another_worker_compacted_cannot_be_pinned(store: Store) -> None:
    one = worker(store)
    one.append(*conversation(6))
    other = worker(store)
    assert isinstance(one.compact(), Compacted)
    with pytest.raises(StoreConflictError, match="has left the view"):
        other.pin(0)
    with pytest.raises(ConfigError, match="cannot be pinned"):
        other.pin(0)
    with worker(store) as anew:
        assert anew._core.clock.pins == ()


def test_pins_and_counts_of_another_worker_are_not_overwritten(store: Store) -> None:
    one = worker(store)
    one.append(*conversation(2))
    other = worker(store)
    one.pin(1)
    other.append(user("on"))
    other.pin(2)
    assert one._core.follow().clock.pins == (1, 2)
    with worker(store) as anew:
        assert anew._core.clock.pins == (1, 2)


def test_model_calls_of_two_workers_are_summed(store: Store) -> None:
    one = worker(store)
    one.append(*conversation(6))
    other = worker(store)
    one.compact()
    spent = one.usage.input_tokens
    other.append(*conversation(6))
    other.compact()
    assert other.usage.input_tokens > spent
    assert one.prepare() is not None
    assert one.usage == other.usage
    with worker(store) as anew:
        assert anew.usage == other.usage


def test_of_two_copies_to_one_id_the_second_is_refused_and_the_first_is_whole(store: Store) -> None:
    with worker(store) as session:
        session.append(*conversation(6))
        session.compact()
        log, view = session.log(), session.history()

    def records() -> Iterator[Record]:
        for record in records_of(store, "s"):
            yield Record(record.kind, "s", json.loads(json.dumps(record.body)))

    def overtaken() -> Iterator[Record]:
        for record in records():
            if record.kind == "message" and record.body["seq"] == 0:
                write_session(store, "copy", records())
            yield record

    with pytest.raises(StoreConflictError):
        write_session(store, "copy", overtaken())
    with Session.open(None, "copy", memory=store, policy=POLICY) as copy:
        assert (copy.log(), copy.history()) == (log, view)


def test_a_fork_that_would_lack_a_record_is_refused_and_leaves_nothing(store: Store) -> None:
    """A fact of another program, whose body is no object: a copy without it would not be a fork."""
    with worker(store) as session:
        session.append(*conversation(2))
        assert isinstance(store, FactRows)
        store.put_facts("s", [(None, "odd", "fact", "3")])
        with pytest.raises(StoreCorruptError, match="a record 'known' of session 's' cannot be copied"):
            session.fork("copy")
        assert store.stats("copy").messages == 0
        (row, *_) = store.facts("s")
        store.put_facts("s", [(row[0], "odd", "gone", "{}")])
        with session.fork("copy") as copy:
            assert copy.log() == session.log()


def test_a_fork_that_comes_too_late_deletes_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another worker begins the session of that id after the fork has looked, and before it writes."""
    look = type(store).stats

    def overtaken(store: Any, session_id: str) -> Any:
        found = look(store, session_id)
        monkeypatch.undo()
        with Session.open(None, "x", memory=store, policy=None) as other:
            other.append(user("from another worker"))
        return found

    with worker(store) as session:
        session.append(*conversation(2))
        monkeypatch.setattr(type(store), "stats", overtaken)
        with pytest.raises(ConfigError, match="has messages of session 'x' already"):
            session.fork("x")
    with Session.open(None, "x", memory=store, policy=None) as other:
        assert other.log() == [user("from another worker")]


def test_a_fork_that_breaks_off_deletes_nothing_of_another_worker(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other worker writes after the fork has broken off, and before it deletes."""
    taken_back = type(store).take_back  # type: ignore[attr-defined] # of every store here

    def overtaken(store: Any, session_id: str, *given: Any) -> Any:
        with Session.open(None, session_id, memory=store, policy=None) as other:
            other.append(user("from another worker"))
        return taken_back(store, session_id, *given)

    def broken() -> Iterator[Record]:
        for record in records_of(store, "s"):
            yield Record(record.kind, "s", json.loads(json.dumps(record.body)))
            if record.kind == "end":
                raise OSError("the file ends")

    with worker(store) as session:
        session.append(*conversation(2))
    with pytest.raises(OSError, match="the file ends"):
        write_session(store, "x", broken())
    assert store.open_log("x").state().next_seq == 0
    monkeypatch.setattr(type(store), "take_back", overtaken)
    with pytest.raises(OSError, match="the file ends"):
        write_session(store, "x", broken())
    with Session.open(None, "x", memory=store, policy=None) as other:
        assert other.log() == [*conversation(2), user("from another worker")]


def test_an_undo_of_a_named_compaction_undoes_no_other(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another worker compacts after the undo has looked, and before it writes."""
    from siltstone.session import committing

    one = worker(store)
    one.append(*conversation(6))
    first = one.compact().compaction_id
    assert first is not None
    look = committing.step_back

    def overtaken(*given: Any) -> Any:
        found = look(*given)
        monkeypatch.undo()
        with worker(store) as other:
            other.append(*conversation(6))
            other.compact()
        return found

    monkeypatch.setattr(committing, "step_back", overtaken)
    with pytest.raises(StoreConflictError, match=f"compaction {first} is not the last one of session 's'"):
        one.undo_compaction(compaction_id=first)
    records = one.compactions()
    assert [each.undone for each in records] == [False, False]
    undone = one.undo_compaction(compaction_id=records[-1].id)
    assert undone.id == records[-1].id
    assert [each.id for each in one.compactions()] == [first]
