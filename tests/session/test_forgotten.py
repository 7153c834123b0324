"""A session that is open while something of it is forgotten lets go of it, and when a host sends it again."""

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, strategies as st

from conversations import Raw, assistant, conversation, exchange, turns, user
from siltstone import CompactionConfig, Completion, Session, SimpleMemoryStore, ThresholdCompactor
from siltstone.engine import Compacted
from siltstone.errors import SessionDroppedError, StoreIoError
from siltstone.events import ForgottenReturned
from siltstone.llm import UsageRecord
from siltstone.memory import Store
from siltstone.memory.log import SessionLog
from siltstone.messages import FORGOTTEN, Message, broken_tool_groups, canonical_digest, validate_history
from siltstone.testing import RecordingHook, ScriptedModel

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
def test_a_summary_made_while_more_was_forgotten_is_not_taken(store: Store, usage: UsageRecord | None):
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


DUE_EARLY = ThresholdCompactor(CompactionConfig(auto_compact_threshold=600, max_summary_tokens=50))


class Host:
    """A host with its own list, which it hands in as another process would: no object is the same."""

    def __init__(self, store: Store, *said: Raw) -> None:
        self.store, self.said, self.hook = store, list(said), RecordingHook()
        self.open()

    def open(self) -> None:
        self.session = Session.open(
            None, "a", memory=self.store, policy=DUE_EARLY, model=ScriptedModel(), hooks=[self.hook]
        )

    def observe(self, *more: Raw) -> int:
        self.said += more
        return self.session.observe(json.loads(json.dumps(self.said)))

    @property
    def told(self) -> list[tuple[int, ...]]:
        return [event.places for event in self.hook.events if isinstance(event, ForgottenReturned)]

    def holds(self, text: str = SECRET) -> bool:
        shown = [self.session.prepare().messages, self.session.log()]
        return text in json.dumps(shown, ensure_ascii=False)


def going_on(host: Host) -> None:
    """The session that forgot goes on."""


def opened_anew(host: Host) -> None:
    """Another one, which was never shown what is forgotten."""
    host.session.close()
    host.open()


@pytest.fixture(params=[going_on, opened_anew])
def then(request: pytest.FixtureRequest) -> Callable[[Host], None]:
    found: Callable[[Host], None] = request.param
    return found


def test_a_host_that_adopted_a_summary_may_send_it_again_too(store: Store) -> None:
    host = Host(store, user(f"remember {SECRET}"), assistant("noted"))
    for turn in turns(6):
        host.observe(*turn)
        host.said = list(host.session.prepare().history)
    assert host.session.compactions()
    host.session.forget(text=SECRET)
    opened_anew(host)
    host.said = list(host.session.history())
    rewritten = len(host.session.compactions())
    assert host.observe(user(f"remember {SECRET}"), user("go on")) == 1
    assert host.observe(assistant("on we go")) == 1
    assert not host.holds()
    assert len(host.session.compactions()) == rewritten


@pytest.mark.parametrize("is_made_anew", [True, False])
def test_a_summary_that_a_host_took_over_is_known_after_it_was_forgotten(
    store: Store, then: Callable[[Host], None], is_made_anew: bool
) -> None:
    host = Host(store, user(f"remember {SECRET}"), assistant("noted"))
    host.session._model = ScriptedModel([f"They spoke of {SECRET}.", "They spoke of silt."])
    for turn in turns(6):
        host.observe(*turn)
        host.said = list(host.session.prepare().history)
    assert SECRET in host.said[0]["content"]
    if is_made_anew:
        host.session.forget(text=SECRET)
        host.session.prepare()
        assert host.session.wait_for_compaction(10)
        assert "They spoke of silt." in str(host.session.prepare().history)
    else:
        store.forget(text=SECRET)
    then(host)
    assert host.observe(user("go on")) == 1
    then(host)
    assert host.observe(assistant("on we go")) == 1
    assert not host.holds()
    assert [each.reason for each in host.session.compactions() if each.reason == "branch"] == []
    assert set(host.told) == {(0,)}


def test_of_two_that_say_the_same_the_one_that_stands_is_no_secret(
    store: Store, then: Callable[[Host], None]
) -> None:
    host = Host(store, user("yes"), assistant("sure?"), user("yes"), assistant("well"))
    host.observe()
    host.session.forget(start=0, end=1)
    then(host)
    assert host.observe(user("yes"), assistant("done")) == 2
    assert [each["content"] for each in host.session.log()] == [
        FORGOTTEN, "sure?", "yes", "well", "yes", "done",
    ]  # fmt: skip
    assert host.told == []
    assert host.session.compactions() == []


