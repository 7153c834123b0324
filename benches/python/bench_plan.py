"""The cost of `plan()` and `compact()` on a plain list, beside `json.dumps` of the same list.

The model answers at once, so what is timed is ours. Lists of 1,000, 10,000 and 100,000 messages: the two
recorded agent sessions, repeated with ids of their own, as Anthropic messages, as OpenAI chat and as items
of the Responses API; and short turns of people. The calls take turns, and the median of the ratios counts.

    SILTSTONE_DATA=... python benches/python/bench_plan.py
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

from siltstone import ThresholdCompactor, _native, compact, plan
from siltstone.engine import Compacted
from siltstone.messages import groups, read_history
from siltstone.tokens import estimate_tokens

SIZES = (1_000, 10_000, 100_000)
TURNS = {1_000: 15, 10_000: 7, 100_000: 3}
CHECKED = 1_000  # messages of the list whose answer is compared with the slow reader's
LIMITS = {"plan": 1.0, "compact": 5.0}  # times json.dumps, at BOUND messages
BOUND = 10_000
GROWTH = (
    1.6  # times as much a message at 100,000 as at 10,000, at most: caches and the allocator take a share
)
POLICY = ThresholdCompactor()
WINDOWS = (None, 200_000)

Raw = dict[str, Any]


def main() -> int:
    """Prints the table; 1 where a limit is exceeded."""
    if _native.build_profile != "release":
        print("a debug build is not worth measuring: make install")
        return 2
    data = Path(os.environ.get("SILTSTONE_DATA", Path(__file__).parents[3] / "shared" / "data"))
    if not data.is_dir():
        print(f"no evaluation data at {str(data)!r}; set SILTSTONE_DATA")
        return 2
    print("CPU time a message, and how many times that of json.dumps (medians of turns)\n")
    print("| list | window | messages | json.dumps | plan | compact |")
    print("| :--- | ---: | ---: | ---: | ---: | ---: |")
    failed = False
    for name, make in makers(data).items():
        check(make(CHECKED))
        for window in WINDOWS:
            per_message: dict[int, dict[str, float]] = {}
            for size in SIZES:
                seconds, ratios = measured(make(size), TURNS[size], window)
                per_message[size] = {what: spent / size for what, spent in seconds.items()}
                row = " | ".join(
                    f"{per_message[size][what] * 1e6:.2f} us"
                    + (f" ({ratios[what]:.2f})" if what in ratios else "")
                    for what in ("json", "plan", "compact")
                )
                print(f"| {name} | {window or '-'} | {size:,} | {row} |", flush=True)
                if size == BOUND:
                    failed |= any(ratios[what] > most for what, most in LIMITS.items())
            for what in LIMITS:
                failed |= per_message[SIZES[-1]][what] > GROWTH * per_message[BOUND][what]
    return int(failed)


def measured(history: list[Raw], turns: int, window: int | None) -> tuple[dict[str, float], dict[str, float]]:
    """The median seconds of each call, and the median of its ratios to ``json.dumps``."""
    calls: dict[str, Callable[[], object]] = {
        "json": lambda: json.dumps(history),
        "plan": lambda: plan(history, POLICY, context_window=window),
        "compact": lambda: compact(history, POLICY, model=answer, context_window=window),
    }
    spent: dict[str, list[float]] = {what: [] for what in calls}
    for _ in range(turns):
        for what, call in calls.items():
            start = time.process_time()
            call()
            spent[what].append(time.process_time() - start)
    ratios = {
        what: statistics.median(mine / base for mine, base in zip(spent[what], spent["json"], strict=True))
        for what in LIMITS
    }
    return {what: statistics.median(seconds) for what, seconds in spent.items()}, ratios


def answer(_: object) -> str:
    """A model that answers at once."""
    return "They worked on the parser, and its tests pass now. " * 8


def check(history: list[Raw]) -> None:
    """Raises unless a plan says what becomes of the list, and counts as the slow reader does."""
    planned, outcome = plan(history, POLICY), compact(history, POLICY, model=answer)
    if not isinstance(outcome, Compacted) or (planned.retained, planned.discarded, planned.covers) != (
        len(outcome.retained),
        len(outcome.discarded),
        outcome.covers,
    ):
        raise AssertionError("the plan is not what became of the list")
    if planned.tokens_before != estimate_tokens(read_history(history), "blocks"):
        raise AssertionError("the plan counts other tokens than the slow reader")
    discarded = {id(raw) for raw in outcome.discarded}
    for group in groups(read_history(history)):
        if len({id(history[at]) in discarded for at in group.positions}) != 1:
            raise AssertionError(f"the group {group.positions} was parted")


def makers(data: Path) -> dict[str, Callable[[int], list[Raw]]]:
    """Functions that make a list of so many messages, by name."""
    lines = (data / "agent-messages-dev.jsonl").read_text(encoding="utf-8").splitlines()
    sessions = [json.loads(line)["messages"] for line in lines]
    written = json.dumps([raw for session in sessions for raw in session], ensure_ascii=False)
    spoken = json.loads((data / "locomo-dev.json").read_text(encoding="utf-8"))
    texts = [t["text"] for c in spoken["conversations"] for s in c["sessions"] for t in s["turns"]]

    def agent() -> Any:
        number = 0
        while True:
            yield from json.loads(written.replace("toolu_", f"toolu_{number}_"))
            number += 1

    def people(size: int) -> list[Raw]:
        roles = ("user", "assistant")
        return [{"role": roles[n % 2], "content": texts[n % len(texts)]} for n in range(size)]

    def translated(size: int, translate: Callable[[Raw], list[Raw]]) -> list[Raw]:
        return list(islice((out for raw in agent() for out in translate(raw)), size))

    return {
        "agent, Anthropic": lambda size: list(islice(agent(), size)),
        "agent, OpenAI chat": lambda size: translated(size, chat),
        "agent, Responses": lambda size: translated(size, items),
        "people": people,
    }


def blocks_of(raw: Raw) -> list[Raw]:
    """The content of an Anthropic message as blocks."""
    content = raw["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def text_of(content: Any) -> str:
    """The content of a result as text."""
    if isinstance(content, str):
        return content
    return "\n".join(block.get("text", "") for block in content or ())


def chat(raw: Raw) -> list[Raw]:
    """An Anthropic message as messages of OpenAI chat."""
    blocks = blocks_of(raw)
    said = "\n".join(block["text"] for block in blocks if block["type"] == "text")
    calls = [
        {
            "id": block["id"],
            "type": "function",
            "function": {"name": block["name"], "arguments": json.dumps(block["input"])},
        }
        for block in blocks
        if block["type"] == "tool_use"
    ]
    results = [
        {"role": "tool", "tool_call_id": block["tool_use_id"], "content": text_of(block.get("content"))}
        for block in blocks
        if block["type"] == "tool_result"
    ]
    if calls:
        return [{"role": "assistant", "content": said or None, "tool_calls": calls}]
    return results + ([{"role": raw["role"], "content": said}] if said or not results else [])


def items(raw: Raw) -> list[Raw]:
    """An Anthropic message as items of the Responses API."""
    found: list[Raw] = []
    kind = "output_text" if raw["role"] == "assistant" else "input_text"
    for block in blocks_of(raw):
        if block["type"] == "text":
            said = [{"type": kind, "text": block["text"]}]
            found.append({"type": "message", "role": raw["role"], "content": said})
        elif block["type"] == "tool_use":
            arguments = json.dumps(block["input"])
            call = {"type": "function_call", "call_id": block["id"], "name": block["name"]}
            found.append({**call, "arguments": arguments})
        elif block["type"] == "tool_result":
            output = {"type": "function_call_output", "call_id": block["tool_use_id"]}
            found.append({**output, "output": text_of(block.get("content"))})
    return found


if __name__ == "__main__":
    sys.exit(main())
