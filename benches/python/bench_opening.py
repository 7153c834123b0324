"""From opening a store of 100,000 entries to the first answer: from the cache, and from the rows.

Each time is that of a process of its own, from before the store is opened to after its first search; the
import of the package is not in it. The files are in the system's memory. "rows" is the same store without its
cache, opened for reading, so that writing one is not in it; "rows, written" writes one as well, of the index
that the ranker needs.

    python benches/python/bench_opening.py [--entries 100000] [--rounds 5]
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

from siltstone import Entry, MemoryStore, _native

sys.path.insert(0, str(Path(__file__).parents[1] / "peers"))

from corpus import corpus  # type: ignore[import-not-found]  # beside, not a package

FIRST = 1_700_000_000  # seconds: when the first entry was said
STEP = 300  # seconds to the next one
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


def main() -> int:
    """Prints the table; 1 where two ways answer differently."""
    if _native.build_profile != "release":
        print("a debug build is not worth measuring: make install")
        return 2
    parser = argparse.ArgumentParser()
    parser.add_argument("--entries", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--texts", type=Path, default=Path(tempfile.gettempdir()) / "siltstone-texts")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "store"
        texts = corpus(asked.entries, asked.texts).texts
        fill(path, texts)
        cache = path / "memory" / "cache"
        size = sum(file.stat().st_size for file in cache.iterdir())
        bare, written = Path(directory) / "bare", Path(directory) / "written"
        shutil.copytree(
            path, bare, ignore=lambda folder, _: ["cache"] if Path(folder).name == "memory" else []
        )
        taken: dict[tuple[str, str], list[dict[str, float]]] = {}
        answers: dict[str, object] = {}
        for _ in range(asked.rounds):
            for ranker in RANKERS:
                for way in WAYS:
                    if way == "rows, written":
                        shutil.copytree(bare, written)
                    one = run({"cache": path, "rows": bare}.get(way, written), ranker, way)
                    shutil.rmtree(written, ignore_errors=True)
                    if answers.setdefault(ranker, one["found"]) != one["found"]:
                        print(f"{ranker}: {way} answers {one['found']}, and not {answers[ranker]}")
                        return 1
                    taken.setdefault((ranker, way), []).append(one)
        database = (path / "memory" / "memory.sqlite3").stat().st_size
    mean = statistics.mean(len(text.encode()) for text in texts)
    print(f"{asked.entries:,} entries of {mean:.0f} bytes; database {database / 1e6:.1f} MB, ", end="")
    print(f"cache {size / 1e6:.1f} MB; medians of {asked.rounds}, the least in parentheses.\n")
    print("| ranker | from | wall, ms | CPU, ms | the same search again, ms |")
    print("| :--- | :--- | ---: | ---: | ---: |")
    for (ranker, way), times in taken.items():
        cells = " | ".join(figure([one[what] for one in times]) for what in ("wall", "cpu", "again"))
        print(f"| {ranker} | {way} | {cells} |")
    return 0


def fill(path: Path, texts: list[str]) -> None:
    """A store of one session that has *texts*, with a cache."""
    with MemoryStore.open(path) as store:
        for first in range(0, len(texts), 5_000):
            batch = enumerate(texts[first : first + 5_000], first)
            entries = [Entry(text, (at, at + 1), created_at=FIRST + at * STEP) for at, text in batch]
            store.index("s", entries)
        for ranker in RANKERS:
            store.search("s", "anything", ranker=ranker)


def run(path: Path, ranker: str, way: str) -> dict[str, float]:
    """The time and memory of one process."""
    call = [sys.executable, "-c", CHILD, str(path), ranker, way]
    answer = subprocess.run(call, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(answer.stdout)
    return found


def figure(seconds: list[float]) -> str:
    """Median and least, in milliseconds."""
    return f"{statistics.median(seconds) * 1e3:.1f} ({min(seconds) * 1e3:.1f})"


if __name__ == "__main__":
    sys.exit(main())
