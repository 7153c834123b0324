"""Chains: the next step runs only while too much is left, and what the steps did is one rewrite."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from compacting import assistant, exchange, filler, outcome, user
from playing import Play, said
from siltstone import (
    Chain,
    ClearToolResults,
    CompactionConfig,
    CompressToolOutput,
    ConfigError,
    Session,
    SmartTrim,
    SmartTrimConfig,
    ThresholdCompactor,
    WaterfallCompactor,
    WaterfallConfig,
    WindowCompactor,
)
from siltstone.compaction import Compaction, CompactionContext, Skip, Trigger
from siltstone.compaction.results import ClearConfig
from siltstone.engine import Compacted, Failed
from siltstone.messages import read_history
from siltstone.tokens import message_bytes, request_bytes

THRESHOLD = ThresholdCompactor(CompactionConfig(recent_turn_budget=4, retry_delay=0))


def talk(count: int, words: int = 200) -> list[Any]:
    return [(user, assistant)[n % 2](f"Topic {n} {filler(words)}") for n in range(count)]


def test_a_step_that_is_enough_is_the_last():
    session = Play(Chain([SmartTrim(), THRESHOLD]), window=16_000)  # as a list, too
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

    strict = ThresholdCompactor(replace(THRESHOLD.config, on_model_failure="fail"))
    session = Play(Chain(strict, SmartTrim()), down, window=16_000)
    session.append(*talk(80))
    assert isinstance(session.boundary(), Compacted)
    alone = Play(Chain(strict), down, window=16_000)
    alone.append(*talk(80))
    assert isinstance(alone.boundary(), Failed)


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


def summaries_asked(policy: Any, messages: list[Any], window: int, place: Any) -> list[int]:
    """The number of messages at each request for a summary, in a session with *policy*."""
    asked: list[int] = []

    def answer(request: Any) -> str:
        asked.append(len(session.log()))
        return "What was said, in short."

    with Session.open(place, "s", policy=policy, model=answer, context_window=window) as session:
        for message in messages:
            session.append(message)
            session.prepare()
    return asked


def patient(**settings: Any) -> ThresholdCompactor:
    return ThresholdCompactor(CompactionConfig(retry_delay=0, auto_compact_threshold=3_000, **settings))


def test_a_step_that_is_due_early_and_has_nothing_to_do_asks_for_no_summary_early(tmp_path: Path):
    messages = talk(120, 60)
    alone = summaries_asked(patient(), messages, 4_000, tmp_path / "alone")
    chain = Chain(CompressToolOutput(), ClearToolResults(), patient())
    assert summaries_asked(chain, messages, 4_000, tmp_path / "chain") == alone
    assert len(alone) > 2


def test_results_that_are_cleared_early_enough_spare_the_summary(tmp_path: Path):
    messages = worked(30, 300)
    clear = ClearToolResults(ClearConfig(min_reclaim=0, keep_results=1, wait_for_cache=False))
    assert summaries_asked(patient(), messages, 4_000, tmp_path / "alone")
    assert summaries_asked(Chain(clear, patient()), messages, 4_000, tmp_path / "chain") == []


def due_at(context: dict[str, Any], *steps: Any, **options: Any) -> Any:
    """The trigger of a chain of *steps* at a boundary with these figures."""
    figures: dict[str, Any] = {"boundary": 5, "context_window": 10_000, "message_count": 20, **context}
    return Chain(*steps, **options).should_compact(CompactionContext(**figures))


def names_of_runs(trigger: Any, *steps: Any, **options: Any) -> list[str]:
    """The steps of a chain that run for *trigger*, over a history that none of them makes smaller."""
    ran: list[str] = []

    def noted(step: Any) -> Any:
        def flow(history: Any, trigger: Any) -> Any:
            ran.append(step.name)
            return Skip("nothing_to_discard", "nothing")
            yield

        step.flow = flow
        return step

    flow = Chain(*map(noted, steps), **options).flow(read_history(talk(6)), trigger)
    with pytest.raises(StopIteration):
        next(flow)
    return ran


@pytest.mark.parametrize(
    ("tokens", "ran"), [(5_500, ["clear-tool-results"]), (9_000, ["clear-tool-results", "threshold"])]
)
def test_a_step_after_the_last_one_that_is_due_does_not_run(tokens: int, ran: list[str]):
    def steps() -> Any:
        return ClearToolResults(), ThresholdCompactor(CompactionConfig())

    trigger = due_at({"estimated_history_tokens": tokens}, *steps())
    assert names_of_runs(trigger, *steps()) == ran
    assert names_of_runs(trigger, *steps(), target=0.3) == ["clear-tool-results", "threshold"]


def test_a_step_before_the_one_that_is_due_runs_though_it_is_not_due():
    def steps() -> Any:
        return ClearToolResults(ClearConfig(trigger_fraction=0.95)), ThresholdCompactor(CompactionConfig())

    trigger = due_at({"estimated_history_tokens": 9_000}, *steps())
    assert names_of_runs(trigger, *steps()) == ["clear-tool-results", "threshold"]


def test_an_open_breaker_of_a_step_holds_in_a_chain():
    context = {"estimated_history_tokens": 9_000, "low_yield_attempts": 3, "last_attempt_boundary": 4}

    def steps(on_model_failure: Any) -> Any:
        return ClearToolResults(), ThresholdCompactor(CompactionConfig(on_model_failure=on_model_failure))

    closed = due_at(context, *steps("fail"))
    assert names_of_runs(closed, *steps("fail")) == ["clear-tool-results"]
    waiting = due_at(context, *steps("fallback_summary"))
    assert names_of_runs(waiting, *steps("fallback_summary")) == ["clear-tool-results", "threshold"]
    assert dict(waiting.steps)["threshold"].model_calls == 0
