"""A model or a hook that hangs, is dead, or returns garbage: nothing is lost, and nobody waits for long."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from compacting import Raw, exchange, filler
from conversations import conversation, user
from siltstone import (
    CompactionConfig,
    Completion,
    CompletionRequest,
    MemoryStore,
    Session,
    SimpleMemoryStore,
    ThresholdCompactor,
    hooks,
)
from siltstone.engine import Compacted, Failed, Skipped
from siltstone.testing import ScriptedModel
from storing import elsewhere

POLICY = ThresholdCompactor(CompactionConfig(auto_compact_threshold=600, max_summary_tokens=50))
SOON = 300  # seconds that a test waits for what must come


class Hanging:
    """Called, it says so and does not return until it is let go."""

    def __init__(self) -> None:
        self.called, self.released = threading.Event(), threading.Event()

    def __call__(self, *asked: Any) -> Any:
        self.called.set()
        assert self.released.wait(SOON)
        return "a summary of some length" if asked and isinstance(asked[0], CompletionRequest) else None


@contextmanager
def compacting(session: Session, hanging: Hanging) -> Iterator[list[Any]]:
    """A thread that compacts and hangs meanwhile; what it came to, once it was let go."""
    came: list[Any] = []
    thread = threading.Thread(target=lambda: came.append(session.compact()), daemon=True)
    thread.start()
    try:
        assert hanging.called.wait(SOON)
        yield came
    finally:
        hanging.released.set()
        thread.join(SOON)
    assert not thread.is_alive()


def filled(session: Session) -> list[Any]:
    session.append(*conversation(6))
    return session.history()


@pytest.mark.parametrize("where", ["model", "before", "after", "event"])
def test_while_a_call_hangs_everybody_else_goes_on(tmp_path: Path, where: str) -> None:
    hanging = Hanging()
    given: dict[str, Any] = {
        "model": {"model": hanging},
        "before": {"model": ScriptedModel(), "on_before_compact": hanging, "hook_timeout": None},
        "after": {"model": ScriptedModel(), "on_after_compact": hanging, "hook_timeout": None},
        "event": {"model": ScriptedModel(), "hooks": [hanging]},  # in the caller's thread
    }[where]
    with MemoryStore.open(tmp_path) as store:
        session = Session.open(None, "s", policy=POLICY, memory=store, **given)
        before = filled(session)
        late = user("late")
        with compacting(session, hanging) as came:
            assert session.history() == before == session.log()
            if where != "event":  # the beginning is not told twice to one that hangs
                outcome = session.compact()
                assert (type(outcome), outcome.reason) == (Skipped, "in_flight")
            session.append(late)
            assert session.history() == [*before, late]
            assert all(hit.in_context for hit in session.search("topic0"))
            with Session.open(None, "t", policy=POLICY, model=ScriptedModel(), memory=store) as other:
                filled(other)
                assert isinstance(other.compact(), Compacted)
                assert other.search("topic0")
            found = elsewhere(
                "import sys\n"
                "from siltstone import Session\n"
                "with Session.open(sys.argv[1], 's') as session:\n"
                "    print(len(session.history()), len(session.compactions()))\n"
                "with Session.open(sys.argv[1], 'u') as session:\n"
                "    session.append({'role': 'user', 'content': 'from elsewhere'})\n",
                tmp_path,
            )
            assert found.split() == [str(len(before) + 1), "0"]
            assert came == []
        assert isinstance(came[0], Compacted)
        assert session.history()[-1] is late
        assert session.log() == [*before, late]
        assert not all(hit.in_context for hit in session.search("topic0"))
        assert store.check() == []
        session.close()


@pytest.mark.parametrize(
    "stopped", [KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError, RecursionError]
)
def test_a_model_that_is_stopped_leaves_the_session_usable(
    tmp_path: Path, stopped: type[BaseException]
) -> None:
    works = False

    def model(request: CompletionRequest) -> str:
        if not works:
            raise stopped("stop")
        return "a summary of some length"

    policy = ThresholdCompactor(replace(POLICY.config, on_model_failure="fail"))
    with Session.open(tmp_path, "s", policy=policy, model=model) as session:
        before = filled(session)
        if issubclass(stopped, Exception):
            assert isinstance(session.compact(), Failed)
        else:
            with pytest.raises(stopped):
                session.compact()
        assert session.history() == before == session.log()
        assert all(hit.in_context for hit in session.search("topic0"))
        works = True
        assert isinstance(session.compact(), Compacted)
        assert not all(hit.in_context for hit in session.search("topic0"))


@pytest.mark.parametrize(
    "answer",
    [
        None, 42, b"bytes", [], ["text"], {"text": "x"}, object(), Completion, ..., Completion(None),
        Completion(b"bytes"), Completion(["x"]), Completion(""), Completion("x" * 10_000_000),
        "half of \ud83d, or \x00", Completion("\ud800 \udc00 \x00"),
        Completion("a summary", usage="free"), Completion("a summary", usage=5),
        Completion("a summary", stop_reason=object()), iter("x"), lambda: "x", ValueError("returned"),
    ],
    ids=lambda answer: re.sub(r" at 0x.*", "", repr(answer))[:40],  # the same names in every process
)  # fmt: skip
def test_a_model_that_returns_garbage_is_refused_or_cut_and_loses_nothing(
    tmp_path: Path, answer: Any
) -> None:
    answers = [answer, "a summary of some length"]
    with Session.open(tmp_path, "s", policy=POLICY, model=lambda request: answers.pop(0)) as session:
        before = filled(session)
        outcome = session.compact()
        assert session.log() == before
        if isinstance(outcome, Failed):
            assert outcome.messages == before == session.history()
            assert all(hit.in_context for hit in session.search("topic0"))
            outcome = session.compact()
        assert isinstance(outcome, Compacted)
        assert not all(hit.in_context for hit in session.search("topic0"))
        session.prepare()
        view, log = session.history(), session.log()
    with Session.open(tmp_path, "s") as again:
        assert (again.history(), again.log()) == (view, log)
    with MemoryStore.open(tmp_path) as store:
        assert store.check() == []


@pytest.mark.parametrize("runs", [True, False], ids=["its thread runs", "it has none"])
def test_a_call_whose_start_is_interrupted_gives_its_place_back_once(
    monkeypatch: pytest.MonkeyPatch, runs: bool
) -> None:
    """The thread may run already when its start is interrupted: it gives the place back itself."""
    start, ended = threading.Thread.start, threading.Event()

    def interrupted(thread: threading.Thread) -> None:
        if runs:
            start(thread)
            thread.join()
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    for _ in range(hooks.MOST_THREADS + 1):
        with pytest.raises(KeyboardInterrupt):
            hooks.started(lambda _: ended.set(), None, "a model")
    monkeypatch.undo()
    assert ended.is_set() == runs
    assert hooks.started(lambda said: said, "well", "a model").result(60) == "well"


WINDOW = 8_000


def played(model: Any, boundaries: int, **settings: Any) -> list[list[Any]]:
    """What was attempted at each boundary of an agent at work."""
    policy = ThresholdCompactor(CompactionConfig(retry_delay=0, **settings))
    attempts = []
    store = SimpleMemoryStore()
    with Session.open(None, "x", policy=policy, model=model, memory=store, context_window=WINDOW) as session:
        session.append(user("Build it."))
        for number in range(boundaries):
            prepared = session.prepare()
            assert prepared.tokens <= WINDOW
            assert any(raw == user("Build it.") for raw in prepared.messages)
            attempts.append(list(prepared.outcomes))
            session.append(*step(number))
    return attempts


def step(number: int) -> list[Raw]:
    return exchange(f"call_{number}", filler(700))


def dead(error: Exception | None = None) -> ScriptedModel:
    return ScriptedModel([error or ConnectionError("no route to host")])


def test_while_the_breaker_is_open_an_attempt_is_one_call():
    model = dead()
    outcomes = [each for boundary in played(model, 149, on_model_failure="fail") for each in boundary]
    failed = sum(getattr(each, "reason", "") == "llm_failed" for each in outcomes)
    assert failed > 3
    assert len(model.requests) == 3 * 2 + (failed - 3)


def test_with_a_fallback_compactions_go_on_and_the_model_is_asked_as_seldom():
    model = dead()
    attempts = played(model, 149, on_model_failure="fallback_summary")
    assert 8 <= len(model.requests) <= 12
    made = [each for outcomes in attempts for each in outcomes if isinstance(each, Compacted)]
    assert len(made) > 10
    assert all(each.degraded for each in made)


def test_a_list_of_models_is_not_asked_through_while_the_breaker_is_open():
    one, other = dead(), dead()
    played([one, other], 149)
    assert len(other.requests) == 3, "each attempt asks both once, and later ones the first alone"
    assert len(one.requests) > len(other.requests)


@pytest.mark.parametrize("fallback", ["fail", "fallback_summary"])
def test_a_summariser_that_comes_back_closes_the_breaker(fallback: str):
    model = ScriptedModel([*[ConnectionError("down")] * 8, "The agent built it."])
    attempts = played(model, 200, on_model_failure=fallback)
    last = [each for outcomes in attempts[100:] for each in outcomes]
    assert last
    assert all(isinstance(each, Compacted) and not each.degraded for each in last)
    assert len(model.requests) >= 8 + len(last)
