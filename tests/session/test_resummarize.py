"""Summaries that are written anew, on request, from the messages that they stand for."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from conversations import assistant, user
from siltstone import (
    CompactionConfig,
    Emergency,
    Session,
    SimpleMemoryStore,
    ThresholdCompactor,
    WindowCompactor,
)
from siltstone.compaction.prompts import UPDATE_NOTE
from siltstone.engine import Compacted, Skipped

FACT = re.compile(r"The (\w+) is (\w+)\.")


class Forgetful:
    """Writes down the facts that it reads, the newest word on each; an earlier summary's host it mishears."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []

    def __call__(self, request: Any) -> str:
        read, instruction = (message["content"] for message in request.messages)
        self.asked.append((read, instruction))
        facts = dict(FACT.findall(read))
        if UPDATE_NOTE in instruction:
            facts["host"] = "wrong"
        return " ".join(f"The {name} is {value}." for name, value in facts.items()) or "Nothing."


def policy(**settings: Any) -> ThresholdCompactor:
    return ThresholdCompactor(
        CompactionConfig(auto_compact_threshold=700, recent_turn_budget=1, max_summary_tokens=60, **settings)
    )


def talk(session: Session, fact: str) -> None:
    """A few turns, the first of which says *fact*, and a compaction of all but the newest."""
    session.append(user(fact), assistant("Noted. " + "word " * 60))
    for number in range(3):
        session.append(user(f"Go on with {number}."), assistant("Done. " + "word " * 60))
    outcome = session.compact()
    assert isinstance(outcome, Compacted), outcome


def levels(session: Session) -> list[int]:
    return [record.level for record in session.compactions()]


def summary_of(session: Session) -> str:
    (text,) = (
        str(raw["content"]) for raw in session.history() if "[Context compacted]" in str(raw["content"])
    )
    return text


def test_however_long_a_session_is_a_model_reads_each_message_once(tmp_path: Path) -> None:
    """Beside the new messages it reads the earlier summary, which has the same size at any length."""
    read: list[int] = []

    def summarise(request: Any) -> str:
        read.append(len(request.messages[0]["content"]))
        return "The steps were done."

    with Session.open(tmp_path, "s", policy=policy(), model=summarise) as session:
        for number in range(24):
            talk(session, f"The step is n{number}.")
        assert levels(session) == [*range(1, 25)]
        said = sum(len(str(raw["content"])) for raw in session.log())
    assert len(read) == 24
    assert sum(read) < 1.2 * said
    assert max(read[12:]) <= max(read[:12]) + 10


def test_a_summary_is_written_anew_on_request_and_the_request_can_be_undone(tmp_path: Path) -> None:
    model = Forgetful()
    with Session.open(tmp_path, "s", policy=policy(), model=model) as session:
        talk(session, "The host is alpha.")
        talk(session, "The port is new.")
        assert "The host is wrong." in summary_of(session)
        before, found = session.history(), session.search("host alpha", limit=1)
        outcome = session.resummarize(focus="the host")
        assert isinstance(outcome, Compacted)
        assert "the host" in model.asked[-1][1]
        assert "The host is alpha. The port is new." in summary_of(session)
        assert [raw for raw in session.history() if raw in before] == [*before[1:]]
        assert levels(session) == [1, 2, 1]
        assert session.search("host alpha", limit=1) == found
        held = session.history()
        assert len(session.expand(session.compactions()[-1].id)) == len(session.log()) - len(held) + 1
    with Session.open(tmp_path, "s", policy=policy(), model=model) as session:
        assert session.history() == held
        assert session.undo_compaction() is not None
        assert session.history() == before


def test_what_was_forgotten_is_not_read_again(tmp_path: Path) -> None:
    model = Forgetful()
    with Session.open(tmp_path, "s", policy=policy(), model=model) as session:
        talk(session, "The host is alpha.")
        talk(session, "The port is new.")
        session.forget(text="The host is alpha.")
        asked = len(model.asked)
        assert isinstance(session.resummarize(), Compacted)
        assert len(model.asked) > asked
        assert "alpha" not in model.asked[-1][0]
        assert "The port is new." in summary_of(session)


@pytest.mark.parametrize(
    ("chosen", "reason"),
    [
        (policy(), "nothing_to_discard"),
        (Emergency(), "not_supported"),
        (WindowCompactor(), "not_supported"),
        (None, "not_supported"),
    ],
)
def test_where_nothing_can_be_written_anew_the_view_stays(chosen: Any, reason: str) -> None:
    with Session.open(None, "s", policy=chosen, memory=SimpleMemoryStore()) as session:
        session.append(user("hello"), assistant("hello"))
        outcome = session.resummarize()
        assert isinstance(outcome, Skipped)
        assert (outcome.reason, session.history()) == (reason, [user("hello"), assistant("hello")])
