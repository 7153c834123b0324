"""Random schedules of a session under both modes of tiered compaction: nothing waits, nothing is lost.

``SILTSTONE_SCHEDULES`` sets how many there are, 12 by default; each is drawn from its number alone.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from compacting import assistant, exchange, filler, user
from siltstone import Completion, MemoryStore, ModelError, Session, TieredCompactor, TieredConfig
from siltstone.engine import Compacted, Failed, Skipped
from siltstone.events import CompactionCompleted, CompactionFailed, CompactionStarted
from siltstone.messages import SummaryMessage, broken_tool_groups, encode
from siltstone.session.background import Job
from siltstone.systems.spacebot.config import ChronicleConfig
from siltstone.testing import RecordingHook

SCHEDULES = int(os.environ.get("SILTSTONE_SCHEDULES", "12"))
STEPS = 60
WINDOW = 1_200
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
            context_window=WINDOW,
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
        assert prepared.tokens <= WINDOW
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
        """One step of the job."""
        job = self.job
        if job is not None and job.asked() is not None:
            self.calls += 1
            job.answer(
                Completion(f"Summary {self.number}.{self.calls}. " + filler(self.random.randint(1, 40)))
            )

    def finish(self) -> None:
        """All steps that are left."""
        while (job := self.job) is not None and not job.is_done:
            self.work()

    def fail(self) -> None:
        job = self.job
        if job is not None and job.asked() is not None:
            error = self.random.choice([ModelError("down"), SystemExit(1), KeyboardInterrupt()])
            job.refuse(error)

    def cancel(self) -> None:
        """Whoever drives the job is ended."""
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
            context_window=WINDOW,
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
