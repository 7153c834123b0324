"""Compactions in the background: the conversation goes on, and nothing is lost, whatever comes between."""

import asyncio
import logging
import os
import random
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from compacting import assistant, exchange, filler, user
from gates import Gate
from siltstone import (
    AsyncSession,
    Completion,
    MemoryStore,
    ModelError,
    Session,
    SimpleMemoryStore,
    TieredCompactor,
    TieredConfig,
)
from siltstone.engine import Compacted, Failed, Skipped
from siltstone.events import CompactionCompleted, CompactionFailed, CompactionStarted, CompactionTriggered
from siltstone.messages import SummaryMessage, broken_tool_groups, encode, unmarked
from siltstone.session.background import Job
from siltstone.systems.spacebot.config import ChronicleConfig
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


def test_a_pin_that_came_meanwhile_stays():
    gate = Gate()
    with begun(gate) as session:
        session.pin(2)
        gate.open.set()
        session.wait_for_compaction(30)
        session.prepare()
        assert session.log()[2] in session.history()


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


SCHEDULES = int(os.environ.get("SILTSTONE_SCHEDULES", "12"))
STEPS = 60
SMALL_WINDOW = 1_200
BATCH = 12


class Schedule:
    """One session, the steps of its job in our hands, and what has to hold after each of them."""

    def __init__(self, number: int, store: MemoryStore, mode: Any) -> None:
        self.random, self.mode = random.Random(number), mode
        self.number, self.store = number, store
        self.said: list[Any] = []
        self.calls = self.emergencies = self.landed = self.stale = self.failures = 0
        self.hook = RecordingHook()
        self.session = self._opened()

    def _opened(self) -> Session:
        config = TieredConfig(
            retry_delay=0,
            attempts=1,
            summary_timeout=None,
            retry_after_turns=self.random.randint(0, 2),
            summary_stack_fraction=self.random.choice([0.05, 0.15]),
            mode=self.mode,
            chronicle=ChronicleConfig(
                interval_messages=self.random.choice([8, 40]),
                rollup_threshold=3,
                rollup_batch=2,
                whole_turns=self.random.choice([False, True]),
            ),
        )
        session = Session.open(
            None,
            f"s{self.number}",
            policy=TieredCompactor(config),
            model=lambda request: pytest.fail("no model is asked in the conversation's own thread"),
            context_window=SMALL_WINDOW,
            memory=self.store,
            hooks=[self.hook],
        )
        session._begin_driver = lambda: None  # type: ignore[method-assign] - the schedule drives the job
        return session

    @property
    def job(self) -> Job | None:
        return self.session._core.background.job

    def step(self) -> None:
        actions: list[tuple[Callable[[], None], int]] = [
            (self.append, 12),
            (self.prepare, 8),
            (self.work, 5),
            (self.finish, 2),
            (self.fail, 4),
            (self.flood, 2),
            (self.cancel, 1),
            (self.close, 1),
            (self.crash, 1),
            (self.other_worker, 1),
            (self.undo, 1),
            (self.forget, 1),
            (self.pin, 1),
            (self.compact, 1),
        ]
        chosen = self.random.choices([a for a, _ in actions], [weight for _, weight in actions])[0]
        chosen()
        self.check()

    def append(self) -> None:
        self._append(self.random.randint(5, 60))

    def _append(self, words: int) -> None:
        number = len(self.said)
        if self.random.random() < 0.3:
            raws = exchange(f"call{number}", f"Result {number}. {filler(words)}")
        else:
            raws = [user(f"Request {number}. {filler(words)}"), assistant(f"Answer {number}.")]
        self.session.append(*raws)
        self.said += raws

    def flood(self) -> None:
        """So much at once that nothing but an emergency helps."""
        for _ in range(4):
            self._append(60)
        self.prepare()

    def prepare(self) -> None:
        prepared = self.session.prepare()
        assert prepared.tokens <= SMALL_WINDOW
        assert broken_tool_groups(prepared.messages) == 0
        for outcome in prepared.outcomes:
            self._count(outcome)

    def _count(self, outcome: Any) -> None:
        if isinstance(outcome, Compacted):
            self.landed += bool(outcome.usage)
            self.emergencies += not outcome.usage
        elif isinstance(outcome, Failed):
            self.stale += outcome.reason == "stale"
            self.failures += outcome.reason != "stale"
            assert outcome.reason in ("stale", "llm_failed", "no_reduction", "cancelled")
        else:
            assert outcome.reason in (
                "in_flight",
                "no_valid_cut",
                "nothing_to_discard",
                "too_few",
                "too_little",
            )

    def work(self) -> None:
        job = self.job
        if job is not None and job.asked() is not None:
            self.calls += 1
            job.answer(
                Completion(f"Summary {self.number}.{self.calls}. " + filler(self.random.randint(1, 40)))
            )

    def finish(self) -> None:
        while (job := self.job) is not None and not job.is_done:
            self.work()

    def fail(self) -> None:
        job = self.job
        if job is not None and job.asked() is not None:
            error = self.random.choice([ModelError("down"), SystemExit(1), KeyboardInterrupt()])
            job.refuse(error)

    def cancel(self) -> None:
        if self.job is not None:
            self.job.cancel()

    def close(self) -> None:
        self.session.close()
        self.session = self._opened()

    def crash(self) -> None:
        """The process ends without a word, and another one opens the session."""
        self.hook = RecordingHook()
        self.session = self._opened()

    def other_worker(self) -> None:
        with Session.open(
            None,
            f"s{self.number}",
            policy=TieredCompactor(TieredConfig(mode=self.random.choice(["rolling", self.mode]))),
            model=lambda request: f"Other summary {len(self.said)}.",
            context_window=SMALL_WINDOW,
            memory=self.store,
        ) as other:
            other.compact()

    def undo(self) -> None:
        if len(self.session.history()) < 40:
            self.session.undo_compaction()

    def forget(self) -> None:
        self.session.forget(text="no such words")

    def pin(self) -> None:
        view = self.session._core.follow().view.messages()
        own = [m.seq for m in view if m.provenance == "original" and m.role == "user"]
        if own and not self.session._core.clock.pins:
            self.session.pin(self.random.choice(own))

    def compact(self) -> None:
        """A call of the host's, whose model would be asked at once: the job's own is not."""
        job = self.job
        if job is not None and not job.is_done:
            outcome = self.session.compact()
            assert (type(outcome), outcome.reason) == (Skipped, "in_flight")

    def check(self) -> None:
        """Every message is shown or summarised, once; every start that was told has its end."""
        view = self.session._core.follow().view.messages()
        numbers = [
            number
            for message in view
            for start, end in (message.covers or ((message.seq, message.seq + 1),))
            for number in range(start, end)
        ]
        assert sorted(numbers) == list(range(len(self.said))), "lost, or twice"
        summaries = [encode(m.raw) for m in view if isinstance(m.raw, SummaryMessage)]
        assert len(set(summaries)) == len(summaries)
        told = [type(event) for event in self.hook.events]
        started = told.count(CompactionStarted)
        ended = told.count(CompactionCompleted) + told.count(CompactionFailed)
        assert started - ended in ((0, 1) if self.job is not None else (0,))

        if self.mode == "chronicle":
            made = [each for each in self.session.checkpoints() if each.level == 0]
            starts = [0, *(each.end for each in made)]
            assert [each.start for each in made] == starts[: len(made)], "checkpoints are contiguous"
            assert [each.first for each in made] == list(range(1, len(made) + 1))

    def end(self) -> None:
        """Whatever came before: the next job begins, lands, and the log is whole."""
        self.finish()
        self.prepare()
        for _ in range(40):
            self._append(30)
            self.prepare()
            self.finish()
            if self.landed:
                break
        assert [encode(raw) for raw in self.session.log()] == [encode(raw) for raw in self.said]
        landed = self.landed
        for _ in range(40):
            self._append(30)
            self.prepare()
            self.finish()
            if self.landed > landed:
                break
        assert self.landed > landed, "no lock is stuck"
        self.session.close()


@pytest.mark.parametrize("mode", ["rolling", "chronicle"])
@pytest.mark.parametrize("first", range(0, SCHEDULES, BATCH))
def test_random_schedules_lose_nothing_and_leave_no_lock(first: int, mode: str, tmp_path: Path):
    kinds = dict.fromkeys(("landed", "emergencies", "stale", "failures"), 0)
    with MemoryStore.open(tmp_path) as store:
        for number in range(first, min(first + BATCH, SCHEDULES)):
            schedule = Schedule(number, store, mode)
            for _ in range(STEPS):
                schedule.step()
            schedule.end()
            for kind in kinds:
                kinds[kind] += getattr(schedule, kind)
    assert kinds["landed"]
    assert first > 0 or all(kinds.values()), kinds  # the first numbers meet every kind of end
