"""The validator refuses every rewrite that loses, changes or invents something (MK-37), and pins stay."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from compacting import SHORT, Raw, assistant, exchange, filler, long, policy, run, shape, system, turn, user
from siltstone import llm
from siltstone.compaction import Compaction, CompactionError, Compactor, Skip, Trigger
from siltstone.compaction.emergency import Emergency
from siltstone.compaction.prompts import SUMMARY_PREFIX, framed
from siltstone.compaction.rewrite import covered, parted, rewrite, summary_message
from siltstone.compaction.validate import validate
from siltstone.engine import Failed, attempt
from siltstone.errors import ContextOverflowError
from siltstone.llm import Flow
from siltstone.messages import Message, read_history
from siltstone.systems.meerkat import CompactionConfig, ThresholdCompactor
from siltstone.tokens import TokenRule, rule

RAWS: list[Raw] = [
    system("Rules."),
    system("More rules."),
    *turn(0),
    *exchange("a", filler(50)),
    assistant("Same."),
    system("A late rule."),
    assistant("Same."),
    *turn(1),
]


@pytest.fixture
def rewritten() -> tuple[list[Message], Compaction]:
    """0, 1 rules · 2-6 discarded · 7 a rule · 8 discarded · 9, 10 retained."""
    return run(RAWS, ThresholdCompactor(CompactionConfig(recent_turn_budget=1)))


def refused(history: list[Message], compaction: Compaction, fault: str) -> None:
    with pytest.raises(CompactionError, match=fault) as caught:
        validate(history, compaction, framed(SUMMARY_PREFIX, compaction.summary))
    assert caught.value.reason == "rewrite_invalid"
    assert caught.value.usage == compaction.usage


def with_summary(compaction: Compaction, **changes: object) -> Compaction:
    summary = replace(compaction.messages[2], **changes)  # type: ignore[arg-type]
    return replace(compaction, messages=(*compaction.messages[:2], summary, *compaction.messages[3:]))


def moved(history: list[Message], compaction: Compaction, *, retain: set[int]) -> Compaction:
    """A rewrite that retains the positions *retain* and is right in every other respect."""
    retained = tuple(history[at] for at in sorted(retain))
    discarded = tuple(message for at, message in enumerate(history) if at not in retain)
    covers = covered(discarded)
    place = next((at for at in range(len(history)) if at not in retain), 0)
    summary = summary_message(framed(SUMMARY_PREFIX, compaction.summary), covers or ((0, 1),))
    messages = (*retained[:place], summary, *retained[place:])
    return replace(compaction, messages=messages, retained=retained, discarded=discarded, covers=covers)


def test_mk_37_the_rewrite_itself_is_accepted(rewritten: tuple[list[Message], Compaction]):
    history, compaction = rewritten
    validate(history, compaction, framed(SUMMARY_PREFIX, compaction.summary))
    again = moved(history, compaction, retain={0, 1, 7, 9, 10})
    validate(history, again, framed(SUMMARY_PREFIX, compaction.summary))


def inserted(compaction: Compaction) -> tuple[Message, ...]:
    other = replace(compaction.messages[3], raw=user("Obey me."))
    return (*compaction.messages[:3], other, *compaction.messages[4:])


def with_summary_at(compaction: Compaction, place: int) -> tuple[Message, ...]:
    others = [*compaction.messages[:2], *compaction.messages[3:]]
    others.insert(place, compaction.messages[2])
    return tuple(others)


FORGED = {"role": "user", "content": "Something else."}
KEPT = {0, 1, 7, 9, 10}


@pytest.mark.parametrize(
    ("forged", "fault"),
    [
        (lambda history, right: moved(history, right, retain=set(range(11))), "nothing is discarded"),
        (lambda _, right: {"retained": right.retained[::-1]}, "follows position .* in what is retained"),
        (lambda _, right: {"discarded": right.discarded[::-1]}, "follows position .* in what is discarded"),
        (lambda _, right: {"retained": (*right.retained, right.retained[-1])}, "follows position"),
        (lambda _, right: {"discarded": (*right.discarded, right.discarded[-1])}, "follows position"),
        (
            lambda history, right: {"retained": (*right.retained, replace(history[9], seq=99))},
            "message 99 is not one",
        ),
        (
            lambda history, _: {"retained": tuple(history[at] for at in (0, 1, 6, 7, 9, 10))},
            "position 6 is both",
        ),
        (lambda _, right: {"discarded": right.discarded[:-1]}, "position 8 is neither"),
        (
            lambda history, right: {
                "retained": (*right.retained[:-2], replace(history[9], raw=FORGED), right.retained[-1])
            },
            "message 9 is not one of the history",
        ),
        (lambda history, right: moved(history, right, retain=KEPT - {0}), "position 0 is disc"),
        (lambda history, right: moved(history, right, retain=KEPT - {7}), "position 7 is disc"),
        (lambda history, right: moved(history, right, retain=KEPT | {4}), r"\(4, 5\) is split"),
        (lambda history, right: moved(history, right, retain=KEPT | {5}), r"\(4, 5\) is split"),
        (
            lambda _, right: {"messages": [*right.messages] * 3},
            "18 messages are not the 5 retained and one summary",
        ),
        (lambda _, right: {"messages": inserted(right)}, "the view is not the retained messages"),
        (lambda history, _: {"messages": tuple(history)}, "11 messages are not the 5"),
        (lambda _, right: {"messages": with_summary_at(right, 0)}, "one summary at position 2"),
        (lambda _, right: {"messages": with_summary_at(right, 1)}, "one summary at position 2"),
        (lambda _, right: {"messages": with_summary_at(right, 3)}, "one summary at position 2"),
        (lambda _, right: {"messages": with_summary_at(right, 5)}, "one summary at position 2"),
        (lambda _, right: with_summary(right, role="system"), "role is 'system'"),
        (lambda _, right: with_summary(right, provenance="original"), "provenance is 'original'"),
        (lambda _, right: with_summary(right, raw=FORGED), "is a dict, not a SummaryMessage"),
        (lambda _, right: with_summary(right, parts=()), "does not hold the framed summary"),
        (lambda _, right: with_summary(right, seq=3), "the summary covers"),
        (lambda _, right: with_summary(right, covers=((2, 7),)), "the summary covers"),
        (lambda _, right: with_summary(right, covers=((2, 9),)), "the summary covers"),
        (lambda *_: {"summary": " "}, "blank"),
        (lambda *_: {"summary": "Another."}, "does not hold the framed summary"),
        (lambda *_: {"covers": ((2, 7),)}, "the summary covers"),
    ],
)
def test_mk_37_what_is_wrong_is_refused(
    rewritten: tuple[list[Message], Compaction], forged: Callable[..., Any], fault: str
):
    history, right = rewritten
    wrong = forged(history, right)
    refused(history, replace(right, **wrong) if isinstance(wrong, dict) else wrong, fault)


def test_mk_37_a_retained_prior_summary(rewritten: tuple[list[Message], Compaction]):
    first = rewritten[1]
    policy = ThresholdCompactor(CompactionConfig(recent_turn_budget=1))
    history, second = run([message.raw for message in first.messages] + turn(2), policy)
    assert history[2].provenance == "compaction_summary"
    refused(history, moved(history, second, retain={0, 1, 2, 3, 6, 7}), "earlier summary at position 2")


def test_mk_37_a_discarded_pending_call():
    raws = [user(filler(100)), exchange("a", "")[0], *turn(1)]
    history, compaction = run(raws, ThresholdCompactor(CompactionConfig(recent_turn_budget=1)))
    refused(history, moved(history, compaction, retain={2, 3}), "pending call and is discarded")


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
        return rewrite(parted(history, set()), SHORT, "[Context compacted]")


def test_a_policy_that_discards_a_pin_is_refused_by_the_engine():
    careless: Compactor = Careless()
    result = llm.run(attempt(careless, read_history(turn(0)), pinning(1)), None)
    assert (type(result), result.reason) == (Failed, "rewrite_invalid")
    assert "message 1 is pinned" in result.message
