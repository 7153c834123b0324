"""Nothing that is done with a list of messages takes longer than in proportion: calls are counted.

Time would depend on the machine. The test counts every call that Python makes, also calls of C functions.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from compacting import Raw, assistant, exchange, user
from siltstone import CompactionConfig, ThresholdCompactor, compact, plan
from siltstone.messages import SummaryMessage, read_history, repair, validate_history

SMALL, FACTOR = 300, 10
SLACK = 1.25  # of proportional growth: a sort has a logarithm, and so has a bisection


def calls(work: Callable[[], object]) -> int:
    """How many functions *work* calls."""
    numbers = count()
    before = sys.getprofile()
    gc.disable()  # what is collected may be another test's, and would be counted here
    sys.setprofile(lambda frame, event, arg: next(numbers) if event in ("call", "c_call") else None)
    try:
        work()
    finally:
        sys.setprofile(before)
        gc.enable()
    return next(numbers)


def chat(size: int) -> list[Any]:
    """Short turns with a call in each."""
    raws: list[Any] = []
    for number in range(size // 4):
        raws += [user(f"Request {number}?"), *exchange(f"call_{number}", "done " * 9), assistant("Yes.")]
    return raws


def one_turn(size: int) -> list[Any]:
    """An agent that works for long at one request."""
    raws: list[Any] = [user("Do it all.")]
    for number in range(size // 2):
        raws += exchange(f"call_{number}", "done " * 9)
    return raws


def nameless(size: int) -> list[Any]:
    """Calls without ids, all of one name, and only then their results."""
    call: Raw = {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}}
    result: Raw = {"role": "function", "name": "f", "content": "done"}
    return [user("Do it."), *[call] * (size // 2), *[result] * (size // 2), assistant("Done."), user("Now?")]


def pictures(size: int) -> list[Any]:
    """Messages that the core leaves to Python."""
    picture = {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}}
    return [
        {"role": role, "content": [picture, {"type": "text", "text": "look"}]}
        for _ in range(size // 2)
        for role in ("user", "assistant")
    ]


def summaries(size: int) -> list[Any]:
    """Summaries, each with a message of its own between them."""
    raws: list[Any] = []
    for number in range(size // 2):
        raws += [SummaryMessage("[Context compacted]\n\nSome of it.", ((2 * number, 2 * number + 1),))]
        raws += [user(f"Request {number}: " + "word " * 9)]
    return raws


HISTORIES = [chat, one_turn, nameless, pictures, summaries]
SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "requests": {"keep_user_messages": True, "recent_turn_budget": 4},
    "unbounded": {"retained_token_budget": None, "recent_turn_budget": 10_000},
    "pieces": {"summarizer_window": 2_000, "recent_turn_budget": 4},
}


def answer(_: object) -> str:
    return "What was said."


def grows(work: Callable[[list[Any]], object], make: Callable[[int], list[Any]]) -> float:
    """How many times the calls of *work* there are for ten times the messages."""
    few, many = make(SMALL), make(SMALL * FACTOR)
    work(make(SMALL))  # what is done once has been done
    return calls(lambda: work(many)) / calls(lambda: work(few))


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("make", HISTORIES, ids=lambda make: make.__name__)
def test_a_plan_and_a_compaction_grow_with_the_list(make: Callable[[int], list[Any]], setting: str):
    settings = {"auto_compact_threshold": 4_000, "max_summary_tokens": 64, **SETTINGS[setting]}
    policy = ThresholdCompactor(CompactionConfig(**settings))
    assert grows(lambda raws: plan(raws, policy), make) <= SLACK * FACTOR
    assert grows(lambda raws: compact(raws, policy, model=answer), make) <= SLACK * FACTOR


@pytest.mark.parametrize("make", HISTORIES, ids=lambda make: make.__name__)
@pytest.mark.parametrize("work", [read_history, validate_history, repair], ids=lambda work: work.__name__)
def test_reading_validating_and_repairing_grow_with_the_list(
    work: Callable[[list[Any]], object], make: Callable[[int], list[Any]]
):
    assert grows(work, make) <= SLACK * FACTOR


def test_a_plan_makes_no_message():
    """Each call of a plan is made once and not once a message, so that its cost is the core's."""
    policy = ThresholdCompactor()
    raws = chat(SMALL * FACTOR)
    plan(raws, policy)
    assert calls(lambda: plan(raws, policy)) < len(raws)
