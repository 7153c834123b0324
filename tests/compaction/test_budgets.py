"""Messages that stay word for word have a budget, so that they never take the room of all others."""

from __future__ import annotations

from typing import Any

import pytest

from compacting import Raw, assistant, filler, run, user
from siltstone import CompactionConfig, ThresholdCompactor, compact
from siltstone.compaction.base import check_pin_budget
from siltstone.errors import ConfigError
from siltstone.events import UserMessagesSummarised
from siltstone.messages import opens_turn, read_history
from siltstone.testing import RecordingHook
from siltstone.tokens import rule

BLOCKS = rule("blocks")


def asked(count: int, words: int) -> list[Raw]:
    """Requests of about *words* times 1.25 tokens, each with a short answer."""
    return [raw for n in range(count) for raw in (user(f"Request {n}: {filler(words)}"), assistant("Done."))]


def keeping(**settings: Any) -> ThresholdCompactor:
    settings = {
        "auto_compact_threshold": 4_000,
        "keep_user_messages": True,
        "recent_turn_budget": 0,
        **settings,
    }
    return ThresholdCompactor(CompactionConfig(**settings))


@pytest.mark.parametrize(("budget", "most"), [("auto", 1_000), (600, 600), (2_000, 2_000)])
def test_the_newest_user_messages_that_fit_stay(budget: Any, most: int):
    history, compaction = run(asked(30, 100), keeping(user_message_budget=budget))
    kept = [message for message in compaction.retained if opens_turn(message)]
    assert most - 140 < BLOCKS.count(kept) <= most
    assert [message.seq for message in kept] == [message.seq for message in history if opens_turn(message)][
        -len(kept) :
    ]
    assert compaction.requests_left == 30 - len(kept)


def test_without_a_bound_all_of_them_stay():
    _, compaction = run(asked(30, 100), keeping(user_message_budget=None))
    assert sum(opens_turn(message) for message in compaction.retained) == 30
    assert compaction.requests_left == 0


def test_an_event_tells_how_many_are_summarised():
    hook = RecordingHook()
    compact(asked(30, 100), keeping(), model=lambda request: "Short.", hooks=[hook])
    assert hook.names == ["CompactionStarted", "UserMessagesSummarised", "CompactionCompleted"]
    told = hook.events[1]
    assert isinstance(told, UserMessagesSummarised)
    assert 20 < told.count < 30
    assert told.policy == "threshold"


def test_where_all_fit_or_none_are_kept_nothing_is_told():
    for policy in (keeping(user_message_budget=None), keeping(keep_user_messages=False)):
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
