"""Nothing is changed on failure: models that fail or hang, stores that refuse, hooks that raise."""

import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from compacting import Raw, exchange, filler
from conversations import assistant, conversation, user
from siltstone import (
    CompactionConfig,
    Completion,
    CompletionRequest,
    MemoryStore,
    Session,
    SimpleMemoryStore,
    StoreError,
    ThresholdCompactor,
    hooks,
)
from siltstone.engine import Compacted, Failed, Skipped
from siltstone.errors import InvalidMessageError, ReadOnlyStoreError, StoreClosedError, StoreIoError
from siltstone.llm import UsageRecord
from siltstone.memory.entry import Entry
from siltstone.memory.log import CommitReceipt, NewCompaction, SessionLog
from siltstone.testing import RecordingHook, ScriptedModel
from storing import elsewhere

POLICY = ThresholdCompactor(
    CompactionConfig(auto_compact_threshold=600, max_summary_tokens=50, on_model_failure="fail")
)


def filled(session: Session) -> None:
    session.append(*conversation(6))


class RefusingLog:
    """A log whose commits fail, as on a full disk; everything else is the real thing."""

    def __init__(self, log: SessionLog) -> None:
        self._log = log

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    def commit(self, compaction: NewCompaction, entries: Sequence[Entry], **expected: Any) -> CommitReceipt:
        raise StoreIoError("the disk is full")


class RefusingStore(SimpleMemoryStore):
    """A store that takes messages and refuses entries."""

    def open_log(self, session_id: str) -> SessionLog:
        log: Any = RefusingLog(super().open_log(session_id))
        return log


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (RuntimeError("rate limited"), "llm_failed"),
        ("", "empty_summary"),
        ("  \n ", "empty_summary"),
        (Completion("", UsageRecord("m", 10, 0)), "empty_summary"),
        ("".join(f"word{n} " for n in range(50_000)), None),
    ],
)
def test_mk_50_a_model_that_fails_leaves_the_history_as_it_was(
    tmp_path: Path, answer: Any, reason: str | None
) -> None:
    hook = RecordingHook()
    with Session.open(tmp_path, "s", policy=POLICY, model=ScriptedModel([answer]), hooks=[hook]) as session:
        filled(session)
        before = session.history()
        outcome = session.compact()
        if reason is None:
            assert isinstance(outcome, Compacted)
            assert outcome.tokens_after < outcome.tokens_before
            return
        assert (type(outcome), outcome.reason) == (Failed, reason)
        assert outcome.messages == before == session.history()
        assert hook.names == ["CompactionStarted", "CompactionFailed"]
        assert all(hit.in_context for hit in session.search("topic0"))


def test_mk_53_a_store_that_refuses_keeps_the_history_and_tells() -> None:
    hook = RecordingHook()
    store = RefusingStore()
    with Session.open(None, "s", policy=POLICY, model=ScriptedModel(), memory=store, hooks=[hook]) as session:
        filled(session)
        session.append(user("next"))
        before = session.history()
        outcome = session.compact()
        assert (type(outcome), outcome.reason) == (Failed, "memory_indexing_failed")
        assert 0 < outcome.attempted_entries < len(before)
        assert "disk is full" in outcome.message
        assert session.history() == before
        assert hook.names == ["CompactionStarted", "CompactionFailed"]
        assert store.entries("s").entries == ()
        assert session._core.clock.last_attempt is not None
        session.append(assistant("the run goes on"))


def test_a_read_only_store_refuses_a_message_and_stays_as_it_was(tmp_path: Path) -> None:
    with Session.open(tmp_path, "s") as session:
        session.append(user("hello"))
    with (
        MemoryStore.open(tmp_path, read_only=True) as store,
        Session.open(None, "s", memory=store) as session,
    ):
        with pytest.raises(ReadOnlyStoreError):
            session.append(assistant("no"))
        assert session.history() == [user("hello")]
        assert session.prepare().messages == [user("hello")]


@pytest.mark.parametrize(
    "message",
    [
        None,
        "hello",
        [],
        {},
        {"role": "wizard", "content": "hi"},
        {"role": "user", "content": [{"type": "text", "text": object()}]},
    ],
)
def test_what_is_not_a_message_is_refused_and_its_batch_with_it(tmp_path: Path, message: Any) -> None:
    with Session.open(tmp_path, "s") as session:
        session.append(user("first"))
        with pytest.raises(InvalidMessageError):
            session.append(user("second"), message)
        assert session.history() == session.log() == [user("first")]


def test_mk_59_bad_usage_data_do_not_end_a_turn(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with Session.open(tmp_path, "s", policy=POLICY, model=ScriptedModel()) as session:
        for usage in ("many", {"input_tokens": "7"}, -1, object(), {"prompt_tokens": None}):
            session.append(user("a"), usage=usage)
        assert session._core.clock.last_input_tokens == 0
        session.append(user("b"), usage={"input_tokens": 5, "cache_read_input_tokens": 3})
        assert session._core.clock.last_input_tokens == 8
    assert "taken as unknown" in caplog.text


def test_a_closed_session_says_so(tmp_path: Path) -> None:
    session = Session.open(tmp_path, "s")
    session.close()
    session.close()
    for use in (
        lambda: session.append(user("x")),
        session.prepare,
        session.compact,
        lambda: session.search("x"),
    ):
        with pytest.raises(StoreClosedError):
            use()


def test_a_policy_that_raises_is_a_failed_attempt(tmp_path: Path) -> None:
    class Broken(ThresholdCompactor):
        def flow(self, history: Any, trigger: Any) -> Iterator[Any]:  # type: ignore[override]
            raise ZeroDivisionError("by accident")
            yield

    with Session.open(tmp_path, "s", policy=Broken(), model=ScriptedModel()) as session:
        filled(session)
        before = session.history()
        outcome = session.compact()
        assert (type(outcome), outcome.reason) == (Failed, "internal")
        assert isinstance(outcome.cause, ZeroDivisionError)
        assert session.history() == before


def test_a_refusing_store_over_the_window_raises_instead_of_sending_too_much() -> None:
    auto = ThresholdCompactor(CompactionConfig(max_summary_tokens=50))
    with Session.open(
        None, "s", policy=auto, model=ScriptedModel(), memory=RefusingStore(), context_window=500
    ) as session:
        filled(session)
        session.append(user("go on"))
        before = session.history()
        with pytest.raises((StoreError, ValueError), match="disk is full"):
            session.prepare()
        assert session.history() == before


FALLING_BACK = ThresholdCompactor(CompactionConfig(auto_compact_threshold=600, max_summary_tokens=50))
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


def with_six_turns(session: Session) -> list[Any]:
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
        session = Session.open(None, "s", policy=FALLING_BACK, memory=store, **given)
        before = with_six_turns(session)
        late = user("late")
        with compacting(session, hanging) as came:
            assert session.history() == before == session.log()
            if where != "event":  # the beginning is not told twice to one that hangs
                outcome = session.compact()
                assert (type(outcome), outcome.reason) == (Skipped, "in_flight")
            session.append(late)
            assert session.history() == [*before, late]
            assert all(hit.in_context for hit in session.search("topic0"))
            with Session.open(None, "t", policy=FALLING_BACK, model=ScriptedModel(), memory=store) as other:
                with_six_turns(other)
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
def test_a_model_that_returns_garbage_is_refused_or_cut_and_loses_nothing(tmp_path: Path, answer: Any):
    answers = [answer, "a summary of some length"]
    with Session.open(tmp_path, "s", policy=FALLING_BACK, model=lambda request: answers.pop(0)) as session:
        before = with_six_turns(session)
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
