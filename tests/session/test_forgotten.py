"""A session that is open while something of it is forgotten lets go of it, and goes on."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from typing import Any

import pytest

from conversations import assistant, conversation, turns, user
from siltstone import CompactionConfig, Completion, Session, ThresholdCompactor
from siltstone.engine import Compacted
from siltstone.errors import SessionDroppedError, StoreIoError
from siltstone.llm import UsageRecord
from siltstone.memory import Store
from siltstone.memory.log import SessionLog
from siltstone.messages import FORGOTTEN, Message, broken_tool_groups
from siltstone.testing import ScriptedModel

CONFIG = CompactionConfig(
    auto_compact_threshold=600, recent_turn_budget=1, max_summary_tokens=50, on_model_failure="fail"
)
POLICY = ThresholdCompactor(CONFIG)
SECRET = "the Grünwald plan"


def opened(store: Store, **options: Any) -> Session:
    return Session.open(None, "a", policy=POLICY, model=ScriptedModel(), memory=store, **options)


def holds(session: Session, text: str = SECRET) -> bool:
    prepared = session.prepare(policy=None)
    return any(text in json.dumps(each, ensure_ascii=False) for each in (prepared.messages, prepared.history))


def test_an_open_session_lets_go_of_what_was_forgotten_at_its_next_boundary(store: Store) -> None:
    session = opened(store)
    kept = user("what is silt?")
    session.append(user(f"remember {SECRET}"), assistant("noted"), kept, assistant("fine mud"))
    assert holds(session)
    assert session.prepare().messages[2] is kept
    store.forget(text=SECRET)
    prepared = session.prepare()
    assert SECRET not in json.dumps(prepared.messages, ensure_ascii=False)
    assert prepared.messages[0]["content"] == FORGOTTEN  # type: ignore[index,call-overload]
    assert prepared.messages[2] is kept, "what was not forgotten is the caller's own object still"
    assert prepared.history == session.history() == session.log()
    session.append(user("and now?"), assistant("on we go"))
    assert session.prepare().tokens > prepared.tokens
    assert len(opened(store).history()) == 6


class FailsOnce:
    """A session's log that cannot be read the first time, as on a disk that fails for a moment."""

    def __init__(self, rows: SessionLog) -> None:
        self._rows, self.has_failed = rows, False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rows, name)

    def messages(self, start: int, end: int) -> list[tuple[Message, int]]:
        if not self.has_failed:
            self.has_failed = True
            raise StoreIoError("disk I/O error")
        return self._rows.messages(start, end)


