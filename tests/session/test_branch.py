"""A host that rewrites the past: the session follows it, loses nothing, and finds the way back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from branching import copied, line, opened, ranges
from conversations import Raw, assistant, conversation, exchange, user
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


def test_the_mark_of_a_cache_that_moves_rewrites_nothing(store: Store) -> None:
    """As Anthropic's prompt caching has it: in a block, in a block of a result, and on the newest alone."""
    marked = {"type": "text", "text": "q", "cache_control": {"type": "ephemeral"}}
    call = {"type": "tool_use", "id": "t", "name": "look", "input": {"cache_control": 1}}
    result = {"type": "tool_result", "tool_use_id": "t", "content": [marked], "cache_control": None}
    said = [
        {"role": "user", "content": [marked]},
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [result]},
    ]
    session = opened(store)
    assert session.observe(copied(said)) == 3
    plain = copied(said)
    del plain[0]["content"][0]["cache_control"]
    del plain[2]["content"][0]["cache_control"]
    del plain[2]["content"][0]["content"][0]["cache_control"]
    assert session.observe(plain) == 0
    assert not session.compactions()
    plain = copied(plain)
    plain[1]["content"][0]["input"] = {}
    assert session.observe(plain) == 2
    assert [row.reason for row in session.compactions()] == ["branch"], "what a tool is told is no mark"


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


def test_a_result_that_is_replaced_keeps_its_call(store: Store) -> None:
    host = [user("Look."), *exchange(1, "old"), assistant("Old.")]
    session = opened(store, check=True)
    session.observe(copied(host))
    changed = [*host[:2], exchange(1, "new")[1]]
    session.observe(copied(changed))
    assert session.prepare().messages == changed
    session.observe(copied(host[:2]))
    assert session.history() == host[:2], "the list is its host's, also where a call waits"
    *sent, result = session.prepare().messages
    assert sent == host[:2]
    assert result["content"].startswith("[Interrupted")


def test_a_pin_whose_message_left_comes_back_with_it(store: Store) -> None:
    session = opened(store)
    said = conversation(8)
    session.observe(copied(said))
    session.pin(5)
    session.observe(copied([*said[:4], *(user(f"other {n} " + "pebble " * 60) for n in range(8))]))
    assert isinstance(session.compact(), Compacted)
    assert said[5] not in session.history()
    session.undo_compaction()
    session.undo_compaction()
    assert isinstance(session.compact(), Compacted)
    assert said[5] in session.history()


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


def test_what_was_forgotten_is_forgotten_on_every_branch(store: Store) -> None:
    session, said = compacted(store)
    host = [*said[:-2], user("Changed.")]
    session.observe(copied(host))
    secret = session.compactions()[0].covers[0][0] + 3
    session.forget(start=secret, end=secret + 1)
    assert session.observe(copied(host)) == 0, "the host has it still"
    assert [record.redacted for record in session.compactions()] == [True, False], "a sentence stands for it"
    session.undo_compaction()
    assert said[secret]["content"] not in json.dumps(session.log())
    assert said[secret]["content"] not in json.dumps(session.history())
    session.forget(start=len(said) - 1, end=len(said))
    assert said[-1]["content"] not in json.dumps(session.history())


def test_a_branch_that_leaves_a_cut_result_leaves_nothing_of_it_to_be_found(tmp_path: Path) -> None:
    """The compaction that cut it discarded nothing, and what was cut is found beside the view."""
    output = "\n".join(f"line {number} of the valve log" for number in range(3_000))
    said = [user("read the log"), *exchange(1, output), assistant("done"), user("and now?")]
    with Session.open(tmp_path, "s", context_window=4_000) as session:
        session.observe(copied(said))
        session.prepare()
        assert session.search("valve")
        session.observe(copied([user("read another log")]))
        assert session.search("valve") == []
        undone = session.undo_compaction()
        assert undone.reason == "branch"
        assert session.search("valve")
        assert session.store.check() == []
