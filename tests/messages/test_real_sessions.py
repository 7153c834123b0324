"""Two real agent sessions: read, counted and grouped."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from siltstone.messages import broken_tool_groups, decode, encode, groups, in_flight, read_history, turns
from siltstone.tokens import estimate_tokens

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def sessions(data_dir: Path) -> list[list[dict[str, Any]]]:
    path = data_dir / "agent-messages-dev.jsonl"
    if not path.is_file():
        pytest.skip(f"no {path.name!r} in the evaluation data at {str(data_dir)!r}")
    return [json.loads(line)["messages"] for line in path.read_text(encoding="utf-8").splitlines()]


def test_their_tokens_are_the_known_ones(sessions: list[list[dict[str, Any]]]) -> None:
    assert [estimate_tokens(session, rule="bytes/4") // 100 for session in sessions] == [515, 596]


def test_their_calls_and_results_belong_together(sessions: list[list[dict[str, Any]]]) -> None:
    for session in sessions:
        history = read_history(session)
        assert broken_tool_groups(session) == 0
        assert sum(len(group.positions) for group in groups(history)) == len(session)
        assert not any(group.pending for group in groups(history)[:-1])


def test_they_have_few_and_long_turns(sessions: list[list[dict[str, Any]]]) -> None:
    for session in sessions:
        history = read_history(session)
        assert 4 <= len(turns(history)) <= 5
        assert turns(history)[-1].end == len(session)
        assert not in_flight(history)


def test_they_survive_storage_byte_for_byte(sessions: list[list[dict[str, Any]]]) -> None:
    for raw in (raw for session in sessions for raw in session):
        assert decode(encode(raw)) == raw
        assert encode(decode(encode(raw))) == encode(raw)
