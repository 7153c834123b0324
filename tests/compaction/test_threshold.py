"""Threshold compaction: when it is due, what it retains, and how its summary is made and kept up to date."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from compacting import (
    SHORT,
    Raw,
    assistant,
    distinct,
    exchange,
    filler,
    outcome,
    run,
    shape,
    system,
    turn,
    user,
)
from siltstone import compact, presets
from siltstone.compaction import Compaction, CompactionContext, CompactionError, Compactor, Skip, Trigger
from siltstone.compaction.base import check_pin_budget
from siltstone.compaction.emergency import Emergency
from siltstone.compaction.prompts import MERGE_NOTE, PART_NOTE, PROMPT, SUMMARY_PREFIX, UPDATE_NOTE
from siltstone.compaction.validate import validate
from siltstone.errors import ConfigError, ModelError
from siltstone.events import UserMessagesSummarised
from siltstone.llm import Completion, UsageRecord
from siltstone.messages import (
    KeyedSystemMessage,
    Message,
    SummaryMessage,
    marked,
    opens_turn,
    read_history,
    unmarked,
)
from siltstone.systems.meerkat import CompactionConfig, ThresholdCompactor
from siltstone.testing import RecordingHook, ScriptedModel
from siltstone.tokens import rule


def keeping(turns: int, **settings: object) -> ThresholdCompactor:
    """A policy that retains up to *turns* complete turns."""
    return ThresholdCompactor(CompactionConfig(recent_turn_budget=turns, **settings))  # type: ignore[arg-type]


def plain(turns: int, words: int = 100) -> list[Raw]:
    """A system message and complete turns: turn n is at 2n + 1 and 2n + 2."""
    return [system("Rules."), *(message for number in range(turns) for message in turn(number, words))]


def test_mk_20_system_first_summary_second_oldest_turn_discarded():
    history, compaction = run(plain(3), keeping(2))
    assert shape(compaction) == ["0", "S", "3", "4", "5", "6"]
    assert [message.seq for message in compaction.discarded] == [1, 2]
    assert compaction.covers == ((1, 3),)
    assert compaction.messages[0].raw is history[0].raw


def fixing(count: int, words: int = 400) -> list[Raw]:
    """A request and exchanges of some 540 tokens each."""
    return [user("Fix it."), *(message for n in range(count) for message in exchange(f"c{n}", filler(words)))]


CALL, RESULT = exchange("late", filler(10))
LATE = [user("Start it."), CALL, assistant("Waiting."), user("And?"), RESULT, assistant("Done.")]
READ = [user("Read it."), *exchange("a", "x" * 200_000), assistant("Read.")]
DONE = [user(filler(50)), *exchange("a", filler(50)), assistant("Done.")]
FOUR = [message for n in range(4) for message in turn(n)]
DEVELOPER = {"role": "developer", "content": "B"}


@pytest.mark.parametrize(
    ("raws", "policy", "view"),
    [
        # MK-22: a system message amid the history stays in order
        ([system("A"), *turn(0), system("B"), *turn(1), *turn(2)], keeping(1), "0 S 3 6 7"),
        # MK-23: the summary follows all leading system messages
        ([system("A"), DEVELOPER, user(filler(100)), user("Go on.")], keeping(4), "0 1 S 3"),
        # MK-24: a budget of one turn leaves the summary and the last turn
        (plain(5), keeping(1), "0 S 9 10"),
        # no older turn stays where a newer one did not fit
        (
            [system("Rules."), *turn(0), *turn(1, 10), *turn(2, 400), *turn(3, 10)],
            keeping(4, retained_token_budget=200),
            "0 S 7 8",
        ),
        # MK-28: a budget of no turns leaves the summary, and a request in flight
        (plain(3), keeping(0), "0 S"),
        ([*plain(3), user("Now this.")], keeping(0), "0 S 7"),
        # MK-30: a turn with its tool exchange goes as one
        ([system("Rules."), *DONE, *turn(1)], keeping(1), "0 S 5 6"),
        # MK-31: a large finished turn beyond the budget is not retained
        ([*turn(0), *READ, *turn(2)], keeping(4, auto_compact_threshold=20_000), "S 6 7"),
        # MK-34: without a system prompt the summary is row 0
        ([*turn(0), *turn(1)], keeping(1), "S 2 3"),
        # MK-35: a single turn in flight keeps its request and newest exchange, and what else fits
        (fixing(5), keeping(4, retained_token_budget=1), "0 S 9 10"),
        ([*turn(0), *fixing(5)], keeping(4, retained_token_budget=1_200), "S 2 9 10 11 12"),
        # older turns stay only if the whole turn in flight does
        ([*turn(0), *turn(1), *fixing(2)], keeping(4, retained_token_budget=2_000), "S 2 3 4 5 6 7 8"),
        ([*turn(0), *turn(1), *fixing(2)], keeping(4, retained_token_budget=900), "S 4 7 8"),
        # MK-36: a system prompt that is larger than half of the threshold does not force zero turns
        ([system(filler(2_400)), *FOUR], keeping(4, auto_compact_threshold=4_000), "0 S 3 4 5 6 7 8"),
        # a pending call stays wherever it stands, and a late result keeps its call
        ([user(filler(100)), exchange("a", "")[0], *turn(1), *turn(2)], keeping(1), "S 1 4 5"),
        ([*turn(0), *LATE], keeping(1), "S 3 5 6 7"),
    ],
)
def test_mk_22_23_24_28_30_31_34_35_36_what_stays_in_view(
    raws: list[Raw], policy: ThresholdCompactor, view: str
):
    history, compaction = run(raws, policy)
    assert shape(compaction) == view.split()
    assert len(compaction.discarded) == len(history) - len(view.split()) + 1


def test_what_is_sent_beside_the_history_takes_its_share_of_what_is_retained():
    policy = keeping(9, auto_compact_threshold=4_000)
    sizes = []
    for reserved in (0, 3_000):
        _, compaction = run(plain(9), policy, trigger=Trigger("manual", reserved_tokens=reserved))
        sizes.append(policy.token_rule.count(compaction.retained[1:]))
    assert 500 < sizes[0] <= 2_000, "half of the threshold"
    assert 0 < sizes[1] <= 500, "half of what is left of it"


@pytest.mark.parametrize(("turns", "budget"), [(2, 4), (3, 10)])
def test_mk_25_a_budget_as_large_as_the_history_still_discards_the_oldest_turn(turns: int, budget: int):
    _, compaction = run(plain(turns), keeping(budget))
    assert [message.seq for message in compaction.discarded] == [1, 2]


def test_mk_26_a_prior_summary_is_discarded_and_is_no_turn():
    first = run(plain(3), keeping(1))[1]
    raws = [message.raw for message in first.messages] + turn(3)
    history, second = run(raws, keeping(1))
    assert [message.provenance for message in history[:2]] == ["original", "compaction_summary"]
    assert history[1] in second.discarded
    assert shape(second) == ["0", "S", "7", "8"]
    assert second.covers == ((1, 7),)
    assert (first.level, second.level) == (1, 2)


def test_mk_27_injected_messages_stay_with_their_turn_and_are_none():
    raws = [*turn(0), user("Injected."), *turn(1), user("Injected."), *turn(2)]
    history = [
        replace(message, provenance="injected_context") if message.text == "Injected." else message
        for message in read_history(raws)
    ]
    _, compaction = run(history, keeping(1))
    assert shape(compaction) == ["S", "5", "6", "7"]
    _, compaction = run(history, keeping(2))
    assert shape(compaction) == ["S", "2", "3", "4", "5", "6", "7"]


def test_mk_29_discarded_messages_come_in_order():
    _, compaction = run(plain(6), keeping(2))
    assert [message.seq for message in compaction.discarded] == list(range(1, 9))


def test_mk_32_a_byte_cap_bounds_the_retained_turns():
    raws = plain(6, words=200)  # a turn has about 2,100 bytes
    assert len(run(raws, keeping(4))[1].retained) == 1 + 2 * 4
    assert len(run(raws, keeping(4, max_request_bytes=4 * 4_400))[1].retained) == 1 + 2 * 2


def test_without_a_token_bound_exactly_that_many_turns_stay():
    """``retained_token_budget=None`` is the documented form."""
    raws = plain(5, words=5_000)
    bounded = run(raws, keeping(3, auto_compact_threshold=10_000))[1]
    free = run(raws, keeping(3, auto_compact_threshold=10_000, retained_token_budget=None))[1]
    assert shape(bounded) == ["0", "S"]
    assert shape(free) == ["0", "S", "5", "6", "7", "8", "9", "10"]


def test_without_a_token_bound_a_turn_in_flight_that_is_all_there_is_gives_up_its_older_groups():
    """It would be over the threshold for ever; its request and the newest groups stay, in half of that."""
    raws = fixing(6)
    free = keeping(4, auto_compact_threshold=2_400, retained_token_budget=None, max_result_tokens=None)
    _, alone = run(raws, free)
    assert shape(alone) == ["0", "S", "9", "10", "11", "12"], "an exchange has some 540 tokens"
    _, beside = run([*turn(0, words=800), *raws], free)
    assert shape(beside) == ["S", *map(str, range(2, 15))]


def test_the_budget_of_retained_turns_is_half_the_effective_threshold():
    raws = plain(4, words=800)  # a turn has some 2,010 tokens
    for window, turns in ((20_000, 3), (15_000, 2), (6_000, 1), (5_000, 0)):
        trigger = Trigger("manual", context_window=window)
        assert len(run(raws, keeping(4), trigger=trigger)[1].retained) == 1 + 2 * turns, window


@pytest.mark.parametrize(
    "raws",
    [
        [],
        [system("Rules.")],
        [system("Rules."), user("Hello")],
        [user("Fix it."), *exchange("a", "done")],
        [system("Your task is this."), *exchange("a", "done")],
    ],
    ids=["empty", "rules", "request", "one exchange", "no request"],
)
def test_nothing_to_discard_is_a_skip_without_a_model_call(raws: Sequence[Raw]):
    model = ScriptedModel()
    _, result = outcome(raws, ThresholdCompactor(), model)
    assert isinstance(result, Skip)
    assert result.reason == "nothing_to_discard"
    assert model.requests == []


def test_the_summary_is_a_framed_user_message_with_its_mark():
    _, compaction = run(plain(3), keeping(1), lambda request: "  It went well.\n")
    summary = compaction.messages[1]
    assert isinstance(summary.raw, SummaryMessage)
    content = marked(f"{SUMMARY_PREFIX}\n\nIt went well.", compaction.covers, level=1)
    assert dict(summary.raw) == {"role": "user", "content": content}
    assert summary.raw.covers == summary.covers == compaction.covers
    assert compaction.summary == "It went well."
    assert summary.seq == 1


def test_the_text_after_a_summary_heading_counts():
    answer = "<analysis>Let me see.</analysis>\n\n## Summary\n\nAll done.\n"
    assert run(plain(3), keeping(1), lambda request: answer)[1].summary == "All done."


def test_a_custom_prefix_frames_the_summary():
    _, compaction = run(plain(3), keeping(1, summary_prefix="[Context compacted] Kurz."))
    assert unmarked(compaction.messages[1].text) == f"[Context compacted] Kurz.\n\n{SHORT}"


def test_the_request_ends_with_the_instruction_and_its_focus():
    model = ScriptedModel()
    run(plain(3), keeping(1), model)
    run(plain(3), keeping(1), model, trigger=Trigger("manual", focus="the tests"))
    run(plain(3), ThresholdCompactor(keeping(1).config, prompt="Sum up."), model)
    documented = presets.meerkat().policy
    assert isinstance(documented, ThresholdCompactor)
    run(plain(3), ThresholdCompactor(keeping(1).config, prompt=documented.prompt), model)
    plain_request, focused, custom, exact = model.requests
    ours = f"{PROMPT}\n\nWrite in the language of the conversation, in 2730 words at most."
    assert plain_request.messages[-1] == {"role": "user", "content": ours}
    assert focused.messages[-1]["content"] == f"{ours}\n\nPay particular attention to: the tests"
    assert exact.messages[-1]["content"] == PROMPT, "a documented prompt is sent word for word"
    assert custom.messages[-1]["content"] == "Sum up."
    assert all(isinstance(message["content"], str) for message in plain_request.messages)
    assert plain_request.tools == ()


def test_the_default_prompt_is_the_documented_one():
    assert PROMPT.startswith(
        "You are performing a CONTEXT COMPACTION. Your job is to create a handoff summary so work can "
        "continue seamlessly.\n\nInclude:\n\n* Current progress and key decisions made\n"
    )
    assert PROMPT.endswith(
        "* Tool call patterns that worked or failed\n\nBe concise and structured. "
        "Prioritize information the next context needs to act, not narrate."
    )


def test_an_answer_over_the_cap_is_cut_and_says_so():
    answer = "".join(f"A sentence of some length, no. {n}. " for n in range(500))
    policy = keeping(1, max_summary_tokens=50)
    _, compaction = run(plain(5, words=1_000), policy, lambda request: answer)
    assert policy.token_rule.count_text(compaction.summary) <= 50
    assert re.search(r"no. \d+.\n\[…\]$", compaction.summary)
    assert answer.startswith(compaction.summary.removesuffix("\n[…]"))


@pytest.mark.parametrize("answer", ["", " \n\t", "## Summary\n \n"])
def test_an_empty_answer_is_a_failure(answer: str):
    usage = UsageRecord("m", 10, 0)
    with pytest.raises(CompactionError) as caught:
        run(plain(3), keeping(1), lambda request: Completion(answer, usage))
    assert caught.value.reason == "empty_summary"
    assert caught.value.usage == (usage,)


def test_mk_50_a_failing_model_is_a_typed_failure_with_its_cause():
    def refuse(request: object) -> str:
        raise TimeoutError("no answer in 60 s")

    with pytest.raises(CompactionError, match="no answer in 60 s") as caught:
        run(plain(3), keeping(1), refuse)
    assert caught.value.reason == "llm_failed"
    assert caught.value.error_class == "TimeoutError"
    assert isinstance(caught.value.__cause__, ModelError)
    assert isinstance(caught.value.__cause__.__cause__, TimeoutError)


def test_mk_50_no_model_at_all_is_the_same_failure():
    with pytest.raises(CompactionError, match="no model was given") as caught:
        run(plain(3), keeping(1), None)
    assert caught.value.reason == "llm_failed"


def test_a_rewrite_that_does_not_shrink_is_a_failure():
    usage = UsageRecord("m", 10, 2_000)
    with pytest.raises(CompactionError, match="it must be smaller") as caught:
        run(plain(2, words=10), keeping(1), lambda request: Completion(distinct(500), usage))
    assert caught.value.reason == "no_reduction"
    assert caught.value.after >= caught.value.before
    assert caught.value.usage == (usage,)


def test_a_minimum_reduction_is_asked_for():
    raws = plain(4, words=100)
    assert run(raws, keeping(2, min_reduction=0.3))
    with pytest.raises(CompactionError) as caught:
        run(raws, keeping(2, min_reduction=0.6))
    assert caught.value.reason == "no_reduction"


def test_planning_renders_nothing():
    history = read_history(plain(3))
    flow = keeping(1).flow(history, Trigger("manual"))
    request = next(flow)
    assert repr(request.messages) == "<4 messages to summarise, and the instruction>"
    assert len(request.messages) == 2
    assert "Request 0" in request.messages[0]["content"]
    flow.close()


OVER = 100_000  # the default threshold
POLICY = ThresholdCompactor()


def due(policy: ThresholdCompactor = POLICY, **context: Any) -> str | None:
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


POSITIVE = """
auto_compact_threshold max_summary_tokens min_turns_between_compactions max_request_bytes
retained_token_budget attempts max_messages
"""


@pytest.mark.parametrize("field", POSITIVE.split())
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


FACT = re.compile(r"The (\w+) is (\w+)\.")


class Noting:
    """A model that writes down facts: all that it reads, unless it is told to bring a summary up to date."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []

    def __call__(self, request: Any) -> str:
        read, instruction = (message["content"] for message in request.messages)
        self.asked.append((read, instruction))
        facts = FACT.findall(read)
        if UPDATE_NOTE in instruction or MERGE_NOTE in instruction:
            facts = list(dict(facts).items())
        return " ".join(f"The {name} is {value}." for name, value in facts) or "Nothing."


