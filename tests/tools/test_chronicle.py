"""The tool ``chronicle``: checkpoints in pages, one of them whole, and the messages under it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from siltstone import estimate_tokens
from siltstone.compaction import Checkpoint
from siltstone.messages import OWN_TOOLS
from siltstone.tools.base import Tool
from siltstone.tools.context import chronicle

FOUND = [
    *(
        Checkpoint(
            n, n, 0, "interval", n * 10 - 10, n * 10, 10, 100, 1_000.0, 2_000.0, f"Title {n}", "Text. " * n
        )
        for n in range(1, 61)
    ),
    Checkpoint(1, 8, 1, "rollup", 0, 80, 80, 800, title="All", summary="Of eight."),
    Checkpoint(61, 61, 0, "interval", 600, 610, 10, 100),
]
TEXTS = {n: f"Message {n}. " + "word " * (2_000 if n == 5 else 10) for n in range(610)}


def expand(start: int, end: int, limit: int) -> list[tuple[int, str, str]]:
    return [(n, "user", TEXTS[n]) for n in range(start, end)][:limit]


@pytest.fixture
def tool() -> Tool:
    return chronicle(lambda: FOUND, expand, limit=6, budget=400)


def ask(tool: Tool, **arguments: Any) -> dict[str, Any]:
    text = tool.call(arguments)
    assert estimate_tokens(text) <= 400
    told: dict[str, Any] = json.loads(text)
    return told


def test_the_list_comes_in_pages_without_a_hole(tool: Tool):
    numbers, after, pages = [], None, 0
    while True:
        told = ask(tool, action="list", after=after)
        assert told["total"] == 62
        numbers += [row["checkpoint"] for row in told["checkpoints"]]
        pages, after = pages + 1, told.get("next")
        if after is None:
            break
    assert numbers == [*map(str, range(1, 61)), "1-8", "61"]
    assert pages > 3


def test_one_is_opened_by_its_number_and_a_rollup_by_its_range(tool: Tool):
    one = ask(tool, action="open", checkpoint="3")
    assert (one["title"], one["messages"], one["summary"]) == ("Title 3", "20-29", "Text. " * 3)
    assert one["from"] == "1970-01-01T00:16+00:00"
    assert ask(tool, action="open", checkpoint=3) == one
    assert ask(tool, action="open", checkpoint="1-8")["summary"] == "Of eight."


def test_messages_come_in_pages_and_a_long_one_with_its_beginning(tool: Tool):
    handles, after = [], None
    while True:
        told = ask(tool, action="expand", checkpoint="1", after=after)
        assert len(told["messages"]) <= 6
        handles += [row["handle"] for row in told["messages"]]
        after = told.get("next")
        if after is None:
            break
    assert handles == [f"m{n}" for n in range(10)]


def test_it_is_one_of_our_own_tools():
    assert "chronicle" in OWN_TOOLS
