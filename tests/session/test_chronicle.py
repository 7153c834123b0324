"""Checkpoints in a session: they are durable and contiguous, and stale ones are refused."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import siltstone
from compacting import assistant, filler, user
from gates import Gate
from siltstone.engine import Compacted, Failed
from siltstone.events import CompactionStarted
from siltstone.messages import encode
from siltstone.systems.spacebot.config import ChronicleConfig
from siltstone.testing import RecordingHook

WINDOW = 16_000


def turns(count: int, first: int = 1) -> list[dict[str, Any]]:
    return [
        raw
        for n in range(first, first + count)
        for raw in (user(f"Request {n}. {filler(30)}"), assistant(f"Answer {n}. {filler(30)}"))
    ]


def policy(mode: Any = "chronicle", **settings: Any) -> siltstone.TieredCompactor:
    config = siltstone.TieredConfig(
        mode=mode, retry_delay=0, attempts=1, summary_timeout=None, chronicle=ChronicleConfig(**settings)
    )
    return siltstone.TieredCompactor(config)


class Writer:
    """A model that numbers its answers."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, request: Any) -> str:
        self.asked += 1
        return f"Part {self.asked}\n\nWhat was said in part {self.asked}."


def opened(path: Path | None = None, memory: Any = None, **options: Any) -> siltstone.Session:
    given = {"policy": policy(), "model": Writer(), "context_window": WINDOW, "background": False}
    memory = memory or (siltstone.SimpleMemoryStore() if path is None else True)
    return siltstone.Session.open(path, "s", memory=memory, **{**given, **options})


@contextmanager
def waiting(memory: Any = None) -> Iterator[tuple[siltstone.Session, Callable[[], Any]]]:
    """A session whose checkpoint waits for its model, and a call that lets it come and takes it in."""
    slow = Gate("Slow\n\nA slow checkpoint.")
    with opened(None, memory, model=slow, background=True) as session:
        session.append(*turns(22))
        session.prepare()
        assert slow.reached.wait(300)

        def landed(**options: Any) -> list[Any]:
            slow.open.set()
            assert session.wait_for_compaction(30)
            return [each for each in session.prepare(**options).outcomes if isinstance(each, Failed)]

        yield session, landed


def said(session: siltstone.Session, count: int, first: int = 1) -> None:
    """Turns, each with its boundary."""
    for raws in zip(*[iter(turns(count, first))] * 2, strict=True):
        session.append(raws[0])
        session.prepare()
        session.append(raws[1])


def assert_contiguous(session: siltstone.Session) -> None:
    made = [each for each in session.checkpoints() if each.level == 0]
    assert [each.start for each in made] == [0, *(each.end for each in made)][: len(made)]


def test_sb_44_of_two_workers_that_cut_at_once_one_is_refused(tmp_path: Path):
    with siltstone.MemoryStore.open(tmp_path) as store, waiting(store) as (one, landed):
        with opened(None, store) as other:
            assert isinstance(other.compact(), Compacted)
        assert [outcome.reason for outcome in landed()] == ["stale"]
        (only,) = one.checkpoints()
        assert (only.title, only.start, only.end) == ("Part 1", 0, 42)


def test_sb_43_a_head_that_changed_makes_a_checkpoint_stale():
    with waiting() as (session, landed):
        session.append(*turns(172, 23))
        prepared = session.prepare()  # an emergency goes ahead
        assert [outcome.usage for outcome in prepared.outcomes if isinstance(outcome, Compacted)] == [()]
        assert [outcome.reason for outcome in landed()] == ["stale"]
        assert [each.kind for each in session.checkpoints()] == ["emergency"]
        assert_contiguous(session)


def test_sb_43_a_change_of_the_mode_makes_a_job_stale():
    with waiting() as (session, landed):
        before = [encode(raw) for raw in session.history()]
        assert [outcome.reason for outcome in landed(policy=policy("rolling"))] == ["stale"]
        assert [encode(raw) for raw in session.history()] == before
        assert session.checkpoints() == []


