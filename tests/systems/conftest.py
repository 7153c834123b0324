"""Recorded sessions, or a made-up session if there are no recorded ones."""

import os
from pathlib import Path
from typing import Any

import pytest

from siltstone.cli.replay import read_transcripts

NAME = "agent-messages-dev.jsonl"
RECORDED = Path(os.environ.get("SILTSTONE_DATA", "../shared/data")) / NAME


def made(turns: int = 40, calls: int = 3) -> list[dict[str, Any]]:
    """An agent that reads files: turns of parallel calls with results of some hundred tokens."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": "Be brief."}]
    for turn in range(turns):
        messages.append({"role": "user", "content": f"Look at module m{turn} and tell what port it has."})
        for step in range(calls):
            name = f"call_{turn}_{step}"
            function = {"name": "read_file", "arguments": f'{{"path": "src/m{turn}/part{step}.py"}}'}
            text = f"# m{turn} part {step}\nPORT = {8000 + turn}\n" + f"line of m{turn} " * 90
            messages += [
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [{"id": name, "type": "function", "function": function}],
                },
                {"role": "tool", "tool_call_id": name, "content": text},
            ]
        messages.append(
            {
                "role": "assistant",
                "content": f"Module m{turn} listens on port {8000 + turn}. " + "more " * 160,
            }
        )
    return messages


def sessions() -> list[Any]:
    """A conversation of our own in any case, and the recorded ones where they are."""
    found = [pytest.param(made(), id="made")]
    if RECORDED.is_file():
        found += [pytest.param(each.messages, id=each.name) for each in read_transcripts(RECORDED)]
    return found


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "recorded" in metafunc.fixturenames:
        metafunc.parametrize("recorded", sessions())
