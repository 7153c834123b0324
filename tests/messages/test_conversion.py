"""From one dialect to another: parts that can be said there are said, and losses are told."""

from __future__ import annotations

import copy
import json
from typing import Any, cast

import pytest
from hypothesis import given, strategies as st

from shapes import ask, blocks, call, fc, out, result, results, rs, say, thought, use
from siltstone.errors import ConversionLossError
from siltstone.messages import Dialect, SummaryMessage, broken_tool_groups, read_history, validate_history
from siltstone.messages.conversion import convert
from strategies import HISTORIES
from strategies_values import PIXEL

DIALECTS = [cast("Dialect", name) for name in HISTORIES]
PAIRS = [(one, other) for one in DIALECTS for other in DIALECTS if one != other]


def said(raws: list[Any]) -> list[tuple[Any, ...]]:
    """The parts of a history, in order and without their carriers: texts, calls, results, media."""
    found: list[tuple[Any, ...]] = []
    for message in read_history(raws):
        role = "rules" if message.role in ("system", "developer") else message.role
        for part in message.parts:
            if part.kind == "text":
                found.append((role, part.text))
            elif part.kind == "tool_call":
                found.append(("call", part.call_id, part.name, _object(part.arguments)))
            elif part.kind == "tool_result":
                found.append(("result", part.call_id, part.text))
            elif part.kind == "blob":
                found.append(("blob", part.text, part.size))
    return found


def _object(arguments: str | None) -> Any:
    try:
        return json.loads(arguments or "")
    except ValueError:
        return arguments


@pytest.mark.parametrize(("source", "target"), PAIRS)
@given(data=st.data())
def test_a_legal_history_becomes_a_legal_one_and_every_loss_is_told(
    source: Dialect, target: Dialect, data: st.DataObject
) -> None:
    raws = data.draw(HISTORIES[source](min_turns=1, legal=True))
    before = copy.deepcopy(raws)
    converted = convert(raws, target)
    assert raws == before
    assert validate_history(converted.messages, target) == []
    assert broken_tool_groups(converted.messages) == 0
    lossy = {loss.position for loss in converted.losses}
    assert all(loss.part and loss.why for loss in converted.losses)
    there = said(converted.messages)
    for position, raw in enumerate(raws):
        if position not in lossy:
            for each in said([raw]):
                assert each in there, "what is gone is told"


@pytest.mark.parametrize(("source", "target"), PAIRS)
@given(data=st.data())
def test_a_round_trip_without_a_loss_says_the_same(
    source: Dialect, target: Dialect, data: st.DataObject
) -> None:
    raws = data.draw(HISTORIES[source](min_turns=1, legal=True))
    there = convert(raws, target)
    back = convert(there.messages, source)
    if not there.losses and not back.losses:
        assert said(back.messages) == said(raws)
    again = convert(back.messages, target)
    if not there.losses and not back.losses:
        assert again.losses == ()
        assert said(again.messages) == said(there.messages)


@pytest.mark.parametrize(("source", "target"), PAIRS)
@given(data=st.data())
def test_no_history_is_too_odd_to_be_converted(source: Dialect, target: Dialect, data: st.DataObject) -> None:
    raws = data.draw(HISTORIES[source]())
    converted = convert(raws, target)
    assert [finding.rule for finding in validate_history(converted.messages, target)].count("malformed") == 0
    read_history(converted.messages)


@pytest.mark.parametrize("dialect", DIALECTS)
@given(data=st.data())
def test_what_is_of_the_dialect_already_is_the_same_object(dialect: Dialect, data: st.DataObject) -> None:
    raws = [raw for raw in data.draw(HISTORIES[dialect](legal=True)) if raw.get("role") != "developer"]
    converted = convert(raws, dialect, dialect=dialect)
    assert converted.losses == ()
    assert [id(raw) for raw in converted.messages] == [id(raw) for raw in raws]


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_plain_messages_and_summaries_stay_the_objects_they_are(source: Dialect, target: Dialect) -> None:
    summary = SummaryMessage("[Context compacted] so", ((0, 3),))
    exchange: dict[str, list[Any]] = {
        "openai.chat": [call("a"), result("a")],
        "openai.responses": [fc("a"), out("a")],
        "anthropic": [use("a"), results("a")],
    }
    raws = [summary, ask(), *exchange[source], say()]
    converted = convert(raws, target)
    assert converted.losses == ()
    assert converted.messages[0] is summary
    assert converted.messages[1] is raws[1]
    assert converted.messages[-1] is raws[-1]
    assert converted.messages[2:-1] == exchange[target]