def policy(**settings: Any) -> ThresholdCompactor:
    return ThresholdCompactor(CompactionConfig(auto_compact_threshold=2_000, **settings))


def said(*facts: str) -> list[Raw]:
    return [raw for fact in facts for raw in (user(fact), assistant(filler(400)))]


def test_a_fact_that_is_corrected_later_stands_corrected():
    model = Noting()
    _, first = run([*said("The port is old.", "The host is alpha."), *turn(1, 400)], policy(), model)
    assert UPDATE_NOTE not in model.asked[0][1]
    assert "The port is old." in first.summary
    raws = [message.raw for message in first.messages]
    _, second = run([*raws, *said("The port is new."), *turn(2, 400), *turn(3, 400)], policy(), model)
    assert UPDATE_NOTE in model.asked[-1][1]
    assert second.summary == "The port is new. The host is alpha."
    assert second.level == 2


def test_of_several_pieces_the_one_with_the_earlier_summary_brings_it_up_to_date():
    model = Noting()
    summary = SummaryMessage("[Context compacted]\n\nThe port is old.", ((0, 4),))
    raws = [summary, *said(*["The port is new."] * 12), *turn(2, 400)]
    run(raws, policy(summarizer_window=2_000), model)
    notes = [instruction for _, instruction in model.asked if PART_NOTE in instruction]
    assert len(notes) > 2
    assert [UPDATE_NOTE in note for note in notes] == [True] + [False] * (len(notes) - 1)


