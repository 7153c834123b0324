"""How the calls of a turn grow: with messages in context, entries of a session, and sessions of a store.

    python benches/felt/growth.py [--plot docs/design/felt.svg]

A figure is the median of calls, in milliseconds of the processor: what the disk takes is in none of them.
A session that is opened has all of its messages in its view.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from siltstone import MemoryStore

sys.path.insert(0, str(Path(__file__).parents[1]))
from common import begin, draw, entries, head, opened, parts, row, said, timed

MESSAGES = (100, 1_000, 10_000, 100_000)
ENTRIES = (100, 1_000, 10_000, 100_000)
SESSIONS = (1, 10, 100, 1_000, 10_000)
OF_A_SESSION = 10  # messages, and entries
QUERY = "stone17 basin23"

Growth = dict[str, dict[int, float]]  # milliseconds by size, of each call


def median(rounds: int, call: Callable[[], object]) -> float:
    """Milliseconds of the processor for one call."""
    return statistics.median(timed(call, time.process_time) for _ in range(rounds))


def with_messages(path: Path, found: Growth) -> None:
    """The calls of a session whose context is long."""
    message = {"role": "user", "content": "and then?"}
    for count in MESSAGES:
        with MemoryStore.open(path / f"{count} messages") as store:
            with opened(store, "long") as session, opened(store, "host") as hosted:
                for first, size in parts(count):
                    session.append(*said(first, size))
                session.prepare()
                found["prepare, nothing new"][count] = median(30, session.prepare)
                found["append"][count] = median(30, lambda session=session: session.append(message))
                host = said(0, count)
                hosted.observe(host)
                found["observe, the same list"][count] = median(
                    10, lambda hosted=hosted, host=host: hosted.observe(host)
                )
            found["open"][count] = median(
                1 if count > 10_000 else 3, lambda store=store: opened(store, "long").close()
            )


def with_entries(path: Path, found: Growth) -> None:
    """The calls of a session that has discarded much."""
    for count in ENTRIES:
        with MemoryStore.open(path / f"{count} entries") as store:
            for first, size in parts(count):
                store.index("large", entries(first, size))
            with opened(store, "large") as session:
                session.search(QUERY)
                found["search"][count] = median(50, lambda session=session: session.search(QUERY))
                found["index one entry"][count] = median(
                    20, lambda store=store, count=count: store.index("large", entries(count, 1))
                )
        found["open the store, first search"][count] = median(3, lambda count=count: cold(path, count))


def cold(path: Path, count: int) -> None:
    with MemoryStore.open(path / f"{count} entries") as store:
        store.search("large", QUERY)


def with_sessions(path: Path, found: Growth) -> None:
    """The calls of one session in a store of many."""
    message = {"role": "user", "content": "and then?"}
    with MemoryStore.open(path / "sessions") as store:
        made = 0
        for count in SESSIONS:
            for number in range(made, count):
                store.index(f"session-{number}", entries(number, OF_A_SESSION))
            made = count
            names = iter(range(1_000_000))
            with opened(store, "session-0") as session:
                session.append(*said(0, OF_A_SESSION))
                session.search(QUERY)
                found["append"][count] = median(30, lambda session=session: session.append(message))
                found["search"][count] = median(50, lambda session=session: session.search(QUERY))
            found["open a new session"][count] = median(
                20, lambda names=names, count=count: opened(store, f"new-{count}-{next(names)}").close()
            )


def main() -> None:
    """Prints a table of each, and draws them."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw them into that SVG")
    asked = parser.parse_args()
    begin("milliseconds of the processor")
    panels: dict[str, Growth] = {}
    with tempfile.TemporaryDirectory() as directory:
        for what, measure in (
            ("messages in context", with_messages),
            ("entries of a session", with_entries),
            ("sessions of a store", with_sessions),
        ):
            panels[what] = found = defaultdict(dict)
            measure(Path(directory), found)
            head(what, *(f"{size:,}" for size in next(iter(found.values()))))
            for name, by_size in found.items():
                row(name, *by_size.values())
            print()
    if asked.plot:
        draw(panels, "milliseconds of the processor", asked.plot)


if __name__ == "__main__":
    main()
