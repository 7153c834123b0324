"""The tools ``memory_save`` and ``memory_forget``, and the text that teaches when to call which."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from siltstone import ConfigError
from siltstone.errors import InvalidArgumentsError
from siltstone.knowledge import IMPORTANCE
from siltstone.tools import memory as tools
from siltstone.tools.context import context_compact, skill
from siltstone.tools.memory import SavedMemory, memory_forget, memory_save

SAVED = {
    "content": "User decided to refactor the auth module to use dependency injection",
    "memory_type": "decision",
    "importance": 0.8,
}


class Shelf:
    """Keeps what is saved."""

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


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "'content' must be a text of 1 to 50,000 bytes"),
        ({"content": " "}, "got an empty text"),
        ({"content": "é" * 25_001}, "got 50,002 bytes"),
        ({"content": "x", "memory_type": "opinion"}, "'identity', 'goal', 'human', 'decision', 'todo'"),
        ({"content": "x", "importance": 1.01}, "from 0 to 1, got 1.01"),
        ({"content": "x", "importance": True}, "from 0 to 1, got True"),
        ({"content": "x", "source": 3}, "'source' must be a string"),
        ({"content": "x", "associations": "a"}, "'associations' must be a list"),
        ({"content": "x", "associations": [{}]}, "'target_id'"),
        ({"content": "x", "session_id": "other"}, "no argument 'session_id'; known are 'content'"),
    ],
)
def test_what_cannot_be_saved_is_refused_with_what_is_valid(arguments: dict[str, Any], words: str) -> None:
    shelf = Shelf()
    with pytest.raises(InvalidArgumentsError, match=words):
        memory_save(shelf.save).run(arguments)
    assert shelf.kept == []


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
    refused: list[dict[str, Any]] = [
        {},
        {"ids": []},
        {"ids": "a"},
        {"ids": [""]},
        {"ids": [1]},
        {"ids": ["a"] * 21},
    ]
    for wrong in refused:
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
