"""A list that goes on from the last one is read from there: with the answers of one that is read whole."""

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import given, strategies as st

from siltstone import HistoryConflictError, Session, SimpleMemoryStore, ThresholdCompactor
from siltstone.errors import StoreConflictError
from siltstone.session.host_list import LastList, Seen
from siltstone.session.observing import _continued

Raw = dict[str, Any]
WORDS = ("go on", "what failed?", "port 8080 is taken", "yes")


def a_session() -> Session:
    return Session.open(
        None, "s", memory=SimpleMemoryStore(), policy=ThresholdCompactor(), context_window=600
    )


def forget_last_list(session: Session) -> None:
    """The session reads the next list whole."""
    core = session._calls.core
    if core.state.host is None:
        return  # it has seen none
    host = core.state.host.recognised()
    core.state = replace(core.state, host=replace(host, last=None))


def took_short_way(session: Session, raws: list[Any]) -> bool:
    """Whether *raws* is read from where the last list ended. It is taken in if so."""
    core = session._calls.core
    return core.locked(lambda: _continued(core, core.followed(), raws, None)) is not None


def asked(number: int) -> Raw:
    return {"role": "user", "content": f"question {number}: " + "words " * 6}


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("say"), st.sampled_from(WORDS), st.integers(1, 3)),
        st.tuples(st.just("call"), st.integers(0, 9)),
        st.tuples(st.just("copy")),
        st.tuples(st.just("edit"), st.integers(0, 30)),
        st.tuples(st.just("change in place"), st.integers(0, 30)),
        st.tuples(st.just("drop"), st.integers(0, 30)),
        st.tuples(st.just("repeat"), st.integers(0, 30)),
        st.tuples(st.just("adopt")),
        st.tuples(st.just("prepare")),
        st.tuples(st.just("quote the summary")),
        st.tuples(st.just("forget"), st.sampled_from(WORDS)),
        st.tuples(st.just("append")),
        st.tuples(st.just("undo")),
    ),
    min_size=2,
    max_size=14,
)


class Host:
    """A host with its own list and a session."""

    def __init__(self) -> None:
        self.session = a_session()
        self.raws: list[Any] = []
        self.said = 0
        self.has_dropped = False

    def text(self, text: str) -> str:
        """*text*. A list that lacks messages says nothing twice: it might be taken for the first time."""
        self.said += 1
        return f"{text} {self.said}" if self.has_dropped else text

    def step(self, name: str, *given: Any) -> Any:
        raws, session = self.raws, self.session
        if name == "say":
            for number in range(given[1]):
                raws.append({"role": ("user", "assistant")[number % 2], "content": self.text(given[0])})
        elif name == "call":
            given = (self.text(str(given[0])),)
            call = {"id": f"c{given[0]}", "type": "function", "function": {"name": "run", "arguments": "{}"}}
            raws.append({"role": "assistant", "content": None, "tool_calls": [call]})
            raws.append({"role": "tool", "tool_call_id": f"c{given[0]}", "content": "done " * 30})
        elif name == "copy":
            self.raws = json.loads(json.dumps(raws))
        elif name in ("edit", "change in place", "drop", "repeat") and raws:
            place = given[0] % len(raws)
            if name == "edit":
                raws[place] = {**copy.deepcopy(raws[place]), "content": "edited"}
            elif name == "change in place":
                if sum(each is raws[place] for each in raws) == 1:
                    raws[place]["content"] = "changed"
            elif name == "drop":
                del raws[place]
                self.has_dropped = True
            elif raws[place].get("content") != "changed":  # one identity must not have said two things
                again = {"role": "user", "content": self.text("again")}
                raws.append(again if self.has_dropped else raws[place])
        elif name == "adopt":
            self.raws = list(session.prepare().history)
        elif name == "prepare":
            session.prepare()
        elif name == "quote the summary" and not self.has_dropped:
            raws.extend(
                {"role": "user", "content": each["content"]}
                for each in session.prepare().history[:1]
                if isinstance(each.get("content"), str)
            )
        elif name == "forget":
            return session.forget(text=given[0]).messages
        elif name == "append":
            self.said += 1
            session.append(asked(self.said))
            raws.append(asked(self.said))
        elif name == "undo":
            session.undo_compaction()
        return None

    def observed(self) -> Any:
        """The answer, and everything that the session then says of itself."""
        return [
            answer_of(lambda: self.session.observe(self.raws)),
            self.session.log(),
            json.loads(json.dumps(self.session.prepare().history)),
            [each.reason for each in self.session.compactions(undone=True)],
        ]


