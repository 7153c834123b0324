"""A long log is read a stretch after the other, and nothing of it is missing or out of place."""

from __future__ import annotations

import pytest

from siltstone import MemoryStore, Session, ThresholdCompactor
from siltstone.session import loading


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
    monkeypatch.setattr(loading, "_STRETCH", 7)
    with MemoryStore.open(tmp_path) as store:
        with opened(store) as session:
            session.append(*said(count))
        read = []
        log_of = store.open_log

        def noted(session_id):
            log = log_of(session_id)
            whole = log.read
            monkeypatch.setattr(
                log, "read", lambda start, end: read.append((start, end)) or whole(start, end)
            )
            return log

        monkeypatch.setattr(store, "open_log", noted)
        with opened(store) as session:
            assert session.history() == said(count)
        assert max(end - start for start, end in read) <= 7
        assert [start for start, _ in read][: -(-count // 7)] == list(range(0, count, 7))


def test_what_is_forgotten_between_two_stretches_is_not_shown(tmp_path, monkeypatch):
    monkeypatch.setattr(loading, "_STRETCH", 7)
    with MemoryStore.open(tmp_path) as store:
        with opened(store) as session:
            session.append(*said(20))
        log_of, forgets = store.open_log, [1]

        def noted(session_id):
            log = log_of(session_id)
            whole = log.read

            def between(start, end):
                found = whole(start, end)
                if start == 0 and forgets:
                    forgets.pop()
                    store.forget(session_id="a", start=2, end=4)
                return found

            monkeypatch.setattr(log, "read", between)
            return log

        monkeypatch.setattr(store, "open_log", noted)
        with opened(store) as session:
            shown = [message["content"] for message in session.prepare().messages]
            assert forgets == []
            assert not {"message 2", "message 3"}.intersection(shown)
            assert len(shown) == 20
