"""A session at its boundaries: what it sends, when it compacts, what it keeps."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from conversations import assistant, exchange, play, small, turns, user
from siltstone import ContextOverflowError, MemoryStore, Prepared, Session
from siltstone.engine import Compacted, Skipped
from siltstone.messages import broken_tool_groups
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


def test_a_second_prepare_without_a_message_in_between_is_the_first_one_again(tmp_path: Path) -> None:
    model = ScriptedModel()
    with Session.open(tmp_path, "s", policy=small(100), model=model) as session:
        play(session, [message for turn in turns(2) for message in turn])
        session.append(user("next"))
        calls = len(model.requests)
        first, second = session.prepare(), session.prepare()
        assert len(model.requests) <= calls + 1
        assert first == second
        assert first.messages is not second.messages


def test_a_reopened_session_has_the_same_view_log_usage_and_entries(tmp_path: Path) -> None:
    with Session.open(tmp_path, "s", policy=small(), model=ScriptedModel()) as session:
        session.append(SYSTEM)
        play(session, [message for turn in turns(12) for message in turn])
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
        play(session, [message for turn in turns(6) for message in turn])
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


def test_a_request_larger_than_the_window_is_refused_with_both_numbers(tmp_path: Path) -> None:
    hook = RecordingHook()
    with Session.open(
        tmp_path, "s", policy=small(), model=ScriptedModel(), context_window=1000, hooks=[hook]
    ) as session:
        huge = user("word " * 4000)
        session.append(SYSTEM, user("before"), assistant("ok"), huge)
        before = session.history()
        with pytest.raises(ContextOverflowError, match=r"5,?\d\d\d.*1,?000") as caught:
            session.prepare()
        assert caught.value.context_window == 1000
        assert caught.value.tokens > 1000
        assert session.history() == before
        assert hook.names.count("CompactionStarted") == hook.names.count("CompactionFailed")


def test_one_huge_turn_in_flight_is_kept_within_the_window(tmp_path: Path) -> None:
    with Session.open(
        tmp_path, "s", policy=small(800), model=ScriptedModel(), context_window=1000
    ) as session:
        request = user("Do all forty steps, please.")
        session.append(SYSTEM, request)
        for number in range(40):
            prepared = session.prepare()
            assert prepared.tokens <= 1000
            assert any(message is request for message in prepared.messages)
            assert broken_tool_groups(prepared.messages) == 0
            if number:
                assert prepared.messages[-1]["content"].startswith(f"output {number - 1} ")
            session.append(*exchange(number, f"output {number} " + "x " * 300))
        assert len(session.log()) == 82


def test_a_result_larger_than_the_window_is_archived_and_excerpted(tmp_path: Path) -> None:
    with Session.open(
        tmp_path, "s", policy=small(960), model=ScriptedModel(), context_window=1200
    ) as session:
        session.append(user("go"), *exchange(0, "NEEDLE " + "hay " * 5000))
        prepared = session.prepare()
        assert prepared.tokens <= 1200
        assert broken_tool_groups(prepared.messages) == 0
        assert "NEEDLE" in "".join(str(message["content"]) for message in prepared.messages)
        assert "NEEDLE" in session.search("needle")[0].content


def test_a_boundary_that_cannot_be_fitted_changes_nothing_although_the_policy_could_compact(
    tmp_path: Path,
) -> None:
    """The policy's compaction used to be committed, and only then was it found to be of no use."""
    hook, model = RecordingHook(), ScriptedModel()
    with Session.open(
        tmp_path, "s", policy=small(), model=model, context_window=1_000, hooks=[hook]
    ) as session:
        session.append(*(message for turn in turns(8) for message in turn))
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
