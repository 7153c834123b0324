"""How the calls of a turn grow: with messages in context, entries of a session, and sessions of a store.

    python benches/felt/growth.py [--plot docs/design/felt.svg]

A figure is the median of calls, in milliseconds of the processor: what the disk takes is in none of them.
A session that is opened has all of its messages in its view.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from isolation import entries, opened, said
from siltstone import MemoryStore, _native

MESSAGES = (100, 1_000, 10_000, 100_000)
ENTRIES = (100, 1_000, 10_000, 100_000)
SESSIONS = (1, 10, 100, 1_000, 10_000)
OF_A_SESSION = 10  # messages, and entries
AT_ONCE = 5_000  # messages, or entries, that one call writes
QUERY = "stone17 basin23"

Growth = dict[str, dict[int, float]]  # milliseconds by size, of each call


def median(rounds: int, call: Callable[[], object]) -> float:
    """Milliseconds of the processor for one call."""
    spent = []
    for _ in range(rounds):
        begin = time.process_time()
        call()
        spent.append((time.process_time() - begin) * 1e3)
    return statistics.median(spent)


def with_messages(path: Path, found: Growth) -> None:
    """The calls of a session whose context is long."""
    message = {"role": "user", "content": "and then?"}
    for count in MESSAGES:
        with MemoryStore.open(path / f"{count} messages") as store:
            with opened(store, "long") as session, opened(store, "host") as hosted:
                for first in range(0, count, AT_ONCE):
                    session.append(*said(first, min(AT_ONCE, count - first)))
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
            for first in range(0, count, AT_ONCE):
                store.index("large", entries(first, min(AT_ONCE, count - first)))
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


def growth(calls: str) -> Growth:
    return {name: {} for name in calls.split("; ")}


def draw(panels: dict[str, Growth], path: Path) -> None:
    """Draws *panels*, a field for each, with both axes logarithmic."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context({"svg.hashsalt": "siltstone", "svg.fonttype": "none", "font.size": 9}):
        figure = Figure(figsize=(10, 3.6), layout="constrained")
        fields = figure.subplots(1, len(panels), sharey=True)
        for field, (what, calls) in zip(fields, panels.items(), strict=True):
            for name, by_size in calls.items():
                field.plot(list(by_size), list(by_size.values()), marker="o", markersize=3, label=name)
            field.set(xscale="log", yscale="log", xlabel=what)
            field.grid(visible=True, color="#dddddd", linewidth=0.6)
            field.legend(fontsize=7)
        fields[0].set_ylabel("milliseconds of the processor")
        figure.savefig(path, metadata={"Date": None})


def table(what: str, calls: Growth) -> None:
    sizes = sorted({size for by_size in calls.values() for size in by_size})
    print(f"\n| {what} | {' | '.join(f'{size:,}' for size in sizes)} |")
    print("| :--- |" + " ---: |" * len(sizes))
    for name, by_size in calls.items():
        print(f"| {name} | {' | '.join(f'{by_size[size]:.3f}' for size in sizes)} |", flush=True)


def main() -> int:
    """Prints a table of each, and draws them."""
    if _native.build_profile != "release":
        print("a debug build is not worth measuring: make install")
        return 2
    parser = argparse.ArgumentParser()
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw them into that SVG")
    asked = parser.parse_args()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; milliseconds of the processor")
    panels = {
        "messages in context": growth("prepare, nothing new; append; observe, the same list; open"),
        "entries of a session": growth("search; index one entry; open the store, first search"),
        "sessions of a store": growth("append; search; open a new session"),
    }
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory)
        for (what, found), measure in zip(
            panels.items(), (with_messages, with_entries, with_sessions), strict=True
        ):
            measure(path, found)
            table(what, found)
    if asked.plot:
        draw(panels, asked.plot)
    return 0


if __name__ == "__main__":
    sys.exit(main())
