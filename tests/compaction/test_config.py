"""The settings of threshold compaction: their documented defaults and their bounds."""

from __future__ import annotations

from typing import Any

import pytest

from siltstone import TieredConfig, WaterfallConfig, WindowConfig
from siltstone.errors import ConfigError
from siltstone.systems.meerkat import CompactionConfig


@pytest.mark.parametrize("kind", [CompactionConfig, TieredConfig, WaterfallConfig, WindowConfig])
@pytest.mark.parametrize("value", [-1, float("inf"), float("nan"), "1", None, True])
def test_a_pause_that_is_none_is_refused(kind: Any, value: Any):
    with pytest.raises(ConfigError, match=r"^retry_delay must be a number of seconds >= 0"):
        kind(retry_delay=value)


@pytest.mark.parametrize(
    "field",
    [
        "auto_compact_threshold",
        "max_summary_tokens",
        "min_turns_between_compactions",
        "max_request_bytes",
        "retained_token_budget",
        "attempts",
        "max_messages",
    ],
)
@pytest.mark.parametrize("value", [0, -1])
def test_mk_16_a_setting_that_is_not_positive_is_refused_by_name(field: str, value: int):
    with pytest.raises(ConfigError, match=rf"^{field} must be .*> 0, got {value}$") as caught:
        CompactionConfig(**{field: value})
    assert (caught.value.field, caught.value.value) == (field, value)


@pytest.mark.parametrize(
    ("config", "rows"),
    [
        # nine tenths of a known window, without the room for recall
        (CompactionConfig(), {None: 100_000, 200_000: 180_000, 8_001: 7_200, 1: 1}),
        # with a number of turns four fifths of it
        (
            CompactionConfig(recent_turn_budget=4),
            {None: 100_000, 200_000: 160_000, 125_000: 100_000, 20_000: 16_000, 8_001: 6_400, 1: 1},
        ),
        # or the number given
        (CompactionConfig(auto_compact_threshold=7_000), {None: 7_000, 8_000: 7_000}),
    ],
)
def test_the_threshold_is_a_share_of_a_known_window(config: CompactionConfig, rows: dict[int | None, int]):
    assert {window: config.effective_threshold(window) for window in rows} == rows
    assert CompactionConfig().effective_threshold(None, 4_000) == 100_000
    assert CompactionConfig().effective_threshold(8_001, 800) == 6_400


def test_the_summary_cap_is_an_eighth_of_a_known_window_at_most():
    config, small = CompactionConfig(), CompactionConfig(summarizer_window=8_000)
    assert [config.summary_cap(window) for window in (None, 200_000, 8_000, 4)] == [4096, 4096, 1_000, 1]
    assert [small.summary_cap(window) for window in (None, 200_000)] == [1_000, 1_000]


def test_retained_turns_get_a_share_of_the_effective_threshold_unless_told_otherwise():
    assert CompactionConfig().retained_tokens(18_000) == 10_000
    assert CompactionConfig().retained_tokens(18_000, 1_800) == 8_000
    assert CompactionConfig(recent_turn_budget=4).retained_tokens(16_000, 1_600) == 8_000
    assert CompactionConfig(retained_token_budget=500).retained_tokens(16_000) == 500
