"""Chains: the next step runs only while too much is left, and what the steps did is one rewrite."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from compacting import assistant, exchange, filler, outcome, user
from playing import Play, said
from siltstone import (
    Chain,
    ClearConfig,
    ClearToolResults,
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
from siltstone.compaction import Compaction, Trigger
from siltstone.messages import read_history
from siltstone.tokens import message_bytes, request_bytes

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


def worked(steps: int, words: int) -> list[Any]:
    """A few turns with results of *words* words each."""
    return [each for n in range(steps) for each in (user(f"Ask {n}."), *exchange(f"c{n}", filler(words)))]


def asked_for(raws: list[Any], settings: dict[str, Any], due: Trigger) -> int:
    """How many summaries a chain asks for that clears results first: 0 if clearing them was enough."""
    clear = ClearToolResults(ClearConfig(min_reclaim=0, keep_results=1))
    threshold = ThresholdCompactor(CompactionConfig(retry_delay=0, recent_turn_budget=1, **settings))
    asked: list[Any] = []

    def answer(request: Any) -> str:
        asked.append(request)
        return "What was found, in short."

    kept = {"keeps_substitutes": True, "reader": "memory_get", "context_window": 100_000}
    _, result = outcome(raws, Chain(clear, threshold), answer, trigger=replace(due, **kept))
    assert isinstance(result, Compaction)
    assert result.substitutes or result.summary
    return len(asked)


def test_receipts_make_no_messages_fewer_so_a_chain_due_by_their_number_goes_on():
    raws = worked(8, 300)
    due = Trigger("count", tokens=5_000, threshold=80_000)
    assert asked_for(raws, {"max_messages": len(raws)}, due) == 1


def test_a_chain_due_by_bytes_stops_below_them_and_no_sooner():
    raws = worked(8, 300)
    size = request_bytes(sum(map(message_bytes, read_history(raws))))
    due = Trigger("bytes", tokens=5_000, threshold=80_000)
    assert asked_for(raws, {"max_request_bytes": size}, due) == 0, "the receipts are short"
    assert asked_for(raws, {"max_request_bytes": size // 10}, due) == 1, "they are not short enough"
    assert asked_for(raws, {"max_request_bytes": 10 * size}, due) == 1, "the host alone knows what it sends"


@pytest.mark.parametrize("reason", ["input_tokens", "forecast"])
def test_a_chain_due_by_the_count_of_a_provider_takes_off_what_was_reclaimed(reason: Any):
    raws = worked(8, 300)
    assert asked_for(raws, {}, Trigger(reason, tokens=80_100, threshold=80_000)) == 0
    assert asked_for(raws, {}, Trigger(reason, tokens=95_000, threshold=80_000)) == 1
