"""The memory of sessions in use: one of 10,000 entries, one of 100,000, and 2,000 small ones.

    python benches/postgres/memory.py

Each is measured in a process of its own, as the growth of its resident set; beside it what the store believes
that it takes, by which it lets go of those used longest ago.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from pathlib import Path

from bench import QUERY, entries, running
from siltstone.postgres import PostgresStore

LARGE = (10_000, 100_000)
KEYS = 2_000
ROOM = 256 << 20  #: bytes that the 2,000 may take


def resident() -> int:
    gc.collect()
    figures = Path("/proc/self/statm").read_text("ascii")
    return int(figures.split()[1]) * os.sysconf("SC_PAGE_SIZE")


def of_one(dsn: str, count: int) -> dict[str, float]:
    with PostgresStore.open(dsn) as store:
        store.search("warm", QUERY)
        before = resident()
        believed = store._mirrors.size
        store.search(f"large {count}", QUERY)
        return {
            "bytes an entry": round((resident() - before) / count),
            "believed": round((store._mirrors.size - believed) / count),
        }


def of_many(dsn: str) -> dict[str, float]:
    with PostgresStore.open(dsn, mirrored=ROOM) as store:
        store.search("warm", QUERY)
        before, grown = resident(), []
        for turn in range(2):
            for number in range(KEYS):
                if turn == 0:
                    store.index(f"small {number}", entries(number, 10))
                assert store.search(f"small {number}", "valve")
            grown.append(round((resident() - before) / 2**20))
        return {
            "room, MiB": ROOM >> 20,
            "believed, MiB": store._mirrors.size >> 20,
            "grown after a round of 2,000, MiB": grown[0],
            "grown after two, MiB": grown[1],
            "in memory": len(store._mirrors),
        }


def main() -> None:
    with running() as server:
        with PostgresStore.open(server.dsn, setup=True) as store:
            store.index("warm", entries(0, 10))
            for count in LARGE:
                for start in range(0, count, 5_000):
                    store.index(f"large {count}", entries(start, 5_000))
        for word in (*map(str, LARGE), "many"):
            subprocess.run([sys.executable, __file__, word, server.dsn], check=True)


if __name__ == "__main__":
    if len(sys.argv) == 1:
        main()
    else:
        what, dsn = sys.argv[1:]
        found = of_many(dsn) if what == "many" else of_one(dsn, int(what))
        print(f"{what}: {json.dumps(found)}", flush=True)
