"""Where turns begin and end, and when the newest is in flight."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given

from shapes import ask, call, result, results, say, thought, use
from siltstone.messages import (
    History,
    Message,
    SummaryMessage,
    Turn,
    as_history,
    in_flight,
    opens_turn,
    read_history,
    read_message,
    turns,
)
from strategies import histories


def marked(raw: dict[str, Any], provenance: Any) -> Message:
    return read_message(raw, 0, provenance=provenance)


def numbered(*items: Any) -> list[Message]:
    messages = [item if isinstance(item, Message) else read_message(item, 0) for item in items]
    return [replace(message, seq=seq) for seq, message in enumerate(messages)]


@given(raws=histories())
def test_turns_and_preamble_are_the_whole_history_in_order(raws: list[dict[str, Any]]) -> None:
    history = read_history(raws)
    found = turns(history)
    edges = [turn.start for turn in found] + [len(history)]
    assert [turn.end for turn in found] == edges[1:]
    assert all(turn.start <= turn.request < turn.end for turn in found)
    assert all(message.role in ("system", "developer") for message in history[: edges[0]])


@given(raws=histories())
def test_a_turn_has_one_request_and_it_is_no_tool_result(raws: list[dict[str, Any]]) -> None:
    history = read_history(raws)
    requests = {turn.request for turn in turns(history)}
    for position, message in enumerate(history):
        holds_result = any(part.kind == "tool_result" for part in message.parts)
        words = any(part.kind == "text" and part.text.strip() for part in message.parts)
        assert (position in requests) == (message.role == "user" and (words or not holds_result))


@given(raws=histories(min_turns=1, ending="answered"))
def test_an_answered_turn_is_not_in_flight(raws: list[dict[str, Any]]) -> None:
    assert not in_flight(read_history(raws))


@pytest.mark.parametrize("ending", ["asked", "pending"])
def test_a_turn_that_waits_is_in_flight(ending: Any) -> None:
    @given(raws=histories(min_turns=1, ending=ending))
    def check(raws: list[dict[str, Any]]) -> None:
        assert in_flight(read_history(raws))

    check()


def test_a_users_words_beside_results_open_a_turn() -> None:
    history = numbered(ask(), use("a"), results("a", text="stop, build B"), say())
    assert turns(history) == [Turn(0, 2, 0), Turn(2, 4, 2)]
    assert History.of(history).outline.requests == [0, 2]


@pytest.mark.parametrize("text", ["<system-reminder>\nmind the lint</system-reminder>", "  \n", ""])
def test_a_reminder_or_a_blank_beside_results_opens_none(text: str) -> None:
    raws = [ask(), use("a"), results("a"), say()]
    raws[2] = {**raws[2], "content": [*raws[2]["content"], {"type": "text", "text": text}]}
    assert turns(read_history(raws)) == [Turn(0, 4, 0)]
    assert History(raws).outline.requests == [0]


def test_a_host_says_what_is_no_request() -> None:
    def rule(text: str) -> bool:
        return not text.startswith("[hook]")

    raws = [ask(), use("a"), results("a", text="[hook] tests are red"), say()]
    history = read_history(raws)
    assert len(turns(history, rule)) == 1
    assert len(turns(history)) == 2
    assert History(raws, rule=rule).outline.requests == [0]
    assert History.of(history, rule).outline.requests == [0]
    assert as_history(History(raws), rule).outline.requests == [0]
    assert not opens_turn(history[2], rule)


def test_a_host_is_asked_about_texts_beside_results_up_to_the_first_request() -> None:
    asked: list[str] = []

    def rule(text: str) -> bool:
        asked.append(text)
        return text == "build"

    raws = [ask(), use("a"), results("a")]
    said = [" ", "[hook]", "build", "[hook] again"]
    raws[2]["content"] += [*said[:2], *({"type": "text", "text": text} for text in said[2:])]
    history = History(raws, rule=rule)
    assert history.outline.requests == [0, 2]
    assert asked == ["[hook]", "build"]
    assert [turn.request for turn in turns(read_history(raws), rule)] == [0, 2]
    assert asked == ["[hook]", "build"] * 2


def test_a_summary_opens_no_turn_and_lies_in_the_preamble() -> None:
    summary = SummaryMessage("[Context compacted] x", ((1, 5),))
    history = read_history([{"role": "system", "content": "s"}, summary, ask(), say()])
    assert turns(history) == [Turn(2, 4, 2)]


def test_a_user_who_writes_like_a_summary_opens_a_turn() -> None:
    assert turns(numbered(ask("[Context compacted] I typed this"), say())) == [Turn(0, 2, 0)]


@pytest.mark.parametrize("provenance", ["injected_context", "recalled_context"])
def test_what_was_injected_before_a_request_belongs_to_its_turn(provenance: Any) -> None:
    injected = marked(ask("for your information"), provenance)
    history = numbered(ask(), say(), injected, injected, ask(), say())
    assert turns(history) == [Turn(0, 2, 0), Turn(2, 6, 4)]


@pytest.mark.parametrize("provenance", ["placeholder", "repaired"])
def test_what_we_wrote_ourselves_opens_no_turn(provenance: Any) -> None:
    assert turns(numbered(ask(), marked(ask(), provenance))) == [Turn(0, 2, 0)]


def test_a_call_in_the_last_message_keeps_the_turn_in_flight() -> None:
    assert in_flight(numbered(ask(), call("a")))
    assert in_flight(numbered(ask(), thought(), use("a")))
    assert in_flight(numbered(ask(), call("a", "b"), result("a")))
