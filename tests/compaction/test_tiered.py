"""Tiered compaction, row by row: the messages that leave, their replacements, and how summaries stack."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from compacting import assistant, distinct, exchange, filler, system, user
from playing import Play, shown
from siltstone import TieredCompactor, TieredConfig
from siltstone.compaction import Trigger
from siltstone.engine import Compacted, Failed, Skipped
from siltstone.events import CompactionCompleted, CompactionFailed, CompactionStarted, ExtractionFailed
from siltstone.messages import Message, broken_tool_groups, summary_level, unmarked
from siltstone.systems.spacebot.config import SUMMARY_PROMPT, WORKER_PROMPT

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


def test_pins_and_the_request_in_flight_stay_in_order():
    session = play()
    session.append(
        *turns(8), user("Now do it."), *(raw for n in range(12) for raw in exchange(f"c{n}", "x" * 300))
    )
    session.pins = {3}
    for _ in range(4):
        session.compact(now("aggressive"))
    seqs = [message.seq for message in session.view if message.provenance == "original"]
    assert 3 in seqs
    assert 16 in seqs
    assert seqs == sorted(seqs)
    assert session.stands_for() == list(range(len(session.log)))


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
