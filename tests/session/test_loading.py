"""A long log is read a stretch after the other, and nothing of it is missing or out of place."""

import pytest
from hypothesis import given, strategies as st

from shapes import call, result
from siltstone import CompactionConfig, MemoryStore, Session, SimpleMemoryStore, ThresholdCompactor
from siltstone.engine import Compacted
from siltstone.memory.convert import message_of
from siltstone.messages import KeyedSystemMessage
from siltstone.session import state as states
from strategies import plain_messages


def opened(store: MemoryStore) -> Session:
    return Session.open(
        None, "a", memory=store, policy=ThresholdCompactor(), model=lambda _: "What was said.",
        context_window=1_000_000,
    )  # fmt: skip


def said(count: int) -> list[dict[str, str]]:
    return [
        {"role": "assistant" if number % 2 else "user", "content": f"message {number}"}
        for number in range(count)
    ]


@pytest.mark.parametrize("count", [1, 6, 7, 8, 21, 30])
def test_a_session_is_read_in_stretches_and_is_whole(tmp_path, monkeypatch, count):
    monkeypatch.setattr(states, "_STRETCH", 7)
    with MemoryStore.open(tmp_path) as store:
        with opened(store) as session:
            session.append(*said(count))
        read = []
        log_of = store.open_log

        def noted(session_id):
            log = log_of(session_id)
            whole = log.messages
            monkeypatch.setattr(
                log, "messages", lambda start, end: read.append((start, end)) or whole(start, end)
            )
            return log

        monkeypatch.setattr(store, "open_log", noted)
        with opened(store) as session:
            assert session.history() == said(count)
        assert max(end - start for start, end in read) <= 7
        assert [start for start, _ in read][: -(-count // 7)] == list(range(0, count, 7))


def test_what_is_forgotten_between_two_stretches_is_not_shown(tmp_path, monkeypatch):
    monkeypatch.setattr(states, "_STRETCH", 7)
    with MemoryStore.open(tmp_path) as store:
        with opened(store) as session:
            session.append(*said(20))
        log_of, forgets = store.open_log, [1]

        def noted(session_id):
            log = log_of(session_id)
            whole = log.messages

            def between(start, end):
                found = whole(start, end)
                if start == 0 and forgets:
                    forgets.pop()
                    store.forget(session_id="a", start=2, end=4)
                return found

            monkeypatch.setattr(log, "messages", between)
            return log

        monkeypatch.setattr(store, "open_log", noted)
        with opened(store) as session:
            shown = [message["content"] for message in session.prepare().messages]
            assert forgets == []
            assert not {"message 2", "message 3"}.intersection(shown)
            assert len(shown) == 20


MESSAGES = [
    {"role": "user", "content": "plain"},
    {"content": "the text first", "role": "assistant"},
    {"role": "system", "content": ""},
    {"role": "user", "content": 'quotes " and \\ slashes \\" and \t tabs \n lines \x00 \x1f \x7f ☕ 😀'},
    {"role": "user", "content": 'a lie: ","content":"b","role":"assistant'},
    {"role": "user", "content": "half a pair \ud83d and the other half \ude00"},
    {"role": "user", "content": [{"type": "text", "text": "blocks"}]},
    {"role": "user", "content": "named", "name": "Ann"},
    {"role": "developer", "content": "be exact"},
    call("one"),
    result("one"),
    KeyedSystemMessage("rules", "key", 2),
    {"siltstone:message": 1, "role": "user", "content": "a key like ours"},
]


def test_each_form_of_message_is_read_back_as_its_row_says(tmp_path):
    with MemoryStore.open(tmp_path) as store:
        with opened(store) as session:
            session.append(*MESSAGES)
        store.forget(session_id="a", start=1, end=2)
        log = store.open_log("a")
        read = log.messages(0, len(MESSAGES))
        rows = log.read(0, len(MESSAGES))
        assert [message for message, _ in read] == [message_of(row) for row in rows]
        assert [time for _, time in read] == [row.created_at for row in rows]
        assert [list(message.raw) for message, _ in read] == [list(message_of(row).raw) for row in rows]
        assert [message.raw for message, _ in read[2:]] == MESSAGES[2:]
        assert log.messages(3, 3) == log.messages(99, 100) == []


@given(st.lists(plain_messages(), min_size=1, max_size=4))
def test_a_text_is_read_back_as_its_row_says(messages):
    with SimpleMemoryStore() as store:
        with opened(store) as session:
            session.append(*messages)
        log = store.open_log("a")
        assert [each for each, _ in log.messages(0, 9)] == [message_of(row) for row in log.read(0, 9)]


def test_what_is_done_to_the_list_of_a_request_changes_no_text_of_the_session(tmp_path):
    with MemoryStore.open(tmp_path) as store:
        with opened(store) as session:
            session.append(*({**each, "content": each["content"] + " word" * 40} for each in said(8)))
        config = CompactionConfig(auto_compact_threshold=16, recent_turn_budget=1, max_summary_tokens=8)
        policy = ThresholdCompactor(config)
        with Session.open(None, "a", memory=store, policy=policy, model=lambda _: "They talked.") as session:
            session.history()[0]["content"] = "changed by the host"
            assert isinstance(session.compact(), Compacted)
            assert store.entries("a").entries[0].content.startswith("message 0 word")
            assert not session.search("changed by the host")
