"""The waits of one session while another one of its store does something long.

A store has sessions of 60,000 entries and one of 60,000 messages. While those are rebuilt, checked,
forgotten, deleted or loaded, a small session searches, prepares and appends, one call after another; what
counts is the longest of its calls. "alone" is the same session while nobody else is at work: what the disk
takes by itself.

    python benches/felt/isolation.py [--entries 60000] [--rebuilding 5]
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from siltstone import MemoryStore

sys.path.insert(0, str(Path(__file__).parents[1]))
from common import begin, entries, head, middle_and_last, opened, parts, row, said, text

QUIET = 2.0  # seconds that "alone" is watched
CALLS = ("search", "prepare", "append")


def fill(path: Path, count: int, sessions: int) -> None:
    """Makes the store: nothing in it was searched yet."""
    with MemoryStore.open(path) as store:
        for session in range(sessions):
            for first, size in parts(count):
                store.index(f"large-{session}", entries(first, size))
        with opened(store, "long") as session:
            for first, size in parts(count):
                session.append(*said(first, size))
        with opened(store, "small") as session:
            session.append(*said(0, 100))
        store.index("small", entries(0, 100))


class Watch:
    """The small session, which calls again and again in a thread of its own."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._session = opened(store, "small")
        self._is_done = threading.Event()
        self.waits: dict[str, list[float]] = {name: [] for name in CALLS}
        self._calls: dict[str, Callable[[], Any]] = {
            "search": lambda: store.search("small", "which entry is it?", limit=10),
            "prepare": self._session.prepare,
            "append": lambda: self._session.append({"role": "user", "content": "and then?"}),
        }
        for call in self._calls.values():
            call()  # what is first is not what is waited for here

    def _run(self) -> None:
        while not self._is_done.is_set():
            for name, call in self._calls.items():
                begin = time.perf_counter()
                call()
                self.waits[name].append((time.perf_counter() - begin) * 1e3)
            time.sleep(0.001)

    def during(self, work: Iterable[Callable[[], object]]) -> float:
        """Seconds that *work* took, each of it in a thread of its own."""
        others = [threading.Thread(target=each) for each in work]
        own = threading.Thread(target=self._run)
        begin = time.perf_counter()
        own.start()
        for thread in others:
            thread.start()
        for thread in others:
            thread.join()
        spent = time.perf_counter() - begin
        self._is_done.set()
        own.join()
        self._session.close()
        return spent


def search(session: str, store: MemoryStore) -> None:
    """The first search of a session, which makes its index."""
    store.search(session, "which entry is it?", limit=10)


def kinds(sessions: int) -> dict[str, list[Callable[[MemoryStore], object]]]:
    """The work of others, by name; each runs in a thread of its own."""
    names = [f"large-{number}" for number in range(sessions)]
    return {
        "alone": [lambda _: time.sleep(QUIET)],
        "one is rebuilt": [partial(search, names[0])],
        f"{sessions} are rebuilt": [partial(search, name) for name in names],
        "the store is checked": [lambda store: store.check()],
        "one is loaded": [lambda store: opened(store, "long").close()],
        "a text of one is forgotten": [lambda store: store.forget(session_id=names[0], text=text(4711))],
        "one is deleted": [lambda store: store.delete_session(names[1])],
    }


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--entries", type=int, default=60_000)
    parser.add_argument("--rebuilding", type=int, default=5)
    asked = parser.parse_args()
    begin(f"{asked.rebuilding} sessions of {asked.entries:,} entries, milliseconds")
    with tempfile.TemporaryDirectory() as directory:
        whole, copy = Path(directory) / "whole", Path(directory) / "copy"
        fill(whole, asked.entries, asked.rebuilding)
        head("meanwhile", "s", "calls", *(cell for name in CALLS for cell in (f"{name}, longest", "p99")))
        for name, work in kinds(asked.rebuilding).items():
            shutil.copytree(whole, copy)
            os.sync()  # else every append waits until the copy is on the disk
            with MemoryStore.open(copy) as store:
                watch = Watch(store)
                spent = watch.during([partial(each, store) for each in work])
            shutil.rmtree(copy)
            waits = [watch.waits[each] for each in CALLS]
            cells = [cell for each in waits for cell in (max(each), middle_and_last(each)[1])]
            row(name, spent, sum(map(len, waits)), *cells)


if __name__ == "__main__":
    main()
