"""The tool ``memory_get``: a message in pages, by lines and by pattern."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given, strategies as st

from siltstone import ConfigError, estimate_tokens
from siltstone._native import matching_lines
from siltstone.errors import InvalidArgumentsError
from siltstone.tools.base import Tool
from siltstone.tools.memory import memory_get

LOG = "\n".join(f"{number:04} {'ERROR disk full' if number % 50 == 0 else 'ok'}" for number in range(1, 1001))
TEXTS = {3: "one\ntwo\nthree", 4: LOG, 5: "", 6: "x" * 10_000}


@pytest.fixture
def tool() -> Tool:
    return memory_get(TEXTS.get, budget=600)


def ask(tool: Tool, **arguments: Any) -> dict[str, Any]:
    text = tool.call(arguments)
    assert estimate_tokens(text) <= 600
    told: dict[str, Any] = json.loads(text)
    return told


def test_lines_are_counted_from_one(tool: Tool) -> None:
    assert ask(tool, handle="m3", lines="2")["content"] == "2: two"
    assert ask(tool, handle="m3", lines=2)["content"] == "2: two"
    assert ask(tool, handle="m3", lines="2-")["content"] == "2: two\n3: three"
    assert ask(tool, handle="m3", lines="2-99")["content"] == "2: two\n3: three"
    assert ask(tool, handle="m3", lines="9-10")["content"] == ""


def test_a_pattern_picks_lines(tool: Tool) -> None:
    told = ask(tool, handle="m4", pattern="ERROR")
    assert told["matches"] == 20
    assert told["content"].splitlines()[0] == "50: 0050 ERROR disk full"
    assert ask(tool, handle="m4", pattern="(?i)error", lines="1-100")["matches"] == 2


def pages(tool: Tool, **arguments: Any) -> list[str]:
    """Every line that the tool shows when it is asked for page after page."""
    lines: list[str] = []
    told = ask(tool, **arguments)
    lines += told["content"].split("\n")
    while "next" in told:
        told = ask(tool, **{**arguments, "lines": told["next"]})
        assert told["content"]
        lines += told["content"].split("\n")
    return lines


@given(text=st.text(st.sampled_from('ab\n\u6c34\x01"'), max_size=3_000), budget=st.integers(100, 400))
def test_pages_lose_nothing_and_keep_to_their_budget(text: str, budget: int) -> None:
    tool = memory_get(lambda _: text, budget=budget)
    lines, told, asked = [], {"next": "1-"}, 0
    while "next" in told:
        answer = tool.call({"handle": "m1", "lines": told["next"]})
        assert estimate_tokens(answer) <= budget
        told = json.loads(answer)
        lines += told["content"].split("\n")
        asked += 1
        assert asked <= len(text) + 2
    assert [int(line.partition(":")[0]) for line in lines] == list(range(1, len(lines) + 1))
    if not any(line.endswith(" …") for line in lines):
        assert "".join(line.partition(": ")[2] for line in lines) == text.replace("\n", "")


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"handle": "the third"},
        {"handle": None},
        {"handle": -1},
        {"handle": "m99"},
        {"handle": ["m3"]},
        {"handle": "m3", "line": "2"},
        {"handle": "m3", "lines": "0-2"},
        {"handle": "m3", "lines": "5-2"},
        {"handle": "m3", "lines": "first"},
        {"handle": "m3", "pattern": "(unclosed"},
        {"handle": "m3", "pattern": 7},
        {"handle": "m3", "pattern": "a" * 1_001},
        {"handle": "m3", "pattern": r"(a)\1"},
        {"handle": "m3", "pattern": "((a{99}){99}){99}"},
    ],
    ids=str,
)
def test_arguments_that_cannot_be_taken_are_refused_in_the_tools_name(tool: Tool, arguments: Any) -> None:
    with pytest.raises(InvalidArgumentsError) as caught:
        tool.run(arguments)
    assert caught.value.name == "memory_get"


def test_a_pattern_that_ruins_others_takes_no_time() -> None:
    text = "\n".join(["a" * 30_000 + "!"] * 20)
    before = time.process_time()
    assert matching_lines(text, r"(a+)+$") == []
    assert matching_lines(text, r"(a|aa)*(a|aa)*c") == []
    assert time.process_time() - before < 5.0  # a backtracking matcher needs longer than the universe has


def test_a_budget_without_room_is_refused() -> None:
    with pytest.raises(ConfigError):
        memory_get(TEXTS.get, budget=50)
