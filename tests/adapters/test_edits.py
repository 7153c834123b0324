"""What others change in a request, applied to the session's view, without a framework."""

import copy
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, strategies as st

import siltstone
from adapters.contract import opened
from adapters.test_host import Dicts, Item, conversation, user
from siltstone.adapters.base import Door, Ready

LARGE = "crates of salt stand on the quay. " * 300


class Named(Dicts):
    """A host that knows its messages by an id, which no model sees."""

    def read(self, message: Item) -> Sequence[Item]:
        return ({key: each for key, each in message.items() if key != "name"},)

    def write(self, fields: Any, provenance: Any, original: Item | None) -> Item:
        return {**fields, "name": f"ours-{len(str(fields))}"}

    def identity(self, message: Item) -> str | None:
        return message.get("name")


def a_call(number: int) -> list[Item]:
    called = {"name": "look", "arguments": "{}"}
    call = {"id": f"call-{number}", "type": "function", "function": called}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"call-{number}", "content": f"{number}: {LARGE}"},
    ]


def asked(calls: int) -> list[Item]:
    return [user("Do the rounds."), *(each for number in range(calls) for each in a_call(number))]


def cut_up(dialect: Dicts, host: list[Item]) -> tuple[Door[Item], set[str]]:
    """A door whose session shows some results of *host* in a shorter form, and the calls of these."""
    session = opened(policy=siltstone.ThresholdCompactor(), model=None, context_window=6_000)
    door = Door(session, dialect)
    for end in range(3, len(host) + 1, 2):
        ready = door.prepare(host[:end])
    cut = {each["tool_call_id"] for each in ready.messages if is_cut(each)}
    assert cut, "the window is too small for all results"
    return door, cut


def is_cut(message: Item) -> bool:
    return message["role"] == "tool" and len(message["content"]) < len(LARGE)


def whole(ready: Ready[Item]) -> set[str]:
    """The calls whose results are in a request in full."""
    results = (each for each in ready.messages if each["role"] == "tool")
    return {each["tool_call_id"] for each in results if len(each["content"]) >= len(LARGE)}


def appends(request: list[Item]) -> list[Item]:
    return [*request, user("Be brief.")]


def copies_all(request: list[Item]) -> list[Item]:
    return copy.deepcopy(request)


def prepends(request: list[Item]) -> list[Item]:
    return [{"role": "system", "content": "Be brief."}, *request]


def moves_the_first(request: list[Item]) -> list[Item]:
    return [*request[1:], request[0]]


def moves_a_result(request: list[Item]) -> list[Item]:
    return [request[2], *request[:2], *request[3:]]


def repeats_a_result(request: list[Item]) -> list[Item]:
    return [*request, dict(request[2])]


def edits_each(request: list[Item]) -> list[Item]:
    return [{**each, "content": f"[seen] {each['content']}"} for each in request]


def edits_without_ids(request: list[Item]) -> list[Item]:
    return [{key: each[key] for key in each if key != "name"} for each in edits_each(request)]


@pytest.mark.parametrize("dialect", [Dicts, Named])
@pytest.mark.parametrize(
    "change",
    [
        appends, copies_all, prepends, moves_the_first, moves_a_result, repeats_a_result, edits_each,
        edits_without_ids,
    ],
)  # fmt: skip
def test_whatever_others_change_no_cut_result_comes_back_whole(dialect: Any, change: Any) -> None:
    host = [{**each, "name": f"m-{place}"} for place, each in enumerate(asked(6))]
    if dialect is Dicts:
        host = [{key: each[key] for key in each if key != "name"} for each in host]
    door, cut = cut_up(dialect(), host)
    ready = door.prepare(host, change(host))
    assert whole(ready).isdisjoint(cut)
    assert {each["tool_call_id"] for each in ready.messages if is_cut(each)} >= cut


def test_an_edited_result_that_is_cut_is_cut_in_its_edited_form() -> None:
    """The head of the original may be what the edit has hidden."""
    host = asked(6)
    door, cut = cut_up(Dicts(), host)
    hidden = [{**each, "content": str(each["content"]).replace("salt", "****")} for each in host]
    results = [each for each in door.prepare(host, hidden).messages if each["role"] == "tool"]
    assert {each["tool_call_id"] for each in results if is_cut(each)} >= cut
    assert all("****" in each["content"] and "salt" not in each["content"] for each in results)


def test_a_small_edit_of_a_cut_result_is_sent_as_it_is() -> None:
    host = asked(6)
    door, cut = cut_up(Dicts(), host)
    cleared = [{**each, "content": "[cleared]"} if each["role"] == "tool" else each for each in host]
    ready = door.prepare(host, cleared)
    assert {each["content"] for each in ready.messages if each.get("tool_call_id") in cut} == {"[cleared]"}


def summarised() -> tuple[Door[Item], list[Item]]:
    """A door whose session has a summary of the first turns of a list."""
    session, host = opened(), list[Item]()
    door = Door(session, Dicts())
    for number in range(9):
        host += [user(f"Question {number}. " * 30), {"role": "assistant", "content": f"Answer {number}."}]
        ready = door.prepare(host)
    assert session.compactions()
    assert ready.messages[0] not in host
    return door, host


def texts(ready: Ready[Item]) -> list[str]:
    return [str(each["content"])[:80] for each in ready.messages]


def test_a_copy_of_a_message_that_was_summarised_stays_summarised() -> None:
    door, host = summarised()
    view = texts(door.prepare(host))
    assert texts(door.prepare(host, [*copy.deepcopy(host[:1]), *host[1:]])) == view
    assert texts(door.prepare(host, [*host[1:], host[0]])) == view


def test_a_summary_of_nothing_but_what_others_left_out_is_left_out() -> None:
    door, host = summarised()
    assert door.prepare(host, host[-2:]).messages == host[-2:]
    kept = door.prepare(host, [host[0], *host[-2:]]).messages
    assert kept[1:] == host[-2:]
    assert kept[0] not in host


@given(
    st.lists(
        st.tuples(st.sampled_from(("copy", "change", "drop", "add", "repeat", "move")), st.integers(0, 30)),
        max_size=6,
    )
)
def test_a_request_has_what_others_made_of_it_in_their_order(steps: list[tuple[str, int]]) -> None:
    """Where nothing was cut or summarised, the request is theirs."""
    host = conversation(4)
    door = Door(opened(policy=None, model=None), Dicts())
    request = list(host)
    for step, (name, number) in enumerate(steps):
        at = number % (len(request) or 1)
        if name == "add":
            request.insert(at, user(f"more {step}"))
        elif request and name == "drop":
            del request[at]
        elif request and name == "repeat":
            request.insert(number % 7, copy.deepcopy(request[at]))
        elif request and name == "move":
            request.insert(number % 5, request.pop(at))
        elif request and name == "copy":
            request[at] = copy.deepcopy(request[at])
        elif request:
            request[at] = {**request[at], "content": f"changed {step}"}
    sent = door.prepare(host, request).messages
    assert sent == request
    assert door.session.log() == host
