"""Whatever a model sends to whichever tool of a session, it is answered or refused by one error."""

from __future__ import annotations

from typing import Any

import pytest

from conversations import turns
from siltstone import CompactionConfig, Session, SimpleMemoryStore, ThresholdCompactor, TieredCompactor
from siltstone.compaction import TieredConfig
from siltstone.errors import InvalidArgumentsError
from siltstone.tools import Tool

DEEP = "[" * 100_000
VALUES: list[Any] = [
    10**5_000, -(10**5_000), 10**30, -1, float("inf"), float("nan"), 1e999, True, None, "", "9" * 5_000,
    "m" + "9" * 5_000, "x" * 10**6, "\ud800", "\x00", [[[]]], {}, {"a": {"b": [1]}}, b"\xff", object(),
]  # fmt: skip
TEXTS = [
    DEEP, DEEP + "]" * 100_000, '{"a":' * 5_000 + "1" + "}" * 5_000, "", "null", "5", "[]", "{", '"\\ud800"',
    "\ufeff{}", "{}{}", '{"' + "k" * 10**6 + '": 1}',
]  # fmt: skip


@pytest.fixture(scope="module")
def session() -> Session:
    policies = [
        TieredCompactor(TieredConfig(mode="chronicle")),
        ThresholdCompactor(CompactionConfig(auto_compact_threshold=300, max_summary_tokens=60)),
    ]
    session = Session.open(
        None, "s", memory=SimpleMemoryStore(), policy=policies[0], context_window=4_000, allow_forget=True
    )
    session.append(*(message for turn in turns(6) for message in turn))
    session.prepare(policy=policies[1])
    return session


def answered(tool: Tool, arguments: Any) -> str:
    """The answer, or the words of the refusal: both go to the model, and are short."""
    try:
        return tool.call(arguments)
    except InvalidArgumentsError as error:
        return str(error)


def test_every_tool_is_tried(session: Session) -> None:
    names = {tool.name for tool in session.tools}
    assert {"memory_search", "memory_get", "memory_save", "memory_forget", "context_compact"} <= names


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_value_of_any_kind_and_size_is_answered_or_refused(session: Session, value: Any) -> None:
    for tool in session.tools:
        properties = tool.definition()["function"]["parameters"]["properties"]
        required = {name: "open" if name == "action" else "3" for name in properties}
        for name in properties:
            for others in ({}, required):
                assert len(answered(tool, {**others, name: value})) < 20_000


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_a_text_of_any_depth_and_size_is_answered_or_refused(session: Session, text: str) -> None:
    for tool in session.tools:
        assert len(answered(tool, text)) < 20_000
