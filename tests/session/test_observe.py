"""A host that owns its list: the log is brought in step with it, and never against itself."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from branching import copied, line, opened, ranges
from conversations import Raw, assistant, conversation, small, user
from siltstone import MemoryStore, Session, SimpleMemoryStore, ThresholdCompactor
from siltstone.engine import Compacted, Failed
from siltstone.errors import HistoryConflictError
from siltstone.events import HistoryBranched, HistoryContinued
from siltstone.memory import Store
from siltstone.testing import RecordingHook, ScriptedModel

POLICY = small()


def opened_at(path: Path) -> Session:
    return Session.open(path, "s", policy=POLICY, model=ScriptedModel(["A summary, of some length."]))


def test_equal_turns_are_told_from_old_ones(tmp_path: Path) -> None:
    again = [user("again"), assistant("ok " * 300)]
    with opened_at(tmp_path) as session:
        assert session.observe(copied(again)) == 2
        assert session.observe(copied(again + again)) == 2
        assert session.observe(copied(again * 3)) == 2
        assert isinstance(session.compact(), Compacted)
        adopted = copied(session.history())
        assert session.observe(adopted) == 0
        assert session.observe(adopted + copied(again)) == 2
        assert session.log() == again * 4


@pytest.mark.parametrize("how", ["changed", "taken back", "reordered", "shorter"])
def test_a_rewritten_past_is_refused_where_the_host_asks_for_it_and_nothing_is_lost(
    tmp_path: Path, how: str
) -> None:
    messages = conversation(3)
    rewritten = {
        "changed": [user("Something else."), *messages[1:], user("next")],
        "taken back": [*messages[:-1], user("next")],
        "reordered": [messages[1], messages[0], *messages[2:]],
        "shorter": messages[:-1],
    }[how]
    with opened_at(tmp_path) as session:
        session.observe(messages)
        with pytest.raises(HistoryConflictError, match="session of another id") as caught:
            session.observe(rewritten, on_conflict="raise")
        assert (caught.value.session_id, caught.value.logged) == ("s", len(messages))
        assert session.log() == messages
        assert session.history() == messages
        assert session.compactions(undone=True) == []
        assert session.observe(messages, on_conflict="raise") == 0


def test_an_empty_list_is_refused_where_something_was_said(tmp_path: Path) -> None:
    with opened_at(tmp_path) as session:
        assert session.observe([]) == 0
        session.observe(conversation(1))
        with pytest.raises(HistoryConflictError, match="it is empty"):
            session.observe([])
        assert session.history() == conversation(1)


@pytest.mark.parametrize("store", [SimpleMemoryStore, None])
def test_half_a_character_in_a_text_is_no_reason_to_refuse_a_list(tmp_path: Path, store: Any) -> None:
    """As where a host has cut a text in the middle of an emoji. The summary may quote it."""
    texts = ["\ud83d", "[Context compacted] \udfff", "a\x00b \ud800\ud800"]
    memory = True if store is None else store()
    host: list[Any] = []
    with Session.open(tmp_path, "s", policy=POLICY, memory=memory, context_window=2_000) as session:
        for number in range(40):
            said = f"{texts[number % 3]} {number} " + "word " * 40
            host = [*host, user(said)]
            session.observe(copied(host))
            prepared = session.prepare()
            if prepared.compaction is not None:
                host = copied(prepared.history)
            host.append(assistant(said))
            assert session.observe(copied(host)) == 1
            assert session.observe(copied(host)) == 0
        assert len(session.log()) == 80
        assert {each.reason for each in session.compactions()} == {"history_tokens"}


@given(data=st.data())
def test_the_log_is_the_host_s_list_whatever_it_says(data: st.DataObject) -> None:
    """Few different messages, so that many are equal; each list is the one before and more."""
    host: list[Any] = []
    messages = st.sampled_from([user("a"), user("b"), assistant("c")])
    with Session.open(None, "s", memory=SimpleMemoryStore()) as session:
        for _ in range(data.draw(st.integers(1, 5))):
            new = data.draw(st.lists(messages, max_size=4))
            host = [*host, *copied(new)]
            assert session.observe(copied(host)) == len(new)
            assert session.log() == host


@pytest.mark.parametrize("keeps", ["its own list", "our history"])
def test_a_user_who_quotes_a_summary_has_said_something(tmp_path: Path, keeps: str) -> None:
    with opened_at(tmp_path) as session:
        host: list[Any] = conversation()
        session.observe(host)
        prepared = session.prepare()
        (summary,) = [each for each in prepared.history if "[Context compacted]" in str(each["content"])]
        if keeps == "our history":
            host = copied(prepared.history)
        quote = user(summary["content"])
        host = [*host, user("What did you mean by this?"), assistant("By what?"), quote]
        assert session.observe(host) == 3
        assert session.prepare().messages[-1] is quote
        assert session.observe(copied(host)) == 0
        assert session.log()[-1] == quote


# -- a host that rewrites the past -------------------------------------------------------------


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


# -- a host that begins anew: its list begins a run --------------------------------------------


def begun(store: Store, **options: Any) -> Session:
    model = ScriptedModel([f"Summary number {n}." for n in range(100)])
    return Session.open(None, "s", memory=store, **{"context_window": 4_000, "model": model, **options})


def system(text: str) -> Raw:
    return {"role": "system", "content": text}


def talk(first: int, count: int, begins: str = "Pump") -> list[Raw]:
    """A conversation of *count* turns about numbered pumps."""
    return [
        raw
        for number in range(first, first + count)
        for raw in (user(f"{begins} {number} runs at {number * 7} rpm."), assistant(f"Noted, {number}."))
    ]


FIRST = talk(0, 3)
ANEW = {
    "a new request": [user("How fast is pump 1?")],
    "the same first word as in the first life": [FIRST[0]],
    "a greeting of the host before it": [
        assistant("Hello, I am the pump desk."),
        user("How fast is pump 1?"),
    ],
    "a system message before it": [system("Be short."), user("How fast is pump 1?")],
    "a whole conversation that the session has not seen": talk(50, 4, "Valve"),
}


@pytest.mark.parametrize("how", ANEW)
def test_the_list_of_a_restarted_host_is_appended_and_nothing_is_lost(store: Store, how: str) -> None:
    begun(store).observe(copied(FIRST))
    told = RecordingHook()
    session = begun(store, hooks=[told])
    assert session.observe(copied(ANEW[how])) == len(ANEW[how])
    history = [*FIRST, *ANEW[how]]
    assert session.log() == history
    assert session.prepare().messages == sorted(history, key=lambda raw: raw["role"] != "system")
    assert not session.compactions()
    assert told.events == [HistoryContinued("s", len(FIRST), len(ANEW[how]))]

    more = [*ANEW[how], assistant("As you said."), user("And pump 2?")]
    assert session.observe(copied(more)) == 2, "and later lists go on with the run"
    assert begun(store).observe(copied(more)) == 0, "in another process too"
    third = begun(store)
    assert third.observe([user("A third life.")]) == 1
    assert len(third.log()) == len(history) + 3


def test_a_list_of_an_earlier_run_is_refused_and_nothing_is_written(store: Store) -> None:
    """Two tabs, or two threads, on one session."""
    one, other = begun(store), begun(store)
    one.observe(copied(FIRST))
    other.observe(copied(talk(50, 2, "Valve")))
    before = other.log()
    for tab in (one, begun(store)):
        with pytest.raises(HistoryConflictError, match="a session of its own for each conversation"):
            tab.observe(copied([*FIRST, user("Go on here.")]))
    assert other.log() == before
    assert other.observe(copied([*talk(50, 2, "Valve"), user("Go on there.")])) == 1


@pytest.mark.parametrize("is_anew", [False, True], ids=["the same process", "another process"])
def test_a_list_of_all_runs_with_another_first_message_takes_the_place_of_all(
    store: Store, is_anew: bool
) -> None:
    begun(store).observe(copied(FIRST))
    session = begun(store)
    session.observe(copied(talk(50, 2, "Valve")))
    session.observe(copied(host := session.history()))
    session = begun(store) if is_anew else session
    edited = [user("Pump 0 is broken."), *host[1:], user("Which one is broken?")]
    session.observe(copied(edited))
    assert session.history() == edited
    session.observe(copied([*edited, assistant("Pump 0.")]))
    assert session.history() == [*edited, assistant("Pump 0.")]
    assert [record.reason for record in session.compactions()] == ["branch"]


def test_an_exchange_that_each_run_has_makes_no_list_one_of_all_runs(store: Store) -> None:
    hello = [user("Hi"), assistant("Hello.")]
    session = begun(store)
    session.observe(copied([*hello, *FIRST]))
    session.new_run()
    session.observe(copied([*talk(50, 1, "Valve"), *hello]))
    session.observe(copied([user("Valve 50 is broken."), assistant("Oh."), *hello]))
    assert session.history() == [*hello, *FIRST, user("Valve 50 is broken."), assistant("Oh."), *hello]


def test_without_the_option_such_a_host_is_told_of_it_once(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    session = begun(store)
    with caplog.at_level(logging.WARNING, "siltstone"):
        for number in range(6):
            session.observe([user(f"Question {number}?")])
    assert [record.message.count('unrelated="always"') for record in caplog.records] == [1]


@pytest.mark.parametrize("unrelated", ["branch", "raise"])
def test_a_list_that_shares_nothing_can_be_a_branch_or_an_error(store: Store, unrelated: Any) -> None:
    begun(store).observe(copied(FIRST))
    session, host = begun(store, unrelated=unrelated), [user("Something else.")]
    if unrelated == "raise":
        with pytest.raises(HistoryConflictError, match="new_run"):
            session.observe(host)
        assert session.log() == FIRST
        session.new_run()
        assert session.observe(host) == 1
    else:
        session.observe(host)
        assert session.history() == host


# System messages, greetings and marks: what is sent is what the host has now.


def clock(minute: int) -> Raw:
    return system(f"It is 12:{minute:02}. Be short.")


BESIDE: dict[str, Callable[[int, list[Raw]], list[Raw]]] = {
    "the time in a system message": lambda minute, said: [clock(minute), *said],
    "a system message that moves": lambda minute, said: [
        system("Rules."),
        *said[:-1],
        clock(minute),
        said[-1],
    ],
    "another greeting": lambda number, said: [assistant(f"Good morning number {number}."), *said],
}


@pytest.mark.parametrize("what", BESIDE)
def test_what_a_host_sends_beside_its_messages_is_sent_as_it_is_now(store: Store, what: str) -> None:
    session, said = begun(store), list[Raw]()
    for number in range(12):
        if number % 5 == 4 and what != "a system message that moves":
            session = begun(store)
        said.append(user(f"Question {number}?"))
        host = BESIDE[what](number, said)
        session.observe(copied(host))
        assert session.prepare().messages == host
        said.append(assistant("Yes."))
    if what == "the time in a system message":
        assert [raw for raw in session.log() if raw["role"] == "system"] == [clock(0)]
        restarted = begun(store)
        restarted.observe([clock(59), user("After a restart?")])
        assert restarted.prepare().messages == [clock(59), *said[:-1], user("After a restart?")]
    if what != "a system message that moves":
        assert not session.compactions()


def test_a_system_message_that_comes_or_goes_is_followed(store: Store) -> None:
    session = begun(store)
    for rules in (["One."], ["One.", "Two."], ["Two."], ["Three.", "Two.", "One."]):
        host = [*map(system, rules), *FIRST[:3]]
        session.observe(copied(host))
        assert session.prepare().messages == host
    assert not session.compactions()


@pytest.mark.parametrize("when", ["before the cut", "after it"])
def test_a_cut_result_with_a_mark_of_a_cache_is_known_in_the_view_that_a_host_took_over(
    store: Store, when: str
) -> None:
    result = {"type": "tool_result", "tool_use_id": "c", "content": "A line of the log.\n" * 3_000}
    mark = {"cache_control": {"type": "ephemeral"}}
    call = {"type": "tool_use", "id": "c", "name": "read", "input": {}}
    said = [user("Read."), {"role": "assistant", "content": [call]}]
    cut = {"role": "user", "content": [{**result, **(mark if when == "before the cut" else {})}]}
    session = begun(store, policy=ThresholdCompactor())
    session.observe([*said, cut])
    host = session.prepare().history
    assert "cut" in str(host[2])
    host = json.loads(json.dumps(host))
    for number in range(4):
        host[2]["content"][0].pop("cache_control", None)
        host[2]["content"][0].update(mark if when == "after it" and number % 2 == 0 else {})
        session = begun(store, policy=ThresholdCompactor()) if number == 2 else session
        host.append(assistant(f"Read, {number}.") if number % 2 == 0 else user("And?"))
        assert session.observe(copied(host)) == 1
    assert not any(record.reason == "branch" for record in session.compactions())


# A list whose beginning was left out.


@pytest.mark.parametrize("own", [True, False], ids=["its own objects", "copies"])
def test_a_list_that_is_sent_again_after_an_undo_is_the_same_branch_again(store: Store, own: bool) -> None:
    """Its first text is also the last one of the line, and was forgotten."""
    session = begun(store)
    session.observe([user("Tin."), user("Salt."), user("Tin.")])
    session.forget(text="Tin.")
    host = [user("Tin."), user("Changed."), user("Tin.")]
    for _ in range(2):
        session.observe(host if own else copied(host))
        assert [raw["content"] for raw in session.history()] == ["[forgotten]", "Changed."]
        session.undo_compaction()


@pytest.mark.parametrize("keep", [3, 4, 6, 11])
@pytest.mark.parametrize("own", [True, False], ids=["its own objects", "copies"])
def test_the_newest_messages_of_a_host_continue_its_last_list(store: Store, keep: int, own: bool) -> None:
    """Short answers come again and again; what a copy cannot tell is a request that is sent again."""
    answers, session, host = ("yes", "no", "skip"), begun(store, context_window=90_000), list[Raw]()
    for number in range(30):
        host.append(user(answers[number * number % 3]))
        newest = host[-keep:] if own else copied(host[-keep:])
        session.observe(newest)
        assert session.history()[-len(newest) :] == newest
        host.append(assistant(f"File crate {number}?" if number % 4 == 0 else "And this one?"))
    assert session.log() == host[:-1]
    assert not session.compactions()


def test_a_view_that_begins_as_the_last_run_does_is_known_as_the_view() -> None:
    """A host that stores what it was given: its list was one word, and is the whole view now."""
    with begun(SimpleMemoryStore()) as session:
        session.observe([user("Hi"), assistant("Hello."), user("Where?"), assistant("There.")])
        session.new_run()
        session.observe([user("Hi")])
        history = session.prepare().history
        session.observe([dict(each) for each in history])
        assert len(session.log()) == len(history) == 5
