"""A store in PostgreSQL beside one in a file, in turn, on the same disk: the calls that a host waits for.

    python benches/postgres/bench.py [--million [ENTRIES]] [--only WORD]

The server is a child of this process, with PostgreSQL's own settings: a commit is on disk when it returns.
SQLite has synchronous=FULL, as always. Both answer the same questions first.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).parents[2]
sys.path.insert(0, str(CHECKOUT / "tests"))

from psycopg_pool import ConnectionPool  # noqa: E402

from servers import Postgres, Proxy, running  # noqa: E402
from siltstone import Entry, MemoryStore, _native  # noqa: E402
from siltstone.errors import StoreBusyError  # noqa: E402
from siltstone.memory.log import NewCompaction, NewMessage  # noqa: E402
from siltstone.postgres import PostgresStore  # noqa: E402

WORDS = [
    f"{first}{second}"
    for first in ["silt", "river", "stone", "clay", "mud", "sand", "gravel", "delta"]
    for second in range(200)
]
TEXT = (
    "The valve number {0} of the {1} was set to {2} bar, and the {3} says that {4} must look at it again. "
    * 3
)


def text(number: int) -> str:
    words = [WORDS[(number * step) % len(WORDS)] for step in (7, 11, 13, 17)]
    return TEXT.format(number, *words)


def entries(start: int, count: int) -> list[Entry]:
    return [Entry(text(n), (n, n + 1), created_at=1_000.0 + n) for n in range(start, start + count)]


def message(number: int) -> NewMessage:
    raw = json.dumps({"role": "user", "content": text(number)})
    return NewMessage(raw, "user", "any", "original", 80, 1_000 + number)


def timed(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1_000


def in_turn(calls: dict[str, Callable[[int], Any]], rounds: int) -> dict[str, list[float]]:
    """The milliseconds of each call, one after the other, so that a busy minute is everybody's."""
    took: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(rounds):
        for name, call in calls.items():
            took[name].append(timed(lambda call=call, number=number: call(number)))
    return took


def told(took: dict[str, list[float]]) -> dict[str, Any]:
    said: dict[str, Any] = {
        name: {"p50": round(statistics.median(ms), 3), "p99": round(statistics.quantiles(ms, n=100)[98], 3)}
        for name, ms in took.items()
    }
    said["ratio of p50"] = round(said["postgres"]["p50"] / said["sqlite"]["p50"], 2)
    return said


def appends(stores: dict[str, Any]) -> dict[str, Any]:
    logs = {name: store.open_log("appended") for name, store in stores.items()}
    versions = {name: log.version() for name, log in logs.items()}

    def call(name: str) -> Callable[[int], None]:
        def one(number: int) -> None:
            versions[name] = logs[name].append(
                [message(number)], expected=versions[name], clock="", write_id=number + 1
            )

        return one

    calls = {name: call(name) for name in stores}
    in_turn(calls, 10)
    return told(in_turn(calls, 200))


def appends_prepared(server: Postgres, sqlite: MemoryStore) -> dict[str, Any]:
    """Without a pooler between: the server keeps the plans of statements."""
    with PostgresStore.open(server.dsn, prepare=True) as prepared:
        return appends({"sqlite": sqlite, "postgres": prepared})


def exhausted(server: Postgres, deadline: float = 0.5) -> dict[str, Any]:
    """The error of a call where all connections of a pool are taken, and its delay."""
    with (
        ConnectionPool(server.dsn, min_size=1, max_size=1, open=True, name="one") as pool,
        PostgresStore.open(pool, deadline=deadline) as store,
    ):
        store.search("10k", QUERY)
        with pool.connection():
            began = time.perf_counter()
            try:
                store.search("10k", QUERY)
            except StoreBusyError as error:
                return {"after, s": round(time.perf_counter() - began, 2), "raises": str(error)}
    raise AssertionError("it waits for ever, or finds a connection")


