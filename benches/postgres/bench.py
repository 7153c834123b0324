"""A store in PostgreSQL: a million entries, first searches, round trips, and the memory of sessions in use.

    python benches/postgres/bench.py [--entries 1000000] [--only WORD]

The server is a child of this process, with PostgreSQL's own settings: a commit is on disk when it returns.
``siltstone bench`` measures the calls of a turn. Memory is measured in processes of their own, as the growth
of the resident set; beside it what the store believes that it takes.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from siltstone import Entry
from siltstone.postgres import PostgresStore

sys.path += [str(Path(__file__).parents[1]), str(Path(__file__).parents[2] / "tests")]
from common import begin, parts, resident, timed
from servers import Postgres, Proxy, running

PLACES = ["silt", "river", "stone", "clay", "mud", "sand", "gravel", "delta"]
WORDS = [f"{first}{second}" for first in PLACES for second in range(200)]
TEXT = (
    "The valve number {0} of the {1} was set to {2} bar, and the {3} says that {4} must look at it again. "
    * 3
)
QUERY = "who must look at valve 4711 of the river7?"
EACH = 1_000  # entries of a session of the large store
LARGE = {10_000: 5, 100_000: 3}  # entries of a session, and how often it is searched anew
SMALL = 2_000  # sessions of ten entries
ROOM = 256 << 20  # bytes that these may take


def entries(start: int, count: int) -> list[Entry]:
    """Entries of about 330 characters."""
    return [
        Entry(
            TEXT.format(n, *(WORDS[(n * step) % len(WORDS)] for step in (7, 11, 13, 17))),
            (n, n + 1),
            created_at=1_000.0 + n,
        )
        for n in range(start, start + count)
    ]


def first_search(dsn: str, session: str, **options: Any) -> float:
    """Milliseconds of the first search of *session* by a store."""
    with PostgresStore.open(dsn, **options) as store:
        return timed(lambda: store.search(session, QUERY))


def million(server: Postgres, count: int) -> list[dict[str, Any]]:
    """Many entries in sessions of 1,000: size, rate and searches at 10,000, 100,000 and the end."""
    found, took = [], 0.0
    with PostgresStore.open(server.dsn, schema="million", setup=True) as store:
        for number in range(count // EACH):
            batch = entries(number * EACH, EACH)
            took += timed(lambda batch=batch, number=number: store.index(f"s{number}", batch)) / 1_000
            there = (number + 1) * EACH
            if there in (10_000, 100_000, count):
                anew = [first_search(server.dsn, f"s{n}", schema="million") for n in (1, 3, 5, 7, 9)]
                again = median(timed(lambda: store.search("s3", QUERY)) for _ in range(200))
                figures = {"entries": there, "a second": round(there / took), "bytes": size(server)}
                found.append({**figures, "first search, ms": min(anew), "a further one, ms": again})
    return found


def size(server: Postgres) -> int:
    """Bytes of the tables of the large store."""
    query = (
        "SELECT sum(pg_total_relation_size(c.oid))::bigint FROM pg_class c JOIN pg_namespace n "
        "ON n.oid = c.relnamespace WHERE n.nspname = 'million' AND c.relkind = 'r'"
    )
    return int(server.rows(query)[0][0])


def searches(server: Postgres) -> dict[str, float]:
    """Milliseconds of the first search of large sessions."""
    return {
        f"{count:,}": min(first_search(server.dsn, f"large {count}") for _ in range(times))
        for count, times in LARGE.items()
    }


def round_trips(server: Postgres) -> float:
    """Round trips of a search of a session in use."""
    with Proxy(server.port) as proxy, PostgresStore.open(proxy.address()) as store:
        store.search("large 10000", QUERY)
        before = proxy.exchanges
        for _ in range(10):
            store.search("large 10000", QUERY)
        return (proxy.exchanges - before) / 10


def memory(server: Postgres) -> list[dict[str, Any]]:
    """Each in a process of its own."""
    commands = ([sys.executable, __file__, "--memory", str(each), server.dsn] for each in (*LARGE, SMALL))
    return [json.loads(subprocess.run(each, capture_output=True, check=True).stdout) for each in commands]


def held(count: int, dsn: str) -> dict[str, Any]:
    """The bytes of one large session in this process; or of many small ones that share a room."""
    with PostgresStore.open(dsn, mirrored=ROOM) as store:
        store.search("warm", QUERY)
        before, believed = resident(), store._mirrors.size
        if count == SMALL:
            for number in range(2 * SMALL):
                assert store.search(f"small {number % SMALL}", "valve")
            grown = {"room, MB": ROOM / 1e6, "believed, MB": store._mirrors.size / 1e6}
            return {"sessions": SMALL, **grown, "MB": resident() - before, "in memory": len(store._mirrors)}
        store.search(f"large {count}", QUERY)
        believed = (store._mirrors.size - believed) / count
        return {"entries": count, "bytes each": (resident() - before) * 1e6 / count, "believed": believed}


def main() -> None:
    """Prints a line a part."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--entries", type=int, default=1_000_000, help="of the large store")
    parser.add_argument("--only", default="", help="only what has this word in its name")
    parser.add_argument("--memory", nargs=2, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.memory:
        print(json.dumps(held(int(asked.memory[0]), asked.memory[1])))
        return
    measured: dict[str, Callable[[Postgres], Any]] = {
        "first searches, ms": searches,
        "round trips": round_trips,
        "memory": memory,
        "a million": lambda server: million(server, asked.entries),
    }
    with running(on_disk=True) as server:
        begin(f"PostgreSQL {server.rows('SHOW server_version')[0][0]}")
        with PostgresStore.open(server.dsn, setup=True) as store:
            store.index("warm", entries(0, 10))
            for count in LARGE:
                for first, some in parts(count):
                    store.index(f"large {count}", entries(first, some))
            for number in range(SMALL):
                store.index(f"small {number}", entries(number, 10))
        for name, part in measured.items():
            if asked.only in name:
                print(f"{name}: {json.dumps(part(server))}", flush=True)


if __name__ == "__main__":
    main()