def test_a_branch_over_a_forgotten_call_leaves_its_tombstone_to_its_result(
    store: Store, then: Callable[[Host], None]
) -> None:
    call, result = exchange(7, "nothing was found")
    call["tool_calls"][0]["function"]["arguments"] = json.dumps({"query": SECRET})
    host = Host(store, user("one"), user("look it up"), call, result, assistant("nothing"))
    host.observe()
    host.session.forget(text=SECRET)
    then(host)
    host.said[0] = user("another one")
    assert host.observe() == 5
    assert not host.holds()
    assert validate_history(host.session.history()) == []
    assert host.session.history()[2]["tool_calls"][0]["function"]["arguments"] == "{}"  # type: ignore[index,call-overload]
    assert host.observe(user("go on")) == 1
    assert [each.reason for each in host.session.compactions()] == ["branch"]


def test_a_tombstone_that_was_forgotten_further_is_known_as_well(store: Store, then: Callable[[Host], None]):
    """A host took the tombstone over; then the id that it has was forgotten."""
    call, result = exchange(7, SECRET)
    call["tool_calls"][0]["id"] = result["tool_call_id"] = "call_customer77"
    host = Host(store, user("look it up"), call, result, assistant("nothing"))
    host.observe()
    host.session.forget(text=SECRET)
    host.said = list(host.session.prepare().history)
    assert host.session.forget(text="customer77", identifiers=True).messages == 2
    then(host)
    assert host.observe(user("go on")) == 1
    assert not host.holds("customer77")
    assert host.session.compactions() == []
    assert validate_history(host.session.history()) == []


def test_what_a_message_says_cannot_be_guessed_from_another_stores_digest() -> None:
    said = user(f"remember {SECRET}")
    digests, salts = set(), set()
    for _ in range(2):
        with SimpleMemoryStore() as store, Session.open(None, "a", memory=store) as session:
            session.append(said)
            session.forget(text=SECRET)
            rows = store.open_log("a")
            ((seq, digest),) = rows.forgotten()
            assert (seq, digest) == (0, canonical_digest(said, rows.salt()))
            digests.add(digest)
            salts.add(rows.salt())
    assert (len(digests), len(salts)) == (2, 2)


def test_a_text_in_the_cut_form_of_a_result_leaves_it_and_the_view_can_be_read(store: Store) -> None:
    output = f"key: {SECRET}\n" + "\n".join(f"line {number} of the log" for number in range(4_000))
    with Session.open(None, "a", memory=store, context_window=4_000) as session:
        session.append(user("read it"), *exchange(1, output))
        assert SECRET in json.dumps(session.prepare().messages, ensure_ascii=False)
        session.append(assistant("done"))
        assert any(each.kind == "substitute" for each in store.open_log("a").derived_after(0))
        session.forget(text=SECRET)
        assert SECRET not in json.dumps(session.prepare().messages, ensure_ascii=False)
        assert validate_history(session.history()) == []
    with Session.open(None, "a", memory=store, context_window=4_000) as anew:
        assert SECRET not in json.dumps([anew.prepare().messages, anew.log()], ensure_ascii=False)


@given(data=st.data())
def test_whatever_is_forgotten_and_sent_again_the_session_has_the_rest_in_its_order(data: st.DataObject):
    """Against a plain list: what is forgotten is a tombstone in its place, and comes in nowhere else."""
    words, gone = [f"word {number}" for number in range(8)], set[str]()
    with SimpleMemoryStore() as store:
        host, plain = Host(store), list[str]()
        for _ in range(data.draw(st.integers(1, 12))):
            does = data.draw(st.sampled_from(["say", "say", "forget", "reopen"]))
            if does == "say":
                new = data.draw(st.lists(st.sampled_from(words), min_size=1, max_size=4))
                plain += [text for text in new if text not in gone or text in plain]
                host.observe(*map(user, new))
            elif does == "forget" and plain:
                text = data.draw(st.sampled_from(words))
                host.session.forget(text=text)
                gone |= {text} & set(plain)
                plain = [FORGOTTEN if each == text else each for each in plain]
            else:
                opened_anew(host)
            assert [each["content"] for each in host.session.log()] == plain
            assert host.session.compactions() == []
            assert host.session.observe(copy.deepcopy(host.said)) == 0
