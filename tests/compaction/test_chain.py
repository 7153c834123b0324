"""Chains: the next step runs only while too much is left, and what the steps did is one rewrite."""

from __future__ import annotations

from typing import Any

import pytest

from compacting import assistant, filler, user
from playing import Play, said
from siltstone import (
    Chain,
    Compacted,
    CompactionConfig,
    ConfigError,
    Failed,
    Skipped,
    SmartTrim,
    SmartTrimConfig,
    ThresholdCompactor,
    WaterfallCompactor,
    WaterfallConfig,
    WindowCompactor,
)
from siltstone.compaction import Trigger

THRESHOLD = ThresholdCompactor(CompactionConfig(retry_delay=0))


def talk(count: int, words: int = 200) -> list[Any]:
    return [(user, assistant)[n % 2](f"Topic {n} {filler(words)}") for n in range(count)]


def test_a_step_that_is_enough_is_the_last():
    session = Play(Chain(SmartTrim(), THRESHOLD), window=16_000)
    session.append(*talk(60))
    outcome = session.boundary()
    assert isinstance(outcome, Compacted)
    assert session.requests == []
    assert outcome.summaries == ()


def test_the_next_step_runs_where_too_much_is_left():
    session = Play(Chain(SmartTrim(SmartTrimConfig(target_share=1)), THRESHOLD, target=0.3), window=16_000)
    session.append(*talk(60))
    outcome = session.boundary()
    assert isinstance(outcome, Compacted)
    assert len(session.requests) == 1
    assert len(outcome.summaries) == 1
    assert outcome.tokens_after <= 0.3 * 16_000
    in_view = {m.seq for m in session.view if not m.covers}
    gone = {n for start, end in outcome.covers for n in range(start, end)}
    assert gone | in_view == set(range(60))
    assert gone.isdisjoint(in_view)


def test_the_states_of_the_steps_are_kept_apart():
    waterfall = WaterfallCompactor(WaterfallConfig(immediate_window=2, recent_window=2))
    session = Play(Chain(waterfall, WindowCompactor()))
    session.add(*said(9))
    assert session.runs == [5, 7, 9]
    assert session.state["waterfall"]["last"] == 9


def test_a_step_that_fails_leaves_the_history_to_the_next():
    def down(request: Any) -> str:
        raise OSError("down")

    session = Play(Chain(THRESHOLD, SmartTrim()), down, window=16_000)
    session.append(*talk(80))
    assert isinstance(session.boundary(), Compacted)
    alone = Play(Chain(THRESHOLD), down, window=16_000)
    alone.append(*talk(80))
    assert isinstance(alone.boundary(), Failed)


def test_nothing_to_do_is_a_skip():
    session = Play(Chain(SmartTrim(), WindowCompactor()), window=200_000)
    session.append(*said(4))
    assert session.boundary() is None
    assert isinstance(session.compact(Trigger("count", context_window=200_000)), Skipped)


@pytest.mark.parametrize(
    ("steps", "target", "field"),
    [((), None, "steps"), ((THRESHOLD, THRESHOLD), None, "steps"), ((THRESHOLD,), 0, "target")],
)
def test_a_chain_that_cannot_work_is_refused(steps: Any, target: Any, field: str):
    with pytest.raises(ConfigError) as caught:
        Chain(*steps, target=target)
    assert caught.value.field == field  # type: ignore[attr-defined]


def test_a_step_that_would_not_work_in_the_window_is_refused():
    with pytest.raises(ConfigError, match="safe limit"):
        Chain(SmartTrim()).check_overhead(0, 4_000)
