"""Whatever a model sends to whichever tool of a session, by whichever door, the call is answered."""

import json
from typing import Any

import pytest

from conversations import conversation
from siltstone import CompactionConfig, Session, SimpleMemoryStore, ThresholdCompactor, TieredCompactor
from siltstone.systems.spacebot.config import TieredConfig
from siltstone.tools.base import dispatch

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
    session.append(*conversation(6))
    session.prepare(policy=policies[1])
    return session


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
                assert len(tool.call({**others, name: value})) < 20_000


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_a_text_of_any_depth_and_size_is_answered_or_refused(session: Session, text: str) -> None:
    for tool in session.tools:
        assert len(tool.call(text)) < 20_000


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("memory_search", '{"query": "valve"', 'must be an object such as {"query": ...}, and are not JSON'),
        ("memory_search", '["valve"]', 'must be an object such as {"query": ...}, got list'),
        ("memory_search", None, "'query' is missing"),
        ("memory_search", {"query": ["valve"]}, "'query' must be a string, got list"),
        ("memory_search", {"query": "valve", "limit": "5"}, "'limit' must be an integer >= 0, got '5'"),
        ("memory_search", {"query": "valve", "limit": -3}, "an integer >= 0, got -3"),
        ("memory_search", {"query": "valve", "order": "newest"}, "'score' or 'time', got 'newest'"),
        ("memory_search", {"query": "valve", "since": "the other day"}, "'since' must be a time such as"),
        ("memory_search", {"query": "valve", "until": ["May"]}, "'until' must be a time such as"),
        ("memory_get", {"handle": '"m3"'}, "such as 'm42', got"),
        ("memory_get", {"handle": "m3", "line": 4}, "known are 'handle', 'lines', 'pattern'"),
        ("memory_get", {"handle": "m3", "lines": [1, 2]}, "a range such as '100-180', got"),
        ("memory_get", {"id": 3}, "no argument 'id'"),
        *(
            ("memory_get", {"handle": "m3", "pattern": each}, "memory_get: ")
            for each in ("(unclosed", 7, "a" * 1_001, r"(a)\1", "((a{99}){99}){99}")
        ),
        *(
            ("memory_get", {"handle": "m3", "lines": each}, "memory_get: 'lines' must ")
            for each in ("0-2", "5-2", "first")
        ),
        ("memory_get", {"handle": "m99"}, "memory_get: "),
        ("memory_save", {"content": "x", "memory_type": "wish"}, "one of 'identity', 'goal', "),
        ("memory_save", {"content": "x", "importance": "high"}, "a number from 0 to 1, got 'high'"),
        ("memory_save", {"text": "x"}, "no argument 'text'; known are 'content'"),
        ("memory_save", {}, "'content' must be a text of 1 to 50,000 bytes"),
        ("memory_save", {"content": "é" * 25_001}, "got 50,002 bytes"),
        ("memory_save", {"content": "x", "importance": 1.01}, "from 0 to 1, got 1.01"),
        ("memory_save", {"content": "x", "associations": "a"}, "'associations' must be a list"),
        ("memory_save", {"content": "x", "associations": [{}]}, "'target_id'"),
        ("memory_forget", {"ids": "12"}, "'ids' must be a list of 1 to 20 texts, got str"),
        ("memory_forget", '{"ids": "[\\"12\\"]"}', "'ids' must be a list"),
        ("context_compact", {"focus": ["tests"]}, "'focus' must be a string, got list"),
        ("context_compact", {"topic": "tests"}, "no argument 'topic'; known are 'focus'"),
        ("chronicle", {"action": "read"}, "'action' must be 'list', 'open' or 'expand', got 'read'"),
        ("chronicle", {"action": "open", "checkpoint": [1]}, "a number such as '3' or '1-8'"),
        ("chronicle", {"action": "open", "checkpoint": "1-9"}, "no checkpoint '1-9'"),
        ("chronicle", {"action": "expand"}, "'checkpoint' must be a number such as '3' or '1-8', got None"),
        ("chronicle", {"action": "list", "after": "-1"}, "'after' must be what an answer gave as 'next'"),
        ("search_memory", {"query": "valve"}, "no tool 'search_memory'; known are 'memory_search'"),
        ("", {}, "no tool ''"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_a_call_that_is_wrong_is_answered_by_what_is_allowed(
    session: Session, name: str, arguments: Any, words: str
) -> None:
    answer = dispatch(session.tools, name, arguments)
    assert words in json.loads(answer)["error"]
    for tool in session.tools:
        assert tool.name != name or tool.call(arguments) == answer


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("memory_search", '"{\\"query\\": \\"valve\\"}"'),
        ("memory_search", {"query": "valve", "limit": 10.0, "order": None, "since": None, "until": None}),
        ("memory_search", {"query": "valve", "order": "", "since": "", "until": ""}),
        ("memory_search", {"query": "valve", "limit": 10**30}),
        ("memory_search", {"query": ""}),
        ("memory_get", {"handle": 3, "lines": 1, "pattern": None}),
        ("context_compact", ""),
        ("context_compact", None),
        ("context_compact", "null"),
        ("chronicle", '{"action": "list", "checkpoint": null, "after": ""}'),
    ],
    ids=str,
)
def test_a_call_that_can_mean_one_thing_alone_is_carried_out(session: Session, name: str, arguments: Any):
    answer = json.loads(dispatch(session.tools, name, arguments))
    assert isinstance(answer, list) or "error" not in answer
