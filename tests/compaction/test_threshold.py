"""The messages that threshold compaction retains, the place of the summary, and how an answer becomes one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

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
from siltstone import presets
from siltstone.compaction import CompactionError, Skip, Trigger
from siltstone.compaction.prompts import PROMPT, SUMMARY_PREFIX
from siltstone.errors import ModelError
from siltstone.llm import Completion, UsageRecord
from siltstone.messages import SummaryMessage, marked, read_history, unmarked
from siltstone.systems.meerkat import CompactionConfig, ThresholdCompactor
from siltstone.testing import ScriptedModel


def keeping(turns: int, **settings: object) -> ThresholdCompactor:
    """A policy that retains up to *turns* complete turns."""
    return ThresholdCompactor(CompactionConfig(recent_turn_budget=turns, **settings))  # type: ignore[arg-type]


def plain(turns: int, words: int = 100) -> list[Raw]:
    """A system message and complete turns: turn n is at 2n + 1 and 2n + 2."""
    return [system("Rules."), *(message for number in range(turns) for message in turn(number, words))]


# -- the view ------------------------------------------------------------------------------------


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


# -- the summary ---------------------------------------------------------------------------------


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
