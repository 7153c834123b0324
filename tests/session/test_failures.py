"""Nothing is changed on failure: models that fail, stores that refuse, hooks that raise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from conversations import assistant, conversation, user
from siltstone import (
    CompactionConfig,
    Completion,
    MemoryStore,
    Session,
    SimpleMemoryStore,
    StoreError,
    ThresholdCompactor,
)
from siltstone.engine import Compacted, Failed
from siltstone.errors import InvalidMessageError, ReadOnlyStoreError, StoreClosedError, StoreIoError
from siltstone.llm import UsageRecord
from siltstone.memory.entry import Entry
from siltstone.memory.log import CommitReceipt, NewCompaction, SessionLog
from siltstone.testing import RecordingHook, ScriptedModel

POLICY = ThresholdCompactor(
    CompactionConfig(auto_compact_threshold=600, max_summary_tokens=50, on_model_failure="fail")
)


def filled(session: Session) -> None:
    session.append(*conversation(6))


class RefusingLog:
    """A log whose commits fail, as on a full disk; everything else is the real thing."""

    def __init__(self, log: SessionLog) -> None:
        self._log = log

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    def commit(self, compaction: NewCompaction, entries: Sequence[Entry], **expected: Any) -> CommitReceipt:
        raise StoreIoError("the disk is full")


class RefusingStore(SimpleMemoryStore):
    """A store that takes messages and refuses entries."""

    def open_log(self, session_id: str) -> SessionLog:
        log: Any = RefusingLog(super().open_log(session_id))
        return log


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (RuntimeError("rate limited"), "llm_failed"),
        ("", "empty_summary"),
        ("  \n ", "empty_summary"),
        (Completion("", UsageRecord("m", 10, 0)), "empty_summary"),
        ("".join(f"word{n} " for n in range(50_000)), None),
    ],
)
def test_mk_50_a_model_that_fails_leaves_the_history_as_it_was(
    tmp_path: Path, answer: Any, reason: str | None
) -> None:
    hook = RecordingHook()
    with Session.open(tmp_path, "s", policy=POLICY, model=ScriptedModel([answer]), hooks=[hook]) as session:
        filled(session)
        before = session.history()
        outcome = session.compact()
        if reason is None:
            assert isinstance(outcome, Compacted)
            assert outcome.tokens_after < outcome.tokens_before
            return
        assert (type(outcome), outcome.reason) == (Failed, reason)
        assert outcome.messages == before == session.history()
        assert hook.names == ["CompactionStarted", "CompactionFailed"]
        assert all(hit.in_context for hit in session.search("topic0"))


def test_mk_53_a_store_that_refuses_keeps_the_history_and_tells() -> None:
    hook = RecordingHook()
    store = RefusingStore()
    with Session.open(None, "s", policy=POLICY, model=ScriptedModel(), memory=store, hooks=[hook]) as session:
        filled(session)
        session.append(user("next"))
        before = session.history()
        outcome = session.compact()
        assert (type(outcome), outcome.reason) == (Failed, "memory_indexing_failed")
        assert 0 < outcome.attempted_entries < len(before)
        assert "disk is full" in outcome.message
        assert session.history() == before
        assert hook.names == ["CompactionStarted", "CompactionFailed"]
        assert store.entries("s").entries == ()
        assert session._core.clock.last_attempt is not None
        session.append(assistant("the run goes on"))


def test_a_read_only_store_refuses_a_message_and_stays_as_it_was(tmp_path: Path) -> None:
    with Session.open(tmp_path, "s") as session:
        session.append(user("hello"))
    with (
        MemoryStore.open(tmp_path, read_only=True) as store,
        Session.open(None, "s", memory=store) as session,
    ):
        with pytest.raises(ReadOnlyStoreError):
            session.append(assistant("no"))
        assert session.history() == [user("hello")]
        assert session.prepare().messages == [user("hello")]


@pytest.mark.parametrize(
    "message",
    [
        None,
        "hello",
        [],
        {},
        {"content": "no role"},
        {"role": "wizard", "content": "hi"},
        {"role": "user", "content": 7},
        {"role": "user", "content": [{"type": "text", "text": object()}]},
    ],
)
def test_what_is_not_a_message_is_refused_and_its_batch_with_it(tmp_path: Path, message: Any) -> None:
    with Session.open(tmp_path, "s") as session:
        session.append(user("first"))
        with pytest.raises(InvalidMessageError):
            session.append(user("second"), message)
        assert session.history() == session.log() == [user("first")]


@pytest.mark.parametrize("text", ["", " ", "\x00", "\ud83d alone", "a\x00b", "\udc00\ud800"])
def test_no_content_is_refused(tmp_path: Path, text: str) -> None:
    message = user(text)
    with Session.open(tmp_path, "s", policy=POLICY, model=ScriptedModel()) as session:
        session.append(message, assistant("a long story " * 30), user("more"), assistant("ok"))
        assert session.prepare().messages[0] is message
        assert isinstance(session.compact(), Compacted)
    with Session.open(tmp_path, "s") as session:
        assert session.log()[0] == message


def test_mk_59_bad_usage_data_do_not_end_a_turn(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with Session.open(tmp_path, "s", policy=POLICY, model=ScriptedModel()) as session:
        for usage in ("many", {"input_tokens": "7"}, -1, object(), {"prompt_tokens": None}):
            session.append(user("a"), usage=usage)
        assert session._core.clock.last_input_tokens == 0
        session.append(user("b"), usage={"input_tokens": 5, "cache_read_input_tokens": 3})
        assert session._core.clock.last_input_tokens == 8
    assert "taken as unknown" in caplog.text


def test_a_closed_session_says_so(tmp_path: Path) -> None:
    session = Session.open(tmp_path, "s")
    session.close()
    session.close()
    for use in (
        lambda: session.append(user("x")),
        session.prepare,
        session.compact,
        lambda: session.search("x"),
    ):
        with pytest.raises(StoreClosedError):
            use()


def test_a_policy_that_raises_is_a_failed_attempt(tmp_path: Path) -> None:
    class Broken(ThresholdCompactor):
        def flow(self, history: Any, trigger: Any) -> Iterator[Any]:  # type: ignore[override]
            raise ZeroDivisionError("by accident")
            yield

    with Session.open(tmp_path, "s", policy=Broken(), model=ScriptedModel()) as session:
        filled(session)
        before = session.history()
        outcome = session.compact()
        assert (type(outcome), outcome.reason) == (Failed, "internal")
        assert isinstance(outcome.cause, ZeroDivisionError)
        assert session.history() == before


def test_a_refusing_store_over_the_window_raises_instead_of_sending_too_much() -> None:
    auto = ThresholdCompactor(CompactionConfig(max_summary_tokens=50))
    with Session.open(
        None, "s", policy=auto, model=ScriptedModel(), memory=RefusingStore(), context_window=500
    ) as session:
        filled(session)
        session.append(user("go on"))
        before = session.history()
        with pytest.raises((StoreError, ValueError), match="disk is full"):
            session.prepare()
        assert session.history() == before
