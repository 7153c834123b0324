"""A host's list on its way into a session and back, without a framework."""

import copy
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from adapters.contract import opened
from siltstone.adapters.base import Door
from siltstone.adapters.host import HostDialect, HostHistory
from siltstone.messages import decode, logged

Item = dict[str, Any]


class Dicts(HostDialect[Item]):
    """A host whose messages are dicts; it counts what is read."""

    name = "dicts"

    def __init__(self) -> None:
        self.reads = 0

    def read(self, message: Item) -> Sequence[Item]:
        self.reads += 1
        return (message,)

    def write(self, fields: Mapping[str, Any], provenance: Any, original: Item | None) -> Item:
        return dict(fields)

    def said(self, messages: Sequence[Item]) -> list[Any]:
        return list(messages)

    def kept(self, message: Item) -> Any:
        return None

    def restored(self, kept: Any) -> Item:
        return dict(kept)


def user(text: str) -> Item:
    return {"role": "user", "content": [{"type": "text", "text": text}]}


def assistant(text: str) -> Item:
    return {"role": "assistant", "content": text}


def conversation(turns: int) -> list[Item]:
    return [each(f"{number}") for number in range(turns) for each in (user, assistant)]


def test_a_list_that_goes_on_is_read_from_where_it_goes_on() -> None:
    dialect, host = Dicts(), conversation(50)
    history = HostHistory(dialect)
    history.read(host)
    host += conversation(1)
    history.read(host)
    history.read(copy.deepcopy(host))
    assert dialect.reads == 102, "not even copies are read again"


@pytest.mark.parametrize("copied", [False, True], ids=["the same objects", "copies"])
def test_a_message_that_was_changed_in_place_is_read_and_sent_as_it_is_now(copied: bool) -> None:
    session, host = opened(policy=None, model=None), conversation(4)
    door = Door(session, Dicts())
    door.prepare(host)
    if copied:
        host = copy.deepcopy(host)
        door.prepare(host)
    host[2]["content"][0]["text"] = "[cleared]"
    ready = door.prepare(host)
    assert ready.messages == host
    assert all(one is other for one, other in zip(ready.messages, host, strict=True))
    assert session.history()[2]["content"] == [{"type": "text", "text": "[cleared]"}]
    assert [each.reason for each in session.compactions()] == ["branch"]
    assert [each["content"] for each in session.log() if "[cleared]" in str(each)] == [host[2]["content"]]


@pytest.mark.parametrize(("place", "calls"), [(0, 1), (-1, 1), (2_000, 3)])
def test_a_change_in_place_in_a_long_list_is_read_after_a_few_calls(place: int, calls: int) -> None:
    history, host = HostHistory(Dicts()), conversation(2_000)
    history.read(host)
    host[place] = changed = {**host[place]}
    history.read(host)
    changed["name"] = "Ada"
    for _ in range(calls):
        pieces, _ = history.read(host)
    assert [dict(each) for each in pieces] == host


@given(
    st.lists(st.tuples(st.sampled_from(("say", "copy", "change", "drop")), st.integers(0, 20)), max_size=12)
)
def test_whatever_a_host_does_to_its_list_the_request_has_its_own_objects_in_order(
    steps: list[tuple[str, int]],
) -> None:
    session, host = opened(policy=None, model=None), conversation(2)
    door = Door(session, Dicts())
    for said, (name, number) in enumerate(steps):
        if name == "say":
            host += [user(f"more {said}"), assistant(f"answer {said}")]
        elif name == "copy":
            host = copy.deepcopy(host)
        elif name == "change":
            host[number % len(host)]["content"] = f"changed {said}"
        elif len(host) > 2:
            left = [each for place, each in enumerate(host) if place != number % len(host)]
            if any(each["role"] == "assistant" for each in left):  # else the host begins anew
                host = left
        ready = door.prepare(host)
        assert [id(each) for each in ready.messages if each in host] == [
            id(each) for each in host if each in ready.messages
        ]
        assert ready.messages[-1] is host[-1]


class Unequal:
    """A value that cannot be compared, as an array of NumPy's."""

    def __eq__(self, other: object) -> bool:
        raise ValueError("ambiguous")

    __hash__ = None  # type: ignore[assignment]


def test_values_of_the_hosts_own_that_cannot_be_compared_are_read_again() -> None:
    class Own(Dicts):
        def read(self, message: Item) -> Sequence[Item]:
            self.reads += 1
            return ({"role": message["role"], "content": message["content"]},)

    dialect, session = Own(), opened(policy=None, model=None)
    door = Door(session, dialect)
    host = [{**assistant("one"), "rows": Unequal()}]
    door.prepare(host)
    again = [{**assistant("one"), "rows": Unequal()}]
    assert door.prepare(again).messages[0] is again[0]
    assert len(session.log()) == 1


