"""Compactions in the background: the conversation goes on, and nothing is lost, whatever comes between."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from compacting import assistant, filler, user
from gates import Gate
from siltstone import AsyncSession, Session, SimpleMemoryStore, TieredCompactor, TieredConfig
from siltstone.engine import Compacted, Failed, Skipped
from siltstone.events import CompactionCompleted, CompactionFailed, CompactionStarted, CompactionTriggered
from siltstone.messages import SummaryMessage, encode, unmarked
from siltstone.testing import RecordingHook

WINDOW = 4_000


def turns(count: int, first: int = 1, words: int = 40) -> list[dict[str, Any]]:
    """*count* complete turns of about 107 tokens each."""
    return [
        raw
        for n in range(first, first + count)
        for raw in (user(f"Request {n}. {filler(words)}"), assistant(f"Answer {n}. {filler(words)}"))
    ]


def opened(model: Any, hook: Any = None, path: Path | None = None, **settings: Any) -> Session:
    config = TieredConfig(**{"retry_delay": 0, "attempts": 1, "summary_timeout": None, **settings})
    return Session.open(
        path,
        "s",
        policy=TieredCompactor(config),
        model=model,
        context_window=WINDOW,
        memory=SimpleMemoryStore() if path is None else True,
        hooks=[hook] if hook else [],
    )


def opened_async(model: Any, policy: TieredCompactor | None = None, **options: Any) -> AsyncSession:
    options |= {"policy": policy or TieredCompactor(TieredConfig(summary_timeout=None)), "model": model}
    return AsyncSession.open(None, "s", context_window=WINDOW, memory=SimpleMemoryStore(), **options)


@contextmanager
def begun(gate: Gate, hook: Any = None, path: Path | None = None, **settings: Any) -> Iterator[Session]:
    """A session whose job has come to its model."""
    with opened(gate, hook, path, **settings) as session:
        session.append(*turns(31))
        assert session.prepare().outcomes == ()
        assert gate.reached.wait(300)
        yield session


def bytes_of(session: Session) -> list[str]:
    return [encode(raw) for raw in session.history()]


def test_sb_25_prepare_waits_for_no_model_and_the_view_has_the_old_messages():
    gate = Gate()
    with begun(gate) as session:
        before = [encode(raw) for raw in turns(31)]
        assert bytes_of(session) == before
        gate.open.set()
        assert session.wait_for_compaction(30)
        assert bytes_of(session) == before, "it comes in at a boundary"
        landed = session.prepare()
        assert isinstance(landed.compaction, Compacted)
        assert isinstance(session.history()[0], SummaryMessage)


@pytest.mark.parametrize("more", [0, 2], ids=["background", "aggressive"])
def test_sb_02_one_compaction_at_a_time(more: int):
    gate = Gate()
    with begun(gate) as session:
        session.append(*turns(more, 32), user("More."))
        assert (session.prepare().tokens >= WINDOW * 0.85) is bool(more)
        for outcome in (session.prepare().compaction, session.compact()):
            assert isinstance(outcome, Skipped)
            assert outcome.reason == "in_flight"
        gate.open.set()
        session.wait_for_compaction(30)
        assert gate.asked == 1
        session.append(user("Yet more."))
        assert isinstance(session.prepare().compaction, Compacted)


def test_sb_77_the_job_begins_with_a_user_message_and_lands_by_the_next_turn():
    gate = Gate()
    gate.open.set()
    with opened(gate) as session:
        session.append(*turns(30))
        session.append(user(f"Request 31. {filler(40)}"))
        session.prepare()
        assert session.wait_for_compaction(30)
        assert gate.asked == 1
        session.append(assistant("Answer 31."), user("Request 32."))
        prepared = session.prepare()
        assert unmarked(prepared.messages[0]["content"]).startswith("[Summary 1: turns 1-")


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OSError("the line is dead"), "llm_failed"),
        *((stop, "cancelled") for stop in (SystemExit(3), KeyboardInterrupt(), GeneratorExit())),
    ],
)
def test_sb_22_a_failure_leaves_every_byte_and_the_next_job_starts(error: BaseException, reason: str):
    hook, gate = RecordingHook(), Gate(error)
    gate.open.set()
    with begun(gate, hook, retry_after_turns=0, on_model_failure="fail") as session:
        session.wait_for_compaction(30)
        session.append(user("On."))
        failed = session.prepare().outcomes[0]
        assert (type(failed), failed.reason) == (Failed, reason)
        assert bytes_of(session)[:-1] == [encode(raw) for raw in turns(31)]
        session.wait_for_compaction(30)
        assert gate.asked == 2, "the next job starts"
        gate.answer = "What was said."
        for _ in range(2):
            session.append(user("And on."))
            landed = session.prepare()
            session.wait_for_compaction(30)
        assert isinstance(landed.outcomes[0], Compacted)
        assert [e.reason for e in hook.events if isinstance(e, CompactionFailed)] == [reason] * 2
        assert len([e for e in hook.events if isinstance(e, CompactionStarted)]) == 3


def test_a_second_driver_of_a_job_ends_at_once():
    """An interrupt may come after a driver was started, and before the session has noted it."""
    gate = Gate()
    with begun(gate) as session:
        job = session._core.background.job
        assert job is not None
        session._drive(job)
        assert gate.asked == 1
        assert not job.is_done
        gate.open.set()
        session.wait_for_compaction(30)
        session.append(user("On."))
        assert isinstance(session.prepare().compaction, Compacted)


def test_sb_23_what_is_appended_meanwhile_follows_the_summary_in_order():
    gate = Gate()
    with begun(gate) as session:
        late = [user("First."), assistant("Second."), user("Third.")]
        for raw in late:
            session.append(raw)
        gate.open.set()
        session.wait_for_compaction(30)
        prepared = session.prepare()
        assert isinstance(prepared.compaction, Compacted)
        assert all(one is other for one, other in zip(prepared.messages[-3:], late, strict=True))
        assert isinstance(prepared.messages[0], SummaryMessage)
        assert len(session.log()) == 65


def test_sb_24_an_emergency_goes_ahead_and_the_stale_summary_is_dropped():
    gate, hook = Gate(), RecordingHook()
    with begun(gate, hook) as session:
        session.append(*turns(3, 32, words=60), *turns(2, 35))
        emergency = session.prepare().compaction
        assert isinstance(emergency, Compacted)
        assert emergency.usage == ()
        assert "Emergency truncation: " in str(emergency.summary)
        gate.open.set()
        session.wait_for_compaction(30)
        view = bytes_of(session)
        session.append(user("On."))
        stale = session.prepare().outcomes[0]
        assert (type(stale), stale.reason) == (Failed, "stale")
        assert bytes_of(session)[:-1] == view
        assert "What was said." not in "".join(view)
        assert len(session.log()) == 73
        assert session.search("Request 3"), "what left with the emergency is found"
        assert session.usage.output_tokens > 0, "the summary was paid for"
        terminal = [e for e in hook.events if isinstance(e, CompactionCompleted | CompactionFailed)]
        assert len(terminal) == len([e for e in hook.events if isinstance(e, CompactionStarted)])


def test_sb_42_triggered_started_and_one_end_with_all_their_fields():
    gate, hook = Gate(), RecordingHook()
    gate.open.set()
    with opened(gate, hook) as session:
        session.append(*turns(31))
        session.prepare()
        session.wait_for_compaction(30)
        session.prepare()
    told = [e for e in hook.events if type(e).__name__.startswith("Compaction")]
    triggered, started, completed = told
    assert isinstance(triggered, CompactionTriggered)
    assert (triggered.action, triggered.session_id, triggered.policy) == ("background", "s", "tiered")
    assert triggered.threshold == 3_200
    assert triggered.usage == triggered.tokens / WINDOW
    assert isinstance(started, CompactionStarted)
    assert started.kind == "rolling"
    assert started.message_count == 62
    assert isinstance(completed, CompactionCompleted)
    assert completed.discarded == ((0, 18),)
    assert completed.messages_before - completed.messages_after == 17


def test_sb_75_the_log_has_usage_in_percent_action_turns_and_error(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO, "siltstone")
    gate = Gate()
    gate.open.set()
    with opened(gate, retry_after_turns=0, on_model_failure="fail") as session:
        session.append(*turns(31))
        session.prepare()
        session.wait_for_compaction(30)
        session.prepare()
        gate.answer = OSError("the line is dead")
        session.append(*turns(9, 40))
        session.prepare()
        session.wait_for_compaction(30)
        session.append(user("On."))
        session.prepare()
    records = {r.getMessage().partition(":")[0]: r for r in caplog.records if "compaction" in r.getMessage()}
    triggered, completed = records["compaction triggered"], records["compaction completed"]
    failed = records["compaction failed"]
    assert vars(triggered)["usage"].endswith("%")
    assert re.search(r"usage 8\d\.\d%", triggered.getMessage())
    assert vars(triggered)["action"] == "background"
    assert vars(completed)["turns_compacted"] == 9
    assert (failed.levelname, vars(failed)["error"]) == ("ERROR", "llm_failed")
    assert {vars(record)["session_id"] for record in records.values()} == {"s"}


def test_a_closed_session_gives_up_its_job_and_tells_so():
    gate, hook = Gate(), RecordingHook()
    with begun(gate, hook):
        pass
    gate.open.set()
    assert [e.reason for e in hook.events if isinstance(e, CompactionFailed)] == ["cancelled"]


def test_a_pin_that_came_meanwhile_stays():
    gate = Gate()
    with begun(gate) as session:
        session.pin(2)
        gate.open.set()
        session.wait_for_compaction(30)
        session.prepare()
        assert session.log()[2] in session.history()


def test_a_job_survives_neither_a_restart_nor_costs_it_a_message(tmp_path: Path):
    gate = Gate()
    answer = lambda request: "Said."  # noqa: E731
    with begun(gate, path=tmp_path) as session, opened(answer, path=tmp_path) as other:  # another worker
        assert isinstance(other.compact(), Compacted)
        view = bytes_of(other)
        gate.open.set()
        session.wait_for_compaction(30)
        stale = session.prepare().outcomes[0]
        assert (type(stale), stale.reason) == (Failed, "stale")
        assert bytes_of(session) == view


def test_an_async_session_goes_on_while_its_task_waits():
    async def play() -> None:
        release, reached = asyncio.Event(), asyncio.Event()

        async def model(request: Any) -> str:
            reached.set()
            await release.wait()
            return "What was said."

        async with opened_async(model) as session:
            await session.append(*turns(31))
            assert (await session.prepare()).outcomes == ()
            await reached.wait()
            await session.append(user("Meanwhile."))
            assert isinstance((await session.prepare()).compaction, Skipped)
            assert not await session.wait_for_compaction(0)
            release.set()
            assert await session.wait_for_compaction()
            prepared = await session.prepare()
            assert isinstance(prepared.compaction, Compacted)
            assert prepared.messages[-1] == user("Meanwhile.")

    asyncio.run(play())


def test_an_async_session_that_is_closed_cancels_its_task():
    async def play() -> None:
        hook, reached = RecordingHook(), asyncio.Event()

        async def model(request: Any) -> str:
            reached.set()
            await asyncio.sleep(3_600)
            return ""

        async with opened_async(model, hooks=[hook]) as session:
            await session.append(*turns(31))
            await session.prepare()
            await reached.wait()
        await asyncio.sleep(0)
        assert [e.reason for e in hook.events if isinstance(e, CompactionFailed)] == ["cancelled"]

    asyncio.run(play())


def test_an_extraction_that_awaits_is_awaited():
    async def play() -> None:
        seen: list[Any] = []

        async def extract(raws: Any) -> None:
            await asyncio.sleep(0)
            seen.extend(raws)

        async with opened_async(lambda request: "Said.", TieredCompactor(extract=extract)) as session:
            await session.append(*turns(31))
            await session.prepare()
            await session.wait_for_compaction()
            assert seen == turns(31)[:18]

    asyncio.run(play())
