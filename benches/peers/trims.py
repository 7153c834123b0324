"""How fast is a history trimmed, and a result compressed, beside what others use for that? Prints a table.

    make bench-peers
    python benches/peers/trims.py

CPU time of one call in milliseconds, of all its threads, the best of several: the history is halved.
The first call has messages that nobody has seen; the next turn is the same list with two more messages, as a
conversation goes on, after the list before was trimmed.
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

from siltstone import SmartTrim, SmartTrimConfig, estimate_tokens
from siltstone.messages import condensed
from siltstone.systems.openclaw import smart_trim

SEED = 20261122
SIZES = (1_000, 10_000, 100_000)
WORDS = 40  # of a message
QUADRATIC = 1_000  # messages at most, where time grows with the square
TURNS = 12  # calls whose best counts

Chat = list[dict[str, Any]]
# A function that trims messages, and the messages as it takes them.
Contender = tuple[Callable[[Any], Any], list[Any]]
Measure = Callable[[Contender], float]


def messages(count: int) -> Chat:
    """A chat of *count* messages, the same in every run."""
    chance = random.Random(SEED)
    words = [f"word{number}" for number in range(3_000)]
    return [
        {"role": "assistant" if at % 2 else "user", "content": " ".join(chance.choices(words, k=WORDS))}
        for at in range(count)
    ]


def timed(call: Callable[[], Any]) -> float:
    """The CPU time of a call in milliseconds."""
    started = time.process_time()
    call()
    return (time.process_time() - started) * 1000


def first(contender: Contender) -> float:
    """The fastest of some calls, each with messages that nobody has seen."""
    trim, read = contender
    return min(timed(partial(trim, read)) for _ in range(TURNS))


def following(contender: Contender) -> float:
    """The fastest of some calls, each with two messages more than the one before."""
    trim, read = contender
    ends = range(len(read) - 2 * TURNS, len(read) + 1, 2)
    return min([timed(partial(trim, read[:end])) for end in ends][1:])


def siltstone(chat: Chat) -> Contender:
    limit = estimate_tokens(chat, SmartTrimConfig().estimator) // 2
    return lambda raws: smart_trim(raws, limit), chat


def siltstone_policy(chat: Chat) -> Contender:
    limit, policy = estimate_tokens(chat, SmartTrimConfig().estimator) // 2, SmartTrim()
    return lambda raws: policy.trim(raws, limit), chat


def langchain(chat: Chat) -> Contender:
    from langchain_core.messages.utils import count_tokens_approximately, trim_messages

    read = in_langchain(chat)
    limit = count_tokens_approximately(read) // 2
    options = {"token_counter": count_tokens_approximately, "strategy": "last", "start_on": "human"}
    return lambda read: trim_messages(read, max_tokens=limit, **options), read


def langchain_same_count(chat: Chat) -> Contender:
    """The same with our rule as its counter, which both then count by."""
    from langchain_core.messages.utils import trim_messages

    roles = {"human": "user", "ai": "assistant"}

    def count(messages: list[Any]) -> int:
        return estimate_tokens([{"role": roles[each.type], "content": each.content} for each in messages])

    limit = estimate_tokens(chat) // 2
    options = {"token_counter": count, "strategy": "last", "start_on": "human"}
    return lambda read: trim_messages(read, max_tokens=limit, **options), in_langchain(chat)


def in_langchain(chat: Chat) -> list[Any]:
    from langchain_core.messages import AIMessage, HumanMessage

    kinds = {"user": HumanMessage, "assistant": AIMessage}
    return [kinds[raw["role"]](raw["content"]) for raw in chat]


def agent_framework(chat: Chat) -> Contender:
    from agent_framework import Message
    from agent_framework._compaction import CharacterEstimatorTokenizer, TruncationStrategy, apply_compaction

    tokenizer = CharacterEstimatorTokenizer()
    limit = sum(tokenizer.count_tokens(raw["content"]) for raw in chat) // 2
    strategy = TruncationStrategy(max_n=limit, compact_to=limit, tokenizer=tokenizer)

    def trim(chat: Chat) -> Any:
        read = [Message(raw["role"], [raw["content"]]) for raw in chat]
        return asyncio.run(apply_compaction(read, strategy=strategy, tokenizer=tokenizer))

    return trim, chat


# Its name, its package, its maker, its call, and the largest number of messages.
PEERS: list[tuple[str, str, Callable[[Chat], Contender], Measure, int]] = [
    ("`smart_trim`", "siltstone", siltstone, first, SIZES[-1]),
    ("`SmartTrim.trim`, next turn", "siltstone", siltstone_policy, following, SIZES[-1]),
    ("LangChain, approximate count", "langchain_core", langchain, first, SIZES[-1]),
    ("LangChain, next turn", "langchain_core", langchain, following, SIZES[-1]),
    ("LangChain, our count", "langchain_core", langchain_same_count, first, SIZES[-1]),
    ("Agent Framework", "agent_framework", agent_framework, first, QUADRATIC),
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
        for _, package, make, measure, most in PEERS:
            if find_spec(package) is None:
                cells.append("not installed")
            elif size > most:
                cells.append("")
            else:
                cells.append(f"{measure(make(chat)):,.1f} ms")
        print(f"| {size:,} |", " | ".join(cells), "|", flush=True)
    print("\n| result of 40,000 characters | time | characters left |\n|---|---|---|")
    for name, text in results():
        fastest = min(timed(partial(condensed, text)) for _ in range(50))
        print(f"| {name} | {fastest:.2f} ms | {len(condensed(text)):,} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
