"""Rows of the checklist whose words say more than one file of tests holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from siltstone import (
    CompactionConfig,
    Completion,
    MemoryStore,
    Session,
    SimpleMemoryStore,
    ThresholdCompactor,
)
from siltstone.engine import Compacted, Failed
from siltstone.events import CompactionCompleted
from siltstone.llm import UsageRecord
from siltstone.testing import RecordingHook, ScriptedModel

POLICY = ThresholdCompactor(CompactionConfig(auto_compact_threshold=600, max_summary_tokens=50))
TURNS = [
    message
    for number in range(12)
    for message in (
        {"role": "user", "content": f"Question {number}. " + "word " * 40},
        {"role": "assistant", "content": f"Answer {number}. " + "word " * 40},
    )
]


def test_mk_14_a_failed_attempt_is_remembered_over_a_restart(tmp_path: Path) -> None:
    asked: list[int] = []

    def broken(request: Any) -> str:
        asked.append(1)
        raise RuntimeError("down")

    config = CompactionConfig(
        auto_compact_threshold=5_000, max_summary_tokens=50, retry_delay=0, on_model_failure="fail"
    )
    policy = ThresholdCompactor(config)

    def boundary(session: Session) -> bool:
        before = len(asked)
        session.append({"role": "user", "content": "Go on."}, usage={"input_tokens": 5_100})
        session.prepare()
        return len(asked) > before

    with Session.open(tmp_path, "s", policy=policy, model=broken) as session:
        session.append(*TURNS)
        assert [boundary(session), boundary(session), boundary(session)] == [False, True, False]
    with Session.open(tmp_path, "s", policy=policy, model=broken) as session:
        assert [boundary(session), boundary(session)] == [False, True], "index 3 and 4; the attempt was 1"


PNG = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
MEDIA: list[list[dict[str, Any]]] = [
    [{"role": "user", "content": [{"type": "text", "text": "Look."}, PNG]}],
    [
        {
            "role": "user",
            "content": [{"type": "image", "source": {"type": "url", "url": "https://e.org/a.png"}}],
        }
    ],
    [
        {
            "role": "user",
            "content": [{"type": "video_url", "video_url": {"url": "data:video/mp4;base64,AAAA"}}],
        }
    ],
    [
        {"role": "user", "content": "Take a picture."},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "shoot", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": [PNG]}]},
    ],
]


@pytest.mark.parametrize("turn", MEDIA, ids=["inline", "reference", "video", "result"])
def test_mk_33_media_of_every_kind_survive_in_a_retained_turn(tmp_path: Path, turn: list[Any]) -> None:
    policy = ThresholdCompactor(CompactionConfig(auto_compact_threshold=20_000, max_summary_tokens=50))
    with Session.open(tmp_path, "s", policy=policy, model=ScriptedModel()) as session:
        session.append(*TURNS, *turn, {"role": "assistant", "content": "I see."})
        assert isinstance(session.compact(), Compacted)
        kept = session.history()[-len(turn) - 1 : -1]
        assert all(one is other for one, other in zip(kept, turn, strict=True))
    with Session.open(tmp_path, "s") as session:
        assert session.history()[-len(turn) - 1 : -1] == json.loads(json.dumps(turn))


def test_mk_52_what_was_discarded_is_found_when_the_completion_is_told(tmp_path: Path) -> None:
    found: list[int] = []

    def hook(event: object) -> None:
        if isinstance(event, CompactionCompleted):
            with MemoryStore.open(tmp_path, read_only=True) as other:
                found.append(len(other.entries("s").entries))

    with Session.open(tmp_path, "s", policy=POLICY, model=ScriptedModel(), hooks=[hook]) as session:
        session.append(*TURNS)
        outcome = session.compact()
        assert found == [len(outcome.discarded)]


def test_mk_57_usage_is_charged_where_indexing_fails() -> None:
    store, hook = SimpleMemoryStore(), RecordingHook()

    def model(request: Any) -> Completion:
        store.close()
        return Completion("Short.", UsageRecord("m", 100, 5))

    session = Session.open(None, "s", policy=POLICY, model=model, memory=store, hooks=[hook])
    session.append(*TURNS)
    outcome = session.compact()
    assert isinstance(outcome, Failed)
    assert (outcome.reason, outcome.error_class) == ("memory_indexing_failed", "StoreClosedError")
    assert sum(record.input_tokens for record in outcome.usage) == 100
    assert session.usage.input_tokens == 100
    assert outcome.messages == TURNS
    assert hook.names == ["CompactionStarted", "CompactionFailed"]


@pytest.mark.parametrize("usage", [object(), "many", {"input_tokens": "7"}, -1])
def test_mk_59_a_compaction_has_its_end_where_a_model_tells_no_usage(usage: Any) -> None:
    hook = RecordingHook()
    with Session.open(
        None, "s", policy=POLICY, model=lambda request: Completion("Short.", usage),
        memory=SimpleMemoryStore(), hooks=[hook],
    ) as session:  # fmt: skip
        session.append(*TURNS)
        outcome = session.compact()
        assert hook.names[0] == "CompactionStarted"
        assert hook.names.count("CompactionCompleted") + hook.names.count("CompactionFailed") == 1
        assert isinstance(outcome, Compacted | Failed)
        session.append({"role": "user", "content": "Still here?"})
        assert session.prepare().messages[-1]["content"] == "Still here?"
