"""An interrupt at any line of what learns and saves: facts and the note of what was read, or neither."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from conftest import PROFILE
from conversations import assistant, small, user
from interrupting import interrupted_at, lines_of
from siltstone import Completion, CompletionRequest, Session, SimpleMemoryStore
from siltstone.engine import Compacted
from siltstone.knowledge import KnowledgeConfig

FACT = {"type": "decision", "content": "Webhooks are verified with signatures"}
SAMPLES = 40  #: of the lines of a call, spread over all of it; every line in the slow profile


def model(request: CompletionRequest) -> Completion:
    return Completion(json.dumps([FACT]) if request.purpose == "facts" else "What was said.")


def opened(store: SimpleMemoryStore) -> Session:
    config = KnowledgeConfig(min_entries=1)
    return Session.open(None, "s", memory=store, policy=small(), model=model, knowledge=config)


def filled(session: Session) -> None:
    session._begin_reader = lambda: None  # type: ignore[method-assign] # nothing beside what is interrupted
    session.append(user("Remember that the API is running on port 3000. " + "pad " * 30), assistant("Yes."))
    for number in range(8):
        session.append(user(f"question {number} " + "pad " * 30), assistant("Done. " * 20))


def compacting(session: Session) -> Callable[[], object]:
    filled(session)
    return session.compact


def learning(session: Session) -> Callable[[], object]:
    filled(session)
    assert isinstance(session.compact(), Compacted)
    return session.learn


def saving(session: Session) -> Callable[[], object]:
    return lambda: session.save("Use tabs", "preference")


def denying(session: Session) -> Callable[[], object]:
    return lambda: session.record_denial("shell", "rm", "use make clean", "tidy")


def facts_of(session: Session) -> list[tuple[str, int]]:
    return sorted((fact.content, fact.support) for fact in session.facts(history=True))


def expected(begin: Callable[[Session], Callable[[], object]]) -> tuple[list[tuple[str, int]], int]:
    with SimpleMemoryStore() as store, opened(store) as session:
        call = begin(session)
        lines = lines_of(call)
        session.compact()
        session.learn()
        return facts_of(session), lines


@pytest.mark.parametrize("begin", [compacting, learning, saving])
def test_an_interrupt_at_any_line_learns_all_of_it_once(begin: Callable[[Session], Any]) -> None:
    facts, lines = expected(begin)
    step = 1 if PROFILE == "slow" else max(1, lines // SAMPLES)
    for line in range(1, lines, step):
        with SimpleMemoryStore() as store:
            with opened(store) as session:
                call = begin(session)
                interrupted_at(line, call)
                call()
                session.compact()
                session.learn()
                assert facts_of(session) == facts, line
            with opened(store) as session:
                session.learn()
                assert facts_of(session) == facts, line


def test_an_interrupted_denial_that_is_repeated_counts_once() -> None:
    for _ in range(2):  # the first call of a process runs more lines than later ones
        with SimpleMemoryStore() as store, opened(store) as session:
            lines = lines_of(denying(session))
    step = 1 if PROFILE == "slow" else max(1, lines // SAMPLES)
    for line in range(1, lines, step):
        with SimpleMemoryStore() as store, opened(store) as session:
            call = denying(session)
            assert interrupted_at(line, call), line
            assert len(session._core.knowing.facts.corrections()) in (0, 1)
            call()
            assert len(session._core.knowing.facts.corrections()) == 1, line
            assert len(session.rules) == 1
            call()
            assert len(session._core.knowing.facts.corrections()) == 2, "one that was answered is another"