def commits(stores: dict[str, Any]) -> dict[str, Any]:
    logs = {name: store.open_log("committed") for name, store in stores.items()}
    for log in logs.values():
        log.append([message(n) for n in range(40)], expected=log.version(), clock="", write_id=1)
    versions = {name: log.version() for name, log in logs.items()}

    def call(name: str) -> Callable[[int], None]:
        def one(number: int) -> None:
            row = NewCompaction("p", "r", (), ((0, 40),), (), 40, "", "[]", "", 0, 0, 0, 0, 0)
            receipt = logs[name].commit(
                row, entries(1_000 + number * 40, 40), expected=versions[name], clock="", write_id=number + 1
            )
            versions[name] = receipt.version

        return one

    calls = {name: call(name) for name in stores}
    in_turn(calls, 3)
    return told(
        in_turn({name: (lambda number, call=call: call(number + 3)) for name, call in calls.items()}, 60)
    )


def filled(stores: dict[str, Any], session: str, count: int) -> None:
    for start in range(0, count, 5_000):
        batch = entries(start, min(5_000, count - start))
        for store in stores.values():
            store.index(session, batch)


QUERY = "who must look at valve 4711 of the river7?"


def found(store: Any, session: str) -> list[tuple[str, float]]:
    return [(hit.content, hit.score) for hit in store.search(session, QUERY, limit=5, now=2_000_000.0)]


def searches(stores: dict[str, Any], server: Postgres, session: str) -> dict[str, Any]:
    assert found(stores["postgres"], session) == found(stores["sqlite"], session), (
        "they find different things"
    )
    calls = {name: (lambda _, store=store: store.search(session, QUERY)) for name, store in stores.items()}
    in_turn(calls, 20)
    said = told(in_turn(calls, 300))
    with Proxy(server.port) as proxy, PostgresStore.open(proxy.address()) as store:
        store.search(session, QUERY)
        before = proxy.exchanges
        for _ in range(10):
            store.search(session, QUERY)
        said["round trips a search"] = (proxy.exchanges - before) / 10
    return said


def cold(dsn: str, session: str) -> float:
    with PostgresStore.open(dsn) as store:
        return timed(lambda: store.search(session, QUERY))


def _process(kind: str, place: str, number: int, seconds: float, ready: Any, counts: Any) -> None:
    store = PostgresStore.open(place) if kind == "postgres" else MemoryStore.open(place)
    with store:
        log = store.open_log(f"own-{number}")
        version = log.version()
        ready.wait()
        end, done = time.monotonic() + seconds, 0
        while time.monotonic() < end:
            version = log.append([message(done)], expected=version, clock="", write_id=done + 1)
            done += 1
            if done % 10 == 0:
                store.index(f"own-{number}", entries(done, 4))
                done += 1
            if done % 5 == 0:
                store.search(f"own-{number}", QUERY)
                done += 1
        counts.put(done)


def processes(places: dict[str, str], seconds: float = 5.0, rounds: int = 3) -> dict[str, Any]:
    """Operations a second of eight processes, each on its own session: appends, some entries and searches."""
    method = multiprocessing.get_context("forkserver")
    best = dict.fromkeys(places, 0.0)
    for turn in range(rounds):
        for kind, place in places.items():
            ready, counts = method.Barrier(8), method.SimpleQueue()
            working = [
                method.Process(target=_process, args=(kind, place, turn * 8 + n, seconds, ready, counts))
                for n in range(8)
            ]
            for process in working:
                process.start()
            total = sum(counts.get() for _ in working)
            for process in working:
                process.join()
            best[kind] = max(best[kind], total / seconds)
    return {
        **{kind: round(rate) for kind, rate in best.items()},
        "ratio": round(best["postgres"] / best["sqlite"], 2),
    }


