"""From opening a store of 100,000 entries to the first answer: from the cache, and from the rows.

Each time is that of a process of its own, from before the store is opened to after its first search; the
import of the package is not in it. The files are in the system's memory. "rows" is the same store without its
cache, opened for reading, so that writing one is not in it; "rows, written" writes one as well, of the index
that the ranker needs.

    python benches/python/bench_opening.py [--entries 100000]
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from siltstone import Entry, MemoryStore

sys.path += [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "peers")]
from common import begin, head, parts, row
from corpus import corpus

ROUNDS = 5
FIRST, STEP = 1_700_000_000, 300  # seconds: when the first entry was said, and to the next one
RANKERS = ("lexical", "cosine")
WAYS = ("cache", "rows", "rows, written")
CHILD = """
import json, sys, time
from siltstone import MemoryStore
path, ranker, read_only = sys.argv[1], sys.argv[2], sys.argv[3] == "rows"
wall, cpu = time.perf_counter(), time.process_time()
store = MemoryStore.open(path, read_only=read_only)
hits = store.search("s", "how does the parser read a file?", ranker=ranker)
first = time.perf_counter() - wall, time.process_time() - cpu
again = time.perf_counter()
store.search("s", "how does the parser read a file?", ranker=ranker)
again = time.perf_counter() - again
found = [(hit.entry_id, hit.score) for hit in hits]
print(json.dumps({"wall": first[0], "cpu": first[1], "again": again, "found": found}))
"""


def main() -> None:
    """Prints the table; ends the process where two ways answer differently."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--entries", type=int, default=100_000)
    count = parser.parse_args().entries
    begin(f"{count:,} entries; medians of {ROUNDS}, the least in parentheses, milliseconds")
    taken: dict[tuple[str, str], list[dict[str, float]]] = {}
    answers: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as directory:
        path, bare, written = (Path(directory, name) for name in ("store", "bare", "written"))
        texts = corpus(count, Path(tempfile.gettempdir()) / "siltstone-texts").texts
        with MemoryStore.open(path) as store:
            for first, size in parts(count):
                numbered = enumerate(texts[first : first + size], first)
                said = [Entry(each, (at, at + 1), created_at=FIRST + at * STEP) for at, each in numbered]
                store.index("s", said)
            for ranker in RANKERS:
                store.search("s", "anything", ranker=ranker)
        shutil.copytree(path, bare)
        shutil.rmtree(bare / "memory" / "cache")
        for _ in range(ROUNDS):
            for ranker in RANKERS:
                for way in WAYS:
                    if way == "rows, written":
                        shutil.copytree(bare, written)
                    one = run({"cache": path, "rows": bare}.get(way, written), ranker, way)
                    shutil.rmtree(written, ignore_errors=True)
                    if answers.setdefault(ranker, one["found"]) != one["found"]:
                        sys.exit(f"{ranker}: {way} answers {one['found']}, and not {answers[ranker]}")
                    taken.setdefault((ranker, way), []).append(one)
    head("ranker", "from", "wall", "CPU", "the same search again")
    for key, times in taken.items():
        row(*key, *(figure([one[what] for one in times]) for what in ("wall", "cpu", "again")))


def run(path: Path, ranker: str, way: str) -> dict[str, float]:
    """The times and the answer of one process."""
    call = [sys.executable, "-c", CHILD, str(path), ranker, way]
    answer = subprocess.run(call, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(answer.stdout)
    return found


def figure(seconds: list[float]) -> str:
    """Median and least, in milliseconds."""
    return f"{statistics.median(seconds) * 1e3:.1f} ({min(seconds) * 1e3:.1f})"


if __name__ == "__main__":
    main()
