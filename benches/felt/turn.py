"""The calls of a session that a host waits for: each call by itself, on a store in a file.

    python benches/felt/turn.py [--rounds 15] [--sync-ms 2]

A figure is the median of *rounds* calls in milliseconds of the clock, its 99th percentile beside it, and what
one call takes of the processor. Appends and forgetting are on the disk when they return.

With ``--sync-ms``, every sync takes so much longer, and only the rows of many writers are measured.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import os
import sqlite3
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from isolation import entries, opened, said, text
from siltstone import AsyncSession, CompactionConfig, MemoryStore, Session, ThresholdCompactor, _native
from slow_sync import start_again

LENGTHS = (100, 10_000, 100_000)
WRITERS = (1, 2, 8, 32)
APPENDS = 20  # of each writer
ENTRIES = 60_000
LONG = 20_000  # messages of one compaction
PROCESSES, OF_A_PROCESS = 8, 100  # appends of each
OTHERS = bytearray(64 << 20)  # more than the caches of a processor hold


class Figures(list[tuple[str, list[float], float]]):
    """A measurement: a name, milliseconds of each call, and of the processor for one."""

    def take(self, name: str, rounds: int, call: Callable[[int], object]) -> None:
        """Calls *call* with the number of each round."""
        spent, began = list[float](), time.process_time()
        for number in range(rounds):
            begin = time.perf_counter()
            call(number)
            spent.append((time.perf_counter() - begin) * 1e3)
        self.append((name, sorted(spent), (time.process_time() - began) / rounds * 1e3))
        median, last = statistics.median(spent), sorted(spent)[int(len(spent) * 0.99)]
        print(f"| {name} | {median:.3f} | {last:.3f} | {self[-1][2]:.3f} |", flush=True)


def lists(found: Figures, path: Path, rounds: int) -> None:
    """The cost of a session with a long list."""
    for count in LENGTHS:
        with MemoryStore.open(path / str(count)) as store:
            with opened(store, "long") as session:
                for first in range(0, count, 5_000):
                    session.append(*said(first, min(5_000, count - first)))
                session.prepare()
                found.take(
                    f"idle prepare, {count:,} messages", rounds, lambda _, session=session: session.prepare()
                )
                found.take(
                    f"idle prepare, {count:,} messages, and its messages read", rounds,
                    lambda _, session=session: session.prepare().messages,
                )  # fmt: skip
            found.take(
                f"opening a view of {count:,} messages",
                3,
                lambda _, store=store: opened(store, "long").close(),
            )
            found.take(
                f"opening a view of {count:,} messages, and its first prepare", 3,
                lambda _, store=store: first_prepare(store),
            )  # fmt: skip
    with MemoryStore.open(path / "lists") as store, opened(store, "host") as session:
        host = said(0, 10_000)
        session.observe(host)
        found.take("observe of 10,000 messages, the same objects", rounds, lambda _: session.observe(host))
        copies = [json.loads(json.dumps(host)) for _ in range(rounds)]
        found.take(
            "observe of 10,000 messages, fresh copies", rounds, lambda each: session.observe(copies[each])
        )


def first_prepare(store: MemoryStore) -> None:
    """The calls that a host waits for after a restart."""
    with opened(store, "long") as session:
        session.prepare()


def writers(path: Path) -> None:
    """Durable appends of threads, each to a session of its own."""
    for count in WRITERS:
        with MemoryStore.open(path / f"{count} writers") as store:
            sessions = [opened(store, str(number)) for number in range(count)]

            def append(session: Session) -> None:
                for _ in range(APPENDS):
                    session.append({"role": "user", "content": "and then?"})

            threads = [threading.Thread(target=append, args=(session,)) for session in sessions]
            begin = time.perf_counter()
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            rate = count * APPENDS / (time.perf_counter() - begin)
            print(f"| durable appends a second, {count} threads: {rate:.0f} | | | |", flush=True)


def tasks(path: Path) -> None:
    """Durable appends of tasks on one event loop, each to a session of its own."""

    async def append(session: AsyncSession) -> None:
        for _ in range(APPENDS):
            await session.append({"role": "user", "content": "and then?"})

    async def rate(count: int) -> float:
        with MemoryStore.open(path / f"{count} tasks") as store:
            opening = [
                AsyncSession.open(
                    None, str(number), memory=store, policy=ThresholdCompactor(),
                    model=lambda _: "What was said.", context_window=100_000_000,
                )
                for number in range(count)
            ]  # fmt: skip
            sessions = await asyncio.gather(*opening)
            begin = time.perf_counter()
            await asyncio.gather(*map(append, sessions))
            spent = time.perf_counter() - begin
            await asyncio.gather(*(session.close() for session in sessions))
            return count * APPENDS / spent

    for count in WRITERS:
        found = asyncio.run(rate(count))
        print(f"| durable appends a second, {count} tasks: {found:.0f} | | | |", flush=True)


def flush() -> None:
    """Empties the processor's caches, as what a host does between two turns."""
    OTHERS[:] = bytes(len(OTHERS))


