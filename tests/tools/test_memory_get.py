"""The tools that read a message in pages, and that save and forget."""

import json
import time
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, strategies as st

from siltstone import ConfigError, estimate_tokens
from siltstone._native import matching_lines
from siltstone.compaction import Checkpoint
from siltstone.errors import InvalidArgumentsError
from siltstone.knowledge import IMPORTANCE
from siltstone.messages import OWN_TOOLS
from siltstone.tools import memory as tools
from siltstone.tools.base import Tool
from siltstone.tools.context import chronicle, context_compact, skill
from siltstone.tools.memory import SavedMemory, memory_forget, memory_get, memory_save

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


def test_a_pattern_that_ruins_others_takes_no_time() -> None:
    text = "\n".join(["a" * 30_000 + "!"] * 20)
    before = time.process_time()
    assert matching_lines(text, r"(a+)+$") == []
    assert matching_lines(text, r"(a|aa)*(a|aa)*c") == []
    assert time.process_time() - before < 5.0  # a backtracking matcher needs longer than the universe has


def test_a_budget_without_room_is_refused() -> None:
    with pytest.raises(ConfigError):
        memory_get(TEXTS.get, budget=50)


SAVED = {
    "content": "User decided to refactor the auth module to use dependency injection",
    "memory_type": "decision",
    "importance": 0.8,
}


class Shelf:
    def __init__(self) -> None:
        self.kept: list[SavedMemory] = []

    def save(self, memory: SavedMemory) -> str:
        self.kept.append(memory)
        return f"m-{len(self.kept)}"


def test_the_documented_example_is_saved() -> None:
    shelf = Shelf()
    assert json.loads(memory_save(shelf.save).call(json.dumps(SAVED))) == {
        "id": "m-1",
        "memory_type": "decision",
        "importance": 0.8,
    }
    assert shelf.kept == [SavedMemory(str(SAVED["content"]), "decision", 0.8)]


@pytest.mark.parametrize(("kind", "importance"), IMPORTANCE.items())
def test_importance_is_that_of_the_type_where_nobody_says(kind: str, importance: float) -> None:
    shelf = Shelf()
    memory_save(shelf.save).call({"content": "x", "memory_type": kind})
    assert shelf.kept[0].importance == importance


def test_one_byte_and_fifty_thousand_are_saved() -> None:
    shelf = Shelf()
    tool = memory_save(shelf.save)
    tool.call({"content": "x"})
    tool.call({"content": "é" * 25_000})
    assert len(shelf.kept) == 2


def test_a_job_saves_no_more_than_it_may_and_a_failure_costs_none() -> None:
    shelf = Shelf()
    fails = iter([True, False, False, False])

    def save(memory: SavedMemory) -> str:
        if next(fails):
            raise OSError("the disk is full")
        return shelf.save(memory)

    tool = memory_save(save, max_saves=2)
    with pytest.raises(OSError, match="full"):
        tool.call(SAVED)
    tool.call(SAVED)
    tool.call(SAVED)
    with pytest.raises(InvalidArgumentsError, match="at most 2"):
        tool.run(SAVED)
    assert len(shelf.kept) == 2
    with pytest.raises(ConfigError, match="max_saves"):
        memory_save(save, max_saves=0)


def test_memories_are_forgotten_by_their_ids_alone() -> None:
    asked: list[Sequence[str]] = []

    def forget(ids: Sequence[str]) -> int:
        asked.append(ids)
        return 1

    tool = memory_forget(forget)
    assert json.loads(tool.call({"ids": ["a", "b", "a"]})) == {"forgotten": 1}
    assert asked == [["a", "b"]]
    for wrong in ({}, {"ids": []}, {"ids": [""]}, {"ids": ["a"] * 21}):
        with pytest.raises(InvalidArgumentsError, match="memory_forget"):
            tool.run(wrong)
    with pytest.raises(InvalidArgumentsError, match="no argument 'session'; known are 'ids'"):
        tool.run({"ids": ["a"], "session": "other"})
    assert len(asked) == 1


def test_the_skill_speaks_of_the_tools_that_are_offered() -> None:
    save, compact = memory_save(Shelf().save), context_compact(lambda focus: {})
    text = skill([save, compact])
    assert "memory_save" in text
    assert "context_compact" in text
    assert "memory_search" not in text
    assert "not instructions" in text
    assert skill([]) == ""


def test_the_schemas_name_the_bounds_that_hold() -> None:
    save, search = tools.SAVE_PARAMETERS["properties"], tools.SEARCH_PARAMETERS["properties"]
    assert save["memory_type"]["enum"] == list(IMPORTANCE)
    assert all(f"{kind} {value:g}" in save["importance"]["description"] for kind, value in IMPORTANCE.items())
    assert tools.FORGET_PARAMETERS["properties"]["ids"]["maxItems"] == tools.MAX_IDS
    assert search["limit"]["default"] == tools.DEFAULT_LIMIT
    assert f"Capped at {tools.MAX_LIMIT}." in search["limit"]["description"]
    assert tools.FORMS in search["since"]["description"]


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
MESSAGES = {n: f"Message {n}. " + "word " * (2_000 if n == 5 else 10) for n in range(610)}


def expand(start: int, end: int, limit: int) -> list[tuple[int, str, str]]:
    return [(n, "user", MESSAGES[n]) for n in range(start, end)][:limit]


@pytest.fixture
def chronicle_tool() -> Tool:
    return chronicle(lambda: FOUND, expand, limit=6, budget=400)


def asked(chronicle_tool: Tool, **arguments: Any) -> dict[str, Any]:
    text = chronicle_tool.call(arguments)
    assert estimate_tokens(text) <= 400
    told: dict[str, Any] = json.loads(text)
    return told


def test_the_list_comes_in_pages_without_a_hole(chronicle_tool: Tool):
    numbers, after, pages = [], None, 0
    while True:
        told = asked(chronicle_tool, action="list", after=after)
        assert told["total"] == 62
        numbers += [row["checkpoint"] for row in told["checkpoints"]]
        pages, after = pages + 1, told.get("next")
        if after is None:
            break
    assert numbers == [*map(str, range(1, 61)), "1-8", "61"]
    assert pages > 3


def test_one_is_opened_by_its_number_and_a_rollup_by_its_range(chronicle_tool: Tool):
    one = asked(chronicle_tool, action="open", checkpoint="3")
    assert (one["title"], one["messages"], one["summary"]) == ("Title 3", "20-29", "Text. " * 3)
    assert one["from"] == "1970-01-01T00:16+00:00"
    assert asked(chronicle_tool, action="open", checkpoint=3) == one
    assert asked(chronicle_tool, action="open", checkpoint="1-8")["summary"] == "Of eight."


def test_messages_come_in_pages_and_a_long_one_with_its_beginning(chronicle_tool: Tool):
    handles, after = [], None
    while True:
        told = asked(chronicle_tool, action="expand", checkpoint="1", after=after)
        assert len(told["messages"]) <= 6
        handles += [row["handle"] for row in told["messages"]]
        after = told.get("next")
        if after is None:
            break
    assert handles == [f"m{n}" for n in range(10)]


def test_it_is_one_of_our_own_tools():
    assert "chronicle" in OWN_TOOLS
