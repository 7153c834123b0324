"""The cost of recall in a turn: the search, the facts, the block, and its place in the request.

One session over a ``MemoryStore`` on disk; entries are sentences of Python's help pages. For each query a
user message is appended and the request prepared without recall; then ``prepare()`` is timed, which has
nothing left to do but to recall: right after a write, as in a session. It is timed twice: the first call
works the block of the turn out, the second one is a step of the same turn's tool loop. ``adds`` is the first
call less such a call without recall. ``warm`` is the block for the same query by hand, directly after. Of
each query the least of all rounds counts.

    python benches/python/bench_recall.py [--rounds 5] [--facts 0]
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from bench_search import QUERIES, SESSION, SIZES, sentences

from siltstone import Entry, MemoryStore, Session, _native

WAYS = {
    "adds": "adds to a turn",
    "first": "first call of a turn",
    "step": "a step of its tool loop",
    "warm": "warm",
}
BATCH = 10_000

Times = dict[str, list[float]]


def main() -> int:
    """Prints the table."""
    parser = argparse.ArgumentParser(prog="bench_recall", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="how often each query is asked")
    parser.add_argument("--facts", type=int, default=0, help="facts beside the entries")
    arguments = parser.parse_args()
    if _native.build_profile != "release":
        print("a debug build is not worth measuring: make install")
        return 2
    said = sentences()
    queries = [" ".join(text.split()[2:10]) for text in said[:: len(said) // QUERIES]][:QUERIES]
    rows = list[tuple[int, Times, float]]()
    with tempfile.TemporaryDirectory() as folder:
        for size in SIZES:
            with MemoryStore.open(Path(folder, str(size))) as store:
                fill(store, said, size)
                rows.append((size, *timed(store, queries, arguments.rounds, arguments.facts)))
    print(f"{len(queries)} queries of 8 words, {arguments.rounds} rounds, {arguments.facts:,} facts; "
          f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; microseconds\n")  # fmt: skip
    print(f"| entries | {' | '.join(f'{way}, median | p99' for way in WAYS.values())} | with a block |")
    print(f"|{' ---: |' * (2 * len(WAYS) + 2)}")
    for size, times, share in rows:
        cells = [f"{statistics.median(times[way]):.0f} | {p99(times[way]):.0f}" for way in WAYS]
        print(f"| {size:,} | {' | '.join(cells)} | {share:.2f} |")
    return 0


def fill(store: MemoryStore, said: list[str], size: int) -> None:
    """So many entries, of which no message in view is the source."""
    for first in range(0, size, BATCH):
        texts = (said[number % len(said)] for number in range(first, min(first + BATCH, size)))
        store.index(SESSION, [Entry(text, created_at=float(first)) for text in texts])
    store.search(SESSION, said[0])


def p99(spent: list[float]) -> float:
    """The 99th percentile."""
    return sorted(spent)[min(len(spent) - 1, int(len(spent) * 0.99))]


def timed(store: MemoryStore, queries: list[str], rounds: int, facts: int) -> tuple[Times, float]:
    """Of each way the least microseconds of each query; and the share of turns that had a block."""
    least = {way: [float("inf")] * len(queries) for way in WAYS}
    blocks = 0
    with Session.open(
        None, SESSION, memory=store, policy=None, context_window=200_000, recall=True, redaction=False
    ) as session:
        for number in range(facts):
            session.save(f"Service {number} listens on port {3000 + number}", "fact")
        for _ in range(rounds):
            for place, query in enumerate(queries):
                session.append({"role": "user", "content": query})
                session.prepare(recall=False)
                start = time.perf_counter()
                session.prepare(recall=False)
                idle = time.perf_counter() - start
                marks = [time.perf_counter()]
                answer = session.prepare()
                marks.append(time.perf_counter())
                session.prepare()
                marks.append(time.perf_counter())
                session.recall(query)
                marks.append(time.perf_counter())
                spent = [end - start for start, end in itertools.pairwise(marks)]
                for way, seconds in zip(WAYS, [spent[0] - idle, *spent], strict=True):
                    least[way][place] = min(least[way][place], seconds * 1e6)
                blocks += bool(answer.recalled)
    return least, blocks / (rounds * len(queries))


if __name__ == "__main__":
    sys.exit(main())
