"""By which rule a compaction kept a message or took it out: told beside the compaction, and kept with it."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

from hypothesis import given, strategies as st

from conversations import assistant, conversation, exchange, small, user
from siltstone import Session, SimpleMemoryStore
from siltstone.compaction.base import Compaction, Trigger
from siltstone.engine import Compacted
from siltstone.messages import read_history
from siltstone.session.rows import rules_of
from siltstone.testing import ScriptedModel


def opened(store: Any, **options: Any) -> Session:
    return Session.open(None, "s", memory=store, policy=small(), model=ScriptedModel(), **options)


def rules(session: Session, place: int = -1) -> dict[int, str]:
    spans = session.compactions()[place].rules
    return {seq: rule for start, end, rule in spans for seq in range(start, end)}


def test_rules_pins_the_newest_and_what_is_older_are_told_apart() -> None:
    with opened(SimpleMemoryStore()) as session:
        session.append({"role": "system", "content": "Be brief."})
        session.append(*conversation(8))
        session.pin(3)
        length = len(session.log())
        assert isinstance(session.compact(), Compacted)
        told = rules(session)
        assert sorted(told) == [*range(length)]
        assert told[0] == "system"
        assert told[3] == "pinned"
        assert told[length - 1] == "recent"
        left = [seq for seq, rule in told.items() if rule in ("older", "outranked")]
        covers = {seq for start, end in session.compactions()[0].covers for seq in range(start, end)}
        assert covers == set(left)
        session.unpin(3)
        assert rules(session)[3] == "pinned", "it is told as it was then"


def test_the_request_of_a_turn_that_was_cut_is_told_as_such() -> None:
    with opened(SimpleMemoryStore()) as session:
        session.append(user("look through all of it"))
        for number in range(60):
            session.append(*exchange(number, f"out{number} " * 40))
        assert isinstance(session.compact(), Compacted)
        told = rules(session)
        assert told[0] == "request"
        assert told[1] == "older", "what came after a request is not outranked by it"
        assert told[len(session.log()) - 1] == "recent"


def test_rules_outlive_the_process_and_an_earlier_row_has_none(tmp_path: Path) -> None:
    with Session.open(tmp_path, "s", policy=small(), model=ScriptedModel()) as session:
        session.append(*conversation(8))
        assert isinstance(session.compact(), Compacted)
        before = session.compactions()[0]
        assert before.rules
        assert before.seconds is not None
    with Session.open(tmp_path, "s", policy=None) as session:
        assert session.compactions()[0].rules == before.rules


@given(st.lists(st.tuples(st.sampled_from(["user", "assistant", "system"]), st.booleans()), max_size=30))
def test_each_message_has_one_rule_and_stretches_are_as_long_as_can_be(shape: list[tuple[str, bool]]) -> None:
    read = read_history([{"role": role, "content": "x"} for role, _ in shape])
    gone = [message for message, (_, is_gone) in zip(read, shape, strict=True) if is_gone]
    kept = [message for message, (_, is_gone) in zip(read, shape, strict=True) if not is_gone]
    spans = rules_of(read, Compaction(kept, kept, gone, "", ()), Trigger("manual"))
    assert [seq for start, end, _ in spans for seq in range(start, end)] == [*range(len(shape))]
    assert all(one[2] != other[2] for one, other in pairwise(spans))
    left = {"older", "outranked", "superseded"}
    for start, end, rule in spans:
        assert all(shape[seq][1] == (rule in left) for seq in range(start, end))


def test_what_a_policy_passed_over_is_told_apart_from_what_is_old() -> None:
    read = read_history([user("a"), assistant("b"), user("c"), assistant("d"), user("e"), assistant("f")])
    kept = [read[1], read[4], read[5]]
    gone = [read[0], read[2], read[3]]
    spans = rules_of(read, Compaction(kept, kept, gone, "", ()), Trigger("manual"))
    assert spans == [(0, 1, "older"), (1, 2, "chosen"), (2, 4, "outranked"), (4, 6, "recent")]