def grown(level: int) -> tuple[list[Message], Sequence[Message], Any]:
    """A view whose summary has lost a fact, what it stands for, and how that is read."""
    originals = read_history(said("The port is new.", "The host is alpha."))
    summary = SummaryMessage("[Context compacted]\n\nThe port is wrong.", ((0, 4),), level)
    history = read_history([summary, *turn(5, 400), *turn(6, 400), *turn(7, 400)])

    def read(ranges: Sequence[tuple[int, int]]) -> list[Message]:
        return [message for start, end in ranges for message in originals[start:end]]

    return history, originals, read


@pytest.mark.parametrize("level", [1, 4, 9])
def test_a_summary_of_any_level_is_brought_up_to_date_and_its_messages_are_not_read_again(level: int):
    history, _, read = grown(level)
    model = Noting()
    trigger = Trigger("history_tokens", originals=read)
    _, compaction = run(history, policy(), model, trigger=trigger)
    assert (compaction.level, len(model.asked)) == (level + 1, 1)
    assert "[Earlier summary of messages 0-3: The port is wrong.]" in model.asked[0][0]
    assert "The host is alpha." not in model.asked[0][0]
    assert compaction.covers[0][0] == 0
    assert compaction.discarded[0] is history[0]


def test_on_request_the_summary_alone_is_written_anew():
    history, _, read = grown(1)
    trigger = Trigger("manual", originals=read, fold=True)
    _, compaction = run(history, policy(), Noting(), trigger=trigger)
    assert compaction.summary == "The port is new. The host is alpha."
    assert list(compaction.retained) == history[1:]
    assert (compaction.level, compaction.covers) == (1, ((0, 4),))
    _, skipped = outcome(history[1:], policy(), Noting(), trigger=trigger)
    assert not isinstance(skipped, Compaction)
    assert isinstance(skipped, Skip)
    assert skipped.reason == "nothing_to_discard"


