"""A session at its boundaries: what it sends, when it compacts, what it keeps."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from conversations import assistant, conversation, play, small, user
from siltstone import (
    ContextOverflowError,
    MemoryStore,
    Prepared,
    Session,
    SimpleMemoryStore,
    WindowCompactor,
    WindowConfig,
)
from siltstone.engine import Compacted, Skipped
from siltstone.testing import RecordingHook, ScriptedModel

SYSTEM = {"role": "system", "content": "Be exact."}


def test_the_compaction_of_a_request_is_the_last_attempt() -> None:
    first, last = (Skipped([], 0, 0, reason=reason) for reason in ("vetoed", "in_flight"))
    assert Prepared([], [], 0, (first, last)).compaction is last
    assert Prepared([], [], 0).compaction is None


def test_mk_52_discarded_messages_are_searchable_in_the_owning_session_alone(tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path) as store:
        a = Session.open(None, "a", policy=small(), model=ScriptedModel(), memory=store)
        b = Session.open(None, "b", policy=small(), model=ScriptedModel(), memory=store)
        for session, word in ((a, "walrus"), (b, "condor")):
            session.append(
                user(f"tell me of the {word} " * 40),
                assistant("a long story " * 30),
                user("and now?"),
                assistant("now"),
            )
            assert isinstance(session.compact(), Compacted)
        assert a.search("walrus")[0].source_range == (0, 1)
        assert a.search("condor") == []
        assert b.search("walrus") == []


def test_a_reopened_session_has_the_same_view_log_usage_and_entries(tmp_path: Path) -> None:
    with Session.open(tmp_path, "s", policy=small(), model=ScriptedModel()) as session:
        session.append(SYSTEM)
        play(session, conversation(12))
        history, log, usage = session.history(), session.log(), session.usage
        levels = [getattr(raw, "level", 0) for raw in history]
        hits = session.search("topic1")
        clock = session._core.clock
    with Session.open(tmp_path, "s", policy=small(), model=ScriptedModel()) as session:
        assert session.history() == history
        assert [getattr(raw, "level", 0) for raw in session.history()] == levels
        assert max(levels) >= 2
        assert session.log() == log
        assert session.usage == usage
        assert session.search("topic1") == hits
        assert session._core.clock == clock
        play(session, conversation(6))
        assert session.log()[: len(log)] == log


def test_mk_13_boundaries_count_over_the_life_of_a_session(tmp_path: Path) -> None:
    big = user("word " * 2000)
    with Session.open(tmp_path, "s", policy=small(), model=ScriptedModel()) as session:
        session.append(user("a"), assistant("b"), big)
        assert session.prepare().compaction is None, "boundary 0 never compacts"
    with Session.open(tmp_path, "s", policy=small(), model=ScriptedModel()) as session:
        session.append(assistant("c"), user("d"))
        assert isinstance(session.prepare().compaction, Compacted)


def test_the_provider_s_count_is_a_trigger_of_its_own(tmp_path: Path) -> None:
    with Session.open(tmp_path, "s", policy=small(5000), model=ScriptedModel()) as session:
        session.append(user("a"))
        session.prepare()
        session.append(assistant("a long story " * 750), user("c"))
        session.prepare()
        session.append(assistant("d"), user("e"), usage={"prompt_tokens": 6000})
        outcome = session.prepare().compaction
        assert isinstance(outcome, Compacted)
        assert outcome.events[0].cause == "input_tokens"  # type: ignore[union-attr]
        assert session._core.clock.last_input_tokens == 0


def test_a_boundary_that_cannot_be_fitted_changes_nothing_although_the_policy_could_compact(
    tmp_path: Path,
) -> None:
    """The policy's compaction used to be committed, and only then was it found to be of no use."""
    hook, model = RecordingHook(), ScriptedModel()
    with Session.open(
        tmp_path, "s", policy=small(), model=model, context_window=1_000, hooks=[hook]
    ) as session:
        session.append(*conversation(8))
        session.append({"role": "system", "content": "rule " * 1_200}, user("and now?"))
        session._core.pass_boundary()  # boundary 0 never compacts
        before = session.history()
        with pytest.raises(ContextOverflowError) as caught:
            session.prepare()
        assert caught.value.tokens > 1_000
        assert session.history() == before
        assert model.requests == []
        assert hook.events == []
        assert session.compactions() == []


def test_a_result_that_a_repair_adds_after_the_fit_has_its_room_before_anything_is_changed() -> None:
    """A result that leaves had answered an older call of its id. Only after the commit was there no room."""
    call = {"type": "function_call", "call_id": "c", "name": "read_file", "arguments": "the"}
    result = {"type": "function_call_output", "call_id": "c", "output": "the"}
    text = [{"type": "output_text", "text": "the " * 20, "annotations": []}]
    said: list[dict[str, Any]] = [
        {"type": "message", "role": "user", "content": "the"},
        {**call, "id": "fc_3"},
        {**result, "id": "out_4"},
        {**call, "id": "fc_6"},
        {"type": "reasoning", "id": "rs_3", "summary": []},
        {"type": "message", "id": "msg_4", "role": "assistant", "content": text},
        {**call, "id": "fc_5"},
        {**result, "id": "out_6"},
    ]
    held = 0
    for window in range(100, 170):
        policy = WindowCompactor(WindowConfig(estimator="bytes/4"))
        with Session.open(
            None, "s", memory=SimpleMemoryStore(), policy=policy, context_window=window
        ) as session:
            session.append(*said)
            session.pin(0)
            before = session.history()
            try:
                assert session.prepare().tokens <= window
                held += 1
            except ContextOverflowError:
                assert session.history() == before
    assert 0 < held < 70


def test_the_lists_of_an_answer_are_its_own_and_those_of_its_moment_whenever_they_are_read(
    tmp_path: Path,
) -> None:
    said = [user("one"), assistant("two")]
    with Session.open(tmp_path, "s", policy=small()) as session:
        session.append(*said)
        early, unread, other = session.prepare(), session.prepare(), session.prepare()
        early.messages.append("a note of the host")
        early.history.clear()
        session.append(user("three"))
        assert unread.messages == unread.history == said
        assert unread.messages is unread.messages
        assert unread.messages is not unread.history
        assert all(a is b for a, b in zip(unread.messages, said, strict=True))
        assert other == unread
        assert pickle.loads(pickle.dumps(other)) == unread
        assert early.messages[2:] == ["a note of the host"]
        assert early.history == []
        assert session.prepare().messages == [*said, user("three")]
        with pytest.raises(AttributeError, match="no 'message'"):
            early.message  # type: ignore[attr-defined]  # noqa: B018
