"""Rows of the checklist of threshold compaction that need a whole session."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conversations import assistant, conversation, exchange, user
from shapes import blocks, use
from siltstone import (
    CompactionConfig,
    Completion,
    MemoryStore,
    Session,
    SimpleMemoryStore,
    ThresholdCompactor,
)
from siltstone.compaction import Compaction, Compactor, Skip, Trigger
from siltstone.engine import Compacted, Failed
from siltstone.errors import StoreCorruptError
from siltstone.events import CompactionCompleted, MemoryIndexed
from siltstone.llm import Flow, UsageRecord
from siltstone.memory.convert import NewEntry
from siltstone.memory.database_log import entry_of
from siltstone.messages import Message, encode, read_history
from siltstone.session.counters import CompactionClock
from siltstone.testing import RecordingHook, ScriptedModel
from storing import message

POLICY = ThresholdCompactor(CompactionConfig(auto_compact_threshold=600, max_summary_tokens=50))


def test_mk_15_the_clock_survives_its_own_text() -> None:
    clock = CompactionClock(7, None, 5, 2, 900, 40, (1, 4), usage=UsageRecord("m", 3))
    assert CompactionClock.from_json(clock.to_json(), "s") == clock
    assert CompactionClock.from_json(CompactionClock().to_json(), "s") == CompactionClock()
    assert CompactionClock.from_json("", "s") == CompactionClock()


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "7",
        "[]",
        '{"boundary": -1}',
        '{"boundary": true}',
        '{"no_such_count": 1}',
        '{"pins": [-1]}',
        '{"pins": 3}',
    ],
)
def test_mk_15_a_corrupt_clock_is_an_error_and_never_inferred(text: str) -> None:
    with pytest.raises(StoreCorruptError, match="session 's'"):
        CompactionClock.from_json(text, "s")


@pytest.mark.parametrize("kind", ["simple", "durable"])
def test_mk_15_a_missing_clock_is_inferred_once_and_stored_at_once(tmp_path: Path, kind: str) -> None:
    """A log that something else wrote, without a clock: every answer in it had its boundary."""
    with SimpleMemoryStore() if kind == "simple" else MemoryStore.open(tmp_path) as store:
        log = store.open_log("s")
        written = [message(encode(raw), role=raw["role"]) for raw in conversation()]
        log.append(written, expected=log.state().version, clock="", write_id=1)
        answers = sum(raw["role"] == "assistant" for raw in conversation())
        with Session.open(None, "s", memory=store) as session:
            assert session._core.clock.boundary == answers
            assert CompactionClock.from_json(log.state().clock, "s").boundary == answers
        clock = CompactionClock(boundary=3).to_json()
        log.save_clock(clock, expected=log.state().version, write_id=2)
        with Session.open(None, "s", memory=store) as session:
            assert session._core.clock.boundary == 3, "what is stored is never inferred again"


def test_mk_15_a_history_that_a_host_brings_may_be_compacted_at_once(tmp_path: Path) -> None:
    """Boundary 0 is the session's: this one was passed before the history came here."""
    policy = ThresholdCompactor(CompactionConfig(auto_compact_threshold=600, max_summary_tokens=50))
    history = [*conversation(), *conversation(), user("and now?")]
    with Session.open(tmp_path, "s", policy=policy, model=ScriptedModel()) as session:
        session.observe(history)
        assert isinstance(session.prepare().compaction, Compacted)
    items: list[Any] = [
        user("go"),
        {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"},
        {"type": "function_call", "call_id": "b", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "a", "output": "ok"},
        {"type": "function_call_output", "call_id": "b", "output": "ok"},
        {"type": "message", "role": "assistant", "content": "done"},
    ]
    assert CompactionClock.inferred(read_history(items)).boundary == 2


class Spoilt:
    """The entries of a compaction, one of which the store refuses in the middle of the batch."""

    def __init__(self, at: int) -> None:
        self.at, self.handed = at, 0

    def __call__(self, message: Message, created_at: int, **how: Any) -> NewEntry | None:
        made = entry_of(message, created_at, **how)
        self.handed += made is not None
        return made._replace(start=9, end=2) if made and self.handed == self.at else made


@pytest.mark.parametrize("kind", ["simple", "durable"])
def test_mk_54_a_partial_index_failure_leaves_no_rows(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook, spoilt = RecordingHook(), Spoilt(3)
    with (
        SimpleMemoryStore() if kind == "simple" else MemoryStore.open(tmp_path) as store,
        Session.open(None, "s", policy=POLICY, model=ScriptedModel(), memory=store, hooks=[hook]) as session,
    ):
        session.append(*conversation())
        monkeypatch.setattr("siltstone.session.rows.entry_of", spoilt)
        outcome = session.compact()
        assert (type(outcome), outcome.reason) == (Failed, "memory_indexing_failed")
        assert spoilt.handed >= 3
        assert hook.names == ["CompactionStarted", "CompactionFailed"]
        assert session.history() == conversation()
        assert session.compactions(undone=True) == []
        assert store.entries("s").entries == ()
        monkeypatch.undo()
        assert isinstance(session.compact(), Compacted)
        assert len(store.entries("s").entries) > 3


def test_mk_58_tool_results_left_out_of_memory_keep_everybody_s_offsets(tmp_path: Path) -> None:
    messages = [
        user("first"), assistant("a"), user("second"), *exchange(1, "walrus"), assistant("b"), user("third"),
        assistant("c"), *exchange(2, "condor"), assistant("d"), user("last"), assistant("e"),
    ]  # fmt: skip
    assert [at for at, raw in enumerate(messages) if raw["role"] == "tool"] == [4, 9]
    policy = ThresholdCompactor(CompactionConfig(recent_turn_budget=1, max_summary_tokens=8))
    hook = RecordingHook()
    with (
        MemoryStore.open(tmp_path) as store,
        Session.open(
            None, "s", policy=policy, model=lambda request: ".", memory=store, index_tools=False, hooks=[hook]
        ) as session,
    ):
        session.append(*messages)
        outcome = session.compact()
        assert outcome.covers == ((0, 11),)
        found = [tuple(entry.source_range) for entry in store.entries("s").entries]
        spoken = [at for at in range(11) if isinstance(messages[at]["content"], str) and at not in (4, 9)]
        assert found == [(at, at + 1) for at in spoken]
        (indexed,) = (event for event in hook.events if isinstance(event, MemoryIndexed))
        assert (indexed.entries, indexed.messages) == (len(spoken), 11), "handed over, and left out"
        assert session.expand(outcome.compaction_id or 0)[4]["content"] == "walrus"
        assert session.search("walrus condor") == []


class Hostile(Compactor):
    """A policy whose rewrite is spoilt before it is handed over."""

    name = "hostile"
    token_rule = POLICY.token_rule

    def __init__(self, **changes: Any) -> None:
        self.changes = changes

    def should_compact(self, context: object) -> Trigger | None:
        return None

    def flow(self, history: Sequence[Message], trigger: Trigger) -> Flow[Compaction | Skip]:
        result = yield from POLICY.flow(history, trigger)
        assert isinstance(result, Compaction)
        return replace(result, **self.changes)


@pytest.mark.parametrize(
    "changes",
    [{"messages": ()}, {"retained": ()}, {"discarded": ()}, {"covers": ((0, 1),)}, {"summary": "Else."}],
)
def test_mk_55_a_hostile_rewrite_is_refused_before_anything_is_written(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    hook = RecordingHook()
    with MemoryStore.open(tmp_path) as store:
        session = Session.open(
            None, "s", policy=Hostile(**changes), model=ScriptedModel(), memory=store, hooks=[hook]
        )
        session.append(*conversation())
        before = session.history()
        outcome = session.compact()
        assert (type(outcome), outcome.reason) == (Failed, "rewrite_invalid")
        assert session.history() == before
        assert store.entries("s").entries == ()
        assert hook.names == ["CompactionStarted", "CompactionFailed"]


def test_mk_57_usage_is_charged_for_every_piece_of_an_attempt_that_fails() -> None:
    answers = [Completion("A part.", UsageRecord("m", 100, 5)), Completion(" ", UsageRecord("m", 90, 1))]
    policy = ThresholdCompactor(replace(POLICY.config, summarizer_window=1_024, on_model_failure="fail"))
    with Session.open(
        None, "s", policy=policy, model=ScriptedModel(answers), memory=SimpleMemoryStore()
    ) as session:
        session.append(*conversation(60))
        assert isinstance(session.compact(), Failed)
        assert (session.usage.input_tokens, session.usage.output_tokens) == (190, 6)


TURNS = [
    message
    for number in range(12)
    for message in (
        user(f"Question {number}. " + "word " * 40),
        assistant(f"Answer {number}. " + "word " * 40),
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
        session.append(user("Go on."), usage={"input_tokens": 5_100})
        session.prepare()
        return len(asked) > before

    with Session.open(tmp_path, "s", policy=policy, model=broken) as session:
        session.append(*TURNS)
        assert [boundary(session), boundary(session), boundary(session)] == [False, True, False]
    with Session.open(tmp_path, "s", policy=policy, model=broken) as session:
        assert [boundary(session), boundary(session)] == [False, True], "index 3 and 4; the attempt was 1"


PNG = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
VIDEO = {"type": "video_url", "video_url": {"url": "data:video/mp4;base64,AAAA"}}
LINKED = {"type": "image", "source": {"type": "url", "url": "https://e.org/a.png"}}
SHOT = {"type": "tool_result", "tool_use_id": "t", "content": [PNG]}
MEDIA: dict[str, list[Any]] = {
    "inline": [blocks("user", {"type": "text", "text": "Look."}, PNG)],
    "reference": [blocks("user", LINKED)],
    "video": [blocks("user", VIDEO)],
    "result": [user("Take a picture."), use("t"), blocks("user", SHOT)],
}


@pytest.mark.parametrize("kind", MEDIA)
def test_mk_33_media_of_every_kind_survive_in_a_retained_turn(tmp_path: Path, kind: str) -> None:
    turn = MEDIA[kind]
    policy = ThresholdCompactor(CompactionConfig(auto_compact_threshold=20_000, max_summary_tokens=50))
    with Session.open(tmp_path, "s", policy=policy, model=ScriptedModel()) as session:
        session.append(*TURNS, *turn, assistant("I see."))
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
        session.append(user("Still here?"))
        assert session.prepare().messages[-1]["content"] == "Still here?"