@pytest.mark.parametrize("ask", ["prepare", "history", "append"])
def test_a_re_read_that_failed_is_made_good_by_the_next_call(
    store: Store, ask: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It counted as done, and the text was sent for ever."""
    session = opened(store)
    session.append(user(f"remember {SECRET}"), assistant("noted"))
    store.forget(text=SECRET)
    rows = FailsOnce(session._core.rows)
    monkeypatch.setattr(session._core, "rows", rows)
    with pytest.raises(StoreIoError):
        getattr(session, ask)(*([user("next")] if ask == "append" else []))
    assert rows.has_failed
    session.append(user("and now?"))
    assert not holds(session)
    assert session.history() == session.log() == opened(store).history()
    assert len(session.log()) == 3, "the append that raised has written nothing"


@pytest.mark.parametrize("ask", ["prepare", "history", "compact", "undo_compaction"])
def test_every_call_that_shows_or_rewrites_the_view_looks_first(store: Store, ask: str) -> None:
    session = opened(store)
    session.append(user(f"remember {SECRET}"), assistant("noted"))
    session.append(*conversation(4))
    store.forget(text=SECRET)
    getattr(session, ask)()
    assert all(SECRET not in item.message.text for item in session._core.view)
    assert SECRET not in json.dumps(session.history(), ensure_ascii=False)
    assert store.search("a", "Grünwald plan") == []


def test_a_compaction_under_way_while_something_is_forgotten_is_not_committed(store: Store) -> None:
    session = opened(store)
    session.append(user(f"remember {SECRET}"), assistant("noted"))
    session.append(*conversation(8))

    def model(request: Any) -> str:
        store.forget(text=SECRET)
        session.history()  # somebody looks meanwhile, and the view is read anew
        return f"They spoke of {SECRET}."

    session._model = model
    outcome = session.compact()
    assert not isinstance(outcome, Compacted)
    assert session.compactions() == []
    assert not holds(session)
    session._model = ScriptedModel()
    assert isinstance(session.compact(), Compacted)
    assert store.search("a", "Grünwald") == []


@pytest.mark.parametrize("form", ["as it was", "as it is now"])
def test_a_host_goes_on_with_its_own_list_after_something_was_forgotten(store: Store, form: str) -> None:
    session = opened(store)
    host: list[Any] = [user("hello"), user(f"remember {SECRET}"), assistant("noted")]
    assert session.observe(host) == 3
    store.forget(text=SECRET)
    if form == "as it is now":
        host = list(session.history())
    host.append(user("go on"))
    assert session.observe(host) == 1
    assert session.observe(host) == 0
    assert not holds(session)
    assert len(session.log()) == 4


# -- summaries made anew ------------------------------------------------------------------------


def compacted_twice(store: Store, model: Any) -> Session:
    session = opened(store)
    session._model = model
    session.append(user(f"remember {SECRET}"), assistant("noted"))
    for _ in range(2):
        session.append(*conversation(8))
        assert isinstance(session.compact(), Compacted)
    return session


def test_the_summary_in_view_is_made_anew_later_of_what_is_left(store: Store) -> None:
    model = ScriptedModel([f"They spoke of {SECRET}.", f"Still {SECRET}.", "Of silt."])
    session = compacted_twice(store, model)
    report = session.forget(text=SECRET)
    assert (report.sessions, report.messages, report.summaries) == (1, 1, 2)
    assert len(model.requests) == 2, "no model is asked meanwhile"
    assert "was forgotten" in json.dumps(session.history())
    session.prepare()
    assert session.wait_for_compaction(10)
    assert "Of silt." in json.dumps(session.prepare().history)
    (asked,) = model.requests[2:]
    assert "nwald" not in json.dumps([str(each) for each in asked.messages])
    assert [record.redacted for record in session.compactions()] == [True, False], "an older one stays"
    session.prepare()
    assert "Of silt." in json.dumps(opened(store).history())
    assert len(model.requests) == 3
    assert session.undo_compaction() is not None
    assert "was forgotten" in json.dumps(session.history())
    session.prepare()
    assert session.wait_for_compaction(10)
    assert "was forgotten" not in json.dumps(session.prepare().history), "it is in view again"
    assert not holds(session)
    assert store.check() == []
    assert session.forget(text="Of silt").summaries > 0, "it can be forgotten again"
    session.prepare()
    assert session.wait_for_compaction(10)
    assert "was forgotten" not in json.dumps(session.prepare().history), "and written again"


def test_a_compaction_reads_what_is_left_behind_a_forgotten_summary(store: Store) -> None:
    session = compacted_twice(store, ScriptedModel([f"They spoke of {SECRET}."]))
    session._model = model = ScriptedModel(["Of silt.", "Of silt and sand."])
    store.forget(text=SECRET)
    assert not holds(session)
    assert "was forgotten" in json.dumps(session.history())
    assert broken_tool_groups(session.history()) == 0
    session.append(*conversation(8))
    assert isinstance(session.compact(), Compacted)
    assert len(model.requests) == 2
    first, second = (json.dumps([str(each) for each in each.messages]) for each in model.requests)
    assert "question 3" in first
    assert "Of silt." in second
    assert "nwald" not in first + second
    assert "was forgotten" not in json.dumps(session.history())
    assert store.check() == []


@pytest.mark.parametrize("answer", [RuntimeError("no network"), " "])
@pytest.mark.parametrize("falls_back", [True, False])
def test_if_a_model_fails_quotes_or_the_sentence_stay(store: Store, answer: Any, falls_back: bool) -> None:
    model = ScriptedModel([answer])
    session = compacted_twice(store, ScriptedModel([f"They spoke of {SECRET}."]))
    if falls_back:
        session._calls.policy = ThresholdCompactor(replace(CONFIG, on_model_failure="fallback_summary"))
    session._model = model
    session.forget(text=SECRET)
    for _ in range(4):
        session.prepare()
        session.wait_for_compaction(10)
    assert len(model.requests) in (1, 2), "it is not asked at each boundary"
    assert ("was forgotten" in json.dumps(session.history())) is not falls_back
    assert not holds(session)


@pytest.mark.parametrize("usage", [None, UsageRecord("a-model", 100, 10)])
def test_a_summary_made_while_more_was_forgotten_is_not_taken(
    store: Store, usage: UsageRecord | None
) -> None:
    session = compacted_twice(store, ScriptedModel([f"They spoke of {SECRET}."]))

    def model(request: Any) -> Completion:
        store.forget(text="question 3")
        return Completion("They asked question 3.", usage)

    session._model = model
    session.forget(text=SECRET)
    session.prepare()
    assert session.wait_for_compaction(10)
    session.prepare()
    assert "question 3" not in json.dumps([session.history(), session.compactions()[0].summary])


# -- dropped, and begun anew --------------------------------------------------------------------


def test_a_dropped_session_is_refused_with_the_way_out_and_can_be_begun_anew(store: Store) -> None:
    old = opened(store)
    old.append(user("silt"))
    store.index("a", [])
    store.delete_session("a")
    with pytest.raises(SessionDroppedError, match=r"another id, or begin it anew with store\.revive"):
        opened(store)
    assert (store.revive("a"), store.revive("a"), store.revive("nobody")) == (True, False, False)
    new = opened(store)
    assert (new.log(), new.history(), new.compactions()) == ([], [], [])
    new.append(user("mud"), assistant("yes"))
    assert [message["content"] for message in opened(store).log()] == ["mud", "yes"]
    assert store.check() == []


def test_a_host_goes_on_with_its_list_after_another_worker_dropped_the_session(store: Store) -> None:
    session = opened(store, context_window=1_000)
    host: list[Any] = []

    def go_on(count: int) -> None:
        for turn in turns(count):
            host.extend(map(copy.copy, turn))
            assert session.observe(host) == len(turn)
            session.prepare()

    go_on(60)
    assert isinstance(session.compact(), Compacted)  # the head moves after the host's last list
    before = session.history()
    store.delete_session("a")
    go_on(60)
    assert session.history()[-2:] == host[-2:]
    assert session.history()[0] != before[0]  # it goes on to compact
    assert session.observe(host) == 0
    assert store.check() == []


def test_a_dropped_session_follows_no_rewritten_past_and_says_what_to_do(store: Store) -> None:
    session = opened(store)
    host = conversation(4)
    session.observe(host)
    store.delete_session("a")
    shown = session.history()
    with pytest.raises(SessionDroppedError, match=r"was deleted meanwhile.*another id.*store\.revive"):
        session.observe([*host[:3], user("Other.")])
    with pytest.raises(SessionDroppedError, match=r"was deleted meanwhile.*another id.*store\.revive"):
        session.undo_compaction()
    assert session.history() == shown
    session.append(user("and on"))
    assert session.history() == [*shown, user("and on")]


@pytest.mark.parametrize("call", ["rewrite", "undo"])
def test_a_session_that_is_dropped_during_a_rewrite_stays_as_it_was(
    store: Store, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = opened(store)
    host = conversation(8)
    session.observe(host)
    assert isinstance(session.compact(), Compacted)
    rows, shown = type(session._core.rows), session.history()
    written = getattr(rows, call)

    def dropped_first(log: Any, *given: Any, **named: Any) -> Any:
        store.delete_session("a")
        return written(log, *given, **named)

    monkeypatch.setattr(rows, call, dropped_first)
    with pytest.raises(SessionDroppedError, match="was deleted meanwhile"):
        session.undo_compaction() if call == "undo" else session.observe([*host[:3], user("Other.")])
    assert session.history() == shown


def test_a_writer_from_before_a_drop_does_not_write_into_the_new_log(store: Store) -> None:
    from siltstone.errors import StoreConflictError

    old = opened(store)
    old.append(user("silt"))
    store.delete_session("a")
    store.revive("a")
    with pytest.raises(StoreConflictError):
        old.append(user("late"))
    assert opened(store).log() == []
