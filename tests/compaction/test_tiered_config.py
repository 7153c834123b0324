"""The settings of tiered compaction: bounds, thresholds to the token, files; and where a history is cut."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, strategies as st

from compacting import assistant, exchange, user
from siltstone import ConfigError, TieredCompactor, TieredConfig, estimate_tokens
from siltstone.checks import reached_at, share_of
from siltstone.compaction import CompactionContext
from siltstone.config import read_settings
from siltstone.messages import groups, read_history
from siltstone.systems.spacebot.config import FALLBACK_WINDOW
from siltstone.systems.spacebot.run import aligned_cut
from siltstone.tokens import rule
from strategies import HISTORIES


def tier(tokens: int, window: int | None = 128_000, reserved: int = 0, **settings: Any) -> str | None:
    context = CompactionContext(
        3, estimated_history_tokens=tokens, context_window=window, reserved_tokens=reserved
    )
    trigger = TieredCompactor(TieredConfig(**settings)).should_compact(context)
    return None if trigger is None else trigger.action


def test_sb_01_each_tier_is_due_at_its_share_the_highest_wins_and_what_is_sent_beside_counts():
    ends = [("background", 102_400), ("aggressive", 108_800), ("emergency", 121_600)]
    for (name, at), before in zip(ends, [None, "background", "aggressive"], strict=True):
        assert (tier(at - 1), tier(at)) == (before, name)
        assert (tier(at - 400, reserved=399), tier(at - 400, reserved=400)) == (before, name)
    assert (tier(0), tier(500_000)) == (None, "emergency")


@given(st.integers(1, 1_000_000), st.integers(1, 1_000))
def test_a_threshold_is_the_least_number_that_is_at_least_its_share(window: int, thousandths: int):
    least = reached_at(window, thousandths / 1_000)
    assert least * 1_000 >= window * thousandths > (least - 1) * 1_000
    most = share_of(window, thousandths / 1_000)
    assert most * 1_000 <= window * thousandths < (most + 1) * 1_000


def test_the_forecast_of_the_provider_counts_where_it_is_more():
    context = CompactionContext(
        3, estimated_history_tokens=10, context_window=1_000, reserved_tokens=5, forecast_tokens=860
    )
    trigger = TieredCompactor().should_compact(context)
    assert (trigger.action, trigger.tokens, trigger.threshold) == ("aggressive", 860, 850)


def test_a_window_that_nobody_names_is_a_guess_and_is_logged_once(caplog: pytest.LogCaptureFixture):
    policy = TieredCompactor()
    for _ in range(2):
        context = CompactionContext(3, estimated_history_tokens=160_000)
        trigger = policy.should_compact(context)
        assert trigger.action == "background"
    assert [str(FALLBACK_WINDOW) in record.getMessage() for record in caplog.records] == [True]


def test_sb_10_a_text_by_itself_is_rounded_up():
    assert [rule("bytes_total").count_text(text) for text in ("", "abcd", "abcde")] == [0, 1, 2]


def test_sb_11_media_have_flat_sizes_and_calls_those_of_name_and_arguments():
    def size(block: dict[str, Any], role: str = "user") -> int:
        """The bytes of a block: four of them are as many tokens."""
        return estimate_tokens([{"role": role, "content": [block] * 4}], rule="bytes_total")

    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A" * 40_000}}
    document = {
        "type": "document",
        "source": {"type": "base64", "media_type": "application/pdf", "data": "A"},
    }
    assert size(image) == 500
    assert size(document) == 1_000
    assert size({"type": "tool_result", "tool_use_id": "a", "content": [image]}) == 100
    audio = {"type": "input_audio", "input_audio": {"data": "A" * 40_000, "format": "wav"}}
    assert size(audio) == 500
    thought = {"type": "thinking", "thinking": "hm", "signature": "c2ln" * 100}
    assert size(thought, "assistant") == 2 + 400
    assert size({"type": "redacted_thinking", "data": "A" * 999}, "assistant") == 999
    item = {"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "A" * 1_001}
    assert estimate_tokens([item] * 4, rule="bytes_total") == 1_001
    call, result = exchange("a", "x" * 400)
    function = call["tool_calls"][0]["function"]
    whole = len(function["name"] + function["arguments"]) + 400
    assert estimate_tokens([call, result], rule="bytes_total") == whole // 4


def test_sb_70_the_documented_estimate():
    call, result = exchange("a", "x" * 4_000)
    history = [user("abcde"), assistant("abcdefgh"), call, result]
    assert estimate_tokens(history, rule="flat_tools") == 153


def test_sb_40_a_partial_file_keeps_the_base(tmp_path: Path):
    file = tmp_path / "siltstone.toml"
    file.write_text("[tiered]\nbackground_threshold = 0.7\n", "utf-8")
    policy = read_settings(file).policy("tiered")
    assert isinstance(policy, TieredCompactor)
    assert policy.config == TieredConfig(background_threshold=0.7)


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"background_threshold": 0}, "background_threshold"),
        ({"background_threshold": 0.9}, "aggressive_threshold"),
        ({"aggressive_threshold": 0.96}, "emergency_threshold"),
        ({"emergency_threshold": 1.01}, "emergency_threshold"),
        ({"background_threshold": True}, "background_threshold"),
        ({"background_threshold": float("nan")}, "background_threshold"),
    ],
)
def test_sb_41_thresholds_ascend_within_0_and_1(settings: dict[str, Any], field: str):
    with pytest.raises(ConfigError) as caught:
        TieredConfig(**settings)
    assert caught.value.field == field
    assert TieredConfig(background_threshold=1, aggressive_threshold=1, emergency_threshold=1)


def test_reserved_tokens_that_reach_a_tier_by_themselves_are_refused():
    TieredCompactor().check_overhead(799, 1_000)
    with pytest.raises(ConfigError, match="must be < 800, the background threshold of a window of 1000"):
        TieredCompactor().check_overhead(800, 1_000)


def test_the_documented_form_differs_where_the_page_says_so():
    form = TieredConfig.documented(context_window=128_000)
    assert (form.estimator, form.fork_preflight, form.worker_turns_per_segment) == ("flat_tools", "usage", 25)
    assert form.emergency_marker == "[Emergency truncation: oldest messages removed to prevent overflow]"
    assert (form.background_threshold, form.aggressive_threshold, form.emergency_threshold) == (
        0.8,
        0.85,
        0.95,
    )


def test_no_job_is_begun_too_soon_after_one_that_failed():
    policy = TieredCompactor(TieredConfig(on_model_failure="fail"))
    falls_back = TieredCompactor()

    def due(boundary: int, tokens: int, failures: int = 1) -> bool:
        return policy.should_compact(context(boundary, tokens, failures)) is not None

    def context(boundary: int, tokens: int, failures: int) -> CompactionContext:
        return CompactionContext(
            boundary,
            last_attempt_boundary=10,
            estimated_history_tokens=tokens,
            context_window=1_000,
            low_yield_attempts=failures,
            failed_at=40,
            failed_threshold=800,
        )

    assert [due(boundary, 820) for boundary in (11, 12)] == [False, True]
    assert due(11, 850), "a higher tier does not wait"
    assert due(11, 950), "an emergency never waits"
    assert [due(boundary, 850, failures=3) for boundary in (12, 19, 20)] == [False, False, True]
    assert due(12, 950, failures=9)
    paused = [falls_back.should_compact(context(at, 850, 3)) for at in (11, 20)]
    assert [each and each.model_calls for each in paused] == [0, None], "while it pauses, no model is asked"


def cut(raws: list[Any], fraction: float, floor: int, **options: Any) -> int:
    return aligned_cut(read_history(raws), fraction, floor, **options)


LONG = read_history([message for _ in range(500) for message in (user("a"), assistant("b"))])


@given(st.integers(3, len(LONG)))
@example(3)
@example(4)
@example(11)
def test_sb_03_fractions_are_those_of_whole_numbers_with_one_at_least_and_two_that_stay(count: int):
    for part in (30, 50, 70, 75):
        assert aligned_cut(LONG[:count], part / 100, 2) == min(max(1, count * part // 100), count - 2)
    assert aligned_cut(LONG[:2], 0.5, 2) == 0


def test_sb_05_06_a_cut_moves_on_to_the_end_of_a_pair():
    pairs = [raw for n in range(10) for raw in exchange(f"c{n}", "done")]
    assert cut([user("Go"), *pairs], 0.5, 2) == 11
    assert (cut(pairs[:4], 0.5, 2), cut(pairs[:4], 0.75, 1)) == (2, 0)
    answers = [user("a"), assistant("b"), user("c"), assistant("d")]
    assert cut(answers, 0.5, 2) == 2, "an answer alone is no group"


def test_sb_07_results_that_belong_to_an_early_call_leave_no_cut():
    names = [f"c{n}" for n in range(6)]
    calls = [exchange(name, "done") for name in names]
    call = {**calls[0][0], "tool_calls": [one[0]["tool_calls"][0] for one in calls]}
    history = [call, *(one[1] for one in calls)]
    assert cut(history, 0.5, 2) == 0
    assert cut([user("Go"), *history], 0.5, 2) == 0
    assert cut([user("Go"), *history], 0.5, 2, or_earlier=True) == 1


@pytest.mark.parametrize("dialect", list(HISTORIES))
@given(data=st.data())
def test_no_cut_parts_a_group_or_takes_a_pending_call(dialect: str, data: st.DataObject):
    history = read_history(data.draw(HISTORIES[dialect]()))
    fraction = data.draw(st.sampled_from([0.3, 0.5, 0.75]))
    floor = data.draw(st.integers(1, 4))
    place = aligned_cut(history, fraction, floor, or_earlier=data.draw(st.booleans()))
    assert 0 <= place <= max(0, len(history) - floor)
    for group in groups(history) if place else ():
        assert not group.positions[0] < place <= group.positions[-1]
        assert not (group.pending and group.positions[0] < place)
