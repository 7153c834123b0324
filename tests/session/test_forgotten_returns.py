"""What was forgotten is known when a host sends it again: it stays out, and a hook is told."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable

import pytest
from hypothesis import given, strategies as st

from conversations import Raw, assistant, exchange, turns, user
from siltstone import CompactionConfig, Session, SimpleMemoryStore, ThresholdCompactor
from siltstone.events import ForgottenReturned
from siltstone.memory import Store
from siltstone.messages import FORGOTTEN, canonical_digest, validate_history
from siltstone.testing import RecordingHook, ScriptedModel

SECRET = "the Grünwald plan"
POLICY = ThresholdCompactor(CompactionConfig(auto_compact_threshold=600, max_summary_tokens=50))


class Host:
    """A host with its own list, which it hands in as another process would: no object is the same."""

    def __init__(self, store: Store, *said: Raw) -> None:
        self.store, self.said, self.hook = store, list(said), RecordingHook()
        self.open()

    def open(self) -> None:
        self.session = Session.open(
            None, "a", memory=self.store, policy=POLICY, model=ScriptedModel(), hooks=[self.hook]
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


def test_sent_again_at_the_end_it_stays_out_for_good_and_what_follows_comes_in(
    store: Store, then: Callable[[Host], None]
) -> None:
    again = user(f"remember {SECRET}")
    host = Host(store, user("hello"), again, assistant("noted"))
    host.observe()
    host.session.forget(text=SECRET)
    then(host)
    assert host.observe(again) == 0
    assert host.observe(assistant("what?"), user("never mind")) == 2
    then(host)
    assert host.observe(again, user("the end")) == 1
    assert host.observe() == 0
    assert not host.holds()
    assert host.session.compactions() == []
    assert sorted({place for places in host.told for place in places}) == [1, 3, 6]


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


@pytest.mark.parametrize("form", ["keys in another order", "marked for a cache", "null members"])
def test_it_is_known_however_it_is_written(store: Store, form: str) -> None:
    host = Host(store, user(f"remember {SECRET}"), assistant("noted"))
    host.observe()
    host.session.forget(text=SECRET)
    opened_anew(host)
    text = f"remember {SECRET}"
    host.said[0] = {
        "keys in another order": {"content": text, "role": "user"},
        "marked for a cache": {"role": "user", "content": text, "cache_control": {"type": "ephemeral"}},
        "null members": {"role": "user", "content": text, "name": None},
    }[form]
    assert host.observe(user("go on")) == 1
    assert (host.told, host.holds()) == ([(0,)], False)


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


def test_a_tombstone_that_was_forgotten_further_is_known_as_well(
    store: Store, then: Callable[[Host], None]
) -> None:
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
def test_whatever_is_forgotten_and_sent_again_the_session_has_the_rest_in_its_order(
    data: st.DataObject,
) -> None:
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