def cold(call: Callable[[], object]) -> float:
    """Milliseconds of *call* after the caches were emptied."""
    flush()
    begin = time.perf_counter()
    call()
    return (time.perf_counter() - begin) * 1e3


def plain_database(path: Path) -> sqlite3.Connection:
    """A database of one table without an index. Its commits are on the disk when they return."""
    plain = sqlite3.connect(path / "plain.db", isolation_level=None)
    plain.execute("PRAGMA journal_mode=WAL")
    plain.execute("PRAGMA synchronous=FULL")
    plain.execute("CREATE TABLE said (id INTEGER PRIMARY KEY, text)")
    return plain


def calls(found: Figures, path: Path, rounds: int) -> None:
    """The calls of a turn, each again and again, and all of them once with cold caches."""
    message = {"role": "user", "content": "and then?"}
    asked = json.dumps({"query": "which entry is it?"})
    with MemoryStore.open(path / "calls") as store, opened(store, "small") as session:
        store.index("small", entries(0, 600))
        session.append(*said(0, 100))
        found.take("append, one message", rounds * 4, lambda _: session.append(message))
        found.take(
            "search for a word of all 600 entries", rounds * 20,
            lambda _: store.search("small", "which entry is it?", limit=5),
        )  # fmt: skip
        session.memory_search.call(asked)
        found.take(
            "the tool call, a word of all 600 entries",
            rounds * 20,
            lambda _: session.memory_search.call(asked),
        )
    with MemoryStore.open(path / "cold") as store, opened(store, "small") as session:
        store.index("small", entries(0, 1_000))
        session.append(*said(0, 100))
        session.memory_search.call(asked)
        parts: dict[str, Callable[[], object]] = {
            "append": partial(session.append, message),
            "prepare": session.prepare,
            "the tool call": partial(session.memory_search.call, asked),
        }
        taken: dict[str, list[float]] = {name: [] for name in parts}
        floor = list[float]()
        with contextlib.closing(plain_database(path)) as plain:
            for _ in range(rounds * 4):
                for name, call in parts.items():
                    taken[name].append(cold(call))
                floor.append(cold(partial(plain.execute, "INSERT INTO said (text) VALUES ('and then?')")))
        spent = [sum(of_turn) for of_turn in zip(*taken.values(), strict=True)]
        told("a cold turn, 1,000 entries: append, prepare, the tool call", spent)
        for name, of_part in taken.items():
            told(f"of it {name}", of_part)
        told("for comparison: a cold, durable insert of SQLite alone", floor)


def told(name: str, spent: list[float]) -> None:
    """A row of the table."""
    spent.sort()
    print(f"| {name} | {statistics.median(spent):.3f} | {spent[int(len(spent) * 0.99)]:.3f} | |", flush=True)


def asynchronous(path: Path, rounds: int) -> None:
    """An ``AsyncSession`` beside a ``Session``, the calls in turn."""
    message = {"role": "user", "content": "and then?"}

    async def both() -> None:
        with MemoryStore.open(path / "async") as store:
            plain = opened(store, "plain")
            session = await AsyncSession.open(
                None, "async", memory=store, policy=ThresholdCompactor(), model=lambda _: "What was said.",
                context_window=100_000_000,
            )  # fmt: skip
            plain.append(*said(0, 100))
            await session.append(*said(0, 100))
            for name, call, twin in (
                ("append, one message", partial(plain.append, message), partial(session.append, message)),
                ("idle prepare, 100 messages", plain.prepare, session.prepare),
            ):
                call()
                await twin()
                spent: tuple[list[float], list[float]] = ([], [])
                for _ in range(rounds * 4):
                    begin = time.perf_counter()
                    call()
                    middle = time.perf_counter()
                    await twin()
                    spent[0].append((middle - begin) * 1e3)
                    spent[1].append((time.perf_counter() - middle) * 1e3)
                told(f"Session: {name}", spent[0])
                told(f"AsyncSession: {name}", spent[1])
            await session.close()
            plain.close()
        hops = list[float]()
        for _ in range(rounds * 4):
            begin = time.perf_counter()
            await asyncio.to_thread(str)
            hops.append((time.perf_counter() - begin) * 1e3)
        told("for comparison: asyncio.to_thread of a function that does nothing", hops)

    asyncio.run(both())


