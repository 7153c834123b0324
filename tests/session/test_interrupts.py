"""Interrupts at every line of a call: the session has its old state or its new one, and goes on.

A tracer raises ``KeyboardInterrupt`` at the first, the second, the third … line that one call runs in the
rooms that handle a session's state, in the clean-up of an interrupted call too. Afterwards the same object
must go on, and must send what a session opened anew on the same store would send.
"""

from __future__ import annotations

import copy
import gc
import itertools
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, Self

import pytest

import siltstone
from conftest import PROFILE
from conversations import exchange, turns, user
from interrupting import is_with
from siltstone import CompactionConfig, Session, ThresholdCompactor, estimate_tokens
from siltstone.memory.base import Store
from siltstone.messages import validate_history
from siltstone.testing import ScriptedModel

POLICY = ThresholdCompactor(CompactionConfig(auto_compact_threshold=300, max_summary_tokens=60))
PACKAGE = str(Path(siltstone.__file__).parent)
TRACED = (
    "session/", "engine.py", "llm.py", "memory/log.py", "memory/database_log.py", "stores/memory.py",
    "postgres/",
)  # fmt: skip


class Interrupter:
    """Raises at the lines with the numbers *at*, counted over the rooms in ``TRACED``."""

    def __init__(self, *at: int) -> None:
        self.at, self.seen, self.is_due = at, 0, False

    def __enter__(self) -> Self:
        gc.disable()  # what is collected may be another test's, whose lines are none of this call
        sys.settrace(self._call)
        return self

    def __exit__(self, *exc: object) -> None:
        sys.settrace(None)
        gc.enable()

    def _call(self, frame: FrameType, event: str, argument: Any) -> Any:
        name = frame.f_code.co_filename
        if name.startswith(PACKAGE) and name[len(PACKAGE) + 1 :].startswith(TRACED):
            return self._line
        return None

    def _line(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            self.seen += 1
            self.is_due = self.is_due or self.seen in self.at
            if self.is_due and not is_with(frame):  # else at the next line
                self.is_due = False
                raise KeyboardInterrupt
        return self._line


def said(count: int) -> list[dict[str, Any]]:
    return [message for turn in turns(count) for message in turn]


def opened(store: Store, name: str) -> Session:
    return Session.open(None, name, memory=store, policy=POLICY, model=ScriptedModel(), context_window=1_500)


def appending(session: Session) -> Callable[[], object]:
    session.append(*said(1))
    return lambda: session.append(user("NEW"))


def preparing(session: Session) -> Callable[[], object]:
    session.append(*said(1))
    session.prepare()
    session.append(*said(5))
    return session.prepare


def compacting(session: Session) -> Callable[[], object]:
    session.append(*said(5))
    return session.compact


def undoing(session: Session) -> Callable[[], object]:
    session.append(*said(5))
    session.compact()
    return session.undo_compaction


def observing(session: Session) -> Callable[[], object]:
    session.observe(said(3))
    longer = [*said(3), user("and more")]
    return lambda: session.observe(copy.deepcopy(longer))


def branching(session: Session) -> Callable[[], object]:
    session.observe(said(3))
    other = [*said(2), user("instead")]
    return lambda: session.observe(copy.deepcopy(other))


def pinning(session: Session) -> Callable[[], object]:
    session.append(*said(3))
    return lambda: session.pin(2)


def forgetting(session: Session) -> Callable[[], object]:
    session.append(*said(5))
    session.compact()
    return lambda: session.forget(text="question 1")


def writing_anew(session: Session) -> Callable[[], object]:
    for _ in range(2):
        session.append(*said(4))
        session.compact()
    return session.resummarize


def recovering(session: Session) -> Callable[[], object]:
    session.append(*said(5))
    session.prepare()
    return lambda: session.recover(ValueError("context_length_exceeded"))


#: Every line in the slow profile; else every tenth, beginning at another one for each call.
STRIDE = 1 if PROFILE == "slow" else 10

CALLS = [
    appending, preparing, compacting, undoing, observing, branching, pinning, forgetting, writing_anew,
    recovering,
]  # fmt: skip
LONG = [] if PROFILE == "slow" else [writing_anew, recovering]  #: fewer lines of these, each is many
#: A call has three times as many lines over PostgreSQL, and each session there begins with a mirror.
OVER_POSTGRES = 15


def lines(store: Store, call: Callable[..., object] | None = None, stride: int = STRIDE) -> Iterator[int]:
    """The lines to interrupt at: some of them, beginning at another one for each call."""
    step = stride * (3 if call in LONG else 1)
    step *= OVER_POSTGRES if getattr(store, "schema", None) else 1
    first = 0 if call is None else (7 * CALLS.index(call) % step or step // 3)  # a short call has few lines
    return itertools.count(first + 1 if first else step, step)


def judged(session: Session, store: Store) -> str:
    """What is wrong with *session* after an interrupt; empty where it goes on as it must."""
    later = user("after")
    session.append(later)
    prepared = session.prepare()
    if estimate_tokens(prepared.messages, "blocks") > 1_500 or validate_history(prepared.messages):
        return "the request is too large or illegal"
    if prepared.messages[-1] is not later:
        return "the request lacks the message that came after"
    with opened(store, session.session_id) as anew:
        if session.history() != anew.history():
            return "it sends something else than a session opened anew"
    log = [message["content"] for message in session.log()]
    if log.count("after") != 1 or max(map(log.count, log)) > log.count(None):
        return "a message is in the log twice"
    outcome = session.compact()
    if getattr(outcome, "reason", "") in {"in_flight", "stale", "internal"}:
        return f"it cannot compact any more: {outcome}"
    return ""


@pytest.mark.parametrize("call", CALLS)
def test_an_interrupt_at_any_line_leaves_the_old_state_or_the_new_one(
    store: Store, call: Callable[[Session], Callable[[], object]]
) -> None:
    found: Counter[str] = Counter()
    for line in lines(store, call):
        session = opened(store, f"{call.__name__}-{line}")
        act = call(session)
        try:
            with Interrupter(line):
                act()
            break
        except KeyboardInterrupt:
            found[judged(session, store)] += 1
    assert line > 10
    assert set(found) == {""}, found


@pytest.mark.parametrize("call", CALLS)
def test_a_second_interrupt_in_the_clean_up_of_the_first_changes_nothing(
    store: Store, call: Callable[[Session], Callable[[], object]]
) -> None:
    found: Counter[str] = Counter()
    for line in lines(store, call, 3 * STRIDE):
        for gap in (1, 2, 5):
            session = opened(store, f"{call.__name__}-{line}-{gap}")
            act = call(session)
            try:
                with Interrupter(line, line + gap):
                    act()
            except KeyboardInterrupt:
                found[judged(session, store)] += 1
            else:
                break
        else:
            continue
        break
    assert set(found) == {""}, found


@pytest.mark.parametrize("second", [0, 1, 3])
def test_an_interrupted_append_that_is_repeated_adds_nothing_twice(store: Store, second: int) -> None:
    repeated = 0
    for line in lines(store, stride=1):
        session = opened(store, f"repeated-{line}")
        session.append(*said(1)[:2])
        new = user("NEW")
        try:
            with Interrupter(line, *([line + second] if second else [])):
                session.append(new)
            break
        except KeyboardInterrupt:
            before = len(session.log())
            assert session.append(new) == range(2, 3)
            repeated += before == 3
            assert [message["content"] for message in session.log()].count("NEW") == 1
            assert session.prepare().messages[-1] is new
    assert repeated > 1, "some interrupts came after the message was durable"


def test_an_interrupted_offload_that_is_repeated_adds_its_result_once_and_cuts_it(store: Store) -> None:
    going_on = True
    for line in lines(store):
        session = opened(store, f"offloaded-{line}")
        call, result = exchange(1, "a line of output\n" * 300)
        session.append(user("Go."), call)
        try:
            with Interrupter(line):
                session.offload(result, 100)
            going_on = False
        except KeyboardInterrupt:
            view = session.history()
            assert len(view) == 2 or "tokens cut" in view[2]["content"], "both are there, or none"
            assert session.offload(result, 100) == range(2, 3)
        assert session.log()[2:] == [result]
        assert "tokens cut" in session.history()[2]["content"]
        if not going_on:
            break


def test_an_interrupted_fork_is_whole_or_is_made_again(store: Store) -> None:
    session = opened(store, "forked")
    session.append(*said(4))
    session.compact()
    going_on = True
    for line in lines(store, stride=4 * STRIDE):
        name = f"fork-{line}"
        try:
            with Interrupter(line):
                session.fork(name)
            going_on = False
        except KeyboardInterrupt:
            if not store.stats(name).messages:
                session.fork(name)
        with opened(store, name) as fork:
            assert (fork.log(), fork.history()) == (session.log(), session.history())
            assert len(fork.compactions()) == 1
        if not going_on:
            break
    assert store.check() == []


def test_an_interrupted_undo_that_is_repeated_undoes_one_compaction(store: Store) -> None:
    going_on = True
    for line in lines(store):
        session = opened(store, f"undone-{line}")
        session.append(*said(4))
        session.compact()
        session.append(*said(4))
        session.compact()
        try:
            with Interrupter(line):
                session.undo_compaction()
            going_on = False
        except KeyboardInterrupt:
            session.undo_compaction()
        assert len(session.compactions()) == 1
        if not going_on:
            break


def test_the_same_words_said_twice_are_two_messages(store: Store) -> None:
    with opened(store, "twice") as session:
        yes = user("yes")
        assert [session.append(yes), session.append(yes), session.append(user("yes"))] == [
            range(1),
            range(1, 2),
            range(2, 3),
        ]
