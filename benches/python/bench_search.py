"""The cost of a search by ``lexical`` from Python: the query's analysis, the ranking, and ten hits fetched.

One session of a ``MemoryStore`` on disk; entries are sentences of Python's help pages, a day of them 200.
The ten best of the smallest store are first held against the slow twin, to the bit. The searches of all
sizes are timed in turn, so that a busy machine is busy for all of them; of each query the least counts, for
what else runs only adds.

    python benches/python/bench_search.py
"""

from __future__ import annotations

import itertools
import os
import re
import statistics
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from pydoc_data.topics import topics

from siltstone import Entry, MemoryStore, _native
from siltstone.memory.convert import milliseconds

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
from reference import lexical

SIZES = (600, 10_000, 100_000)
QUERIES, ROUNDS = 200, 5
LIMIT = 10
CHECKED = 20  # queries that the twin answers
DAY = 200  # entries of a day
FIRST = datetime(2024, 1, 1, tzinfo=UTC)
SESSION = "one"


def main() -> int:
    """Prints the table; 1 where an answer is wrong."""
    if _native.build_profile != "release":
        print("a debug build is not worth measuring: make install")
        return 2
    said = sentences()
    queries = [" ".join(text.split()[2:10]) for text in said[:: len(said) // QUERIES]][:QUERIES]
    with tempfile.TemporaryDirectory() as folder:
        stores = {size: filled(Path(folder, str(size)), said, size) for size in SIZES}
        if not is_right(stores[SIZES[0]], entries(said, 0, SIZES[0]), queries[:CHECKED]):
            return 1
        least = timed(stores, queries)
        for store in stores.values():
            store.close()
    print(f"{len(queries)} queries of 8 words, {ROUNDS} rounds; {os.cpu_count()} cores, load "
          f"{os.getloadavg()[0]:.1f}; microseconds\n")  # fmt: skip
    print("| entries | median | mean | p95 |")
    print("| ---: | ---: | ---: | ---: |")
    for size, spent in least.items():
        spent.sort()
        p95 = spent[int(len(spent) * 0.95)]
        print(f"| {size:,} | {statistics.median(spent):.1f} | {statistics.mean(spent):.1f} | {p95:.1f} |")
    return 0


def timed(stores: dict[int, MemoryStore], queries: list[str]) -> dict[int, list[float]]:
    """Microseconds of each query by size, the least of all rounds."""
    least = {size: [float("inf")] * len(queries) for size in stores}
    for _, (size, store) in itertools.product(range(ROUNDS), stores.items()):
        for place, query in enumerate(queries):
            start = time.perf_counter()
            store.search(SESSION, query, limit=LIMIT)
            least[size][place] = min(least[size][place], (time.perf_counter() - start) * 1e6)
    return least


def is_right(store: MemoryStore, given: list[Entry], queries: list[str]) -> bool:
    """Whether the store's hits are the twin's; prints where they are not."""
    twins = [
        lexical.Entry(each.content, each.source_range, each.role, each.name, milliseconds(each.created_at))
        for each in given
    ]
    for query, expected in zip(queries, lexical.search(queries, twins), strict=True):
        hits = store.search(SESSION, query, limit=LIMIT)
        found = [(hit.source_range[0], hit.score) for hit in hits]
        if not found or found != expected[:LIMIT]:
            print(f"{query!r} finds {found}, expected {expected[:LIMIT]}")
            return False
    return True


def filled(place: Path, said: list[str], size: int) -> MemoryStore:
    """A store of so many entries, read into memory by a first search."""
    store = MemoryStore.open(place)
    for first in range(0, size, 10_000):
        store.index(SESSION, entries(said, first, min(10_000, size - first)))
    store.search(SESSION, said[0], limit=LIMIT)
    return store


def entries(said: list[str], first: int, count: int) -> list[Entry]:
    """*count* entries from *first* on, of two who take turns; past the last sentence they come again."""
    return [
        Entry(
            said[number % len(said)],
            source_range=(number, number + 1),
            name=("Ada", "Grace")[number % 2],
            created_at=FIRST + timedelta(days=number // DAY),
        )
        for number in range(first, first + count)
    ]


def sentences() -> list[str]:
    """The lines of Python's help pages with more than ten words."""
    whole = " ".join(topics[name] for name in sorted(topics)).split()
    found = re.split(r"(?<=[.:;]) ", " ".join(whole))
    return [each for each in found if len(each.split()) > 10]


if __name__ == "__main__":
    sys.exit(main())