@pytest.mark.parametrize("newest", [1, 3])
def test_mk_21_only_the_newest_version_of_a_keyed_system_message_stays(newest: int):
    """Old versions are discarded, and the summariser sees none of them."""
    model = ScriptedModel([SHORT])
    versions = [2, 1, 1] if newest == 1 else [1, 2, 2]
    raws = [
        system("Plain rules."),
        KeyedSystemMessage("Rules of old.", "rules", versions[0]),
        *turn(0),
        KeyedSystemMessage("Rules of today.", "rules", versions[1]),
        KeyedSystemMessage("Rules of a twin.", "rules", versions[2]),
        KeyedSystemMessage("Another key.", "tone", 1),
        *turn(1),
    ]
    kept = 1 if newest == 1 else 4
    policies: list[Compactor] = [
        ThresholdCompactor(CompactionConfig(recent_turn_budget=1)), Emergency(500)
    ]  # fmt: skip
    for compacting in policies:
        history, compaction = run(raws, compacting, model)
        assert history[kept] in compaction.retained
        for at in (1, 4, 5):
            assert (history[at] in compaction.discarded) == (at != kept)
        assert {0, 6} <= {message.seq for message in compaction.retained}
        assert "Rules of" not in compaction.summary
        validate(history, compaction, compaction_text(compaction))
    assert "Rules of" not in model.requests[0].messages[0]["content"]


