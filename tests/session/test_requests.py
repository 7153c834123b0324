"""A user's words stay in the request, word for word, wherever they stand: beside tool results too."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compacting import user
from siltstone import CompactionConfig, Prepared, Session, SimpleMemoryStore, ThresholdCompactor
from siltstone.testing import ScriptedModel

WINDOW = 8_000
STEERING = "STOP. Leave /prod alone and build B in ./b instead."


def steps(first: int, last: int, words: str | None = None) -> list[dict[str, Any]]:
    """Exchanges of an agent, of some 140 tokens each; *words* beside the last result."""
    said: list[dict[str, Any]] = []
    for number in range(first, last):
        call_id = f"call_{number}"
        use = {"type": "tool_use", "id": call_id, "name": "sh", "input": {"cmd": f"make step{number}"}}
        output = f"step {number} is done. " + "a line of the log. " * 25
        said.append({"role": "assistant", "content": [use]})
        said.append(
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call_id, "content": output}]}
        )
    if words is not None:
        said[-1]["content"].append({"type": "text", "text": words})
    return said


def played(messages: list[dict[str, Any]], **settings: Any) -> Iterator[tuple[int, Prepared]]:
    """What is sent before each answer of *messages*, and how many of them were said by then."""
    policy = ThresholdCompactor(CompactionConfig(**settings))
    model = ScriptedModel(["The agent ran the steps of the build."])
    store = SimpleMemoryStore()
    with Session.open(None, "x", policy=policy, model=model, memory=store, context_window=WINDOW) as session:
        for at, message in enumerate(messages):
            if message["role"] == "assistant":
                yield at, session.prepare()
            session.append(message)
        yield len(messages), session.prepare()


@pytest.mark.parametrize("settings", [{}, {"keep_user_messages": True}])
def test_words_beside_results_are_the_request_in_flight(settings: dict[str, Any]) -> None:
    raws = [user("Build A and deploy it to /prod."), *steps(0, 20, STEERING), *steps(20, 70)]
    compactions = 0
    for at, prepared in played(raws, **settings):
        compactions += len(prepared.outcomes)
        shown = json.dumps(prepared.messages)
        if at > 40:
            assert STEERING in shown
        if settings or at <= 40:
            assert "Build A and deploy" in shown
    assert compactions >= 2


def test_a_reminder_beside_results_does_not_take_the_place_of_the_request() -> None:
    reminder = "<system-reminder>The linter is unhappy.</system-reminder>"
    raws = [user("Build A and deploy it to /prod."), *steps(0, 20, reminder), *steps(20, 70)]
    *_, (_, last) = played(raws)
    shown = json.dumps(last.messages)
    assert "Build A and deploy" in shown
    assert reminder not in shown


def test_the_newest_words_of_the_user_are_in_every_request_of_two_real_sessions(data_dir: Path) -> None:
    path = data_dir / "agent-messages-dev.jsonl"
    if not path.is_file():
        pytest.skip(f"no {path.name!r} in the evaluation data at {str(data_dir)!r}")
    for line in path.read_text(encoding="utf-8").splitlines():
        messages = json.loads(line)["messages"]
        without = [
            at
            for at, prepared in played(messages)
            if not newest_words(messages[:at]) <= texts(prepared.messages)
        ]
        assert without == []


def newest_words(messages: list[Any]) -> set[str]:
    """The texts of the newest user message that has one."""
    return next((found for raw in reversed(messages) if (found := texts([raw]))), set())


def texts(messages: list[Any]) -> set[str]:
    """What users say in *messages*, results left out."""
    found: set[str] = set()
    for raw in messages:
        content = raw["content"] if raw["role"] == "user" else []
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        found.update(block["text"] for block in blocks if block.get("type") == "text")
    return found
