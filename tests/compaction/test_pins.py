"""A pinned message stays, under every policy, and so does its group."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from compacting import SHORT, assistant, exchange, filler, long, policy, run, shape, turn, user
from siltstone import llm
from siltstone.compaction import Compaction, Compactor, Skip, Trigger
from siltstone.compaction.emergency import Emergency
from siltstone.compaction.rewrite import Selection, rewrite
from siltstone.engine import Failed, attempt
from siltstone.errors import ContextOverflowError
from siltstone.llm import Flow
from siltstone.messages import Message, read_history
from siltstone.tokens import TokenRule, rule


def pinning(*seqs: int, window: int | None = None) -> Trigger:
    return Trigger("manual", pins=frozenset(seqs), context_window=window)


def test_a_pin_holds_its_whole_group():
    raws = [user(filler(50)), *exchange("a", filler(50)), assistant("Done."), *turn(1), *turn(2)]
    for half in (1, 2):
        _, compaction = run(raws, policy(), trigger=pinning(half))
        assert shape(compaction) == ["S", "1", "2"]


def test_a_summary_is_never_pinned():
    first = run(long(3), policy())[1]
    _, second = run([m.raw for m in first.messages] + turn(3), policy(), trigger=pinning(1))
    assert shape(second) == ["0", "S"]


def test_pins_take_no_room_of_the_turns():
    raws = [*turn(0, 2_000), *turn(1, 100), *turn(2, 100)]
    compacting = policy(recent_turn_budget=4, retained_token_budget=400)
    _, compaction = run(raws, compacting, trigger=pinning(1))
    assert shape(compaction) == ["S", "1", "4", "5"]


def test_the_emergency_net_keeps_pins():
    raws = [*turn(0, 300), *turn(1, 900), user("Do it.")]
    _, compaction = run(raws, Emergency(1_000), None, trigger=pinning(1))
    assert shape(compaction)[:2] == ["S", "1"]
    with pytest.raises(ContextOverflowError, match="pinned"):
        run(raws, Emergency(1_000), None, trigger=pinning(1, 2))


def test_user_messages_stay_verbatim_if_that_is_asked_for():
    raws = [user("Fix it."), *exchange("a", filler(400)), assistant(filler(90)), *turn(1), user("Now?")]
    _, compaction = run(raws, policy(keep_user_messages=True))
    assert shape(compaction) == ["0", "S", "4", "6"]


class Careless(Compactor):
    """A policy that has never heard of pins."""

    name = "careless"

    @property
    def token_rule(self) -> TokenRule:
        return rule("blocks")

    def should_compact(self, context: object) -> Trigger | None:
        return None

    def flow(self, history: Sequence[Message], trigger: Trigger) -> Flow[Compaction | Skip]:
        yield from ()
        return rewrite(history, Selection((), tuple(history)), SHORT, "[Context compacted]")


def test_a_policy_that_discards_a_pin_is_refused_by_the_engine():
    careless: Compactor = Careless()
    result = llm.run(attempt(careless, read_history(turn(0)), pinning(1)), None)
    assert (type(result), result.reason) == (Failed, "rewrite_invalid")
    assert "message 1 is pinned" in result.message
