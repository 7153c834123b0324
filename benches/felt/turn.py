"""What a host feels of a session: each call by itself, on a store in a file.

    python benches/felt/turn.py [--rounds 15]

A figure is the median of *rounds* calls in milliseconds of the clock, its 99th percentile beside it, and what
one call takes of the processor. Appends and forgetting are on the disk when they return.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from isolation import entries, opened, said, text
from siltstone import (
    AsyncSession,
    CompactionConfig,
    MemoryStore,
    Session,
    ThresholdCompactor,
    _native,
)

LENGTHS = (100, 10_000, 100_000)
WRITERS = (1, 8, 32)
APPENDS = 20  # of each writer
ENTRIES = 60_000
LONG = 20_000  # messages of one compaction


class Figures(list[tuple[str, list[float], float]]):
    """What was measured: a name, milliseconds of each call, and of the processor for one."""

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
    """What a session costs whose list is long."""
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
                f"opening a view of {count:,} messages",
                3,
                lambda _, store=store: opened(store, "long").close(),
            )
    with MemoryStore.open(path / "lists") as store, opened(store, "host") as session:
        host = said(0, 10_000)
        session.observe(host)
        found.take("observe of 10,000 messages, the same objects", rounds, lambda _: session.observe(host))
        copies = [json.loads(json.dumps(host)) for _ in range(rounds)]
        found.take(
            "observe of 10,000 messages, fresh copies", rounds, lambda each: session.observe(copies[each])
        )


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


def calls(found: Figures, path: Path, rounds: int) -> None:
    """A session that is not async, and one that is."""
    message = {"role": "user", "content": "and then?"}
    with MemoryStore.open(path / "calls") as store, opened(store, "small") as session:
        store.index("small", entries(0, 600))
        session.append(*said(0, 100))
        found.take("append, one message", rounds * 4, lambda _: session.append(message))
        found.take(
            "search, 600 entries", rounds * 20, lambda _: store.search("small", "which entry is it?", limit=5)
        )

    async def asynchronous() -> None:
        with MemoryStore.open(path / "async") as store:
            session = await AsyncSession.open(
                None, "small", memory=store, policy=ThresholdCompactor(), model=lambda _: "What was said.",
                context_window=100_000_000,
            )  # fmt: skip
            await session.append(*said(0, 100))
            for name, call in (
                ("AsyncSession: append, one message", lambda: session.append(message)),
                ("AsyncSession: idle prepare, 100 messages", session.prepare),
            ):
                spent = list[float]()
                for _ in range(rounds * 4):
                    begin = time.perf_counter()
                    await call()
                    spent.append((time.perf_counter() - begin) * 1e3)
                spent.sort()
                print(f"| {name} | {statistics.median(spent):.3f} | {spent[int(len(spent) * 0.99)]:.3f} | |")
            await session.close()

    asyncio.run(asynchronous())


def compaction(found: Figures, path: Path) -> None:
    """One of many messages, with a model that answers at once."""
    config = CompactionConfig(auto_compact_threshold=400, recent_turn_budget=1, max_summary_tokens=40)
    with MemoryStore.open(path / "compaction") as store:
        session = Session.open(
            None, "long", memory=store, policy=ThresholdCompactor(config), model=lambda _: "What was said.",
            context_window=100_000_000,
        )  # fmt: skip
        for first in range(0, LONG, 5_000):
            session.append(*said(first, 5_000))
        found.take(f"a compaction of {LONG:,} messages", 1, lambda _: session.compact())
        session.close()


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
    asked = parser.parse_args()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; milliseconds\n")
    print("| call | p50 | p99 | CPU |\n| :--- | ---: | ---: | ---: |")
    found = Figures()
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory)
        lists(found, path, asked.rounds)
        calls(found, path, asked.rounds)
        writers(path)
        compaction(found, path)
        forgetting(found, path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
