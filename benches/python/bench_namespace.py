"""The cost of a namespace of 100 sessions beside one session of as many entries: warm searches, and memory.

Entries are those of ``bench_search.py``: one session of 10,000, and 100 sessions of 100, which are searched
by themselves and as a namespace. Both are searched in turn; of each query the least counts. Memory is what a
new process holds more after its searches.

    python benches/python/bench_namespace.py
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from bench_search import LIMIT, entries
from common import begin, head, in_turn, least, questions, resident, row, sentences
from siltstone import MemoryStore

SESSIONS, ENTRIES, ROUNDS = 100, 100, 9
NAMESPACE = "acme/user-42"
SHAPES = ("one session", "namespace", "namespace and each session")


def main() -> None:
    """Prints the figures."""
    said = sentences()
    begin(f"{ROUNDS} rounds")
    with tempfile.TemporaryDirectory() as folder:
        with MemoryStore.open(Path(folder, "one")) as one, MemoryStore.open(Path(folder, "many")) as many:
            one.index("one", entries(said, 0, SESSIONS * ENTRIES))
            for number in range(SESSIONS):
                many.open_log(str(number)).open(NAMESPACE)
                many.index(str(number), entries(said, number * ENTRIES, ENTRIES))
            searches = {
                "one session": lambda query: one.search("one", query, LIMIT),
                "namespace": lambda query: many.search("0", query, LIMIT, scope="namespace"),
            }
            rounds = [in_turn(searches, questions(said)) for _ in range(ROUNDS + 1)][1:]
        head("", "median of a search, us", "memory of the indexes, MB")
        for shape in SHAPES:
            spent = (
                f"{median(least([taken[shape] for taken in rounds])) * 1e3:.0f}" if shape in searches else ""
            )
            command = [sys.executable, __file__, folder, shape]
            held = float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
            row(shape, spent, held)


def searched(folder: str, shape: str) -> None:
    """Searches in this process, and prints how many MB it holds more."""
    with MemoryStore.open(Path(folder, "one" if shape == SHAPES[0] else "many")) as store:
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


if __name__ == "__main__":
    if len(sys.argv) == 3:
        searched(sys.argv[1], sys.argv[2])
    else:
        main()