def test_two_runs_at_once_are_each_sent_their_own_list() -> None:
    session = opened(policy=None, model=None)
    door = Door(session, Dicts())
    begun = threading.Barrier(2)
    wrong: list[Any] = []

    def run(name: str) -> None:
        host = [user("Who is there?")]
        begun.wait()
        for number in range(20):
            host += [assistant(f"{name} {number}"), user(f"Go on, {name} {number}.")]
            sent = door.prepare(host).messages
            if sent != host:
                wrong.append((sent, host))

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(run, ("ann", "ben")))
    assert wrong == []


class Noted(Dicts):
    """A host whose messages have notes that no model sees."""

    def read(self, message: Item) -> Sequence[Item]:
        return ({key: each for key, each in message.items() if key != "note"},)

    def said(self, messages: Sequence[Item]) -> list[Any]:
        return [each for message in messages for each in self.read(message)]

    def kept(self, message: Item) -> Any:
        return message


def noted(turns: int, note: str) -> list[Item]:
    return [{**each, "note": f"{note} {place}"} for place, each in enumerate(conversation(turns))]


def test_what_the_log_keeps_beside_a_message_is_not_compared_counted_or_found(tmp_path: Path) -> None:
    options: dict[str, Any] = {"path": tmp_path, "memory": True, "policy": None, "model": None}
    options["namespace"] = "clerks"
    with opened(**options) as session:
        tokens = Door(session, Noted()).prepare(noted(4, "archivist " * 50)).prepared.tokens
        assert session.log() == conversation(4)
    with opened(**options) as session:
        ready = Door(session, Noted()).prepare(host := noted(5, "another"))
        assert ready.messages == host
        assert len(session.log()) == 10
        assert session.compactions() == []
        assert ready.prepared.tokens < tokens * 1.5
    with opened(name="other", **options) as session:
        assert session.search("4", scope="namespace")
        assert session.search("archivist", scope="namespace") == []


@pytest.mark.parametrize("place", ["content", "note"])
def test_a_message_with_a_secret_keeps_nothing_of_its_host_in_the_log(tmp_path: Path, place: str) -> None:
    secret = "AKIA" + "Q7R4T2W9Y5U8I3O6"
    options: dict[str, Any] = {"path": tmp_path, "memory": True, "policy": None, "model": None}
    with opened(redaction=True, **options) as session:
        host = noted(1, "seen")
        host[0][place] = f"The key is {secret}."
        assert Door(session, Noted()).prepare(host).messages[0] is host[0]
    with opened(**options) as session:
        written = HostHistory(Noted()).write(session.history())
        assert secret not in str(written)
        assert "note" not in written[0]
        assert written[1] == host[1]
    assert not any(secret.encode() in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


def test_a_message_that_is_forgotten_keeps_nothing_of_its_host(tmp_path: Path) -> None:
    with opened(path=tmp_path, memory=True, policy=None, model=None) as session:
        Door(session, Noted()).prepare(noted(3, "quayside"))
        session.forget(text="quayside 2")
        assert [getattr(each, "host", {}) != {} for each in session.log()] == [True, True, False, *[True] * 3]
    assert not any(b"quayside 2" in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


@given(st.lists(st.integers(0, 5), unique=True).map(sorted))
def test_pieces_of_a_message_come_back_from_the_log_as_one(gone: list[int]) -> None:
    """Pieces in a row are one message of the host again; a piece between two that has left parts them."""

    class Lines(Dicts):
        def read(self, message: Item) -> Sequence[Item]:
            return [{"role": "user", "content": line} for line in message["lines"]]

        def part(self, message: Item, pieces: Sequence[int]) -> Item:
            return {**message, "lines": [message["lines"][each] for each in pieces]}

        def joined(self, parts: Sequence[Item]) -> Item:
            return {**parts[0], "lines": [line for each in parts for line in each["lines"]]}

        def kept(self, message: Item) -> Any:
            return message

    host = [{"lines": ["=1", "b", "c"], "id": 1}, {"lines": ["d", "a long line of the host", "f"], "id": 2}]
    read, _ = HostHistory(Lines()).read(host)
    stored = [decode(logged(piece)) for piece in read]
    written = HostHistory(Lines()).write([each for at, each in enumerate(stored) if at not in gone])
    assert [line for each in written for line in each["lines"]] == [
        line for at, line in enumerate(line for each in host for line in each["lines"]) if at not in gone
    ]
    assert (written == host) == (not gone)
