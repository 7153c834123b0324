"""The waits of a reader while a writer inserts 2,000 entries a second, and the waits of the writer.

One session of a ``MemoryStore`` on disk, 10,000 entries to begin with; the writer hands over 20 entries 100
times a second, each call durable when it returns. Readers ask one query after another, each in a thread of
its own, and so does the writer. With fewer cores than threads the tail is the scheduler's: the quantum after
which a thread that was put aside goes on.

    python benches/python/bench_concurrency.py
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from pydoc_data.topics import topics

from siltstone import Entry, MemoryStore
from siltstone.evaluation.report import percentile

sys.path.insert(0, str(Path(__file__).parents[1]))
from common import begin, head, parts, row, timed

FIRST = 10_000  # entries before anything is timed
RATE, CALLS = 2_000, 100  # entries and calls a second of the writer
SECONDS = 5.0
READERS = 3
SESSION = "one"
PAGES = "".join(topics[name] for name in sorted(topics))
TEXTS = [PAGES[start : start + 600] for start in range(0, len(PAGES) - 600, 600)]


@dataclass(slots=True)
class Waits:
    """Milliseconds of each call."""

    reads: list[float] = field(default_factory=list)
    writes: list[float] = field(default_factory=list)
    written: int = 0


def main() -> None:
    """Prints the table."""
    begin(f"{FIRST:,} entries; {RATE:,} a second in {CALLS} calls; milliseconds")
    names = ("reads/s", "read p50", "p99", "entries/s", "write p50", "p99", "p99.9")
    head("ranker", "readers", "writer", *names)
    for ranker in ("cosine", "lexical"):
        for readers, writer in ((1, False), (1, True), (0, True), (READERS, False), (READERS, True)):
            with tempfile.TemporaryDirectory() as folder, MemoryStore.open(folder, ranker) as store:
                for first, count in parts(FIRST):
                    store.index(SESSION, entries(first, count))
                store.search(SESSION, TEXTS[0])  # the session is read into memory by its first search
                waits = run(store, readers, writer)
                there = len(store.entries(SESSION, offset=FIRST, limit=1_000_000).entries)
                if there != waits.written:
                    sys.exit("entries are missing")
            reads = [len(waits.reads) / SECONDS, *(percentile(waits.reads, share) for share in (0.5, 0.99))]
            shares = (0.5, 0.99, 0.999)
            writes = [waits.written / SECONDS, *(percentile(waits.writes, share) for share in shares)]
            row(ranker, readers, "on" if writer else "-", *reads, *writes)


def run(store: MemoryStore, readers: int, writer: bool) -> Waits:
    """Readers and the writer for some seconds; each thread has a list of its own."""
    end = time.perf_counter() + SECONDS
    queries = [" ".join(text.split()[5:12]) for text in TEXTS[:200]]
    lists: list[list[float]] = [[] for _ in range(readers)]
    waits = Waits()

    def read(spent: list[float]) -> None:
        asked = cycle(queries)
        while time.perf_counter() < end:
            spent.append(timed(lambda: store.search(SESSION, next(asked), limit=10)))

    def write() -> None:
        each = RATE // CALLS
        due = time.perf_counter()
        while due < end:
            time.sleep(max(0.0, due - time.perf_counter()))
            some = entries(FIRST + waits.written, each)
            waits.writes.append(timed(lambda some=some: store.index(SESSION, some)))
            waits.written += each
            due = max(due + 1 / CALLS, time.perf_counter() - 1.0)  # at most a second is caught up

    threads = [threading.Thread(target=read, args=(spent,)) for spent in lists]
    if writer:
        threads.append(threading.Thread(target=write))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    waits.reads = [each for spent in lists for each in spent]
    return waits


def entries(first: int, count: int) -> list[Entry]:
    """*count* entries from *first* on, of the help pages of Python, each of a message of its own."""
    return [
        Entry(f"{number} {TEXTS[number % len(TEXTS)]}", source_range=(number, number + 1))
        for number in range(first, first + count)
    ]


if __name__ == "__main__":
    main()
