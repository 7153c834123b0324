"""A forgotten message is gone from searches, the log, the summaries, and every byte; its ids if so wished."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from conversations import Raw, assistant, conversation, exchange, user
from siltstone import CompactionConfig, MemoryStore, Session, ThresholdCompactor
from siltstone.engine import Compacted
from siltstone.errors import ConfigError, InvalidEntryError, ReadOnlyStoreError, StoreConflictError
from siltstone.memory import Entry, ForgetReport, Store
from siltstone.memory.database_log import DatabaseLog
from siltstone.memory.log import LogRow
from siltstone.messages import FORGOTTEN, broken_tool_groups, validate_history
from siltstone.testing import ScriptedModel
from storing import compaction, contents, database, elsewhere, entries, message, told
from strategies import histories
from summary_log import summary_log

POLICY = ThresholdCompactor(
    CompactionConfig(auto_compact_threshold=600, recent_turn_budget=1, max_summary_tokens=50)
)
SECRET = 'the "Grünwald" plan\n\U0001f511'


def raw(text: str) -> str:
    return json.dumps({"role": "user", "content": text}, ensure_ascii=False)


def forms(text: str) -> list[bytes]:
    """*text* as a file may hold it: as it is, and in the ways that JSON may write it, once and nested."""
    plain = [text, json.dumps(text, ensure_ascii=False)[1:-1], json.dumps(text)[1:-1]]
    plain += [json.dumps(json.dumps(text, ensure_ascii=escaped))[3:-3] for escaped in (False, True)]
    return [form.encode() for form in plain] + [text.encode("utf-16-le")]


def assert_gone(path: Path, *texts: str) -> None:
    files = [file for file in path.rglob("*") if file.is_file()]
    assert database(path) in files
    for file in files:
        held = file.read_bytes()
        for text in texts:
            for form in forms(text):
                assert form not in held, f"{form!r} is still in {file.name}"


@pytest.fixture
def session(store: Store) -> Iterator[Session]:
    """A session of eight turns, compacted once."""
    session = Session.open(None, "a", policy=POLICY, model=ScriptedModel(), memory=store)
    session.append(*conversation(8))
    assert isinstance(session.compact(), Compacted)
    yield session
    session.close()


def reopened(store: Store) -> Session:
    return Session.open(None, "a", policy=POLICY, model=ScriptedModel(), memory=store)


def test_a_range_is_forgotten_in_the_log_the_entries_and_the_summaries(store: Store, session: Session):
    rows = summary_log(store, "a").read(0, 100)
    before = len(store.search("a", "topic1", limit=100))
    report = told(store.forget(session_id="a", start=4, end=8))  # the turn that speaks of topic1
    assert (report.sessions, report.messages, report.summaries, report.erased) == (1, 4, 1, True)
    assert report.entries > 0
    assert before > 0
    assert store.search("a", "topic1") == []
    assert store.search("a", "topic2") != []
    after = summary_log(store, "a").read(0, 100)
    assert [(row.seq, row.tokens, row.role) for row in after] == [
        (row.seq, row.tokens, row.role) for row in rows
    ]
    changed = [row.seq for row, old in zip(after, rows, strict=True) if row.raw != old.raw]
    assert changed == [4, 5, 6, 7]
    (record,) = reopened(store).compactions()
    assert record.redacted
    assert "was forgotten" in record.summary


def test_each_criterion_reaches_what_it_names_and_nothing_else(store: Store) -> None:
    def fill() -> None:
        for name in ("a", "a.b", "A"):
            store.index(name, entries("silt of Ann", "silt of Bob"))
        store.index("a", [Entry("silt by Ann", (5, 6), name="Ann", created_at=5_000.0)])

    fill()
    assert told(store.forget(session_id="a", text="Bob")) == ForgetReport(1, 0, 1, 0, True)
    assert sorted(contents(store.search("a", "silt"))) == ["silt by Ann", "silt of Ann"]
    assert told(store.forget(name="Ann")) == ForgetReport(1, 0, 1, 0, True)
    assert contents(store.search("a", "silt")) == ["silt of Ann"]
    assert told(store.forget(text="silt of ann")) == ForgetReport(0, 0, 0, 0, True, near=("silt of Ann",))
    assert told(store.forget(text="of Bob", before=1_001.0)) == ForgetReport(0, 0, 0, 0, True)
    assert store.forget(text="of Bob", before=datetime.fromtimestamp(1_002, UTC)).entries == 2
    assert store.forget(session_id="A", start=0, end=1).entries == 1
    (left,) = store.entries("a.b").entries
    assert told(store.forget(entry_ids=[left.entry_id, 10**9])) == ForgetReport(1, 0, 1, 0, True)
    assert store.stats().entries == 1
    assert store.forget(before=10_000.0).entries == 1
    fill()
    assert store.stats().entries == 7, "a session goes on after it forgot"


def test_an_entry_takes_the_messages_it_came_from_with_it(store: Store) -> None:
    log = summary_log(store, "a")
    log.append([message(raw(f"number {n}")) for n in range(9)], expected_next=0, clock="")
    ids = store.index("a", entries("silt", "clay", "mud")).entry_ids
    log.commit(compaction(covers=((0, 2),), view=(None, (2, 9))), [], expected_head=None, clock="")
    assert told(store.forget(entry_ids=[ids[2] or 0])) == ForgetReport(1, 1, 1, 0, True)
    assert told(store.forget(entry_ids=[ids[1] or 0])) == ForgetReport(1, 1, 1, 1, True)
    raws = [row.raw for row in log.read(0, 9)]
    assert [place for place, each in enumerate(raws) if FORGOTTEN in each] == [1, 2]


def test_an_entry_takes_the_last_message_of_the_log_with_it(store: Store) -> None:
    log = summary_log(store, "a")
    log.append([message(raw(f"number {n}")) for n in range(3)], expected_next=0, clock="")
    ids = store.index("a", [Entry("silt", (2, 9))]).entry_ids
    assert told(store.forget(entry_ids=[ids[0] or 0])) == ForgetReport(1, 1, 1, 0, True)
    assert [FORGOTTEN in row.raw for row in log.read(0, 3)] == [False, False, True]


def test_before_leaves_what_is_of_that_very_moment(store: Store) -> None:
    log = summary_log(store, "a")
    said = [message(raw("silt"), created_at=at) for at in (999, 1_000, 1_001)]
    log.append(said, expected_next=0, clock="")
    told = compaction("silt", covers=((0, 1),), view=(None, (1, 3)), next_seq=3, created_at=1_000)
    log.commit(told, [], expected_head=None, clock="")
    found = store.forget(text="silt", before=1.0)
    assert [FORGOTTEN in row.raw for row in log.read(0, 3)] == [True, False, False]
    assert (found.messages, found.summaries) == (1, 1), "the summary covers what was forgotten"
    kept = compaction("clay", covers=((1, 2),), view=(None, (2, 3)), next_seq=3, created_at=2_000)
    log.commit(kept, [], expected_head=log.compactions()[-1].compaction_id, clock="")
    assert store.forget(text="clay", before=2.0).summaries == 0
    assert store.forget(text="clay", before=2.001).summaries == 1


@pytest.mark.parametrize(
    "asked",
    [
        {}, {"start": 3}, {"end": 3}, {"text": ""}, {"name": ""}, {"start": 1, "end": 2, "name": "Ann"},
        {"fact_ids": ["1"], "text": "silt"}, {"fact_ids": ["1"], "identifiers": True},
    ],
)  # fmt: skip
def test_forget_needs_a_criterion_that_says_something(store: Store, asked: dict[str, Any]) -> None:
    store.index("a", entries("silt"))
    with pytest.raises(ConfigError):
        store.forget(**asked)
    with pytest.raises(InvalidEntryError):
        store.forget(session_id="a", start=5, end=3)
    assert store.stats().entries == 1


READER = """
import sys, time
from siltstone import _native
store = _native.Store.open(sys.argv[1], True, None)
print(store.version("a") is None, flush=True)
sys.stdin.read()
"""


def test_another_process_with_the_store_open_does_not_keep_the_bytes(tmp_path: Path) -> None:
    import subprocess
    import sys

    with MemoryStore.open(tmp_path) as store:
        store.index("a", entries(SECRET, "silt"))
        command = [sys.executable, "-c", READER, str(tmp_path)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as reader:
            assert reader.stdout is not None
            assert reader.stdout.readline().strip() == "False"
            assert store.forget(text=SECRET).erased
            assert_gone(tmp_path, SECRET)
            reader.communicate("")


KILLED = """
import os, sys
from siltstone.stores import MemoryStore
from siltstone.memory.forgetting import Target
from summary_log import summary_log
store = MemoryStore.open(sys.argv[1])
targets = [Target("a", entries=[entry.entry_id for entry in store.entries("a", limit=10**6).entries])]
import threading, time
threading.Thread(target=lambda: (time.sleep(float(sys.argv[2])), os._exit(0)), daemon=True).start()
store._native.forget(targets, "")
os._exit(0)
"""


@pytest.mark.parametrize("delay", [0.0, 0.002, 0.005, 0.01, 0.03])
def test_what_a_killed_process_forgot_is_erased_when_the_store_is_next_opened(tmp_path: Path, delay: float):
    with MemoryStore.open(tmp_path) as store:
        store.index("a", entries(*(f"{SECRET} {n} " + "x" * 500 for n in range(2_000))))
        store.index("b", entries("silt"))
    elsewhere(KILLED, tmp_path, delay)
    with MemoryStore.open(tmp_path) as store:
        left = store.stats("a").entries
        assert left in (0, 2_000)
        if left == 0:
            assert_gone(tmp_path, SECRET)
        assert contents(store.search("b", "silt")) == ["silt"]


def test_a_store_open_for_reading_forgets_nothing(tmp_path: Path) -> None:
    MemoryStore.open(tmp_path).close()
    with MemoryStore.open(tmp_path, read_only=True) as store, pytest.raises(ReadOnlyStoreError):
        store.forget(text="silt")


def test_a_writer_that_read_what_was_forgotten_is_refused(store: Store) -> None:
    log = summary_log(store, "a")
    log.append([message(raw("silt"))], expected_next=0, clock="")
    state = log.state()
    store.forget(session_id="a")
    with pytest.raises(StoreConflictError, match="forgotten"):
        log.commit(compaction(), [], expected_head=None, expected_redactions=state.redactions, clock="")
    assert log.compactions() == []


def test_a_forget_reads_messages_that_stand_side_by_side_together(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    summary_log(store, "a").append([message() for _ in range(2_000)], expected_next=0, clock="")
    reads: list[int] = []
    read = DatabaseLog.read

    def counted(self: DatabaseLog, start: int, end: int) -> list[LogRow]:
        reads.append(end - start)
        return read(self, start, end)

    monkeypatch.setattr(DatabaseLog, "read", counted)
    assert store.forget(session_id="a", start=0, end=1_999, dry_run=True).messages == 1_999
    assert len(reads) < 10


SECRET_ID = "AKIAGRUENWALD7"


def call(call_id: str, name: str = "login") -> Raw:
    function = {"name": name, "arguments": "{}"}
    called = [{"id": call_id, "type": "function", "function": function}]
    return {"role": "assistant", "content": None, "tool_calls": called}


def result(call_id: str) -> Raw:
    return {"role": "tool", "tool_call_id": call_id, "content": "done"}


def said_in(store: Store, session_id: str = "a") -> list[Any]:
    return [json.loads(row.raw) for row in summary_log(store, session_id).read(0, 10_000)]


def spoken(store: Store, *raws: Raw) -> None:
    with Session.open(None, "a", memory=store) as session:
        session.append(*raws)


def test_ids_and_names_that_have_the_text_are_told_and_the_bytes_are_not_gone(store: Store) -> None:
    spoken(
        store, user("log in"), call(f"call_{SECRET_ID}", f"login_{SECRET_ID}"), result(f"call_{SECRET_ID}")
    )
    report = told(store.forget(text=SECRET_ID))
    assert report == ForgetReport(
        1, 2, 0, 0, erased=False, kept=(f"call_{SECRET_ID}", f"login_{SECRET_ID}"), remaining=("identifiers",)
    )
    assert validate_history(said_in(store)) == []


def test_with_identifiers_both_halves_of_a_pair_get_the_same_new_id(tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path) as store:
        spoken(
            store,
            user("log in"),
            call(f"call_{SECRET_ID}", f"login_{SECRET_ID}"),
            result(f"call_{SECRET_ID}"),
            call("call_2", f"login_{SECRET_ID}"),
            result("call_2"),
        )
        report = store.forget(text=SECRET_ID, identifiers=True)
        assert report == ForgetReport(1, 3, 0, 0, erased=True)
        log = said_in(store)
        assert log == [
            user("log in"),
            call("call_forgotten_1", "forgotten_2"),
            {**result("call_forgotten_1"), "content": FORGOTTEN},
            call("call_2", "forgotten_2"),
            result("call_2"),
        ]
        assert validate_history(log) == []
        for file in database(tmp_path).parent.iterdir():
            assert SECRET_ID.encode() not in file.read_bytes()


def test_a_message_that_has_the_id_of_a_forgotten_one_is_forgotten_with_it(store: Store) -> None:
    spoken(store, user("log in"), call("call_1"), result("call_1"), call("call_2"), result("call_2"))
    report = store.forget(session_id="a", start=2, end=3, identifiers=True)
    assert (report.messages, report.kept) == (2, ())
    assert said_in(store) == [
        user("log in"),
        call("call_forgotten_1", "forgotten_2"),
        {**result("call_forgotten_1"), "content": FORGOTTEN},
        call("call_2"),
        result("call_2"),
    ]


def test_an_entry_is_known_by_its_speaker_as_well_and_never_by_its_role(store: Store) -> None:
    store.index("a", [Entry("one", name=SECRET_ID), Entry("two", name="Ann", role="user")])
    assert store.forget(text="user").entries == 0
    assert told(store.forget(text=SECRET_ID)) == ForgetReport(1, 0, 1, 0, erased=True)
    assert [entry.content for entry in store.entries("a").entries] == ["two"]


def test_a_new_id_is_never_one_that_there_is(store: Store) -> None:
    spoken(
        store,
        user("x"),
        call("call_forgotten_1"),
        result("call_forgotten_1"),
        call(SECRET_ID),
        result(SECRET_ID),
    )
    store.forget(text=SECRET_ID, identifiers=True)
    ids = [message["tool_call_id"] for message in said_in(store) if message["role"] == "tool"]
    assert ids[0] == "call_forgotten_1"
    assert len(set(ids)) == 2


def test_the_name_that_alone_ties_a_call_to_its_result_stays_while_others_have_it(store: Store) -> None:
    def legacy() -> list[Raw]:
        called = {"role": "assistant", "content": None, "function_call": {"name": "login", "arguments": "{}"}}
        return [called, {"role": "function", "name": "login", "content": "done"}]

    spoken(store, user("x"), *legacy(), user("again"), *legacy())
    report = store.forget(session_id="a", start=1, end=3, identifiers=True)
    assert report.kept == ("login",)
    assert validate_history(said_in(store)) == []
    assert store.forget(session_id="a", identifiers=True).kept == ()
    assert validate_history(said_in(store)) == []
    assert "login" not in json.dumps(said_in(store))


@given(histories(min_turns=1, max_turns=3), st.data())
def test_whatever_is_forgotten_with_its_ids_a_legal_history_stays_legal(raws: list[Any], data: st.DataObject):
    from siltstone import SimpleMemoryStore

    before = {each.rule for each in validate_history(raws)}
    start = data.draw(st.integers(0, len(raws)))
    end = data.draw(st.integers(start, len(raws)))
    with SimpleMemoryStore() as store:
        spoken(store, *raws)
        report = store.forget(session_id="a", start=start, end=end, identifiers=True)
        log = said_in(store)
        assert {each.rule for each in validate_history(log)} <= before
        assert broken_tool_groups(log) <= broken_tool_groups(raws)
        assert report.messages >= 0


ASKED: list[dict[str, Any]] = [
    {"session_id": "a"},
    {"session_id": "a", "start": 4, "end": 8},
    {"text": "topic1"},
    {"text": "topic1", "identifiers": True},
    {"session_id": "a", "start": 4, "end": 6, "identifiers": True},
    {"name": "Ann"},
    {"text": "nobody said this"},
    {"before": 4_000_000_000.0},
]


@pytest.mark.parametrize("asked", ASKED, ids=str)
def test_a_dry_run_changes_nothing_and_says_what_would_be(store: Store, asked: dict[str, Any]) -> None:
    with Session.open(None, "a", policy=POLICY, model=ScriptedModel(), memory=store) as session:
        session.append(*conversation(8))
        session.append(*exchange(9, "topic1 again"), assistant("so"))
        assert isinstance(session.compact(), Compacted)
    store.index("b", [Entry("topic1 of Ann", (0, 1), name="Ann"), Entry("silt")])
    store.forget(session_id="a", start=0, end=1)
    before = (said_in(store), store.stats(), summary_log(store, "a").state())
    expected = store.forget(**asked, dry_run=True)
    assert expected.dry_run
    assert not expected.erased
    assert (said_in(store), store.stats(), summary_log(store, "a").state()) == before
    done = store.forget(**asked)
    assert not done.dry_run
    assert (expected.sessions, expected.messages, expected.entries, expected.summaries, expected.kept) == (
        (done.sessions, done.messages, done.entries, done.summaries, done.kept)
    )
