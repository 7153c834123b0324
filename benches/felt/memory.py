"""The memory of a process that searches 10,000 sessions of one store, one after another.

python benches/felt/memory.py [--sessions 10000]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from siltstone import MemoryStore

sys.path.insert(0, str(Path(__file__).parents[1]))
from common import begin, entries, head, resident, row, timed

STEPS, ENTRIES = 10, 100


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--sessions", type=int, default=10_000)
    sessions = parser.parse_args().sessions
    begin(f"{sessions:,} sessions of {ENTRIES} entries")
    with tempfile.TemporaryDirectory() as path:
        with MemoryStore.open(path) as store:
            for session in range(sessions):
                store.index(f"session-{session}", entries(session, ENTRIES))
        with MemoryStore.open(path) as store:

            def search(first: int, count: int) -> None:
                for session in range(first, first + count):
                    assert store.search(f"session-{session}", "which entry is it?", limit=10)

            head("sessions searched", "MB", "a search, ms")
            row(0, resident(), "")
            each = sessions // STEPS
            for first in range(0, sessions, each):
                spent = timed(lambda first=first: search(first, each)) / each
                row(first + each, resident(), spent)


if __name__ == "__main__":
    main()
