"""The cost of a namespace of 100 sessions beside one session of as many entries: warm searches, and memory.

Entries are those of ``bench_search.py``: one session of 10,000, and 100 sessions of 100, which are searched
by themselves and as a namespace. Both are searched in turn, so that a busy machine is busy for both; of each
query the least counts. Memory is what a new process holds more after its searches.

    python benches/python/bench_namespace.py
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench_search import LIMIT, QUERIES, entries, sentences

from siltstone import MemoryStore, _native

SESSIONS, ENTRIES = 100, 100
ROUNDS = 9
NAMESPACE = "acme/user-42"
SHAPES = ("one session", "namespace", "namespace and each session")


def main() -> int:
    """Prints the figures."""
    if _native.build_profile != "release":
        print("a debug build is not worth measuring: make install")
        return 2
    said = sentences()
    queries = [" ".join(text.split()[2:10]) for text in said[:: len(said) // QUERIES]][:QUERIES]
    with tempfile.TemporaryDirectory() as folder:
        filled(Path(folder), said)
        with MemoryStore.open(Path(folder, "one")) as one, MemoryStore.open(Path(folder, "many")) as many:
            searches: dict[str, Callable[[str], object]] = {
                "one session": lambda query: one.search("one", query, LIMIT),
                "namespace": lambda query: many.search("0", query, LIMIT, scope="namespace"),
            }
            least = {shape: [float("inf")] * len(queries) for shape in searches}
            for _ in range(ROUNDS):
                for shape, search in searches.items():
                    for place, query in enumerate(queries):
                        start = time.perf_counter()
                        search(query)
                        least[shape][place] = min(least[shape][place], (time.perf_counter() - start) * 1e6)
        middle = {shape: statistics.median(spent) for shape, spent in least.items()}
        held = {shape: memory(folder, shape) for shape in SHAPES}
    print(f"{len(queries)} queries of 8 words, {ROUNDS} rounds; {os.cpu_count()} cores, "
          f"load {os.getloadavg()[0]:.1f}\n")  # fmt: skip
    print("| | median of a search, us | memory of the indexes, MiB |")
    print("| :--- | ---: | ---: |")
    for shape in SHAPES:
        print(f"| {shape} | {f'{middle[shape]:.0f}' if shape in middle else ''} | {held[shape]:.1f} |")
    ratio = middle["namespace"] / middle["one session"]
    more = held[SHAPES[2]] / held[SHAPES[1]]
    print(f"\nA search takes {ratio:.2f} times as long. Where sessions are searched both ways, memory is "
          f"{more:.2f} times as much.")  # fmt: skip
    return 0


def filled(folder: Path, said: list[str]) -> None:
    """A store with one session, and one with many of a namespace."""
    with MemoryStore.open(folder / "one") as one:
        one.index("one", entries(said, 0, SESSIONS * ENTRIES))
    with MemoryStore.open(folder / "many") as many:
        for number in range(SESSIONS):
            many.open_log(str(number)).open(NAMESPACE)
            many.index(str(number), entries(said, number * ENTRIES, ENTRIES))


def memory(folder: str, shape: str) -> float:
    """MiB that a new process holds more after its searches than before them."""
    command = [sys.executable, __file__, folder, shape]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def searched(folder: str, shape: str) -> None:
    """Searches in this process, and prints what it holds more."""
    name = "one" if shape == SHAPES[0] else "many"
    with MemoryStore.open(Path(folder, name)) as store:
        store.search("nobody", "silt")
        before = resident()
        if shape == SHAPES[0]:
            store.search("one", "silt")
        else:
            store.search("0", "silt", scope="namespace")
        if shape == SHAPES[2]:
            for number in range(SESSIONS):
                store.search(str(number), "silt")
        print(resident() - before)


def resident() -> float:
    """MiB of this process in memory (Linux)."""
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


if __name__ == "__main__":
    if len(sys.argv) == 3:
        searched(sys.argv[1], sys.argv[2])
    else:
        sys.exit(main())
