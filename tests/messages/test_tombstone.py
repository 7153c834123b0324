"""What is left of a message that was forgotten: its type, its ids, nothing that was said, and it is legal."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, strategies as st

from shapes import thought
from siltstone.messages import (
    FORGOTTEN,
    Identifier,
    decode,
    encode,
    identifiers,
    read_message,
    renamed,
    tombstone,
    validate_history,
)
from strategies import histories
from strategies_responses import responses_items

SAID = "the Grünwald plan"


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from strings(inner)


OUTPUT = {"type": "function_call_output", "call_id": "c1"}
MCP = {"type": "mcp_call", "id": "mcp_1", "name": "ls", "server_label": "files", "approval_request_id": "r"}
APPROVED = {"type": "mcp_approval_response", "approval_request_id": "r", "approve": True}
COMPUTER = {"type": "computer_call", "id": "cu_1", "call_id": "c1"}
SCREENSHOT = {"actions": [{"type": "screenshot"}], "pending_safety_checks": []}
DELETED = {"type": "delete_file", "path": FORGOTTEN}
THOUGHT = {"summary": [{"type": "summary_text", "text": SAID}], "encrypted_content": "Z3VhcmRlZA=="}


def answer(text: str) -> dict[str, Any]:
    return {"content": [{"type": "output_text", "text": text, "annotations": []}]}


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def used(*said: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": "t1", "name": "run", "input": {"x": said[0]} if said else {}}


def old_call(arguments: str) -> dict[str, Any]:
    return {"function_call": {"name": "f", "arguments": arguments}}


IMAGE = {"type": "image", "source": {"type": "base64", "data": SAID}}
RESULT = {"type": "tool_result", "tool_use_id": "t1"}


#: What stays of an item, what it said, and what stands there instead.
ITEMS: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    (
        {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"},
        answer(SAID),
        answer(FORGOTTEN),
    ),
    (
        {"role": "user"},
        {"content": [{"type": "input_text", "text": SAID}]},
        {"content": [{"type": "input_text", "text": FORGOTTEN}]},
    ),
    ({"type": "message", "role": "user"}, {"content": SAID}, {"content": FORGOTTEN}),
    (
        {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "vault"},
        {"arguments": SAID},
        {"arguments": "{}"},
    ),
    (OUTPUT, {"output": [{"type": "input_text", "text": SAID}]}, {"output": FORGOTTEN}),
    ({**OUTPUT, "caller": {"type": "program", "caller_id": "p"}}, {"output": SAID}, {"output": FORGOTTEN}),
    (COMPUTER, {"actions": [{"type": "type", "text": SAID}]}, SCREENSHOT),
    (
        {"type": "apply_patch_call", "call_id": "c1"},
        {"operation": {"type": "update_file", "diff": SAID}},
        {"operation": DELETED},
    ),
    (MCP, {"arguments": SAID, "output": SAID, "error": None}, {"arguments": "{}", "output": FORGOTTEN}),
    (APPROVED, {"reason": SAID}, {}),
    ({"type": "reasoning", "id": "rs_1"}, THOUGHT, {"summary": []}),
    ({"role": "user"}, {"content": SAID}, {"content": FORGOTTEN}),
    (
        {"role": "user"},
        {"content": [RESULT | {"content": SAID}]},
        {"content": [RESULT | {"content": FORGOTTEN}]},
    ),
    ({"role": "assistant"}, {"refusal": SAID}, {"content": FORGOTTEN}),
    ({"role": "assistant", "content": None}, old_call(SAID), old_call("{}")),
    (
        {"role": "assistant"},
        {
            "name": "Ann",
            "extra": {"a": SAID},
            "content": [thought()["content"][0], text(SAID), used(SAID), IMAGE],
        },
        {"content": [text(FORGOTTEN), used()]},
    ),
    ({"type": "item_of_tomorrow", "id": "x", "call_id": "c"}, {"status": SAID, "extra": {"said": SAID}}, {}),
]


@pytest.mark.parametrize(("kept", "said", "left"), ITEMS)
def test_an_item_keeps_its_type_its_ids_and_what_the_provider_demands(
    kept: dict[str, Any], said: dict[str, Any], left: dict[str, Any]
) -> None:
    assert tombstone({**kept, **said}) == {**kept, **left}


def test_a_block_keeps_its_type_and_its_ids() -> None:
    said = [
        {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": SAID}},
        {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [{"title": SAID}]},
        {"type": "mcp_tool_use", "id": "m1", "name": "ls", "server_name": "files", "input": {"a": SAID}},
        {"type": "mcp_tool_result", "tool_use_id": "m1", "content": [{"type": "text", "text": SAID}]},
        {"type": "text", "text": SAID},
        {"type": "text", "text": SAID},
        {"type": "compaction", "content": SAID},
    ]
    error = {"type": "web_search_tool_result_error", "error_code": "unavailable"}
    assert tombstone({"role": "assistant", "content": said})["content"] == [
        {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}},
        {"type": "web_search_tool_result", "tool_use_id": "s1", "content": error},
        {"type": "mcp_tool_use", "id": "m1", "name": "ls", "server_name": "files", "input": {}},
        {
            "type": "mcp_tool_result",
            "tool_use_id": "m1",
            "is_error": False,
            "content": [{"type": "text", "text": FORGOTTEN}],
        },
        {"type": "text", "text": FORGOTTEN},
        {"type": "compaction", "content": FORGOTTEN},
    ]


@given(responses_items())
def test_an_item_of_every_type_can_be_read_and_says_nothing(item: dict[str, Any]) -> None:
    left = tombstone(item, "openai.responses")
    message = read_message(left, 0, dialect="openai.responses")
    was = read_message(item, 0, dialect="openai.responses")
    assert (message.role, left.get("type")) == (was.role, item.get("type"))
    assert [part.call_id for part in message.parts if part.kind == "tool_call"] == [
        part.call_id for part in was.parts if part.kind == "tool_call"
    ]
    words = {"", "{}", "null", "[]", FORGOTTEN, "[forgotten]"}
    for part in message.parts:
        if part.kind in ("text", "tool_result"):
            assert part.text in words or part.text in {"approved", "refused"}


@given(histories(), st.data())
def test_a_legal_history_stays_legal_whatever_of_it_is_forgotten(
    raws: list[Any], data: st.DataObject
) -> None:
    before = {(each.position, each.rule) for each in validate_history(raws)}
    dialects = [read_message(raw, 0).dialect for raw in raws]
    chosen = data.draw(st.sets(st.sampled_from(range(len(raws)))) if raws else st.just(set()))
    left = [
        tombstone(decode(encode(raw)), dialects[at]) if at in chosen else raw for at, raw in enumerate(raws)
    ]
    assert {(each.position, each.rule) for each in validate_history(left)} <= before
    names = {value: f"n{at}" for at, value in enumerate(_held(left, chosen))}
    all_left = [tombstone(decode(encode(raw)), dialects[at]) for at, raw in enumerate(raws)]
    everything = [renamed(each, names) for each in all_left]
    assert {(each.position, each.rule) for each in validate_history(everything)} <= before


def _held(left: list[Any], chosen: set[int]) -> list[str]:
    return sorted({value for at in chosen for _, value in identifiers(left[at])})


@given(histories())
def test_nothing_but_names_and_ids_of_what_was_said_is_left(raws: list[Any]) -> None:
    for raw in raws:
        fields = decode(encode(raw))
        left = tombstone(fields)
        known = {value for _, value in identifiers(left)}
        hidden = renamed(left, dict.fromkeys(known, "x"))
        constants = set(strings(renamed(tombstone(_blanked(fields)), dict.fromkeys(known, "x"))))
        assert {each for each in strings(hidden) if len(each) > 2} <= constants | _provider_words(fields)


def _blanked(value: Any, key: str = "") -> Any:
    """The same message as if it had said something else."""
    if isinstance(value, dict):
        return {each: _blanked(inner, each) for each, inner in value.items()}
    if isinstance(value, list):
        return [_blanked(each) for each in value]
    stays = key in ("type", "role", "name") or key == "id" or key.endswith("_id")
    return value if stays or not isinstance(value, str) else "something else"


def _provider_words(fields: dict[str, Any]) -> set[str]:
    return {str(fields.get(key)) for key in ("status", "execution")}


def test_the_ids_and_the_names_that_are_left_are_told_apart() -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "login", "arguments": SAID}}
    left = tombstone({"role": "assistant", "content": None, "tool_calls": [call]})
    assert list(identifiers(left)) == [Identifier("id", "call_1"), Identifier("name", "login")]
    assert renamed(left, {"call_1": "call_2", "login": "x"})["tool_calls"] == [
        {"id": "call_2", "type": "function", "function": {"name": "x", "arguments": "{}"}}
    ]
    legacy = tombstone({"role": "function", "name": "login", "content": SAID})
    assert list(identifiers(legacy)) == [Identifier("tying name", "login")]
    assert SAID not in json.dumps([left, legacy], ensure_ascii=False)
