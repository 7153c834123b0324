"""The parts of a message that are indexed (decided: its text, tool names, arguments and results)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from shapes import ask, blocks, call, result, say, thought
from siltstone.messages import SummaryMessage, indexable_text, read_history, read_message
from strategies import PIXEL, histories


def text_of(raw: Any, **options: Any) -> str:
    return indexable_text(read_message(raw, 0), **options)


IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}


@pytest.mark.parametrize(
    ("raw", "indexed", "without_tools"),
    [
        (ask("where is it?"), "where is it?", "where is it?"),
        (say("here"), "here", "here"),
        (call("a", text="I look"), "I look\nls {}", "I look"),
        (result("a", "a.txt\nb.txt"), "a.txt\nb.txt", ""),
        ({"role": "function", "name": "ls", "content": "a.txt"}, "ls a.txt", ""),
        (blocks("user", {"type": "text", "text": "look"}, IMAGE), "look", "look"),
        (thought(), "", ""),
        ({"role": "user", "content": ["", "a", "", "b"]}, "a\nb", "a\nb"),
        ({"role": "system", "content": "be brief"}, "", ""),
        ({"role": "developer", "content": "be brief"}, "", ""),
    ],
)
def test_what_was_said_called_and_answered_is_indexed(raw: Any, indexed: str, without_tools: str) -> None:
    assert text_of(raw) == indexed
    assert text_of(raw, index_tools=False) == without_tools


def test_a_summary_is_not_indexed() -> None:
    (summary,) = read_history([SummaryMessage("[Context compacted] x", ((0, 1),))])
    assert indexable_text(summary) == ""


@pytest.mark.parametrize("provenance", ["injected_context", "recalled_context", "placeholder", "repaired"])
def test_only_originals_are_indexed(provenance: Any) -> None:
    assert indexable_text(read_message(ask("x"), 0, provenance=provenance)) == ""


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