def answer_of(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except (HistoryConflictError, StoreConflictError) as error:
        return type(error).__name__


@given(STEPS)
def test_a_list_that_goes_on_is_taken_in_as_if_it_were_read_whole(steps: list[tuple[Any, ...]]) -> None:
    short, whole = Host(), Host()
    for step in steps:
        assert answer_of(partial(short.step, *step)) == answer_of(partial(whole.step, *step))
        forget_last_list(whole.session)
        assert short.observed() == whole.observed()


@pytest.mark.parametrize(
    "other",
    [
        {"role": "user", "content": [{"type": "text", "text": "1"}], "n": True},
        {"role": "user", "content": [{"type": "text", "text": "1"}], "n": 1.0},
        {"content": [{"type": "text", "text": "1"}], "role": "user", "n": 1},
        {"role": "user", "content": [{"type": "text", "text": "1"}], "n": 1, "m": None},
        {"role": "user", "content": [{"type": "text", "text": 1}], "n": 1},
    ],
)
def test_a_copy_that_would_be_written_otherwise_is_read_as_another_message(other: Raw) -> None:
    """Python finds some of them equal; their JSON texts differ."""
    session = a_session()
    first = {"role": "user", "content": [{"type": "text", "text": "1"}], "n": 1}
    session.observe([first, asked(1)])
    assert not took_short_way(session, [other, asked(1), asked(2)])
    assert took_short_way(session, [copy.deepcopy(first), asked(1), asked(2)])


def test_a_list_of_a_type_that_json_does_not_know_is_known_by_its_objects() -> None:
    class Odd(dict[str, Any]):
        def items(self) -> Any:  # what the writer of JSON reads
            return [("role", "user"), ("content", {1, 2})]

    session = a_session()
    raws: list[Any] = [asked(0), asked(1)]
    session.observe(raws)
    assert not took_short_way(session, [Odd(asked(0)), asked(1)])


def test_a_message_that_was_changed_and_logged_anew_is_in_step_again() -> None:
    """Its object says from then on what was logged last: the list does not branch at each call."""
    session = a_session()
    raws: list[Any] = [asked(0), asked(1)]
    session.observe(raws)
    raws[1]["content"] = "changed"
    raws[0] = {"role": "user", "content": "edited"}
    assert session.observe(raws) == 2
    forget_last_list(session)
    assert session.observe(raws) == 0
    assert session.observe(json.loads(json.dumps(raws))) == 0
    assert [each.reason for each in session.compactions(undone=True)] == ["branch"]
    assert session.log()[2:] == raws


def test_a_list_that_was_read_whole_knows_a_changed_object_by_its_logged_text() -> None:
    said = asked(0)
    before = LastList.of([said], 0, None, [], None, 1)
    said["content"] = "changed in place"
    after = LastList.of([said, asked(1)], 1, before, [], None, 2)
    assert after.begins([asked(0), asked(1)], None, 2)
    assert not after.begins([dict(said), asked(1)], None, 2)


def test_a_list_that_has_grown_has_seen_all_its_messages() -> None:
    raws: list[Any] = [asked(0), asked(1)]
    seen = [Seen(place, raw, b"", b"") for place, raw in enumerate(raws)]
    grown = LastList.of(raws[:1], 0, None, seen[:1], None, 1).grown(raws, seen[1:], 2)
    assert grown.with_its_objects() == seen
