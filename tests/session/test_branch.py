"""A host that rewrites the past: the session follows it, loses nothing, and finds the way back."""

from __future__ import annotations

from typing import Any

import pytest

from branching import copied, line, opened, ranges
from conversations import Raw, assistant, conversation, user
from siltstone import MemoryStore, Session
from siltstone.engine import Compacted, Failed
from siltstone.errors import HistoryConflictError
from siltstone.events import HistoryBranched
from siltstone.memory import Store
from siltstone.testing import RecordingHook

SAID = conversation(3)
REWRITTEN = {
    "an earlier message is edited and sent again": ([*SAID[:4], user("Something else.")], 4),
    "an answer is made anew": ([*SAID[:-1], assistant("Better.")], 11),
    "a message is changed and the rest stays": ([*SAID[:5], user("Changed."), *SAID[6:]], 5),
    "the first message is edited": ([user("Other."), assistant("Yes.")], 0),
    "it is set back to an earlier state": (SAID[:4], 4),
    "two messages change places": ([*SAID[:3], SAID[4], SAID[3], *SAID[5:]], 3),
    "a message is put in between": ([*SAID[:4], user("Wait."), *SAID[4:]], 4),
}


@pytest.mark.parametrize("how", REWRITTEN)
def test_the_session_follows_its_host_and_the_way_back_is_exact(store: Store, how: str) -> None:
    host, position = REWRITTEN[how]
    told = RecordingHook()
    session = opened(store, hooks=[told])
    session.observe(copied(SAID))
    assert session.observe(copied(host)) == len(host) - position

    assert session.history() == host
    assert session.prepare(policy=None).history == host
    assert session.log() == [*SAID, *host[position:]], "what was said is in the log for ever"
    (record,) = session.compactions()
    assert (record.reason, record.summary, record.level, record.usage) == ("branch", "", 0, ())
    assert (record.messages_before, record.messages_after) == (len(SAID), len(host))
    assert session.expand(record.id) == SAID[position:]
    (event,) = told.events
    assert event == HistoryBranched(
        "s", record.id, position, position, len(SAID) - position, len(host) - position
    )

    assert session.observe(copied(host)) == 0, "the same list again changes nothing"
    session.observe([*copied(host), user("and on")])
    assert session.history() == [*host, user("and on")]
    assert (session.view_at(0), session.view_at(1)) == (SAID, host[:position])

    undone = session.undo_compaction()
    assert (undone.id, undone.undone) == (record.id, True)
    assert session.history() == SAID
    assert (session.compactions(), session.undo_compaction()) == ([], None)
    assert session.view_at(0) == SAID
    again = opened(store)
    assert again.history() == SAID
    assert again.observe(copied(SAID)) == 0
    assert again.expand(record.id) == SAID[position:]
    if isinstance(store, MemoryStore):
        assert store.check() == []


def test_messages_that_stay_are_the_same_objects(store: Store) -> None:
    host = copied(SAID)
    session = opened(store)
    session.observe(host)
    session.observe([*host[:5], changed := user("Changed.")])
    assert [id(raw) for raw in session.history()] == [id(raw) for raw in [*host[:5], changed]]
    host[0]["cache_control"] = {"type": "ephemeral"}
    assert session.observe([*host[:5], changed]) == 0, "and one that is changed in place is still itself"


def compacted(store: Store, count: int = 8, **options: Any) -> tuple[Session, list[Raw]]:
    """A session that was compacted once, and everything that was said."""
    said = conversation(count)
    session = opened(store, **options)
    session.observe(copied(said))
    assert isinstance(session.compact(), Compacted)
    return session, said


@pytest.mark.parametrize("adopts", [False, True])
def test_a_summary_stays_while_all_that_it_stands_for_does(store: Store, adopts: bool) -> None:
    """The host has all of its messages, or took over the compacted history."""
    session, said = compacted(store)
    view, found = session.history(), ranges(session)
    host = copied(view if adopts else said)
    assert session.observe([*host[:-2], user("Changed.")]) == 1
    assert session.history() == [*view[:-2], user("Changed.")]
    assert ranges(session) == found
    assert line(session) == [*said[:-2], user("Changed.")]
    assert session.observe([*host[:-2], user("Changed."), assistant("ok")]) == 1
    assert session.compactions()[1].summary == ""
    session.undo_compaction()
    assert (session.history(), ranges(session)) == (view, found)


def test_a_summary_of_another_branch_is_no_past_that_can_be_followed(store: Store) -> None:
    session, said = compacted(store)
    adopted = copied(session.history())
    session.observe(copied([*said[:2], user("Changed.")]))
    view, log = session.history(), session.log()
    with pytest.raises(HistoryConflictError, match="its summary is not of this history"):
        session.observe([*adopted, user("next")])
    assert (session.history(), session.log()) == (view, log)


def test_a_list_that_was_shortened_from_its_front_may_be_edited_too(store: Store) -> None:
    session = opened(store, policy=None)
    said = [{"role": "system", "content": "Rules."}, *conversation(6)]
    session.observe(copied(said))
    session.observe(copied([said[0], *said[10:20], user("Changed.")]))
    assert session.history() == [*said[:20], user("Changed.")]


def test_equal_turns_that_are_taken_back_leave(store: Store) -> None:
    again = [user("again"), assistant("ok")]
    session = opened(store, policy=None)
    session.observe(copied(again * 3))
    session.observe(copied(again))
    assert session.history() == again
    session.observe(copied([*again, *again, user("new")]))
    assert session.history() == [*again, *again, user("new")]


def test_a_last_message_that_is_said_again_after_going_back_is_no_gap(store: Store) -> None:
    session = opened(store, policy=None)
    said = [*conversation(3), user("continue")]
    session.observe(copied(said))
    session.observe(copied([*said[:4], user("continue")]))
    assert session.history() == [*said[:4], user("continue")]
    session.undo_compaction()
    assert session.observe(copied([*said[:4], *said[-2:]])) == 0, "two are: the host left out the middle"
    assert session.history() == said


def test_a_compaction_of_a_past_that_was_rewritten_meanwhile_is_not_committed(store: Store) -> None:
    session = opened(store)
    said = conversation(8)

    def model(request: Any) -> str:
        session.observe([*copied(said[:4]), user("Changed.")])
        return "What was said."

    session._model = model
    session.observe(copied(said))
    outcome = session.compact()
    assert (type(outcome), outcome.reason) == (Failed, "stale")
    assert session.history() == [*said[:4], user("Changed.")]
    assert (ranges(session), len(session.compactions())) == ([], 1)


def test_a_list_with_something_that_is_no_message_changes_nothing(store: Store) -> None:
    session = opened(store)
    session.observe(copied(SAID))
    with pytest.raises(ValueError, match="role"):
        session.observe([*copied(SAID[:4]), {"role": "wizard", "content": "x"}])
    assert (session.history(), session.compactions(), session.log()) == (SAID, [], SAID)
