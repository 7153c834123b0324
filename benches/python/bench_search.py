"""The cost of a search by ``lexical`` from Python: the query's analysis, the ranking, and ten hits fetched.

One session of a ``MemoryStore`` on disk; entries are sentences of Python's help pages, a day of them 200.
The ten best of the smallest store are first held against the slow twin, to the bit. The searches of all
sizes are timed in turn, so that a busy machine is busy for all of them; of each query the least counts.

    python benches/python/bench_search.py
"""

from __future__ import annotations

import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import fmean

from siltstone import Entry, MemoryStore
from siltstone.evaluation.report import percentile
from siltstone.memory.convert import milliseconds

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
sys.path.insert(0, str(Path(__file__).parents[1]))
from common import begin, head, in_turn, least, parts, questions, row, sentences
from reference import lexical

SIZES = (600, 10_000, 100_000)
ROUNDS = 5
LIMIT = 10
CHECKED = 20  # queries that the twin answers
DAY = 200  # entries of a day
FIRST = datetime(2024, 1, 1, tzinfo=UTC)
SESSION = "one"


def main() -> None:
    """Prints the table."""
    said = sentences()
    queries = questions(said)
    begin(f"{len(queries)} queries of 8 words, {ROUNDS} rounds, microseconds")
    with tempfile.TemporaryDirectory() as folder:
        stores = {f"{size:,}": filled(Path(folder, str(size)), said, size) for size in SIZES}
        check(stores["600"], entries(said, 0, SIZES[0]), queries[:CHECKED])
        calls = {
            size: lambda query, store=store: store.search(SESSION, query, limit=LIMIT)
            for size, store in stores.items()
        }
        rounds = [in_turn(calls, queries) for _ in range(ROUNDS)]
        for store in stores.values():
            store.close()
    head("entries", "median", "mean", "p95")
    for size in stores:
        spent = [1e3 * each for each in least([taken[size] for taken in rounds])]
        row(size, percentile(spent, 0.5), fmean(spent), percentile(spent, 0.95))


def check(store: MemoryStore, given: list[Entry], queries: list[str]) -> None:
    """Ends the process unless the store's hits are the twin's."""
    twins = [
        lexical.Entry(each.content, each.source_range, each.role, each.name, milliseconds(each.created_at))
        for each in given
    ]
    for query, expected in zip(queries, lexical.search(queries, twins), strict=True):
        found = [(hit.source_range[0], hit.score) for hit in store.search(SESSION, query, limit=LIMIT)]
        if not found or found != expected[:LIMIT]:
            sys.exit(f"{query!r} finds {found}, expected {expected[:LIMIT]}")


def filled(place: Path, said: list[str], size: int) -> MemoryStore:
    """A store of so many entries, read into memory by a first search."""
    store = MemoryStore.open(place)
    for first, count in parts(size):
        store.index(SESSION, entries(said, first, count))
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


if __name__ == "__main__":
    main()
