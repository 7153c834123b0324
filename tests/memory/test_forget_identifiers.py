"""The identifiers that a forget keeps on purpose, its report of them, and how it takes them as well."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from conversations import Raw, assistant, conversation, exchange, user
from siltstone import CompactionConfig, MemoryStore, Session, ThresholdCompactor
from siltstone.engine import Compacted
from siltstone.memory import Entry, ForgetReport, Store
from siltstone.messages import FORGOTTEN, broken_tool_groups, validate_history
from siltstone.testing import ScriptedModel
from storing import database, told
from strategies import histories
from summary_log import summary_log

SECRET = "AKIAGRUENWALD7"
POLICY = ThresholdCompactor(
    CompactionConfig(auto_compact_threshold=600, recent_turn_budget=1, max_summary_tokens=50)
)


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
    spoken(store, user("log in"), call(f"call_{SECRET}", f"login_{SECRET}"), result(f"call_{SECRET}"))
    report = told(store.forget(text=SECRET))
    assert report == ForgetReport(
        1, 2, 0, 0, erased=False, kept=(f"call_{SECRET}", f"login_{SECRET}"), remaining=("identifiers",)
    )
    assert validate_history(said_in(store)) == []


def test_with_identifiers_both_halves_of_a_pair_get_the_same_new_id(tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path) as store:
        spoken(
            store,
            user("log in"),
            call(f"call_{SECRET}", f"login_{SECRET}"),
            result(f"call_{SECRET}"),
            call("call_2", f"login_{SECRET}"),
            result("call_2"),
        )
        report = store.forget(text=SECRET, identifiers=True)
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
            assert SECRET.encode() not in file.read_bytes()


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
    store.index("a", [Entry("one", name=SECRET), Entry("two", name="Ann", role="user")])
    assert store.forget(text="user").entries == 0
    assert told(store.forget(text=SECRET)) == ForgetReport(1, 0, 1, 0, erased=True)
    assert [entry.content for entry in store.entries("a").entries] == ["two"]


def test_the_id_of_a_session_stays_and_is_told(store: Store) -> None:
    store.index(f"of {SECRET}", [Entry("silt")])
    report = store.forget(text=SECRET, identifiers=True)
    assert told(report) == ForgetReport(
        0, 0, 0, 0, erased=False, kept=(f"of {SECRET}",), remaining=("identifiers",)
    )


def test_ids_that_were_kept_at_first_can_be_taken_later(store: Store) -> None:
    spoken(store, user("log in"), call(f"call_{SECRET}"), result(f"call_{SECRET}"))
    assert store.forget(text=SECRET).kept == (f"call_{SECRET}",)
    assert told(store.forget(text=SECRET, identifiers=True)) == ForgetReport(1, 2, 0, 0, erased=True)
    assert told(store.forget(text=SECRET, identifiers=True)) == ForgetReport(0, 0, 0, 0, erased=True)
    assert SECRET not in json.dumps(said_in(store))


def test_a_new_id_is_never_one_that_there_is(store: Store) -> None:
    spoken(
        store, user("x"), call("call_forgotten_1"), result("call_forgotten_1"), call(SECRET), result(SECRET)
    )
    store.forget(text=SECRET, identifiers=True)
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
def test_whatever_is_forgotten_with_its_ids_a_legal_history_stays_legal(
    raws: list[Any], data: st.DataObject
) -> None:
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


@pytest.mark.parametrize(
    "written",
    [
        'HTTP/1.1 200 OK\n\n{"name": "Jörg"}',
        '{"a": 1}\n{"name": "J\\u00F6rg"}\n',
        '```json\n{"name": "J\\u00f6rg"}\n```',
        json.dumps(json.dumps(json.dumps({"name": "Jörg"}))),
    ],
)
def test_json_inside_a_larger_text_is_forgotten_in_the_log_and_the_entries(
    store: Store, written: str
) -> None:
    spoken(store, user("hello"), user(f"here: {written}"))
    store.index("b", [Entry(f"here: {written}"), Entry("silt")])
    report = store.forget(text="Jörg")
    assert (report.messages, report.entries) == (1, 1)
    assert said_in(store)[1] == {"role": "user", "content": FORGOTTEN}
    assert [entry.content for entry in store.entries("b").entries] == ["silt"]


def test_items_of_the_responses_api_are_forgotten_and_the_session_goes_on(store: Store) -> None:
    items: list[Any] = [
        {"role": "user", "content": [{"type": "input_text", "text": "what is my key?"}]},
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "c2lnbmVk"},
        {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "vault", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": f"key={SECRET}"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": SECRET}]},
    ]
    spoken(store, *items)
    assert store.forget(text=SECRET).messages == 2
    for _ in range(2):  # once more after it was opened anew
        with Session.open(None, "a", memory=store) as session:
            sent = list(session.prepare().messages)
            assert SECRET not in json.dumps(sent)
            assert validate_history(sent) == []
            assert [item.get("type") for item in sent] == [item.get("type") for item in items]
    assert store.forget(session_id="a").messages == 3
    assert validate_history(said_in(store)) == []
    assert store.check() == []