def test_mk_21_a_superseded_version_alone_is_nothing_to_summarise():
    raws = [KeyedSystemMessage("a", "k", 1), KeyedSystemMessage("b", "k", 2), user("hello")]
    assert isinstance(outcome(raws, ThresholdCompactor())[1], Skip)


@pytest.mark.parametrize(("key", "version"), [("", 1), (7, 1), ("k", 0), ("k", True), ("k", "1")])
def test_mk_21_a_version_that_is_none_is_refused(key: Any, version: Any):
    with pytest.raises(ConfigError, match=r"key must be|version must be"):
        KeyedSystemMessage("text", key, version)


def compaction_text(compaction: Compaction) -> str:
    return next(unmarked(m.text) for m in compaction.messages if m.provenance == "compaction_summary")


def test_mk_21_a_pinned_version_stays_and_the_validator_refuses_any_other():
    raws = [KeyedSystemMessage("a", "k", 1), KeyedSystemMessage("b", "k", 2), *turn(0), *turn(1)]
    policy = ThresholdCompactor(CompactionConfig(recent_turn_budget=1))
    history = read_history(raws)
    pin = Trigger("manual", pins=frozenset({0}))
    _, compaction = run(history, policy, trigger=pin)
    assert history[0] in compaction.retained
    validate(history, compaction, compaction_text(compaction), pin)
    with pytest.raises(CompactionError, match="the superseded system message at position 0 is retained"):
        validate(history, compaction, compaction_text(compaction))


