"""A summary is brought up to date by the next one, and written anew from its messages on request."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest

from compacting import Raw, assistant, filler, outcome, run, turn, user
from siltstone import CompactionConfig, ThresholdCompactor
from siltstone.compaction import Compaction, Skip, Trigger
from siltstone.compaction.prompts import MERGE_NOTE, PART_NOTE, UPDATE_NOTE
from siltstone.messages import Message, SummaryMessage, read_history

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
