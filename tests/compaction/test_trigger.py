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


def test_mk_01_boundary_0_never_compacts_whatever_the_tokens():
    everything = {"last_input_tokens": 10**9, "estimated_history_tokens": 10**9, "request_bytes": 10**12}
    assert due(with_config(max_request_bytes=1), boundary=0, **everything) is None
    assert due(with_config(max_request_bytes=1), boundary=1, **everything) == "history_tokens"


@pytest.mark.parametrize(
    ("boundary", "reason"), [(6, None), (7, None), (8, "input_tokens"), (9, "input_tokens")]
)
def test_mk_02_the_guard_counts_from_the_last_compaction(boundary: int, reason: str | None):
    assert due(boundary=boundary, last_compaction_boundary=5, last_input_tokens=OVER) == reason


def test_mk_03_a_history_at_its_threshold_bypasses_the_guard():
    context = {"boundary": 6, "last_compaction_boundary": 5, "last_attempt_boundary": 5}
    assert due(**context, last_input_tokens=OVER) is None
    assert due(**context, estimated_history_tokens=OVER) == "history_tokens"


def test_the_strict_guard_holds_for_every_trigger():
    strict = with_config(strict_guard=True, max_request_bytes=10)
    full = {"estimated_history_tokens": OVER, "request_bytes": 10, "last_compaction_boundary": 5}
    assert due(strict, boundary=7, **full) is None
    assert due(strict, boundary=8, **full) == "history_tokens"


def test_mk_04_boundary_1_may_compact():
    assert due(boundary=1, last_input_tokens=OVER) == "input_tokens"


def test_mk_05_a_figure_exactly_at_the_threshold_fires():
    assert due(boundary=1, last_input_tokens=OVER) == "input_tokens"
    assert due(boundary=1, estimated_history_tokens=OVER) == "history_tokens"


def test_mk_06_a_large_history_fires_without_a_count_of_the_last_call():
    assert due(boundary=1, last_input_tokens=0, estimated_history_tokens=OVER + 1) == "history_tokens"


def test_mk_07_nothing_fires_below_the_thresholds():
    assert due(boundary=9, last_input_tokens=OVER - 1, estimated_history_tokens=OVER - 1) is None


@pytest.mark.parametrize(("request_bytes", "reason"), [(7_200_000, "bytes"), (7_199_999, None)])
def test_mk_08_four_fifths_of_the_byte_cap_fire(request_bytes: int, reason: str | None):
    policy = with_config(max_request_bytes=9_000_000)
    assert due(policy, boundary=1, request_bytes=request_bytes) == reason


def test_mk_09_bytes_are_ignored_without_a_cap():
    assert due(boundary=1, request_bytes=10**12) is None


def test_mk_10_bytes_at_their_threshold_override_the_guard():
    policy = with_config(max_request_bytes=9_000_000)
    assert due(policy, boundary=6, last_compaction_boundary=5, request_bytes=7_200_000) == "bytes"


def test_mk_12_bytes_alone_and_tokens_alone_each_fire():
    policy = with_config(max_request_bytes=1_000)
    assert due(policy, boundary=1, request_bytes=800) == "bytes"
    assert due(policy, boundary=1, last_input_tokens=OVER) == "input_tokens"
    assert due(policy, boundary=1, estimated_history_tokens=OVER) == "history_tokens"


def test_mk_14_a_failed_attempt_starts_the_cool_down():
    assert due(boundary=1, last_input_tokens=OVER) == "input_tokens"
    after_failure = {"last_attempt_boundary": 1, "last_input_tokens": OVER}
    assert [due(boundary=at, **after_failure) for at in (2, 3, 4)] == [None, None, "input_tokens"]


def test_the_later_of_compaction_and_attempt_counts():
    assert (
        due(boundary=9, last_compaction_boundary=2, last_attempt_boundary=8, last_input_tokens=OVER) is None
    )
    assert (
        due(boundary=9, last_compaction_boundary=8, last_attempt_boundary=2, last_input_tokens=OVER) is None
    )


def test_reserved_tokens_count_with_the_history():
    assert due(boundary=1, estimated_history_tokens=OVER - 10, reserved_tokens=9) is None
    assert due(boundary=1, estimated_history_tokens=OVER - 10, reserved_tokens=10) == "history_tokens"


def test_reserved_tokens_alone_do_not_override_the_guard():
    context = {"boundary": 6, "last_compaction_boundary": 5, "reserved_tokens": 10}
    assert due(**context, estimated_history_tokens=OVER - 10) is None
    assert due(**context, estimated_history_tokens=OVER) == "history_tokens"


def test_mk_11_a_forecast_fires_though_the_history_is_below_and_obeys_the_guard():
    below = {"estimated_history_tokens": 1_000, "reserved_tokens": 500}
    assert due(boundary=1, **below) is None
    assert due(boundary=1, **below, forecast_tokens=OVER - 1) is None
    assert due(boundary=1, **below, forecast_tokens=OVER) == "forecast"
    assert due(boundary=6, last_compaction_boundary=5, **below, forecast_tokens=10 * OVER) is None
    trigger = POLICY.should_compact(CompactionContext(1, forecast_tokens=OVER + 7))
    assert trigger is not None
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


def test_a_number_of_messages_fires_and_obeys_the_guard():
    policy = with_config(max_messages=200)
    assert due(policy, boundary=1, message_count=199) is None
    assert due(policy, boundary=1, message_count=200) == "count"
    assert due(policy, boundary=6, last_attempt_boundary=5, message_count=900) is None
    assert due(boundary=1, message_count=10**6) is None


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
    assert trigger is not None
    assert (trigger.tokens, trigger.threshold, trigger.context_window) == (18_007, 18_000, 20_000)
    assert trigger.reserved_tokens == 7


@pytest.mark.parametrize(
    ("low_yield_attempts", "boundary", "reason"),
    [
        (2, 21, "history_tokens"),
        (3, 21, None),
        (3, 29, None),
        (3, 30, "history_tokens"),
        (4, 39, None),
        (4, 40, "history_tokens"),
        (5, 59, None),
        (5, 60, "history_tokens"),
        (9, 59, None),
        (9, 60, "history_tokens"),
    ],
)
def test_after_three_attempts_of_low_yield_pauses_of_10_20_and_40_boundaries_follow(
    low_yield_attempts: int, boundary: int, reason: str | None
):
    context = {"last_attempt_boundary": 20, "estimated_history_tokens": 10 * OVER}
    policy = with_config(on_model_failure="fail")
    assert due(policy, boundary=boundary, low_yield_attempts=low_yield_attempts, **context) == reason
