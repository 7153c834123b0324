"""The waits of a reader while a writer inserts 2,000 entries a second, and the waits of the writer.

One session of a ``MemoryStore`` on disk, 10,000 entries to begin with; the writer hands over 20 entries 100
times a second, each call durable when it returns. Readers ask one query after another, each in a thread of
its own, and so does the writer. With fewer cores than threads the tail is the scheduler's: the quantum after
which a thread that was put aside goes on.

    python benches/python/bench_concurrency.py
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from pydoc_data.topics import topics

from siltstone import Entry, MemoryStore, _native

FIRST = 10_000  # entries before anything is timed
RATE, CALLS = 2_000, 100  # entries and calls a second of the writer
SECONDS = 5.0
READERS = 3
SESSION = "one"


@dataclass(slots=True)
class Waits:
    """Milliseconds of each call."""

    reads: list[float] = field(default_factory=list)
    writes: list[float] = field(default_factory=list)
    written: int = 0
    seconds: float = 0.0


def main() -> int:
    """Prints the table; 1 where a reader missed what was written."""
    if _native.build_profile != "release":
        print("a debug build is not worth measuring: make install")
        return 2
    texts = corpus()
    print(f"{FIRST:,} entries; {RATE:,} a second in {CALLS} calls; {os.cpu_count()} cores, load "
          f"{os.getloadavg()[0]:.1f}; milliseconds\n")  # fmt: skip
    print("| ranker | readers | writer | reads/s | read p50 | p99 | entries/s | write p50 | p99 | p99.9 |")
    print("| :--- | ---: | :--- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for ranker in ("cosine", "lexical"):
        for readers, writer in ((1, False), (1, True), (0, True), (READERS, False), (READERS, True)):
            with tempfile.TemporaryDirectory() as folder, MemoryStore.open(folder, ranker) as store:
                for first in range(0, FIRST, 2_000):
                    store.index(SESSION, entries(texts, first, 2_000))
                store.search(
                    SESSION, texts[0], limit=10
                )  # the session is read into memory by its first search
                waits = run(store, texts, readers, writer)
                if len(store.entries(SESSION, offset=FIRST, limit=1_000_000).entries) != waits.written:
                    print("entries are missing")
                    return 1
            reads = f"{len(waits.reads) / waits.seconds:.0f} | {quantiles(waits.reads, 0.5, 0.99)}"
            writes = f"{waits.written / waits.seconds:.0f} | {quantiles(waits.writes, 0.5, 0.99, 0.999)}"
            print(f"| {ranker} | {readers} | {'on' if writer else '-'} | {reads} | {writes} |", flush=True)
    return 0


def run(store: MemoryStore, texts: list[str], readers: int, writer: bool) -> Waits:
    """Readers and the writer for some seconds; each thread has a list of its own."""
    end = time.perf_counter() + SECONDS
    queries = [" ".join(text.split()[5:12]) for text in texts[:200]]
    lists: list[list[float]] = [[] for _ in range(readers)]
    waits = Waits(seconds=SECONDS)

    def read(spent: list[float]) -> None:
        number = 0
        while time.perf_counter() < end:
            start = time.perf_counter()
            store.search(SESSION, queries[number % len(queries)], limit=10)
            spent.append((time.perf_counter() - start) * 1e3)
            number += 1

    def write() -> None:
        each = RATE // CALLS
        due = time.perf_counter()
        while due < end:
            time.sleep(max(0.0, due - time.perf_counter()))
            some = entries(texts, FIRST + waits.written, each)
            start = time.perf_counter()
            store.index(SESSION, some)
            waits.writes.append((time.perf_counter() - start) * 1e3)
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


def entries(texts: list[str], first: int, count: int) -> list[Entry]:
    """*count* entries from *first* on, each of a message of its own."""
    return [
        Entry(f"{number} {texts[number % len(texts)]}", source_range=(number, number + 1))
        for number in range(first, first + count)
    ]


def quantiles(spent: Sequence[float], *shares: float) -> str:
    """The quantiles of *spent*, as cells of a table."""
    ordered = sorted(spent)
    cells = (f"{ordered[min(len(ordered) - 1, int(len(ordered) * share))]:.3f}" for share in shares)
    return " | ".join(cells if ordered else ("-" for _ in shares))


def corpus() -> list[str]:
    """Pieces of about 600 characters of the standard library and its help pages."""
    library = Path(json.__file__).parents[1]
    sources = "".join(path.read_text(encoding="utf-8") for path in sorted(library.glob("[a-z]*/*.py"))[:400])
    whole = "".join(topics[name] for name in sorted(topics)) + sources
    return [whole[start : start + 600] for start in range(0, len(whole) - 600, 600)][:10_000]


if __name__ == "__main__":
    sys.exit(main())
