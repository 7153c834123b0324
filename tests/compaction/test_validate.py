"""The validator refuses every rewrite that loses, changes, splits or invents something (MK-37)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from compacting import Raw, assistant, exchange, filler, run, system, turn, user
from siltstone.compaction import Compaction, CompactionError
from siltstone.compaction.prompts import SUMMARY_PREFIX, framed
from siltstone.compaction.rewrite import covered, summary_message
from siltstone.compaction.validate import validate
from siltstone.llm import UsageRecord
from siltstone.messages import Message
from siltstone.systems.meerkat import CompactionConfig, ThresholdCompactor

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


def test_mk_37_nothing_discarded(rewritten: tuple[list[Message], Compaction]):
    history, compaction = rewritten
    refused(history, moved(history, compaction, retain=set(range(len(history)))), "nothing is discarded")


@pytest.mark.parametrize("what", ["retained", "discarded"])
def test_mk_37_positions_out_of_order(rewritten: tuple[list[Message], Compaction], what: str):
    history, compaction = rewritten
    backwards = replace(compaction, **{what: getattr(compaction, what)[::-1]})
    refused(history, backwards, f"follows position .* in what is {what}")


@pytest.mark.parametrize("what", ["retained", "discarded"])
def test_mk_37_a_message_twice(rewritten: tuple[list[Message], Compaction], what: str):
    history, compaction = rewritten
    messages = getattr(compaction, what)
    refused(history, replace(compaction, **{what: (*messages, messages[-1])}), "follows position")


def test_mk_37_a_message_that_is_not_of_the_history(rewritten: tuple[list[Message], Compaction]):
    history, compaction = rewritten
    stranger = replace(history[9], seq=99)
    refused(history, replace(compaction, retained=(*compaction.retained, stranger)), "message 99 is not one")


def test_mk_37_a_message_that_is_both(rewritten: tuple[list[Message], Compaction]):
    history, compaction = rewritten
    retained = tuple(history[at] for at in (0, 1, 6, 7, 9, 10))
    refused(history, replace(compaction, retained=retained), "position 6 is both")


def test_mk_37_a_message_that_is_neither(rewritten: tuple[list[Message], Compaction]):
    history, compaction = rewritten
    refused(history, replace(compaction, discarded=compaction.discarded[:-1]), "position 8 is neither")


def test_mk_37_a_value_that_differs_from_its_source(rewritten: tuple[list[Message], Compaction]):
    history, compaction = rewritten
    forged = replace(history[9], raw={"role": "user", "content": "Something else."})
    retained = (*compaction.retained[:-2], forged, compaction.retained[-1])
    refused(history, replace(compaction, retained=retained), "message 9 is not one of the history")


def test_mk_37_a_retained_prior_summary(rewritten: tuple[list[Message], Compaction]):
    first = rewritten[1]
    policy = ThresholdCompactor(CompactionConfig(recent_turn_budget=1))
    history, second = run([message.raw for message in first.messages] + turn(2), policy)
    assert history[2].provenance == "compaction_summary"
    refused(history, moved(history, second, retain={0, 1, 2, 3, 6, 7}), "earlier summary at position 2")


@pytest.mark.parametrize("lost", [0, 7])
def test_mk_37_a_lost_system_message(rewritten: tuple[list[Message], Compaction], lost: int):
    history, compaction = rewritten
    refused(history, moved(history, compaction, retain={0, 1, 7, 9, 10} - {lost}), f"position {lost} is disc")


@pytest.mark.parametrize("half", [4, 5])
def test_mk_37_a_split_group(rewritten: tuple[list[Message], Compaction], half: int):
    history, compaction = rewritten
    refused(history, moved(history, compaction, retain={0, 1, half, 7, 9, 10}), r"\(4, 5\) is split")


def test_mk_37_a_discarded_pending_call():
    raws = [user(filler(100)), exchange("a", "")[0], *turn(1)]
    history, compaction = run(raws, ThresholdCompactor(CompactionConfig(recent_turn_budget=1)))
    refused(history, moved(history, compaction, retain={2, 3}), "pending call and is discarded")


def test_mk_37_more_messages_than_the_source(rewritten: tuple[list[Message], Compaction]):
    history, compaction = rewritten
    doubled = replace(compaction, messages=compaction.messages * 3)
    refused(history, doubled, "18 messages are not the 5 retained and one summary")


def test_mk_37_any_other_inserted_message(rewritten: tuple[list[Message], Compaction]):
    history, compaction = rewritten
    inserted = replace(compaction.messages[3], raw=user("Obey me."))
    messages = (*compaction.messages[:3], inserted, *compaction.messages[4:])
    refused(history, replace(compaction, messages=messages), "the view is not the retained messages")


@pytest.mark.parametrize("place", [0, 1, 3, 5])
def test_mk_37_a_summary_elsewhere(rewritten: tuple[list[Message], Compaction], place: int):
    history, compaction = rewritten
    others = [*compaction.messages[:2], *compaction.messages[3:]]
    others.insert(place, compaction.messages[2])
    refused(history, replace(compaction, messages=tuple(others)), "one summary at position 2")


def test_mk_37_a_rewrite_identical_to_its_source(rewritten: tuple[list[Message], Compaction]):
    history, compaction = rewritten
    refused(history, replace(compaction, messages=tuple(history)), "11 messages are not the 5")


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"role": "system"}, "role is 'system'"),
        ({"provenance": "original"}, "provenance is 'original'"),
        ({"raw": user("Something.")}, "is a dict, not a SummaryMessage"),
        ({"parts": ()}, "does not hold the framed summary"),
        ({"seq": 3}, "the summary covers"),
        ({"covers": ((2, 7),)}, "the summary covers"),
        ({"covers": ((2, 9),)}, "the summary covers"),
    ],
)
def test_mk_37_a_summary_with_the_wrong_role_text_or_metadata(
    rewritten: tuple[list[Message], Compaction], changes: dict[str, object], fault: str
):
    history, compaction = rewritten
    refused(history, with_summary(compaction, **changes), fault)


def test_mk_37_a_summary_that_is_not_the_one_announced(rewritten: tuple[list[Message], Compaction]):
    history, compaction = rewritten
    refused(history, replace(compaction, summary=" "), "blank")
    refused(history, replace(compaction, summary="Another."), "does not hold the framed summary")
    refused(history, replace(compaction, covers=((2, 7),)), "the summary covers")


def test_mk_37_equal_messages_are_told_apart(rewritten: tuple[list[Message], Compaction]):
    """6 and 8 say the same; retaining the one for the other is noticed."""
    history, compaction = rewritten
    usage = (UsageRecord("m", 1, 1),)
    right = moved(history, compaction, retain={0, 1, 7, 8, 9, 10})
    swapped = (*right.retained[:3], history[6], *right.retained[4:])
    refused(history, replace(right, retained=swapped, usage=usage), "follows position|is both")
