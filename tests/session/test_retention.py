"""Retention: off by default, told when it acts, and never a loss of the log."""

import tempfile
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from conversations import assistant, conversation, small, user
from siltstone import CompactionConfig, MemoryStore, Retention, Session, ThresholdCompactor
from siltstone.engine import Compacted
from siltstone.errors import ConfigError, InvalidEntryError
from siltstone.events import ArchiveFailed, Event, MemoryExpired
from siltstone.memory import Entry, ExpireReport
from siltstone.stores import SimpleMemoryStore
from siltstone.testing import ScriptedModel
from storing import contents, entries

POLICY = ThresholdCompactor(
    CompactionConfig(auto_compact_threshold=600, recent_turn_budget=1, max_summary_tokens=50)
)


def test_what_was_taken_out_may_come_again_and_other_sessions_keep_theirs(tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path) as store:
        for name in "ab":
            store.index(name, entries("silt"))
        assert store.expire("a") == store.expire("nobody", keep=0) == ExpireReport(0, 0)
        assert store.expire("a", before=datetime.fromtimestamp(2_000, UTC)).entries == 1
        assert contents(store.search("b", "silt")) == ["silt"]
        store.index("a", entries("silt"))
        assert contents(store.search("a", "silt")) == ["silt"], "handed over again, it is a new one"
        with pytest.raises(InvalidEntryError, match="keep must be at least 0"):
            store.expire("a", keep=-1)


@given(
    times=st.lists(st.integers(0, 5), max_size=12),
    keep=st.none() | st.integers(0, 12),
    before=st.none() | st.integers(0, 6),
)
def test_what_is_too_old_leaves_and_then_the_oldest_until_few_enough_are_left(
    times: list[int], keep: int | None, before: int | None
) -> None:
    said = [Entry(f"silt {n}", created_at=float(at)) for n, at in enumerate(times)]
    young = [entry for entry in said if before is None or float(entry.created_at) >= before]  # type: ignore[arg-type]
    left = sorted(young, key=lambda entry: (entry.created_at, said.index(entry)))
    left = left if keep is None else left[max(0, len(left) - keep) :]
    with tempfile.TemporaryDirectory() as place, MemoryStore.open(place) as store:
        store.index("a", said)
        report = store.expire("a", keep=keep, before=before)
        assert (report.by_age, report.by_count) == (len(said) - len(young), len(young) - len(left))
        assert contents(store.entries("a", limit=99).entries) == [
            entry.content for entry in said if entry in left
        ]
        assert store.check() == []


def sessions(store: Any, told: list[Event], retention: Retention | None) -> Session:
    return Session.open(
        None,
        "a",
        policy=POLICY,
        model=ScriptedModel(),
        memory=store,
        hooks=[told.append],
        retention=retention,
    )


@pytest.mark.parametrize("kind", ["database", "simple"])
def test_a_session_applies_it_after_each_compaction_and_tells(tmp_path: Path, kind: str) -> None:
    with SimpleMemoryStore() if kind == "simple" else MemoryStore.open(tmp_path) as store:
        told: list[Event] = []
        session = sessions(store, told, Retention(max_entries=5))
        session.append(*conversation(8))
        assert isinstance(session.compact(), Compacted)
        (event,) = [event for event in told if isinstance(event, MemoryExpired)]
        assert (event.session_id, event.by_age, event.by_count > 0) == ("a", 0, True)
        assert store.stats("a").entries == 5
        (record,) = session.compactions()
        assert len(session.log()) == 32
        assert len(session.expand(record.id)) == sum(end - start for start, end in record.covers)
        assert session.undo_compaction() is not None
        assert len(session.history()) == 32
        assert store.stats("a").entries == 0


def test_without_it_nothing_leaves_and_nothing_is_told(tmp_path: Path) -> None:
    told: list[Event] = []
    with MemoryStore.open(tmp_path) as store:
        store.index("a", [Entry("silt", created_at=1.0)])
        for retention in (None, Retention()):
            sessions(store, told, retention).close()
        assert store.stats("a").entries == 1
        assert told == []
        sessions(store, told, Retention(max_age=timedelta(days=1))).close()
        assert told == [MemoryExpired("a", 1, 0)]
        assert store.stats("a").entries == 0


def test_oc_21_oc_22_the_documented_bounds_and_what_changes_them() -> None:
    assert Retention.documented() == Retention(20_000, timedelta(days=90), once=True)
    assert Retention.documented(eviction_days=0).max_age is None
    assert Retention.documented(max_segments=5, eviction_days=1) == Retention(5, timedelta(days=1), once=True)
    with pytest.raises(ConfigError, match="max_segments must be an integer >= 1, got 0"):
        Retention.documented(max_segments=0)


@pytest.mark.parametrize("once", [True, False])
def test_oc_21_the_same_text_of_the_same_role_is_found_once_where_that_is_chosen(tmp_path: Path, once: bool):
    options: dict[str, Any] = {"policy": small(), "model": ScriptedModel(), "retention": Retention(once=once)}
    with Session.open(tmp_path, "s", **options) as session:
        for _ in range(2):
            for number in range(8):
                text = f"the very same words {number // 2} " + "pad " * 30
                session.append(user(text), assistant(text))
            assert isinstance(session.compact(), Compacted)
        kept = [(entry.role, entry.content) for entry in session.store.entries("s", limit=100).entries]
        assert (len(set(kept)) == len(kept)) is once
        assert {role for role, _ in kept} == {"user", "assistant"}, "another role is another text"
        assert len(session.log()) == 32


@pytest.mark.parametrize("call", ["observe", "retract"])
def test_a_hook_may_wait_for_another_thread_of_the_session(tmp_path: Path, call: str) -> None:
    """As one does that hands the event to an event loop, and waits for what that makes of it."""
    waited: list[tuple[type[Event], bool]] = []

    def hook(event: Event) -> None:
        if isinstance(event, MemoryExpired | ArchiveFailed):
            thread = threading.Thread(target=lambda: (session.history(), session.save("silt")), daemon=True)
            thread.start()
            thread.join(10)
            waited.append((type(event), thread.is_alive()))

    with SimpleMemoryStore() as store:
        options: dict[str, Any] = {"archive": tmp_path / "archive"} if call == "retract" else {}
        session = Session.open(
            None,
            "a",
            memory=store,
            policy=None,
            retention=Retention(max_age=timedelta(1)),
            hooks=[hook],
            **options,
        )
        session.observe([user("one"), assistant("answer")])
        fact = session.save("the quay is long")
        if call == "observe":
            store.index("a", [Entry("long ago", created_at=1_000.0)])
            session.observe([user("other")])
            assert waited == [(MemoryExpired, False)]
        else:
            knowledge = tmp_path / "archive" / "knowledge.jsonl"
            knowledge.unlink()
            knowledge.mkdir()
            session.retract(fact.id)
            assert (ArchiveFailed, False) == waited[0]
            assert not any(hangs for _, hangs in waited)
        session.close()
