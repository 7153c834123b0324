"""When a compaction is due: boundaries, thresholds, the spacing of attempts, the breaker."""

from __future__ import annotations

from typing import Any

import pytest

from siltstone.compaction import CompactionContext
from siltstone.errors import ConfigError
from siltstone.systems.meerkat import CompactionConfig, ThresholdCompactor

OVER = 100_000  # the default threshold
POLICY = ThresholdCompactor()


def due(policy: ThresholdCompactor = POLICY, **context: Any) -> str | None:
    """The reason why *policy* acts, None where it does not."""
    trigger = policy.should_compact(CompactionContext(**context))
    return None if trigger is None else trigger.reason


def with_config(**settings: Any) -> ThresholdCompactor:
    return ThresholdCompactor(CompactionConfig(**settings))


NEAR = {"boundary": 6, "last_compaction_boundary": 5}  # one boundary after a compaction
FULL = {"last_input_tokens": 10**9, "estimated_history_tokens": 10**9, "request_bytes": 10**12}
STRICT = {"strict_guard": True, "max_request_bytes": 10}
AT = {"last_compaction_boundary": 5, "last_input_tokens": OVER}
FAILED = {"last_attempt_boundary": 1, "last_input_tokens": OVER}
LATER = {"boundary": 9, "last_input_tokens": OVER}


@pytest.mark.parametrize(
    ("settings", "context", "reason"),
    [
        # MK-01: boundary 0 never compacts, whatever the tokens
        ({"max_request_bytes": 1}, {"boundary": 0, **FULL}, None),
        ({"max_request_bytes": 1}, {"boundary": 1, **FULL}, "history_tokens"),
        # MK-02: the guard counts from the last compaction
        ({}, {"boundary": 6, **AT}, None),
        ({}, {"boundary": 7, **AT}, None),
        ({}, {"boundary": 8, **AT}, "input_tokens"),
        ({}, {"boundary": 9, **AT}, "input_tokens"),
        # MK-03: a history at its threshold bypasses the guard
        ({}, {**NEAR, "last_attempt_boundary": 5, "last_input_tokens": OVER}, None),
        ({}, {**NEAR, "last_attempt_boundary": 5, "estimated_history_tokens": OVER}, "history_tokens"),
        # the strict guard holds for every trigger
        (STRICT, {"boundary": 7, "last_compaction_boundary": 5, **FULL}, None),
        (STRICT, {"boundary": 8, "last_compaction_boundary": 5, **FULL}, "history_tokens"),
        # MK-04, MK-05: boundary 1 may compact, and a figure exactly at the threshold fires
        ({}, {"boundary": 1, "last_input_tokens": OVER}, "input_tokens"),
        ({}, {"boundary": 1, "estimated_history_tokens": OVER}, "history_tokens"),
        # MK-06, MK-07: a large history needs no count of the last call; nothing fires below the thresholds
        ({}, {"boundary": 1, "last_input_tokens": 0, "estimated_history_tokens": OVER + 1}, "history_tokens"),
        ({}, {"boundary": 9, "last_input_tokens": OVER - 1, "estimated_history_tokens": OVER - 1}, None),
        # MK-08 to MK-10: four fifths of the byte cap fire, whatever the guard; without a cap no bytes do
        ({"max_request_bytes": 9_000_000}, {"boundary": 1, "request_bytes": 7_200_000}, "bytes"),
        ({"max_request_bytes": 9_000_000}, {"boundary": 1, "request_bytes": 7_199_999}, None),
        ({}, {"boundary": 1, "request_bytes": 10**12}, None),
        ({"max_request_bytes": 9_000_000}, {**NEAR, "request_bytes": 7_200_000}, "bytes"),
        # MK-12: with a cap, tokens alone fire too
        ({"max_request_bytes": 1_000}, {"boundary": 1, "last_input_tokens": OVER}, "input_tokens"),
        ({"max_request_bytes": 1_000}, {"boundary": 1, "estimated_history_tokens": OVER}, "history_tokens"),
        # MK-14: a failed attempt starts the cool-down
        ({}, {"boundary": 2, **FAILED}, None),
        ({}, {"boundary": 3, **FAILED}, None),
        ({}, {"boundary": 4, **FAILED}, "input_tokens"),
        # the later of compaction and attempt counts
        ({}, {**LATER, "last_compaction_boundary": 2, "last_attempt_boundary": 8}, None),
        ({}, {**LATER, "last_compaction_boundary": 8, "last_attempt_boundary": 2}, None),
        # reserved tokens count with the history, and do not override the guard by themselves
        ({}, {"boundary": 1, "estimated_history_tokens": OVER - 10, "reserved_tokens": 9}, None),
        ({}, {"boundary": 1, "estimated_history_tokens": OVER - 10, "reserved_tokens": 10}, "history_tokens"),
        ({}, {**NEAR, "estimated_history_tokens": OVER - 10, "reserved_tokens": 10}, None),
        ({}, {**NEAR, "estimated_history_tokens": OVER, "reserved_tokens": 10}, "history_tokens"),
        # a number of messages fires, and obeys the guard
        ({"max_messages": 200}, {"boundary": 1, "message_count": 199}, None),
        ({"max_messages": 200}, {"boundary": 1, "message_count": 200}, "count"),
        ({"max_messages": 200}, {"boundary": 6, "last_attempt_boundary": 5, "message_count": 900}, None),
        ({}, {"boundary": 1, "message_count": 10**6}, None),
    ],
)
def test_mk_01_02_03_04_05_06_07_08_09_10_12_14_when_a_policy_acts_and_why(
    settings: dict[str, Any], context: dict[str, Any], reason: str | None
):
    assert due(with_config(**settings), **context) == reason


