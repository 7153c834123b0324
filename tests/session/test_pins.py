"""Pins of a session, and what is sent beside its history."""

from __future__ import annotations

from pathlib import Path

import pytest

from conversations import assistant, conversation, play, user
from siltstone import CompactionConfig, ConfigError, Session, ThresholdCompactor, estimate_tokens
from siltstone.engine import Compacted
from siltstone.testing import ScriptedModel

POLICY = ThresholdCompactor(CompactionConfig(auto_compact_threshold=600, max_summary_tokens=50))


def test_a_pin_outlives_compactions_and_a_restart(tmp_path: Path) -> None:
    messages = conversation()
    with Session.open(tmp_path, "s", policy=POLICY, model=ScriptedModel()) as session:
        session.append(*messages[:4])
        session.pin(0)
        session.pin(3)
        session.pin(3)
        play(session, messages[4:])
        assert session.history()[0] is messages[0]
        assert any(message is messages[3] for message in session.history())
    with Session.open(tmp_path, "s", policy=POLICY, model=ScriptedModel()) as session:
        assert session.history()[0] == messages[0]
        session.unpin(0)
        session.unpin(0)
        session.append(*conversation(3))
        assert isinstance(session.compact(), Compacted)
        assert session.history()[0] != messages[0]
        assert session.history()[1] == messages[3]


@pytest.mark.parametrize("seq", [-1, 48, 10**9])
def test_what_is_not_in_the_view_cannot_be_pinned(tmp_path: Path, seq: int) -> None:
    with Session.open(tmp_path, "s", policy=POLICY, model=ScriptedModel()) as session:
        session.append(*conversation())
        with pytest.raises(ConfigError, match=f"got {seq}") as caught:
            session.pin(seq)
        assert caught.value.field == "seq"
        assert isinstance(session.compact(), Compacted)
        with pytest.raises(ConfigError, match="cannot be pinned"):
            session.pin(0)


# -- what is sent beside the history -------------------------------------------------------------


def test_rule_10_a_policy_for_one_boundary_is_checked_too(tmp_path: Path) -> None:
    with Session.open(tmp_path, "s", reserved_tokens=700) as session:
        session.append(user("hello"))
        with pytest.raises(ConfigError, match="reserved_tokens, got 700"):
            session.prepare(policy=POLICY)


def test_rule_16_what_came_since_the_provider_counted_is_added(tmp_path: Path) -> None:
    policy = ThresholdCompactor(CompactionConfig(auto_compact_threshold=5_000))
    with Session.open(tmp_path, "s", policy=policy, model=ScriptedModel(), reserved_tokens=100) as session:
        session.append(user("a"))
        session.prepare()
        session.append(assistant("a long story " * 750), user("c"))
        session.prepare()
        session.append(assistant("d"), user("e"), usage=4_900)
        assert session.prepare().compaction is None
        session.append(user("word " * 120))
        outcome = session.prepare().compaction
        assert isinstance(outcome, Compacted)
        assert outcome.events[0].cause == "forecast"  # type: ignore[union-attr]


def test_rule_16_the_error_of_our_estimate_is_exposed(tmp_path: Path) -> None:
    with Session.open(tmp_path, "s", reserved_tokens=50) as session:
        assert session.estimate_error is None
        session.append(user("word " * 200))
        ours = estimate_tokens(session.history(), "blocks") + 50
        session.append(assistant("ok"), usage={"input_tokens": 200})
        assert session.estimate_error == pytest.approx(ours / 200 - 1)
        session.append(user("more"))
        assert session.estimate_error == pytest.approx(ours / 200 - 1)


def test_mk_12_the_bytes_of_the_request_are_a_trigger_in_a_session(tmp_path: Path) -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 40_000}}
    policy = ThresholdCompactor(CompactionConfig(max_request_bytes=100_000))
    with Session.open(tmp_path, "s", policy=policy, model=ScriptedModel()) as session:
        session.append(user("a"))
        session.prepare()
        session.append(assistant("b"), {"role": "user", "content": [image]}, assistant("c"), user("d"))
        assert session.prepare().compaction is None
        session.append(assistant("e"), {"role": "user", "content": [image]}, assistant("f"), user("g"))
        outcome = session.prepare().compaction
        assert isinstance(outcome, Compacted)
        assert outcome.events[0].cause == "bytes"  # type: ignore[union-attr]
