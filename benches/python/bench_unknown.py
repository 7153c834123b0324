"""The cost of a search with words that no entry has: each is looked for with one edit.

Entries are sentences of Python's help pages, of English alone or with some in four other languages; a query
is four words of them and 0, 1 or 3 more with a typo. Of each query the least of all rounds counts.

    python benches/python/bench_unknown.py
"""

from __future__ import annotations

import itertools
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from bench_search import SESSION, SIZES, sentences

from siltstone import Entry, MemoryStore, _native

QUERIES, ROUNDS = 100, 5
UNKNOWN = (0, 1, 3)
OTHERS = (
    "Der Fluss trägt den Schlamm in die Mündung und die Stadt liegt nicht weit davon entfernt",
    "El río lleva el lodo hasta la desembocadura y la ciudad no está muy lejos de allí",
    "Le fleuve porte la boue jusque dans le delta et la ville ne se trouve pas très loin",
    "Il fiume porta il fango fino alla foce e la città non è molto lontana da questo posto",
)


def main() -> int:
    """Prints the table."""
    if _native.build_profile != "release":
        print("a debug build is not worth measuring: make install")
        return 2
    said = sentences()
    known = [" ".join(text.split()[2:6]) for text in said[:: len(said) // QUERIES]][:QUERIES]
    load = os.getloadavg()[0]
    print(f"{QUERIES} queries, {ROUNDS} rounds; {os.cpu_count()} cores, load {load:.1f}; microseconds\n")
    print("| entries | languages | unknown words | median | p99 |")
    print("| ---: | ---: | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory() as folder:
        for size, languages in itertools.product(SIZES, (1, 1 + len(OTHERS))):
            with MemoryStore.open(Path(folder, f"{size}-{languages}")) as store:
                texts = list(OTHERS[: languages - 1])
                texts += [said[number % len(said)] for number in range(size - len(texts))]
                store.index(SESSION, [Entry(text, created_at=0.0) for text in texts])
                store.search(SESSION, said[0])
                for unknown in UNKNOWN:
                    spent = sorted(timed(store, with_typos(known, words(said), unknown)))
                    p99 = spent[int(len(spent) * 0.99)]
                    median = statistics.median(spent)
                    print(f"| {size:,} | {languages} | {unknown} | {median:.0f} | {p99:.0f} |")
    return 0


def words(said: list[str]) -> list[str]:
    """Some of the words that entries have, of 6 to 12 letters."""
    every = {word for text in said for word in text.lower().split()}
    plain = sorted(word for word in every if word.isascii() and word.isalpha() and 6 <= len(word) <= 12)
    return plain[:: len(plain) // (4 * QUERIES)]


def with_typos(known: list[str], words: list[str], count: int) -> list[str]:
    """The queries, each with so many words more that have a typo."""
    added = (typo(words[number % len(words)]) for number in itertools.count())
    return [" ".join([query, *itertools.islice(added, count)]) for query in known]


def typo(word: str) -> str:
    """The word with two letters in its middle swapped, and one added: most are near to no word."""
    middle = len(word) // 2
    return word[: middle - 1] + word[middle] + word[middle - 1] + word[middle + 1 :] + "x"


def timed(store: MemoryStore, queries: list[str]) -> list[float]:
    """Microseconds of each query, the least of all rounds."""
    least = [float("inf")] * len(queries)
    for _ in range(ROUNDS):
        for place, query in enumerate(queries):
            start = time.perf_counter()
            store.search(SESSION, query)
            least[place] = min(least[place], (time.perf_counter() - start) * 1e6)
    return least


if __name__ == "__main__":
    sys.exit(main())