def test_mk_11_a_forecast_fires_though_the_history_is_below_and_obeys_the_guard():
    below = {"estimated_history_tokens": 1_000, "reserved_tokens": 500}
    assert due(boundary=1, **below) is None
    assert due(boundary=1, **below, forecast_tokens=OVER - 1) is None
    assert due(boundary=1, **below, forecast_tokens=OVER) == "forecast"
    assert due(boundary=6, last_compaction_boundary=5, **below, forecast_tokens=10 * OVER) is None
    trigger = POLICY.should_compact(CompactionContext(1, forecast_tokens=OVER + 7))
    assert trigger.tokens == OVER + 7


def test_a_share_of_the_window_takes_the_place_of_the_threshold():
    policy = with_config(trigger_fraction=0.9)
    context = {"boundary": 1, "context_window": 1_000_000}
    assert due(policy, **context, estimated_history_tokens=899_999) is None
    assert due(policy, **context, estimated_history_tokens=900_000) == "fraction"
    assert due(policy, boundary=1, estimated_history_tokens=OVER) == "history_tokens", "no window is known"
    near = {"boundary": 6, "last_compaction_boundary": 5, "context_window": 1_000_000}
    assert due(policy, **near, estimated_history_tokens=900_000) == "fraction"


@pytest.mark.parametrize(
    ("window", "share", "threshold"), [(1_001, 0.9, 901), (100, 0.57, 57), (100, 0.29, 29)]
)
def test_a_share_of_the_window_is_reached_at_the_least_number_that_is_as_much(
    window: int, share: float, threshold: int
):
    """0.9 of 1,001 is 900.9; as floats 100 * 0.57 is less than 57, and 100 * 0.29 than 29."""
    assert CompactionConfig(trigger_fraction=share).effective_threshold(window) == threshold


@pytest.mark.parametrize(("window", "threshold"), [(None, OVER), (100_000, 90_000)])
def test_rule_10_an_overhead_at_the_threshold_is_refused_by_how_much(window: int | None, threshold: int):
    POLICY.check_overhead(threshold - 1, window)
    with pytest.raises(
        ConfigError, match=rf"threshold of {threshold} tokens.*{threshold + 9}: 10 more"
    ) as caught:
        POLICY.check_overhead(threshold + 9, window)
    assert caught.value.field == "auto_compact_threshold"


def test_a_known_window_lowers_the_threshold_and_travels_with_the_trigger():
    context = CompactionContext(
        boundary=3, estimated_history_tokens=18_000, reserved_tokens=7, context_window=20_000
    )
    trigger = POLICY.should_compact(context)
    assert (trigger.tokens, trigger.threshold, trigger.context_window) == (18_007, 18_000, 20_000)
    assert trigger.reserved_tokens == 7


def test_after_three_attempts_of_low_yield_pauses_of_10_20_and_40_boundaries_follow():
    context = {"last_attempt_boundary": 20, "estimated_history_tokens": 10 * OVER}
    policy = with_config(on_model_failure="fail")
    for attempts, pause in ((3, 10), (4, 20), (5, 40), (9, 40)):
        assert due(policy, boundary=20 + pause - 1, low_yield_attempts=attempts, **context) is None
        assert due(policy, boundary=20 + pause, low_yield_attempts=attempts, **context) == "history_tokens"
    assert due(policy, boundary=21, low_yield_attempts=2, **context) == "history_tokens"
    assert due(policy, boundary=21, low_yield_attempts=3, **context) is None
