"""Tiered compaction, row by row: settings, cuts, the messages that leave, stacked summaries, and forks."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, strategies as st

from compacting import assistant, distinct, exchange, filler, outcome, system, user
from playing import Play, shown
from reference.groups import groups
from siltstone import ConfigError, TieredCompactor, TieredConfig, estimate_tokens
from siltstone.checks import reached_at, share_of
from siltstone.compaction import Compaction, CompactionContext, Skip, Trigger
from siltstone.compaction.rewrite import summary_message
from siltstone.config import read_settings
from siltstone.engine import Compacted, Failed, Skipped
from siltstone.events import CompactionCompleted, CompactionFailed, CompactionStarted, ExtractionFailed
from siltstone.messages import Message, broken_tool_groups, read_history, summary_level, unmarked
from siltstone.systems.spacebot.config import FALLBACK_WINDOW, SUMMARY_PROMPT, WORKER_PROMPT
from siltstone.systems.spacebot.run import aligned_cut
from siltstone.tokens import rule
from strategies import HISTORIES

WINDOW = 4_000


def turns(count: int, first: int = 1, words: int = 40) -> list[dict[str, Any]]:
    """*count* complete turns of about 100 tokens each."""
    return [
        raw
        for n in range(first, first + count)
        for raw in (user(f"Request {n}. {filler(words)}"), assistant(f"Answer {n}. {filler(words)}"))
    ]


def play(model: Any = None, window: int | None = WINDOW, extract: Any = None, **settings: Any) -> Play:
    config = TieredConfig(**{"retry_delay": 0, **settings})
    return Play(TieredCompactor(config, extract=extract), model, window=window)


def now(action: str = "background") -> Trigger:
    return Trigger("fraction", action, context_window=WINDOW)


def first_lines(messages: Sequence[Message]) -> list[str]:
    return [unmarked(message.text).partition("\n")[0] for message in messages]


def test_sb_03_the_tiers_take_their_share_of_the_messages():
    for action, left in (("background", 14), ("aggressive", 10), ("emergency", 10)):
        session = play()
        session.append(*turns(10))
        assert isinstance(session.compact(now(action)), Compacted)
        assert shown(session.view) == ["S", *map(str, range(20 - left, 20))], action


def test_sb_03_system_messages_and_the_stack_do_not_count():
    session = play()
    session.append(system("Be brief."), *turns(10))
    session.compact(now())
    session.compact(now())
    assert shown(session.view) == ["0", "S", "S", *map(str, range(11, 21))], "6 of 20, then 4 of 14"


def test_sb_04_an_emergency_takes_half_without_a_model_and_says_how_many():
    session = play()
    session.append(*turns(10))
    outcome = session.compact(now("emergency"))
    assert isinstance(outcome, Compacted)
    assert session.requests == []
    assert outcome.degraded
    assert unmarked(session.view[0].text) == (
        "[Emergency truncation: 10 oldest messages removed to prevent overflow]"
    )
    assert session.view[0].covers == ((0, 10),)


def test_sb_04_the_documented_marker_has_no_number():
    config = TieredConfig.documented()
    session = Play(TieredCompactor(config), window=WINDOW)
    session.append(*turns(10))
    session.compact(now("emergency"))
    assert unmarked(session.view[0].text) == (
        "[Emergency truncation: oldest messages removed to prevent overflow]"
    )


@pytest.mark.parametrize("count", [1, 2])
def test_sb_04_two_messages_are_left_alone(count: int):
    session = play()
    session.append(*turns(1)[:count])
    outcome = session.compact(now("emergency"))
    assert (type(outcome), outcome.reason) == (Skipped, "too_few")
    assert outcome.message == f"{count} messages are live, more than 2 are needed"


def test_an_emergency_without_a_cut_ahead_takes_an_earlier_one():
    calls = [exchange(f"c{n}", filler(100)) for n in range(4)]
    call = {**calls[0][0], "tool_calls": [one[0]["tool_calls"][0] for one in calls]}
    session = play()
    session.append(*turns(1), call, *(one[1] for one in calls))
    assert isinstance(session.compact(now("aggressive")), Skipped)
    assert isinstance(session.compact(now("emergency")), Compacted)
    assert shown(session.view) == ["0", "S", "2", "3", "4", "5", "6"], "the request is in flight"
    assert broken_tool_groups([message.raw for message in session.view]) == 0


def test_sb_72_the_documented_stack_to_the_letter():
    """Three runs over 100 turns each, of which 50 leave: then turn 151 follows."""
    session = play(lambda request: "They talked.", window=1_000_000)
    session.append(*turns(50, words=4))
    for first in (51, 101, 151):
        session.append(*turns(50, first, words=4))
        assert isinstance(session.compact(now("aggressive")), Compacted)
    assert [unmarked(message.text) for message in session.view[:3]] == [
        "[Summary 1: turns 1-50]\n\nThey talked.",
        "[Summary 2: turns 51-100]\n\nThey talked.",
        "[Summary 3: turns 101-150]\n\nThey talked.",
    ]
    assert session.view[3].text.startswith("Request 151.")


def test_sb_72_a_turn_belongs_to_the_summary_that_holds_its_request():
    session = play()
    long = [user("Request 1."), *(raw for n in range(20) for raw in exchange(f"c{n}", filler(30)))]
    session.append(*long, assistant("Done."), *turns(6, 2))
    session.compact(now())
    session.compact(now())
    session.compact(now())
    assert first_lines(session.summaries())[:2] == ["[Summary 1: turns 1-1]", "[Summary 2: turns 1-1]"]
    session.compact(now("aggressive"))
    assert first_lines(session.summaries())[-1].endswith("turns 2-3]")


def test_sb_26_summaries_stack_in_order_and_none_is_made_of_another():
    session = play(lambda request: f"What was said, part {len(session.requests)}.")
    session.append(*turns(20))
    session.compact(now())
    session.compact(now())
    assert first_lines(session.summaries()) == ["[Summary 1: turns 1-6]", "[Summary 2: turns 7-10]"]
    assert [message.covers for message in session.summaries()] == [((0, 12),), ((12, 20),)]
    material = str(next(iter(session.requests[1].messages))["content"])
    assert "part 1" not in material
    assert "Earlier summary" not in material
    assert "Request 7." in material
    assert session.stands_for() == list(range(40))


def test_sb_26_a_stack_over_its_budget_is_folded_with_the_union_of_the_ranges():
    session = play(
        lambda request: f"Part {len(session.requests)}. " + distinct(100), summary_stack_fraction=0.1
    )
    session.append(*turns(30))
    folded: list[Message] = []
    for _ in range(8):
        session.compact(now())
        session.append(*turns(4, 40))
        folded = [message for message in session.summaries() if summary_level(message) > 1]
        if folded:
            break
    assert folded, "the budget is 400 tokens, four summaries have 100 each"
    (meta,) = folded
    newest = session.summaries()[-1]
    assert meta is session.summaries()[0]
    assert first_lines([meta])[0].startswith("[Summary 1-")
    assert meta.covers[0][0] == 0
    assert meta.covers[-1][1] <= newest.covers[0][0]
    assert session.stands_for() == list(range(len(session.log)))
    budget = TieredConfig(summary_stack_fraction=0.1).stack_budget(WINDOW)
    assert session.policy.token_rule.count(session.summaries()) <= budget


def test_sb_26_a_meta_summary_is_made_of_the_summaries_and_of_what_no_model_has_read():
    """The messages behind the marker of an emergency are read in the fold, and no others a second time."""
    session = play(lambda request: "Short. " + distinct(90), summary_stack_fraction=0.1)
    session.has_log = True
    session.append(*turns(30))
    session.compact(now())
    session.compact(now("emergency"))
    marked = session.summaries()[1].covers
    while len(session.requests) < 2 or "several summaries" not in session.prompts[-1]:
        session.append(*turns(4, 40))
        session.compact(now())
    fold = str(next(iter(session.requests[-1].messages))["content"])
    said = [message.text for message in session.log]
    assert [text in fold for text in said] == [
        any(start <= seq < end for start, end in marked) for seq in range(len(said))
    ]
    assert "Earlier summary of messages 0-" in fold
    assert session.stands_for() == list(range(len(session.log)))


def test_a_fold_that_fails_leaves_the_stack_and_the_new_summary():
    failing = False

    def model(request: Any) -> str:
        if "in several summaries" in str(list(request.messages)[-1]["content"]) or failing:
            raise OSError("the line is dead")
        return distinct(90)

    session = play(model, summary_stack_fraction=0.1, attempts=1)
    session.append(*turns(30))
    outcomes = []
    for _ in range(6):
        outcomes.append(session.compact(now()))
        session.append(*turns(6, 40))
    assert all(isinstance(outcome, Compacted) for outcome in outcomes)
    assert [summary_level(message) for message in session.summaries()] == [1] * 6
    assert session.stands_for() == list(range(len(session.log)))


def test_numbers_and_turns_go_on_after_a_restart_without_the_state():
    session = play()
    session.append(*turns(20))
    session.compact(now())
    session.state = None
    session.compact(now())
    assert first_lines(session.summaries()) == ["[Summary 1: turns 1-6]", "[Summary 2: turns 7-10]"]


def test_sb_22_a_failed_attempt_changes_nothing_and_is_told():
    def down(request: Any) -> str:
        raise OSError("the line is dead")

    session = play(down, on_model_failure="fail")
    session.append(*turns(32))
    before = [message.raw for message in session.view]
    outcome = session.boundary()
    assert (type(outcome), outcome.reason) == (Failed, "llm_failed")
    assert [message.raw for message in session.view] == before
    assert [type(event) for event in session.events] == [CompactionStarted, CompactionFailed]


def test_sb_22_without_a_model_that_answers_lines_are_selected_and_no_checkpoint_is_written():
    for mode, kind in (("rolling", Compacted), ("chronicle", Failed)):
        session = play(lambda request: "ok", mode=mode)
        session.append(*turns(32))
        outcome = session.compact(now("background" if mode == "rolling" else "interval"))
        assert isinstance(outcome, kind)
        assert getattr(outcome, "degraded", False) is (mode == "rolling")


def test_sb_42_the_start_says_what_kind_of_run_it_is():
    session = play()
    session.append(*turns(32))
    session.boundary()
    (started, completed) = session.events
    assert isinstance(started, CompactionStarted)
    assert (started.kind, started.policy, started.cause) == ("rolling", "tiered", "fraction")
    assert isinstance(completed, CompactionCompleted)
    assert completed.discarded == ((0, 19),)
    assert completed.messages_before == 64


def test_sb_20_text_up_to_the_heading_is_stripped_and_the_rest_trimmed():
    session = play(lambda request: "<analysis>…</analysis>\n## Summary\n\n  They agreed.  \n")
    session.append(*turns(10))
    session.compact(now())
    assert unmarked(session.view[0].text) == "[Summary 1: turns 1-3]\n\nThey agreed."


def test_sb_21_the_rendering_names_speakers_calls_and_results():
    session = play()
    failing = {"role": "tool", "tool_call_id": "c2", "content": "no such file"}
    session.append(user("Look."), *exchange("c1", "a\nb"), exchange("c2", "")[0], failing, assistant("Seen."))
    session.append(*turns(6))
    session.compact(now("aggressive"))
    lines = str(next(iter(session.requests[0].messages))["content"]).split("\n")
    assert lines[:4] == [
        "User: Look.",
        '[Tool call c1: read_file({"path": "src/c1.py"})]',
        "[Tool result c1: a",
        "  b]",
    ]
    assert "[Tool result c2: no such file]" in lines
    assert "Assistant: Seen." in lines


def test_sb_27_extraction_sees_the_same_messages():
    seen: list[Any] = []
    session = play(extract=lambda raws: seen.append(list(raws)))
    raws = turns(10)
    session.append(*raws)
    session.compact(now())
    assert seen == [raws[:6]]
    assert all(one is other for one, other in zip(seen[0], raws, strict=False))


def test_sb_27_an_extraction_that_fails_is_told_and_fails_nothing():
    def extract(raws: Any) -> None:
        raise LookupError("no shelf")

    session = play(extract=extract)
    session.append(*turns(10))
    outcome = session.compact(now())
    assert isinstance(outcome, Compacted)
    kinds = [type(event) for event in session.events]
    assert kinds == [CompactionStarted, ExtractionFailed, CompactionCompleted]
    failed = session.events[1]
    assert isinstance(failed, ExtractionFailed)
    assert failed.reason == "the model raised LookupError: no shelf"
    assert len(outcome.usage) == 1, "an extraction is no model call"


def test_sb_30_31_an_overflow_takes_three_quarters_aligned():
    session = play()
    session.append(user("Go."), *(raw for n in range(10) for raw in exchange(f"c{n}", "x" * 300)))
    outcome = session.compact(Trigger("overflow", context_window=WINDOW))
    assert isinstance(outcome, Compacted)
    assert session.requests == []
    assert shown(session.view) == ["0", "S", *map(str, range(15, 21))], "15 of 21"
    assert first_lines(session.summaries()) == [
        "[Context overflow: 14 oldest messages removed so that the request fits]"
    ]
    assert broken_tool_groups([message.raw for message in session.view]) == 0


def test_sb_31_an_overflow_of_four_messages_takes_none():
    session = play()
    session.append(*turns(2))
    outcome = session.compact(Trigger("overflow", context_window=WINDOW))
    assert (type(outcome), outcome.reason) == (Skipped, "too_few")


def test_the_prompts():
    assert WORKER_PROMPT.startswith("You are a compaction worker.\nYour job:\n1. Summarize the provided")
    assert WORKER_PROMPT.endswith("- Extract structured memories for anything worth remembering")
    session = play()
    session.append(*turns(10))
    session.compact(now())
    closing = "Write in the language of the conversation, in 100 words at most."
    assert session.prompts == [f"{SUMMARY_PROMPT}\n\n{closing}"]
    assert session.requests[0].tools == ()
    assert session.requests[0].max_tokens == 150, "a quarter of 0.15 of the window"


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


def test_sb_11_media_have_one_size_in_every_rule_and_calls_that_of_name_and_arguments():
    def size(block: dict[str, Any], role: str = "user") -> int:
        """The bytes of a block: four of them are as many tokens."""
        return estimate_tokens([{"role": role, "content": [block] * 4}], rule="bytes_total")

    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A" * 40_000}}
    document = {
        "type": "document",
        "source": {"type": "base64", "media_type": "application/pdf", "data": "A"},
    }
    assert size(image) == 4 * 1_600
    assert size(document) == 4 * 3_068
    assert size({"type": "tool_result", "tool_use_id": "a", "content": [image]}) == 4 * 1_600
    audio = {"type": "input_audio", "input_audio": {"data": "A" * 40_000, "format": "wav"}}
    assert size(audio) == 4 * 120
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


def notes(count: int, size: int) -> list[dict[str, Any]]:
    return [user(f"{n:04}" + "x" * (size - 4)) for n in range(count)]


def forked(raws: list[Any], window: int, prompt_tokens: int = 0, **settings: Any) -> list[Any] | None:
    """The messages that a fork begins with; None where it fits as it is."""
    policy = TieredCompactor(TieredConfig(**settings))
    history = read_history(raws)
    trigger = policy.fork_trigger(policy.token_rule.count(history), prompt_tokens, window)
    if trigger is None:
        return None
    _, result = outcome(history, policy, lambda request: "What was said.", trigger=trigger)
    assert isinstance(result, Compaction | Skip)
    return raws if isinstance(result, Skip) else [message.raw for message in result.messages]


def marker(raws: list[Any] | None, at: int = 0) -> str:
    assert raws is not None
    return unmarked(raws[at]["content"])


def test_sb_12_at_the_budget_nothing_leaves_and_one_token_above_it_does():
    raws = notes(17, 4_000)  # 17,000 tokens, and 3,000 of 20,000 are reserved
    assert forked(raws, 20_000) is None
    over = forked(raws, 20_000, 1)
    assert marker(over) == "[Fork: 8 oldest messages removed to fit the window; the parent still has them]"
    assert over[1:] == raws[8:]


def test_sb_12_it_repeats_until_it_fits():
    assert marker(forked(notes(40, 4_000), 20_000)).startswith("[Fork: 30 oldest")


def test_sb_12_what_is_left_is_counted_anew_so_that_no_step_rounds():
    """Of 40 messages of 1,003 bytes two steps leave ten and the marker: a sum of rounded steps has more."""
    raws = notes(40, 1_003)
    policy, history = TieredCompactor(), read_history(raws)
    text = "[Fork: 30 oldest messages removed to fit the window; the parent still has them]"
    line = len(str(summary_message(text, ((0, 30),)).raw["content"]))
    exact = (10 * 1_003 + line) // 4
    for budget, left in ((exact, 10), (exact - 1, 5)):
        trigger = Trigger("overflow", "fork", policy.token_rule.count(history), budget, context_window=20_000)
        _, result = outcome(history, policy, trigger=trigger)
        assert isinstance(result, Compaction)
        assert len(result.messages) == left + 1
        assert policy.token_rule.count(result.messages) <= budget


def test_sb_12_the_prompt_counts_by_its_size():
    raws = notes(10, 4_000)
    assert forked(raws, 20_000, 7_000) is None
    assert marker(forked(raws, 20_000, 7_001)).startswith("[Fork: 5 oldest")


def test_sb_12_the_floor_of_four_goes_before_the_budget():
    least = forked(notes(10, 4_000), 2_000, 10_000)
    assert marker(least).startswith("[Fork: 6 oldest")
    assert least is not None
    assert len(least) == 5


@pytest.mark.parametrize("pins", [range(6), range(0, 12, 2), [3, 20]])
def test_sb_12_what_is_pinned_stays_and_is_not_counted_as_gone(pins: Iterable[int]):
    raws, pinned = notes(40, 4_000), frozenset(pins)
    policy = TieredCompactor()
    history = read_history(raws)
    trigger = policy.fork_trigger(policy.token_rule.count(history), 0, 20_000)
    assert trigger is not None
    _, result = outcome(history, policy, trigger=replace(trigger, pins=pinned))
    assert isinstance(result, Compaction)
    left = [message.raw for message in result.messages]
    assert policy.token_rule.count(result.messages) <= 17_000
    assert all(raws[pin] in left for pin in pinned)
    assert f"[Fork: {41 - len(left)} oldest messages removed" in str(left)


def test_sb_12_a_newest_message_that_is_too_large_stays():
    raws = [*notes(8, 400), user("y" * 200_000)]
    least = forked(raws, 20_000)
    assert least[-1] is raws[-1]
    assert len(least) == 5


@pytest.mark.parametrize("window", [6_000, 12_000, 20_000])
def test_sb_13_a_fork_never_begins_with_a_result(window: int):
    raws = [*notes(1, 40), *(raw for n in range(20) for raw in exchange(f"c{n}", "x" * 4_000)), *notes(1, 40)]
    left = forked(raws, window)
    assert left is not None
    assert len(left) < len(raws)
    assert left[1].get("role") != "tool"
    assert broken_tool_groups(left) == 0


def test_system_messages_stay_before_the_marker():
    left = forked([system("Be brief."), *notes(40, 4_000)], 20_000)
    assert left[0] == system("Be brief.")
    assert marker(left, 1).startswith("[Fork: ")


@pytest.mark.parametrize(("tokens", "is_due"), [(15_000, False), (15_001, True)])
def test_sb_73_the_documented_form_compacts_above_0_6_and_not_at_it(tokens: int, is_due: bool):
    policy = TieredCompactor(TieredConfig.documented())
    assert (policy.fork_trigger(tokens, 0, 25_000) is not None) == is_due
