"""A summariser that is dead is asked a few times, and no request waits for it for long."""

from __future__ import annotations

from typing import Any

import pytest

from compacting import Raw, exchange, filler, user
from siltstone import CompactionConfig, Session, SimpleMemoryStore, ThresholdCompactor
from siltstone.engine import Compacted
from siltstone.testing import ScriptedModel

WINDOW = 8_000


def played(model: Any, boundaries: int, **settings: Any) -> list[list[Any]]:
    """What was attempted at each boundary of an agent at work."""
    policy = ThresholdCompactor(CompactionConfig(retry_delay=0, **settings))
    attempts = []
    store = SimpleMemoryStore()
    with Session.open(None, "x", policy=policy, model=model, memory=store, context_window=WINDOW) as session:
        session.append(user("Build it."))
        for number in range(boundaries):
            prepared = session.prepare()
            assert prepared.tokens <= WINDOW
            assert any(raw == user("Build it.") for raw in prepared.messages)
            attempts.append(list(prepared.outcomes))
            session.append(*step(number))
    return attempts


def step(number: int) -> list[Raw]:
    return exchange(f"call_{number}", filler(700))


def dead(error: Exception | None = None) -> ScriptedModel:
    return ScriptedModel([error or ConnectionError("no route to host")])


def test_a_dead_summariser_is_asked_at_most_12_times_in_149_requests():
    model = dead()
    attempts = played(model, 149)
    assert 8 <= len(model.requests) <= 12
    assert sum(isinstance(each, Compacted) for outcomes in attempts for each in outcomes) > 10


def test_while_the_breaker_is_open_an_attempt_is_one_call():
    model = dead()
    outcomes = [each for boundary in played(model, 149, on_model_failure="fail") for each in boundary]
    failed = sum(getattr(each, "reason", "") == "llm_failed" for each in outcomes)
    assert failed > 3
    assert len(model.requests) == 3 * 2 + (failed - 3)


def test_with_a_fallback_compactions_go_on_and_the_model_is_asked_as_seldom():
    model = dead()
    attempts = played(model, 149, on_model_failure="fallback_summary")
    assert len(model.requests) <= 12
    made = [each for outcomes in attempts for each in outcomes if isinstance(each, Compacted)]
    assert len(made) > 10
    assert all(each.degraded for each in made)


def test_a_list_of_models_is_not_asked_through_while_the_breaker_is_open():
    one, other = dead(), dead()
    played([one, other], 149)
    assert len(other.requests) == 3, "each attempt asks both once, and later ones the first alone"
    assert len(one.requests) > len(other.requests)


@pytest.mark.parametrize("fallback", ["fail", "fallback_summary"])
def test_a_summariser_that_comes_back_closes_the_breaker(fallback: str):
    model = ScriptedModel([*[ConnectionError("down")] * 8, "The agent built it."])
    attempts = played(model, 200, on_model_failure=fallback)
    last = [each for outcomes in attempts[100:] for each in outcomes]
    assert last
    assert all(isinstance(each, Compacted) and not each.degraded for each in last)
    assert len(model.requests) >= 8 + len(last)
