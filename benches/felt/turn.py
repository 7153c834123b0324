"""The calls of a session that a host waits for: each call by itself, on a store in a file.

    python benches/felt/turn.py [--rounds 15] [--sync-ms 2]

A figure is the median of *rounds* calls in milliseconds of the clock, its 99th percentile beside it, and what
one call takes of the processor. Appends and forgetting are on the disk when they return.

With ``--sync-ms``, every sync takes so much longer, and only the rows of many writers are measured.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from siltstone import AsyncSession, CompactionConfig, MemoryStore, Session, ThresholdCompactor

sys.path.insert(0, str(Path(__file__).parents[1]))
from common import begin, entries, head, middle_and_last, opened, parts, row, said, text, timed

LENGTHS = (100, 10_000, 100_000)
WRITERS = (1, 2, 8, 32)
APPENDS = 20  # of each writer
ENTRIES = 60_000
LONG = 20_000  # messages of one compaction
MESSAGE = {"role": "user", "content": "and then?"}

ASKED = "SILTSTONE_BENCH_SYNC_US"
SLOW_SYNC = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>
#define SLOW(NAME) int NAME(int file) { \\
    long us = atol(getenv("SILTSTONE_BENCH_SYNC_US")); \\
    struct timespec time = {us / 1000000, us % 1000000 * 1000}; \\
    nanosleep(&time, 0); \\
    return ((int (*)(int))dlsym(RTLD_NEXT, #NAME))(file); }
SLOW(fdatasync)
SLOW(fsync)
"""


def with_slow_sync(milliseconds: float) -> None:
    """Runs this program again in its place, with a pause before each sync; does nothing in that run."""
    if ASKED in os.environ:
        return
    if sys.platform != "linux":
        raise SystemExit("a sync can only be made slow on Linux")
    library = Path(tempfile.mkdtemp()) / "slow_sync.so"
    command = ["cc", "-O2", "-shared", "-fPIC", "-x", "c", "-", "-o", str(library), "-ldl"]
    subprocess.run(command, input=SLOW_SYNC.encode(), check=True)
    asked = {"LD_PRELOAD": str(library), ASKED: str(round(milliseconds * 1e3))}
    os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **asked})


def take(name: str, rounds: int, call: Callable[[], object]) -> None:
    """Calls *call*, and prints a row."""
    began = time.process_time()
    spent = [timed(call) for _ in range(rounds)]
    row(name, *middle_and_last(spent), (time.process_time() - began) / rounds * 1e3)


def lists(path: Path, rounds: int) -> None:
    """A session with a long list, when nothing is due."""
    for count in LENGTHS:
        with MemoryStore.open(path / str(count)) as store, opened(store, "long") as session:
            for first, size in parts(count):
                session.append(*said(first, size))
            session.prepare()
            name = f"idle prepare, {count:,} messages"
            take(name, rounds, session.prepare)
            take(f"{name}, and its messages read", rounds, lambda s=session: s.prepare().messages)


def writers(path: Path) -> None:
    """Durable appends of threads, each to a session of its own."""
    for count in WRITERS:
        with MemoryStore.open(path / f"{count} writers") as store:

            def append(session: Session) -> None:
                for _ in range(APPENDS):
                    session.append(MESSAGE)

            sessions = [opened(store, str(number)) for number in range(count)]
            threads = [threading.Thread(target=append, args=(session,)) for session in sessions]
            begin = time.perf_counter()
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            rate = count * APPENDS / (time.perf_counter() - begin)
            row(f"durable appends a second, {count} threads: {rate:.0f}", "", "", "")


def calls(path: Path, rounds: int) -> None:
    """The calls of a turn, each again and again."""
    asked = json.dumps({"query": "which entry is it?"})
    with MemoryStore.open(path / "calls") as store, opened(store, "small") as session:
        store.index("small", entries(0, 600))
        session.append(*said(0, 100))
        take("append, one message", rounds * 4, lambda: session.append(MESSAGE))
        assert len(session.search("which entry is it?", 5)) == 5
        take("search for a word of all 600 entries", rounds * 20,
             lambda: store.search("small", "which entry is it?", limit=5))  # fmt: skip
        take("the tool call, a word of all 600 entries", rounds * 20,
             lambda: session.memory_search.call(asked))  # fmt: skip


def compaction(path: Path) -> None:
    """One of many messages, with a model that answers at once; and what an event loop waits meanwhile."""
    config = CompactionConfig(auto_compact_threshold=400, recent_turn_budget=1, max_summary_tokens=40)
    options: dict[str, Any] = {
        "policy": ThresholdCompactor(config), "model": lambda _: "What was said.",
        "context_window": 100_000_000,
    }  # fmt: skip
    with MemoryStore.open(path / "compaction") as store:
        with Session.open(None, "long", memory=store, **options) as session:
            for first, size in parts(LONG):
                session.append(*said(first, size))
            take(f"a compaction of {LONG:,} messages", 1, session.compact)

        async def lag() -> None:
            session = await AsyncSession.open(None, "async", memory=store, **options)
            for first, size in parts(LONG):
                await session.append(*said(first, size))
            task = asyncio.ensure_future(session.compact())
            lags = list[float]()
            while not task.done():
                begin = time.perf_counter()
                await asyncio.sleep(0.001)
                lags.append((time.perf_counter() - begin) * 1e3 - 1)
            await task
            row("lag of the event loop meanwhile; the longest", *middle_and_last(lags), max(lags))
            await session.close()

        asyncio.run(lag())


def forgetting(path: Path) -> None:
    """One text among many."""
    with MemoryStore.open(path / "forget") as store:
        for first, size in parts(ENTRIES):
            store.index("large", entries(first, size))
        left = iter(range(4_711, ENTRIES))
        take(f"forget of one text in {ENTRIES:,}", 2,
             lambda: store.forget(session_id="large", text=text(next(left))))  # fmt: skip


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--sync-ms", type=float, default=0.0, help="how much longer a sync takes")
    asked = parser.parse_args()
    if asked.sync_ms:
        with_slow_sync(asked.sync_ms)
    begin("milliseconds")
    head("call", "p50", "p99", "CPU")
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory)
        if not asked.sync_ms:
            lists(path, asked.rounds)
            calls(path, asked.rounds)
            compaction(path)
            forgetting(path)
        writers(path)


if __name__ == "__main__":
    main()