def test_what_a_host_took_back_is_in_no_checkpoint():
    with opened() as session:
        kept = turns(10)
        session.observe([*kept, user("Deploy to production, secretly."), assistant("Done.")])
        session.observe([*kept, user("Deploy to staging."), assistant("Done."), *turns(20, 50)])
        requests: list[str] = []

        def model(request: Any) -> str:
            requests.append(str([raw["content"] for raw in request.messages]))
            return "Title\n\nText."

        session._model = model
        assert isinstance(session.compact(), Compacted)
        assert "staging" in requests[0]
        assert "secretly" not in requests[0]
        told = session.chronicle_tool.call({"action": "expand", "checkpoint": "1"})
        assert "secretly" not in told


def test_what_is_forgotten_leaves_the_checkpoints_and_the_view():
    with opened() as session:
        session.append(user("The password of the vault is basalt-77."), assistant("Noted."))
        session._model = lambda request: (
            "The vault\n\nIts password is basalt-77."
            if "basalt" in str(list(request.messages))
            else "T\n\nText."
        )
        said(session, 30)
        assert "basalt" in session.checkpoints()[0].summary
        report = session.forget(text="The password of the vault is basalt-77.")
        assert report.messages == 1
        assert "basalt" not in "".join(encode(raw) for raw in session.history())
        (first, *_) = session.checkpoints()
        assert (first.start, first.title, first.summary) == (0, "", "")
        said(session, 40, 40)
        assert "basalt" not in "".join(encode(raw) for raw in session.history())
        assert "[Checkpoint 1: messages 0-" in "".join(encode(raw) for raw in session.history())
        (first, *_) = session.checkpoints()
        assert (first.start, first.title, first.summary) == (0, "T", "Text."), "made anew of what is left"
        assert_contiguous(session)


def test_without_a_model_a_forgotten_checkpoint_says_so():
    with opened() as session:
        said(session, 25)
        session._model = None
        session.forget(text="Request 1. " + filler(30))
        (first,) = session.checkpoints()
        assert (first.title, first.summary, first.end) == ("", "", first.end)
        told = json.loads(session.chronicle_tool.call({"action": "open", "checkpoint": "1"}))
        assert told["forgotten"] is True


def test_the_model_looks_through_the_chronicle_by_a_tool():
    with opened(policy=policy(expand_message_limit=10)) as session:
        said(session, 60)
        tool = session.chronicle_tool
        assert tool.name == "chronicle"
        assert tool.name in [each.name for each in session.tools]
        assert "call chronicle" in session.memory_instructions
        listed = json.loads(tool.call({"action": "list"}))
        assert [row["checkpoint"] for row in listed["checkpoints"]] == ["1", "2", "3"]
        assert (
            json.loads(tool.call({"action": "open", "checkpoint": "2"}))["summary"]
            == "What was said in part 2."
        )
        numbers, after = [], None
        for _ in range(20):
            told = json.loads(tool.call({"action": "expand", "checkpoint": "2", "after": after}))
            assert len(told["messages"]) <= 10
            numbers += [int(row["handle"][1:]) for row in told["messages"]]
            after = told.get("next")
            if after is None:
                break
        second = session.checkpoints()[1]
        assert numbers == list(range(second.start, second.end))


def test_a_session_without_checkpoints_says_so():
    with opened(policy=siltstone.ThresholdCompactor()) as session:
        with pytest.raises(siltstone.ConfigError, match="has the policy 'threshold' and no checkpoints"):
            session.checkpoints()
        with pytest.raises(siltstone.ConfigError, match="no checkpoints"):
            session.chronicle_tool  # noqa: B018 - the property is the call
        assert "chronicle" not in [each.name for each in session.tools]


def test_the_event_of_a_run_says_its_mode():
    hook = RecordingHook()
    with opened(hooks=[hook]) as session:
        said(session, 25)
        assert {event.kind for event in hook.events if isinstance(event, CompactionStarted)} == {"chronicle"}


def test_a_long_session_keeps_a_small_state():
    with opened(policy=policy(rollup_threshold=3, rollup_batch=3)) as session:
        said(session, 320)
        records = session.compactions()
        assert len(session.checkpoints()) >= 20
        assert all(len(json.dumps(record.state)) < 1_500 for record in records)
        assert max(each.level for each in session.checkpoints()) == 2
        assert_contiguous(session)
