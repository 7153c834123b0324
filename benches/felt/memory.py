"""The memory of a process that searches many sessions of one store, one after another.

python benches/felt/memory.py [--sessions 10000] [--entries 100]
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

from isolation import entries
from siltstone import MemoryStore, _native

STEPS = 10


def resident() -> float:
    """MB of this process that are in memory."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def main() -> int:
    """Prints the table."""
    if _native.build_profile != "release":
        print("a debug build is not worth measuring: make install")
        return 2
    parser = argparse.ArgumentParser()
    parser.add_argument("--sessions", type=int, default=10_000)
    parser.add_argument("--entries", type=int, default=100)
    parser.add_argument("--store", type=Path, help="where the store is, or is made and stays")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        path = asked.store or Path(directory) / "store"
        if not path.exists():
            with MemoryStore.open(path) as store:
                for session in range(asked.sessions):
                    store.index(f"session-{session}", entries(session, asked.entries))
        with MemoryStore.open(path) as store:
            print("| sessions searched | MB | a search, ms |\n| ---: | ---: | ---: |")
            print(f"| 0 | {resident():.0f} | |")
            each = asked.sessions // STEPS
            for first in range(0, asked.sessions, each):
                begin = time.perf_counter()
                for session in range(first, first + each):
                    assert store.search(f"session-{session}", "which entry is it?", limit=10)
                spent = (time.perf_counter() - begin) / each * 1e3
                print(f"| {first + each:,} | {resident():.0f} | {spent:.2f} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