def million(server: Postgres, count: int = 1_000_000) -> list[dict[str, Any]]:
    """A million entries in sessions of 1,000: size, rate and searches at 10,000, 100,000 and the end."""
    each, told_of, took = 1_000, [], 0.0
    stops = [stop for stop in (10_000, 100_000) if stop < count] + [count]
    with PostgresStore.open(server.dsn, schema="million", setup=True) as store:
        empty = _size(server, "million")
        for number in range(-(-count // each)):
            batch = entries(number * each, each)
            took += timed(lambda batch=batch, number=number: store.index(f"s{number}", batch)) / 1_000
            if (number + 1) * each in stops:
                told_of.append(
                    {
                        "entries": (number + 1) * each,
                        "entries a second": round((number + 1) * each / took),
                        "bytes": (size := _size(server, "million")),
                        "bytes an entry": round((size - empty) / (number + 1) / each),
                        "cold search of 1,000, ms": round(
                            min(cold_of(server.dsn, "million", f"s{n}") for n in (1, 3, 5, 7, 9)), 1
                        ),
                        "warm search of 1,000, p50, ms": round(warm_of(server.dsn, "million", "s3"), 3),
                    }
                )
                print(json.dumps(told_of[-1]), file=sys.stderr, flush=True)
    return told_of


def warm_of(dsn: str, schema: str, session: str) -> float:
    with PostgresStore.open(dsn, schema=schema) as store:
        return statistics.median([timed(lambda: store.search(session, QUERY)) for _ in range(200)][20:])


def cold_of(dsn: str, schema: str, session: str) -> float:
    with PostgresStore.open(dsn, schema=schema) as store:
        return timed(lambda: store.search(session, QUERY))


def _size(server: Postgres, schema: str) -> int:
    query = (
        "SELECT sum(pg_total_relation_size(c.oid))::bigint FROM pg_class c JOIN pg_namespace n "
        "ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relkind = 'r'"
    )
    return int(server.rows(query, schema)[0][0])


def main() -> Iterator[tuple[str, Any]]:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--million", nargs="?", type=int, const=1_000_000, metavar="ENTRIES",
        help="Load 1,000,000 entries as well, or so many.",
    )  # fmt: skip
    parser.add_argument("--only", help="Only what has this word in its name.")
    asked = parser.parse_args()
    if _native.build_profile != "release":
        sys.exit("a debug build is not measured")
    parts: dict[str, Callable[[], Any]] = {}
    with running(on_disk=True) as server, tempfile.TemporaryDirectory(dir=tempfile.gettempdir()) as folder:
        yield "server", f"PostgreSQL {server.rows('SHOW server_version')[0][0]}, cores: {os.cpu_count()}"
        with PostgresStore.open(server.dsn, setup=True) as postgres, MemoryStore.open(folder) as sqlite:
            stores: dict[str, Any] = {"sqlite": sqlite, "postgres": postgres}
            parts["append, ms"] = lambda: appends(stores)
            parts["append with prepare=True, ms"] = lambda: appends_prepared(server, sqlite)
            parts["commit of 40 entries, ms"] = lambda: commits(stores)

            def search() -> dict[str, Any]:
                filled(stores, "10k", 10_000)
                return searches(stores, server, "10k")

            parts["warm search of 10,000, ms"] = search
            for count, times in ((10_000, 5), (100_000, 3)):

                def large(count: int = count, times: int = times) -> float:
                    session = f"{count // 1_000}k cold"
                    filled({"postgres": postgres}, session, count)
                    return round(min(cold(server.dsn, session) for _ in range(times)), 1)

                parts[f"cold search of {count:,}, ms"] = large
            parts["operations a second, eight processes"] = lambda: processes(
                {"sqlite": folder, "postgres": server.dsn}
            )
            parts["an exhausted pool"] = lambda: exhausted(server)
            if asked.million:
                parts["a million"] = lambda: million(server, asked.million)
            for name, part in parts.items():
                if asked.only is None or asked.only in name:
                    yield name, part()


if __name__ == "__main__":
    for name, figures in main():
        print(f"{name}: {json.dumps(figures, ensure_ascii=False)}", flush=True)
