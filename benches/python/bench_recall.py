"""The cost of recall in a turn: the search, the facts, the block, and its place in the request.

One session over a ``MemoryStore`` on disk; entries are sentences of Python's help pages. For each query a
user message is appended and the request prepared without recall; then ``prepare()`` is timed, which has
nothing left to do but to recall: right after a write, as in a session. It is timed twice: the first call
works the block of the turn out, the second one is a step of the same turn's tool loop. ``adds`` is the first
call less such a call without recall. ``warm`` is the block for the same query by hand, directly after. Of
each query the least of all rounds counts.

    python benches/python/bench_recall.py
"""

from __future__ import annotations

import itertools
import tempfile
import time
from pathlib import Path

from bench_search import SESSION, SIZES
from common import begin, head, middle_and_last, parts, questions, row, sentences
from siltstone import Entry, MemoryStore, Session

ROUNDS = 5
WAYS = {
    "adds": "adds to a turn",
    "first": "first call of a turn",
    "step": "a step of its tool loop",
    "warm": "warm",
}

Times = dict[str, list[float]]


def main() -> None:
    """Prints the table."""
    said = sentences()
    queries = questions(said)
    begin(f"{len(queries)} queries of 8 words, {ROUNDS} rounds, microseconds")
    cells = (cell for way in WAYS.values() for cell in (f"{way}, median", "p99"))
    head("entries", *cells, "with a block")
    with tempfile.TemporaryDirectory() as folder:
        for size in SIZES:
            with MemoryStore.open(Path(folder, str(size))) as store:
                fill(store, said, size)
                times, share = timed(store, queries)
            row(size, *(f"{each:.0f}" for way in WAYS for each in middle_and_last(times[way])), share)


def fill(store: MemoryStore, said: list[str], size: int) -> None:
    """So many entries, of which no message in view is the source."""
    for first, count in parts(size):
        texts = (said[number % len(said)] for number in range(first, first + count))
        store.index(SESSION, [Entry(text, created_at=float(first)) for text in texts])
    store.search(SESSION, said[0])


def timed(store: MemoryStore, queries: list[str]) -> tuple[Times, float]:
    """Of each way the least microseconds of each query; and the share of turns that had a block."""
    least = {way: [float("inf")] * len(queries) for way in WAYS}
    blocks = 0
    with Session.open(
        None, SESSION, memory=store, policy=None, context_window=200_000, recall=True, redaction=False
    ) as session:
        for _ in range(ROUNDS):
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
    return least, blocks / (ROUNDS * len(queries))


if __name__ == "__main__":
    main()
