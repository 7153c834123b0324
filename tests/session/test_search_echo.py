"""A search stays as good however often it is asked: its own answers are never found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from siltstone import CompactionConfig, Session, ThresholdCompactor

TREES, ENDS = ("Alder", "Birch", "Cedar", "Ember"), ("dale", "ford", "wick")
NAMES = [tree + end for tree in TREES for end in ENDS]
FACTS = {f"code of the station {name}": f"{1000 + 37 * number}" for number, name in enumerate(NAMES)}
POLICY = ThresholdCompactor(
    CompactionConfig(auto_compact_threshold=1_000, recent_turn_budget=1, max_summary_tokens=80)
)


def recall(session: Session) -> int:
    """For how many of the facts the answer of the tool has the code, nothing of it being kept."""
    found = 0
    for question, code in FACTS.items():
        found += code in session.memory_search.call({"query": f"What is the {question}?"})
    return found


def ask_everything(session: Session, turn: str, dialect: str) -> None:
    for number, question in enumerate(FACTS):
        arguments = {"query": f"What is the {question}?"}
        answer = session.memory_search.call(arguments)
        name = "mcp__siltstone__memory_search" if number % 2 else "memory_search"
        session.append(*exchange(f"{turn}-{number}", name, arguments, answer, dialect))
        session.prepare()


def exchange(id_: str, name: str, arguments: Any, answer: str, dialect: str) -> list[dict[str, Any]]:
    if dialect == "anthropic":
        use = {"type": "tool_use", "id": id_, "name": name, "input": arguments}
        return [
            {"role": "user", "content": "Go on."},
            {"role": "assistant", "content": [use]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": id_, "content": answer}]},
            {"role": "assistant", "content": "Noted."},
        ]
    function = {"name": name, "arguments": json.dumps(arguments)}
    return [
        {"role": "user", "content": "Go on."},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": id_, "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": id_, "content": answer},
        {"role": "assistant", "content": "Noted."},
    ]


@pytest.mark.parametrize("dialect", ["openai.chat", "anthropic"])
def test_asking_everything_again_and_again_changes_no_answer(tmp_path: Path, dialect: str) -> None:
    with Session.open(
        tmp_path, "s", policy=POLICY, model=lambda request: "Codes were told.", context_window=8_000
    ) as session:
        for question, code in FACTS.items():
            session.append(
                {"role": "user", "content": f"The {question} is {code}. " + "It rained. " * 30},
                {"role": "assistant", "content": "I see."},
            )
            session.prepare()
        session.compact()
        before = recall(session)
        assert before >= len(FACTS) - 2
        for rounds in range(3):
            ask_everything(session, f"call-{rounds}", dialect)
        assert recall(session) >= before
        assert not any("source_range" in hit.content for hit in session.search("source_range code", 20))
