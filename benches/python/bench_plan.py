"""The cost of `plan()` and `compact()` on a plain list, beside `json.dumps` of the same list.

The model answers at once, so what is timed is ours. Lists of 1,000, 10,000 and 100,000 messages: the two
recorded agent sessions, repeated with ids of their own, as Anthropic messages and as OpenAI chat; and
short turns of people. The calls take turns, and the median of the ratios counts.

    SILTSTONE_DATA=... python benches/python/bench_plan.py
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from siltstone import ThresholdCompactor, compact, plan
from siltstone.engine import Compacted
from siltstone.evaluation import data_place, load_dataset
from siltstone.messages import groups, read_history
from siltstone.tokens import estimate_tokens

sys.path.insert(0, str(Path(__file__).parents[1]))
from common import begin, head, in_turn, row

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
    """Prints the table; 1 where a limit is exceeded. There is none without the recorded data."""
    if not data_place().is_dir():
        print(f"no evaluation data at {str(data_place())!r}; set SILTSTONE_DATA")
        return 0
    begin("CPU time of a message in microseconds, and how many times that of json.dumps (medians)")
    head("list", "window", "messages", "json.dumps", "plan", "", "compact", "")
    failed = False
    for name, make in makers(data_place()).items():
        check(make(CHECKED))
        for window in WINDOWS:
            grown: dict[str, list[float]] = {what: [] for what in LIMITS}
            for size, turns in TURNS.items():
                spent, ratios = measured(make(size), turns, window)
                cells = [cell for what in LIMITS for cell in (spent[what], ratios[what])]
                row(name, window or "-", size, spent["json"], *cells)
                for what, most in LIMITS.items():
                    grown[what].append(spent[what])
                    failed |= size == BOUND and ratios[what] > most
            failed |= any(last > GROWTH * bound for *_, bound, last in grown.values())
    return int(failed)


def measured(history: list[Raw], turns: int, window: int | None) -> tuple[dict[str, float], dict[str, float]]:
    """The median microseconds of each call for a message, and the median of its ratios to ``json.dumps``."""
    calls: dict[str, Callable[[Any], object]] = {
        "json": lambda _: json.dumps(history),
        "plan": lambda _: plan(history, POLICY, context_window=window),
        "compact": lambda _: compact(history, POLICY, model=answer, context_window=window),
    }
    spent = in_turn(calls, range(turns), time.process_time)
    ratios = {
        what: statistics.median(mine / base for mine, base in zip(spent[what], spent["json"], strict=True))
        for what in LIMITS
    }
    return {what: statistics.median(each) * 1e3 / len(history) for what, each in spent.items()}, ratios


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
    spoken = load_dataset("locomo-dev").conversations
    texts = [turn.text for conversation in spoken for turn in conversation.turns]

    def agent() -> Iterator[Raw]:
        number = 0
        while True:
            yield from json.loads(written.replace("toolu_", f"toolu_{number}_"))
            number += 1

    def people(size: int) -> list[Raw]:
        roles = ("user", "assistant")
        return [{"role": roles[n % 2], "content": texts[n % len(texts)]} for n in range(size)]

    return {
        "agent, Anthropic": lambda size: list(islice(agent(), size)),
        "agent, OpenAI chat": lambda size: list(islice((out for raw in agent() for out in chat(raw)), size)),
        "people": people,
    }


def chat(raw: Raw) -> list[Raw]:
    """An Anthropic message as messages of OpenAI chat."""
    content = raw["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    said = "\n".join(block["text"] for block in blocks if block["type"] == "text")
    calls, results = [], []
    for block in blocks:
        if block["type"] == "tool_use":
            function = {"name": block["name"], "arguments": json.dumps(block["input"])}
            calls.append({"id": block["id"], "type": "function", "function": function})
        elif block["type"] == "tool_result":
            inner = block.get("content") or ""
            text = inner if isinstance(inner, str) else "\n".join(part.get("text", "") for part in inner)
            results.append({"role": "tool", "tool_call_id": block["tool_use_id"], "content": text})
    if calls:
        return [{"role": "assistant", "content": said or None, "tool_calls": calls}]
    return results + ([{"role": raw["role"], "content": said}] if said or not results else [])


if __name__ == "__main__":
    sys.exit(main())