def lost(raws: list[Any], target: Dialect) -> list[tuple[int, str]]:
    return [(loss.position, loss.part) for loss in convert(raws, target).losses]


IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}


GREP = {"type": "custom_tool_call", "call_id": "a", "name": "grep", "input": "x y"}
FAILED = {"type": "tool_result", "tool_use_id": "a", "content": [IMAGE], "is_error": True}
CACHED = {"type": "text", "text": "a", "cache_control": {"type": "x"}}
FILED = {"type": "input_image", "file_id": "file_1", "detail": "auto"}


@pytest.mark.parametrize(
    ("raws", "target", "losses"),
    [
        ([ask(), thought(), say()], "openai.chat", [(1, "content[0] (thinking)")]),
        ([ask(), {**say(), "reasoning_content": "hm"}], "anthropic", [(1, "reasoning_content")]),
        ([ask(), rs(), say()], "anthropic", [(1, "reasoning")]),
        ([{"type": "web_search_call", "id": "w"}], "openai.chat", [(0, "web_search_call")]),
        (
            [ask(), call("a"), result("a"), {"role": "developer", "content": "x"}],
            "anthropic",
            [(3, "role"), (3, "place")],
        ),
        ([{**ask(), "name": "ann"}, call("a"), result("a")], "anthropic", [(0, "name")]),
        ([ask(), use("a"), blocks("user", FAILED)], "openai.chat", [(2, "is_error"), (2, "image")]),
        ([ask(), GREP, out("a", type="custom_tool_call_output")], "anthropic", [(1, "arguments of grep")]),
        ([blocks("user", CACHED, IMAGE)], "openai.chat", [(0, "content[0].cache_control")]),
        ([ask(), fc("a"), say("wait"), out("a", output="late")], "openai.chat", [(3, "place")]),
        ([blocks("user", FILED)], "anthropic", [(0, "image")]),
    ],
)
def test_what_has_no_place_there_is_named(raws: list[Any], target: Dialect, losses: list[Any]) -> None:
    assert lost(raws, target) == losses
    with pytest.raises(ConversionLossError) as caught:
        convert(raws, target, on_loss="error")
    assert (caught.value.loss.position, caught.value.loss.part) == losses[0]


def test_media_keep_their_data_in_every_dialect() -> None:
    png = f"data:image/png;base64,{PIXEL}"
    pdf = f"data:application/pdf;base64,{PIXEL}"
    chat = [
        blocks(
            "user",
            {"type": "text", "text": "look"},
            {"type": "image_url", "image_url": {"url": png}},
            {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
            {"type": "file", "file": {"file_data": pdf, "filename": "a.pdf"}},
        )
    ]
    items = convert(chat, "openai.responses")
    claude = convert(items.messages, "anthropic")
    assert items.losses == claude.losses == ()
    source = {"type": "base64", "media_type": "application/pdf", "data": PIXEL}
    assert claude.messages[0]["content"] == [  # type: ignore[index]
        {"type": "text", "text": "look"},
        IMAGE,
        {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}},
        {"type": "document", "source": source, "title": "a.pdf"},
    ]
    assert convert(claude.messages, "openai.chat").messages == chat


def test_an_id_that_is_used_again_becomes_one_of_its_own() -> None:
    chat = [ask(), call("a"), result("a", "one"), call("a"), result("a", "two"), ask()]
    converted = convert(chat, "anthropic")
    assert [loss.position for loss in converted.losses] == [3, 4]
    assert converted.messages[3:5] == [
        {"role": "assistant", "content": [{"type": "tool_use", "id": "a-2", "name": "ls", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a-2", "content": "two"}]},
    ]