def long_config() -> CompactionConfig:
    return CompactionConfig(auto_compact_threshold=400, recent_turn_budget=1, max_summary_tokens=40)


def compaction(found: Figures, path: Path) -> None:
    """One of many messages, with a model that answers at once."""
    options: dict[str, Any] = {
        "policy": ThresholdCompactor(long_config()), "model": lambda _: "What was said.",
        "context_window": 100_000_000,
    }  # fmt: skip
    with MemoryStore.open(path / "compaction") as store:
        with Session.open(None, "long", memory=store, **options) as session:
            for first in range(0, LONG, 5_000):
                session.append(*said(first, 5_000))
            found.take(f"a compaction of {LONG:,} messages", 1, lambda _: session.compact())

        async def lag() -> None:
            session = await AsyncSession.open(None, "async", memory=store, **options)
            for first in range(0, LONG, 5_000):
                await session.append(*said(first, 5_000))
            task = asyncio.ensure_future(session.compact())
            lags = list[float]()
            while not task.done():
                begin = time.perf_counter()
                await asyncio.sleep(0.001)
                lags.append((time.perf_counter() - begin) * 1e3 - 1)
            await task
            lags.sort()
            print(
                f"| longest lag of the event loop meanwhile | {lags[-1]:.3f} | | |\n"
                f"| p99 of it | {lags[int(len(lags) * 0.99)]:.3f} | | |", flush=True,
            )  # fmt: skip
            await session.close()

        asyncio.run(lag())


def appending(path: Path, name: str, answer: Any) -> None:
    """The work of one of several processes: appends to a session of its own, and tells how long each took."""
    with MemoryStore.open(path) as store, opened(store, name) as session:
        answer.send(None)
        answer.recv()  # all are ready
        spent = list[float]()
        for _ in range(OF_A_PROCESS):
            begin = time.perf_counter()
            session.append({"role": "user", "content": "and then?"})
            spent.append((time.perf_counter() - begin) * 1e3)
        answer.send(spent)


def processes(path: Path) -> None:
    """Durable appends of processes, each to a session of its own of one store."""
    context = multiprocessing.get_context("spawn")
    for count in (1, PROCESSES):
        held = []
        for number in range(count):
            ours, theirs = context.Pipe()
            process = context.Process(
                target=appending, args=(path / f"{count} processes", str(number), theirs)
            )
            process.start()
            ours.recv()
            held.append((process, ours))
        for _, ours in held:
            ours.send(None)
        spent = [each for _, ours in held for each in ours.recv()]
        for process, _ in held:
            process.join()
            if process.exitcode:
                raise SystemExit("a process that appends has failed")
        told(f"append, {count} processes", spent)
        print(f"| the longest of them | {spent[-1]:.3f} | | |", flush=True)


def forgetting(found: Figures, path: Path) -> None:
    """One text among many."""
    with MemoryStore.open(path / "forget") as store:
        for first in range(0, ENTRIES, 5_000):
            store.index("large", entries(first, 5_000))
        found.take(
            f"forget of one text in {ENTRIES:,}", 2,
            lambda each: store.forget(session_id="large", text=text(4_711 + each)),
        )  # fmt: skip


def main() -> int:
    """Prints the table."""
    if _native.build_profile != "release":
        print("a debug build is not worth measuring: make install")
        return 2
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--sync-ms", type=float, default=0.0, help="how much longer a sync takes")
    asked = parser.parse_args()
    if asked.sync_ms:
        start_again(asked.sync_ms)
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; milliseconds\n")
    print("| call | p50 | p99 | CPU |\n| :--- | ---: | ---: | ---: |")
    found = Figures()
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory)
        if asked.sync_ms:
            writers(path)
            tasks(path)
            return 0
        lists(found, path, asked.rounds)
        calls(found, path, asked.rounds)
        asynchronous(path, asked.rounds)
        writers(path)
        tasks(path)
        processes(path)
        compaction(found, path)
        forgetting(found, path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
