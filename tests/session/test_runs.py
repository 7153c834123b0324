"""A host that begins anew: its list begins a run, and the session goes on; later lists belong to that run."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest

from branching import copied
from conversations import Raw, assistant, user
from siltstone import Session, SimpleMemoryStore, ThresholdCompactor
from siltstone.errors import HistoryConflictError
from siltstone.events import HistoryContinued
from siltstone.memory import Store
from siltstone.testing import RecordingHook, ScriptedModel


def opened(store: Store, **options: Any) -> Session:
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
    opened(store).observe(copied(FIRST))
    told = RecordingHook()
    session = opened(store, hooks=[told])
    assert session.observe(copied(ANEW[how])) == len(ANEW[how])
    history = [*FIRST, *ANEW[how]]
    assert session.log() == history
    assert session.prepare().messages == sorted(history, key=lambda raw: raw["role"] != "system")
    assert not session.compactions()
    assert told.events == [HistoryContinued("s", len(FIRST), len(ANEW[how]))]

    more = [*ANEW[how], assistant("As you said."), user("And pump 2?")]
    assert session.observe(copied(more)) == 2, "and later lists go on with the run"
    assert opened(store).observe(copied(more)) == 0, "in another process too"
    third = opened(store)
    assert third.observe([user("A third life.")]) == 1
    assert len(third.log()) == len(history) + 3


def test_a_list_of_an_earlier_run_is_refused_and_nothing_is_written(store: Store) -> None:
    """Two tabs, or two threads, on one session."""
    one, other = opened(store), opened(store)
    one.observe(copied(FIRST))
    other.observe(copied(talk(50, 2, "Valve")))
    before = other.log()
    for tab in (one, opened(store)):
        with pytest.raises(HistoryConflictError, match="a session of its own for each conversation"):
            tab.observe(copied([*FIRST, user("Go on here.")]))
    assert other.log() == before
    assert other.observe(copied([*talk(50, 2, "Valve"), user("Go on there.")])) == 1


@pytest.mark.parametrize("is_anew", [False, True], ids=["the same process", "another process"])
def test_a_list_of_all_runs_with_another_first_message_takes_the_place_of_all(
    store: Store, is_anew: bool
) -> None:
    opened(store).observe(copied(FIRST))
    session = opened(store)
    session.observe(copied(talk(50, 2, "Valve")))
    session.observe(copied(host := session.history()))
    session = opened(store) if is_anew else session
    edited = [user("Pump 0 is broken."), *host[1:], user("Which one is broken?")]
    session.observe(copied(edited))
    assert session.history() == edited
    session.observe(copied([*edited, assistant("Pump 0.")]))
    assert session.history() == [*edited, assistant("Pump 0.")]
    assert [record.reason for record in session.compactions()] == ["branch"]


def test_an_exchange_that_each_run_has_makes_no_list_one_of_all_runs(store: Store) -> None:
    hello = [user("Hi"), assistant("Hello.")]
    session = opened(store)
    session.observe(copied([*hello, *FIRST]))
    session.new_run()
    session.observe(copied([*talk(50, 1, "Valve"), *hello]))
    session.observe(copied([user("Valve 50 is broken."), assistant("Oh."), *hello]))
    assert session.history() == [*hello, *FIRST, user("Valve 50 is broken."), assistant("Oh."), *hello]


def test_without_the_option_such_a_host_is_told_of_it_once(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    session = opened(store)
    with caplog.at_level(logging.WARNING, "siltstone"):
        for number in range(6):
            session.observe([user(f"Question {number}?")])
    assert [record.message.count('unrelated="always"') for record in caplog.records] == [1]


@pytest.mark.parametrize("unrelated", ["branch", "raise"])
def test_a_list_that_shares_nothing_can_be_a_branch_or_an_error(store: Store, unrelated: Any) -> None:
    opened(store).observe(copied(FIRST))
    session, host = opened(store, unrelated=unrelated), [user("Something else.")]
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
    session, said = opened(store), list[Raw]()
    for number in range(12):
        if number % 5 == 4 and what != "a system message that moves":
            session = opened(store)
        said.append(user(f"Question {number}?"))
        host = BESIDE[what](number, said)
        session.observe(copied(host))
        assert session.prepare().messages == host
        said.append(assistant("Yes."))
    if what == "the time in a system message":
        assert [raw for raw in session.log() if raw["role"] == "system"] == [clock(0)]
        restarted = opened(store)
        restarted.observe([clock(59), user("After a restart?")])
        assert restarted.prepare().messages == [clock(59), *said[:-1], user("After a restart?")]
    if what != "a system message that moves":
        assert not session.compactions()


def test_a_system_message_that_comes_or_goes_is_followed(store: Store) -> None:
    session = opened(store)
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
    session = opened(store, policy=ThresholdCompactor())
    session.observe([*said, cut])
    host = session.prepare().history
    assert "cut" in str(host[2])
    host = json.loads(json.dumps(host))
    for number in range(4):
        host[2]["content"][0].pop("cache_control", None)
        host[2]["content"][0].update(mark if when == "after it" and number % 2 == 0 else {})
        session = opened(store, policy=ThresholdCompactor()) if number == 2 else session
        host.append(assistant(f"Read, {number}.") if number % 2 == 0 else user("And?"))
        assert session.observe(copied(host)) == 1
    assert not any(record.reason == "branch" for record in session.compactions())


# A list whose beginning was left out.


@pytest.mark.parametrize("own", [True, False], ids=["its own objects", "copies"])
def test_a_list_that_is_sent_again_after_an_undo_is_the_same_branch_again(store: Store, own: bool) -> None:
    """Its first text is also the last one of the line, and was forgotten."""
    session = opened(store)
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
    answers, session, host = ("yes", "no", "skip"), opened(store, context_window=90_000), list[Raw]()
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
    with opened(SimpleMemoryStore()) as session:
        session.observe([user("Hi"), assistant("Hello."), user("Where?"), assistant("There.")])
        session.new_run()
        session.observe([user("Hi")])
        history = session.prepare().history
        session.observe([dict(each) for each in history])
        assert len(session.log()) == len(history) == 5
