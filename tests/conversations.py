"""Conversations for the tests of a session."""

import json
from collections.abc import Iterator
from typing import Any

from siltstone import CompactionConfig, ThresholdCompactor

Raw = dict[str, Any]


def small(threshold: int = 600, **settings: Any) -> ThresholdCompactor:
    """A policy that is due after a few turns."""
    return ThresholdCompactor(
        CompactionConfig(auto_compact_threshold=threshold, max_summary_tokens=50, **settings)
    )


def user(text: str) -> Raw:
    return {"role": "user", "content": text}


def assistant(text: str) -> Raw:
    return {"role": "assistant", "content": text}


def exchange(number: int, output: str = "done") -> list[Raw]:
    """A tool call and its result, OpenAI chat form."""
    call_id = f"call_{number}"
    function = {"name": "run", "arguments": json.dumps({"step": number})}
    return [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": call_id, "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": call_id, "content": output},
    ]


def turns(count: int, size: int = 200) -> Iterator[list[Raw]]:
    """Whole turns with a word of their own: turn 3 speaks of ``topic3``."""
    for number in range(count):
        filler = f"topic{number} " + "lorem ipsum dolor " * (size // 18)
        yield [
            user(f"question {number} about topic{number}"),
            *exchange(number, filler),
            assistant(f"answer {number}"),
        ]


def conversation(count: int = 12) -> list[Raw]:
    """The messages of *count* whole turns."""
    return [message for turn in turns(count) for message in turn]


def play(session: Any, messages: list[Raw]) -> list[Any]:
    """Appends *messages* as an agent meets them; returns the prepared view of each boundary."""
    prepared = []
    for message in messages:
        if message["role"] == "assistant":
            prepared.append(session.prepare())
        session.append(message)
    return prepared