BLOCKS = rule("blocks")


def asked(count: int, words: int) -> list[Raw]:
    """Requests of about *words* times 1.25 tokens, each with a short answer."""
    return [raw for n in range(count) for raw in (user(f"Request {n}: {filler(words)}"), assistant("Done."))]


def bounded(**settings: Any) -> ThresholdCompactor:
    settings = {
        "auto_compact_threshold": 4_000,
        "keep_user_messages": True,
        "recent_turn_budget": 0,
        **settings,
    }
    return ThresholdCompactor(CompactionConfig(**settings))


@pytest.mark.parametrize(("budget", "most"), [("auto", 1_000), (600, 600), (2_000, 2_000)])
def test_the_newest_user_messages_that_fit_stay(budget: Any, most: int):
    history, compaction = run(asked(30, 100), bounded(user_message_budget=budget))
    kept = [message for message in compaction.retained if opens_turn(message)]
    assert most - 140 < BLOCKS.count(kept) <= most
    assert [message.seq for message in kept] == [message.seq for message in history if opens_turn(message)][
        -len(kept) :
    ]
    assert compaction.requests_left == 30 - len(kept)


def test_without_a_bound_all_of_them_stay():
    _, compaction = run(asked(30, 100), bounded(user_message_budget=None))
    assert sum(opens_turn(message) for message in compaction.retained) == 30
    assert compaction.requests_left == 0


def test_an_event_tells_how_many_are_summarised():
    hook = RecordingHook()
    compact(asked(30, 100), bounded(), model=lambda request: "Short.", hooks=[hook])
    assert hook.names == ["CompactionStarted", "UserMessagesSummarised", "CompactionCompleted"]
    told = hook.events[1]
    assert isinstance(told, UserMessagesSummarised)
    assert 20 < told.count < 30
    assert told.policy == "threshold"


def test_where_all_fit_or_none_are_kept_nothing_is_told():
    for policy in (bounded(user_message_budget=None), bounded(keep_user_messages=False)):
        hook = RecordingHook()
        compact(asked(30, 100), policy, model=lambda request: "Short.", hooks=[hook])
        assert hook.names == ["CompactionStarted", "CompactionCompleted"]


def test_pins_have_a_quarter_of_the_window():
    pinned = read_history([user(filler(800))])
    tokens = BLOCKS.count(pinned)
    check_pin_budget(pinned, BLOCKS, 4 * tokens)
    check_pin_budget(pinned, BLOCKS, None)
    check_pin_budget(pinned, BLOCKS, 10, budget=tokens)
    with pytest.raises(
        ConfigError, match=rf"must have <= {tokens - 1} tokens together, got {tokens}"
    ) as caught:
        check_pin_budget(pinned, BLOCKS, 4 * tokens - 1)
    assert (caught.value.field, caught.value.value) == ("pins", tokens)
    with pytest.raises(ConfigError):
        check_pin_budget(pinned, BLOCKS, None, budget=tokens - 1)
