"""The parts of a message that are indexed (decided: its text, tool names, arguments and results)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from shapes import ask, call, result, say
from siltstone.messages import SummaryMessage, indexable_text, read_history, read_message
from strategies import PIXEL, histories


def text_of(raw: Any, **options: Any) -> str:
    return indexable_text(read_message(raw, 0), **options)


def test_text_of_both_sides_is_indexed() -> None:
    assert text_of(ask("where is it?")) == "where is it?"
    assert text_of(say("here")) == "here"


def test_calls_are_indexed_with_name_and_arguments_and_results_with_their_text() -> None:
    assert text_of(call("a", text="I look")) == "I look\nls {}"
    assert text_of(result("a", "a.txt\nb.txt")) == "a.txt\nb.txt"
    assert text_of({"role": "function", "name": "ls", "content": "a.txt"}) == "ls a.txt"


def test_without_tools_only_what_was_said_is_indexed() -> None:
    assert text_of(call("a", text="I look"), index_tools=False) == "I look"
    assert text_of(result("a"), index_tools=False) == ""


def test_reasoning_and_media_are_not_indexed() -> None:
    raw = {
        "role": "user",
        "content": [
            {"type": "text", "text": "look"},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}},
        ],
    }
    assert text_of(raw) == "look"
    thinking = {"type": "thinking", "thinking": "hm", "signature": ""}
    assert text_of({"role": "assistant", "content": [thinking]}) == ""


@pytest.mark.parametrize("role", ["system", "developer"])
def test_rules_are_not_indexed(role: str) -> None:
    assert text_of({"role": role, "content": "be brief"}) == ""


def test_a_summary_is_not_indexed() -> None:
    (summary,) = read_history([SummaryMessage("[Context compacted] x", ((0, 1),))])
    assert indexable_text(summary) == ""


@pytest.mark.parametrize("provenance", ["injected_context", "recalled_context", "placeholder", "repaired"])
def test_only_originals_are_indexed(provenance: Any) -> None:
    assert indexable_text(read_message(ask("x"), 0, provenance=provenance)) == ""


def test_empty_pieces_add_no_lines() -> None:
    assert text_of({"role": "user", "content": ["", "a", "", "b"]}) == "a\nb"


@given(raws=histories())
def test_every_text_that_was_said_is_found_in_what_is_indexed(raws: list[dict[str, Any]]) -> None:
    for message in read_history(raws):
        if message.role in ("system", "developer"):
            continue
        indexed = indexable_text(message)
        for part in message.parts:
            if part.kind in ("text", "tool_result"):
                assert part.text in indexed
            if part.kind == "tool_call":
                assert (part.arguments or "") in indexed
