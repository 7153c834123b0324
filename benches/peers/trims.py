"""How fast is a history trimmed, and a result compressed, beside what others use for that? Prints a table.

    make bench-peers
    python benches/peers/trims.py

CPU time of one call in milliseconds, the best of several, on one process: the history is halved by tokens.
Packages of others are optional: what is absent is said and left out. ``TruncationStrategy`` of Microsoft's
Agent Framework counts the whole history again for each group that leaves, so it is asked of 1,000 alone.
"""

from __future__ import annotations

import argparse
import asyncio
import inspect
import json
import random
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from typing import Any

from siltstone.compaction import smart_trim
from siltstone.messages import condensed

SEED = 20261122
SIZES = (1_000, 10_000, 100_000)
WORDS = 40  # of a message
QUADRATIC = 1_000  # messages at most, where time grows with the square


def messages(count: int) -> list[dict[str, Any]]:
    """A chat of *count* messages, the same in every run."""
    chance = random.Random(SEED)
    words = [f"word{number}" for number in range(3_000)]
    return [
        {"role": "assistant" if at % 2 else "user", "content": " ".join(chance.choices(words, k=WORDS))}
        for at in range(count)
    ]


def milliseconds(call: Callable[[], Any], times: int) -> float:
    """The CPU time of the fastest of *times* calls."""
    best = float("inf")
    for _ in range(times):
        started = time.process_time()
        call()
        best = min(best, time.process_time() - started)
    return best * 1000


def siltstone(chat: list[dict[str, Any]]) -> Callable[[], Any]:
    limit = sum(len(json.dumps(raw)) for raw in chat) // 6
    return lambda: smart_trim(chat, limit)


def langchain(chat: list[dict[str, Any]]) -> Callable[[], Any]:
    from langchain_core.messages import AIMessage, HumanMessage
    from langchain_core.messages.utils import count_tokens_approximately, trim_messages

    kinds = {"user": HumanMessage, "assistant": AIMessage}
    read = [kinds[raw["role"]](raw["content"]) for raw in chat]
    limit = count_tokens_approximately(read) // 2
    return lambda: trim_messages(
        read, max_tokens=limit, token_counter=count_tokens_approximately, strategy="last", start_on="human"
    )


def langchain_same_count(chat: list[dict[str, Any]]) -> Callable[[], Any]:
    """The same with our rule as its counter, which both then count by."""
    from langchain_core.messages import AIMessage, HumanMessage
    from langchain_core.messages.utils import trim_messages

    from siltstone.tokens import estimate_tokens

    kinds = {"user": HumanMessage, "assistant": AIMessage}
    roles = {"human": "user", "ai": "assistant"}
    read = [kinds[raw["role"]](raw["content"]) for raw in chat]

    def count(messages: list[Any]) -> int:
        return estimate_tokens([{"role": roles[each.type], "content": each.content} for each in messages])

    limit = estimate_tokens(chat) // 2
    return lambda: trim_messages(
        read, max_tokens=limit, token_counter=count, strategy="last", start_on="human"
    )


def agent_framework(chat: list[dict[str, Any]]) -> Callable[[], Any]:
    from agent_framework import Message
    from agent_framework._compaction import (
        CharacterEstimatorTokenizer,
        TruncationStrategy,
        apply_compaction,
    )

    tokenizer = CharacterEstimatorTokenizer()
    limit = sum(tokenizer.count_tokens(raw["content"]) for raw in chat) // 2
    strategy = TruncationStrategy(max_n=limit, compact_to=limit, tokenizer=tokenizer)

    def call() -> Any:
        read = [Message(raw["role"], [raw["content"]]) for raw in chat]
        return asyncio.run(apply_compaction(read, strategy=strategy, tokenizer=tokenizer))

    return call


PEERS: list[tuple[str, str, Callable[[list[dict[str, Any]]], Callable[[], Any]], int]] = [
    ("smart_trim", "siltstone", siltstone, SIZES[-1]),
    ("LangChain trim_messages, approximate count", "langchain_core", langchain, SIZES[-1]),
    ("LangChain trim_messages, our count", "langchain_core", langchain_same_count, SIZES[-1]),
    ("Agent Framework TruncationStrategy", "agent_framework", agent_framework, QUADRATIC),
]


def results() -> Iterator[tuple[str, str]]:
    """Results of tools of 40,000 characters, which are some 10,000 tokens."""
    code = inspect.getsource(argparse)
    log = "".join(f"2026-05-01T10:{n % 60:02} INFO worker step {n} done\n" for n in range(2_000))
    rows = json.dumps([{"id": n, "state": "open", "title": f"ticket {n}"} for n in range(800)])
    for name, text in (("source code", code), ("a log", log), ("rows of JSON", rows)):
        yield name, text[:40_000]


def main() -> int:
    """Prints both tables."""
    print("| messages |", " | ".join(name for name, *_ in PEERS), "|")
    print("|---" * (len(PEERS) + 1) + "|")
    for size in SIZES:
        chat = messages(size)
        cells = []
        for _, package, make, most in PEERS:
            if find_spec(package) is None:
                cells.append("not installed")
            elif size > most:
                cells.append("")
            else:
                cells.append(f"{milliseconds(make(chat), 5 if size < SIZES[-1] else 2):,.1f} ms")
        print(f"| {size:,} |", " | ".join(cells), "|", flush=True)
    print("\n| result of 40,000 characters | time | characters left |\n|---|---|---|")
    for name, text in results():
        print(f"| {name} | {milliseconds(partial(condensed, text), 50):.2f} ms | {len(condensed(text)):,} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
