"""Interrupts at every line of a call: the session has its old state or its new one, and goes on.

A tracer raises ``KeyboardInterrupt`` at the first, the second, the third … line that one call runs in the
rooms that handle a session's state, in the clean-up of an interrupted call too. Afterwards the same object
must go on, and must send what a session opened anew on the same store would send.
"""

from __future__ import annotations

import gc
import itertools
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any, Self

import pytest

import siltstone
from conftest import PROFILE
from conversations import conversation, user
from interrupting import CALLS, bound, is_with
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


def opened(store: Store, name: str) -> Session:
    return Session.open(None, name, memory=store, policy=POLICY, model=ScriptedModel(), context_window=1_500)


#: Every line in the slow profile; else every tenth, beginning at another one for each call.
STRIDE = 1 if PROFILE == "slow" else 10

LONG = [] if PROFILE == "slow" else ["resummarize", "recover"]  #: fewer lines of these, each is many
#: A call has three times as many lines over PostgreSQL, and each session there begins with a mirror.
OVER_POSTGRES = 15


def interrupted(
    store: Store, name: str, before: Any, call: Any, stride: int = STRIDE, *gaps: int
) -> Iterator[Any]:
    """A session whose *call* was interrupted, the call, and whether it was: at some lines, until it ends.

    It begins at another line for each call, and each of *gaps* is the way to a second interrupt.
    """
    step = stride * (3 if name in LONG else 1)
    step *= OVER_POSTGRES if getattr(store, "schema", None) else 1
    first = (7 * [*CALLS].index(name) % step or step // 3) if name in CALLS else step - 1
    for line in itertools.count(first + 1, step):  # a short call has few lines
        for gap in gaps or (0,):
            session = opened(store, f"{name}-{line}-{gap}")
            for each in before:
                bound(session, each)()
            act, is_struck = bound(session, call), False
            try:
                with Interrupter(line, *([line + gap] if gap else [])):
                    act()
            except KeyboardInterrupt:
                is_struck = True
            yield session, act, is_struck
            if not is_struck:
                return


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


@pytest.mark.parametrize("gaps", [(), (1, 2, 5)], ids=["once", "in the clean-up too"])
@pytest.mark.parametrize("name", sorted(CALLS.keys() - {"offload"}))
def test_an_interrupt_at_any_line_leaves_the_old_state_or_the_new_one(
    store: Store, name: str, gaps: tuple[int, ...]
) -> None:
    found: Counter[str] = Counter()
    for session, _, is_struck in interrupted(
        store, name, *CALLS[name], 3 * STRIDE if gaps else STRIDE, *gaps
    ):
        if is_struck:
            found[judged(session, store)] += 1
    assert set(found) == {""}, found


@pytest.mark.parametrize("second", [0, 1, 3])
def test_an_interrupted_append_that_is_repeated_adds_nothing_twice(store: Store, second: int) -> None:
    repeated = 0
    before = [("append", *conversation(1)[:2])]
    for session, act, is_struck in interrupted(store, "again", before, ("append", user("NEW")), 1, second):
        if is_struck:
            logged = len(session.log())
            assert act() == range(2, 3)
            repeated += logged == 3
            assert [message["content"] for message in session.log()].count("NEW") == 1
            assert session.prepare().messages[-1] == user("NEW")
    assert repeated > 1, "some interrupts came after the message was durable"


def test_an_interrupted_offload_that_is_repeated_adds_its_result_once_and_cuts_it(store: Store) -> None:
    before, call = CALLS["offload"]
    for session, act, is_struck in interrupted(store, "offload", before, call):
        if is_struck:
            with opened(store, session.session_id) as anew:  # as after the end of the process
                view = anew.history()
                assert len(view) == 5 or "tokens cut" in view[5]["content"], "both are there, or none"
            assert act() == range(5, 6)
        assert session.log()[5:] == [call[1]]
        assert "tokens cut" in session.history()[5]["content"]


def test_an_interrupted_fork_is_whole_or_is_made_again(store: Store) -> None:
    before: list[Any] = [("append", *conversation(4)), ("compact",)]
    for session, _, _ in interrupted(store, "forked", before, ("fork", "fork"), 4 * STRIDE):
        if not store.stats("fork").messages:
            session.fork("fork").close()
        with opened(store, "fork") as fork:
            assert (fork.log(), fork.history()) == (session.log(), session.history())
            assert len(fork.compactions()) == 1
        store.delete_session("fork")
        store.revive("fork")
    assert store.check() == []


def test_an_interrupted_undo_that_is_repeated_undoes_one_compaction(store: Store) -> None:
    before: list[Any] = [("append", *conversation(4)), ("compact",)] * 2
    for session, act, is_struck in interrupted(store, "undone", before, ("undo_compaction",)):
        if is_struck:
            act()
        assert len(session.compactions()) == 1
