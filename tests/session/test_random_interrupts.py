"""Ctrl-C at random moments of whole calls, by a real signal: the session goes on, and nothing is there twice.

``SILTSTONE_INTERRUPTS`` says how many must strike (default 60; the long form: 10,000).
"""

from __future__ import annotations

import json
import os
import random
import signal
import threading
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from conversations import assistant, small, user
from siltstone import MemoryStore, Session, SimpleMemoryStore
from siltstone.memory import Store
from siltstone.testing import ScriptedModel

pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="the system has no such timer")

INTERRUPTS = int(os.environ.get("SILTSTONE_INTERRUPTS", "60"))
WINDOW = 1_500
CALLS = ["append"] * 4 + ["prepare"] * 3 + ["compact", "undo_compaction", "unpin", "forget"]
PER_SESSION = 100  #: interrupts, before another session is begun: a long one would only be slow


class Timer:
    """Interrupts a call after a while."""

    def __init__(self) -> None:
        self.is_armed = False

    def strike(self, *_: object) -> None:
        if self.is_armed:
            self.is_armed = False
            raise KeyboardInterrupt

    def interrupts(self, seconds: float, call: Callable[[], object]) -> bool:
        """Whether *call* was interrupted, before it was done or as it was."""
        try:
            self.is_armed = True
            signal.setitimer(signal.ITIMER_REAL, seconds)
            call()
            self.is_armed = False
        except KeyboardInterrupt:
            return True
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        return False


@pytest.fixture
def timer() -> Any:
    made = Timer()
    before = signal.signal(signal.SIGALRM, made.strike)
    yield made
    signal.signal(signal.SIGALRM, before)


def opened(store: Store, name: str) -> Session:
    return Session.open(
        None, name, memory=store, policy=small(500), model=ScriptedModel(), context_window=WINDOW
    )


def done(session: Session, does: str, new: Any) -> object:
    match does:
        case "append":
            return session.append(new)
        case "unpin":
            return session.unpin(0)
        case "forget":
            return session.forget(text="nobody said this")
        case _:
            return getattr(session, does)()


def is_answered(session: Session, message: Any) -> bool:
    """Whether the append of *message* had ended, and its caller was struck with the answer in hand."""
    call = session._core.calls._calls.get(threading.get_ident())
    return call is not None and call.is_answered and bool(call.key) and call.key[0] is message


def plain(messages: Any) -> Any:
    return json.loads(json.dumps(messages))


# An interrupt in the midst of a finalizer is Python's own: it is told of, and goes nowhere.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("kind", ["simple", "durable"])
def test_a_session_goes_on_after_interrupts_at_random_moments(
    tmp_path: Path, timer: Timer, kind: str
) -> None:
    chance, found, numbers = random.Random(7), Counter[str](), iter(range(10**9))
    struck = sessions = 0
    with SimpleMemoryStore() if kind == "simple" else MemoryStore.open(tmp_path) as store:
        while struck < INTERRUPTS:
            sessions += 1
            session, until = opened(store, f"session {sessions}"), struck + PER_SESSION
            acknowledged = list[str]()
            while struck < min(until, INTERRUPTS):
                word = f"n{next(numbers)} " + "word " * chance.randrange(40)
                new = chance.choice((user, assistant))(word)
                does = chance.choice(CALLS)
                call: Callable[[], object] = partial(done, session, does, new)
                was_struck = timer.interrupts(chance.expovariate(1 / 0.001), call)
                struck += was_struck
                if does == "append":
                    if was_struck and not is_answered(session, new):
                        session.append(new)
                    acknowledged.append(word)
                if not was_struck:
                    continue
                later = user(f"n{next(numbers)} later")
                session.append(later)
                acknowledged.append(later["content"])
                prepared = session.prepare()
                found["without what came after"] += prepared.messages[-1] is not later
                found["over the window"] += prepared.tokens > WINDOW
                found["the place is held"] += session._core.slot.is_held
                if struck % 10 == 0:
                    with opened(store, session.session_id) as anew:
                        found["another view"] += plain(session.history()) != plain(anew.history())
            found["another log"] += [each["content"] for each in session.log()] != acknowledged
            session.close()
        assert store.check() == []
    print(f"\n{kind}: {struck} interrupts in {sessions} sessions: {dict(found)}")
    assert +found == Counter()
