"""One place decides what may never leave a request: for every policy, and for the emergency fit."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from compacting import assistant, exchange, filler, system, user
from siltstone import (
    Chain,
    ClearToolResults,
    Compacted,
    CompactionConfig,
    Compactor,
    Failed,
    Session,
    SimpleMemoryStore,
    SmartTrim,
    SmartTrimConfig,
    ThresholdCompactor,
    TieredCompactor,
    TieredConfig,
    WaterfallCompactor,
    WaterfallConfig,
    WindowCompactor,
    WorkerCompactor,
    compact,
)
from siltstone.compaction import Compaction, Skip, Trigger
from siltstone.compaction.rewrite import rewrite
from siltstone.compaction.select import parted
from siltstone.llm import Flow
from siltstone.messages import Message

WINDOW = 2_500

POLICIES: dict[str, Callable[[], Compactor]] = {
    "threshold": ThresholdCompactor,
    "no recent turn": lambda: ThresholdCompactor(CompactionConfig(recent_turn_budget=0)),
    "tiered": TieredCompactor,
    "chronicle": lambda: TieredCompactor(TieredConfig(mode="chronicle")),
    "worker": WorkerCompactor,
    "window": WindowCompactor,
    "waterfall": lambda: WaterfallCompactor(WaterfallConfig(immediate_window=4, recent_window=4)),
    "smart trim": lambda: SmartTrim(SmartTrimConfig(reserve_tokens=200)),
    "chain": lambda: Chain(ClearToolResults(), ThresholdCompactor()),
}


def opened(policy: Compactor) -> Session:
    return Session.open(
        None, "s", memory=SimpleMemoryStore(), policy=policy, context_window=WINDOW, background=False
    )


def loops(seed: int, turns: int) -> Iterator[list[dict[str, Any]]]:
    """The steps of *turns* turns: a request, then calls with results of very different sizes."""
    draw = random.Random(seed)
    for turn in range(turns):
        yield [user(f"Turn {turn}: look at the sluice once more.")]
        for step in range(draw.choice([1, 3, 6, 9])):
            size = draw.choice([5, 50, 200, 500])
            yield exchange(f"c{turn}-{step}", f"Level {step}. {filler(size)}")
        yield [assistant("It holds. " * 10)]


@pytest.mark.parametrize("name", POLICIES)
def test_the_newest_request_the_rules_and_pins_are_in_every_request(name: str) -> None:
    with opened(POLICIES[name]()) as session:
        always = [system("You watch the sluices."), user("Never open the north gate.")]
        session.append(*always, assistant("Understood."))
        session.pin(1)
        for step in loops(7, 16):
            session.append(*step)
            if step[0]["role"] == "user":
                newest = step[0]
            if step[-1]["role"] != "assistant":
                sent = session.prepare().messages
                assert all(message in sent for message in [*always, newest])
        assert session.compactions()


def test_a_worker_keeps_its_task_in_an_emergency_too() -> None:
    """The results of one segment are larger than the window, so the emergency fit acts before its end."""
    with opened(WorkerCompactor()) as session:
        task = user("Inspect all sluices.")
        session.append(task)
        for step in range(12):
            session.append(*exchange(f"c{step}", f"Sluice {step}. {filler(400)}"))
            assert task in session.prepare().messages
        session.append(user("Look at the north gate first."), *exchange("gate", filler(400)))
        sent = session.prepare().messages
        assert task in sent
        assert user("Look at the north gate first.") in sent
        assert {record.policy for record in session.compactions()} >= {"emergency"}


def test_a_task_that_is_larger_than_the_window_leaves_in_an_emergency() -> None:
    with opened(WorkerCompactor()) as session:
        session.append(user(filler(2_200)), assistant("Done."), user("And now?"))
        session.append(*exchange("c", filler(40)))
        assert session.prepare().messages[-3] == user("And now?")


class Careless:
    """A policy of a host that keeps only the newest message."""

    name = "careless"
    token_rule = ThresholdCompactor().token_rule

    def should_compact(self, context: Any) -> None:
        """Never due."""

    def flow(self, history: Sequence[Message], trigger: Trigger) -> Flow[Compaction | Skip]:
        yield from ()
        kept = {len(history) - 2, len(history) - 1}
        return rewrite(history, parted(history, kept), "All of it.", "Summary:")


def test_a_policy_that_discards_the_newest_request_is_refused() -> None:
    history = [user(filler(50)), assistant("Yes."), user("And now?"), *exchange("c", filler(40))]
    refused = compact(history, Careless())
    assert isinstance(refused, Failed)
    assert refused.reason == "rewrite_invalid"
    assert "the user's newest request at position 2" in refused.message
    answered = compact([*history, assistant("It holds."), user("Good.")], Careless())
    assert isinstance(answered, Compacted)
