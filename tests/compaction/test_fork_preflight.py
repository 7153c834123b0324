"""The messages that a fork gives up before its first call: as many as it takes to fit, down to a floor."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from compacting import exchange, outcome, system, user
from siltstone import TieredCompactor, TieredConfig
from siltstone.compaction import Compaction, Skip, Trigger
from siltstone.compaction.rewrite import summary_message
from siltstone.messages import broken_tool_groups, read_history, unmarked


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
