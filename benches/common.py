"""What every bench needs: the machine and the commit, calls in turn, rows of a table, and texts."""

from __future__ import annotations

import gc
import os
import platform
import re
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

from siltstone import Entry, MemoryStore, Session, ThresholdCompactor, _native
from siltstone.evaluation.report import percentile

CHECKOUT = Path(__file__).parents[1]
WORDS = ("silt", "gravel", "sand", "clay", "river", "delta", "ridge", "basin", "stone", "ash", "moss", "fern")
AT_ONCE = 5_000  # entries, or messages, that one call writes


def release_only() -> None:
    """Ends the process where the core is a debug build."""
    if _native.build_profile != "release":
        sys.exit("a debug build is not worth measuring: make install")


def begin(about: str) -> None:
    """Refuses a debug build, and prints what is measured where."""
    release_only()
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    print(f"{about}; {machine()}, load {load:.1f}; commit {commit()}\n", flush=True)


def machine() -> str:
    """Processor, system, interpreter and database."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    processor = names[0] if names else platform.processor() or platform.machine()
    python = f"CPython {platform.python_version()}, SQLite {sqlite3.sqlite_version}"
    return f"{processor}, {os.cpu_count()} cores, {platform.system()}, {python}"


def commit() -> str:
    """The commit that is measured, and whether the checkout differs from it."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(CHECKOUT), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()

    commit = git("rev-parse", "--short=12", "HEAD") or "unknown"
    return f"{commit} with changes" if git("status", "--porcelain", "--untracked-files=no") else commit


def versions(*packages: str) -> str:
    """The versions of *packages*, as far as they are installed."""
    found = []
    for package in packages:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    return ", ".join(found)


def timed(call: Callable[[], object], now: Callable[[], float] = time.perf_counter) -> float:
    """Milliseconds of *call*, by the clock where *now* is no other one."""
    began = now()
    call()
    return (now() - began) * 1e3


def in_turn(
    calls: Mapping[str, Callable[[Any], object]],
    given: Sequence[Any] | range,
    now: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    """Milliseconds of each call with each of *given*, the calls in turn: a busy minute is everybody's."""
    taken: dict[str, list[float]] = {name: [] for name in calls}
    gc.collect()
    for each in given:
        for name, call in calls.items():
            taken[name].append(timed(lambda call=call, each=each: call(each), now))
    return taken


def least(rounds: Sequence[Sequence[float]]) -> list[float]:
    """Of each place the least of all rounds: what else runs on a machine only adds."""
    return [min(each) for each in zip(*rounds, strict=True)]


def head(first: str, *cells: str) -> None:
    """Prints the head of a table."""
    row(first, *cells)
    row(":---", *("---:" for _ in cells))


def row(*cells: object) -> None:
    """Prints a row: floats with three digits, and integers with commas."""
    formed = (f"{each:.3f}" if isinstance(each, float) else f"{each:,}" if isinstance(each, int) else each
              for each in cells)  # fmt: skip
    print(f"| {' | '.join(map(str, formed))} |", flush=True)


def middle_and_last(spent: Sequence[float]) -> tuple[float, float]:
    """The median, and the 99th percentile."""
    return percentile(spent, 0.5), percentile(spent, 0.99)


def resident() -> float:
    """MB of this process in memory (Linux)."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def text(number: int) -> str:
    """About 600 bytes that no other number has."""
    words = " ".join(f"{WORDS[(number * step) % len(WORDS)]}{number % (97 * step)}" for step in range(1, 60))
    return f"entry {number}: {words}"


def entries(first: int, count: int) -> list[Entry]:
    """*count* entries from *first* on, each of a message of its own."""
    return [Entry(text(number), source_range=(number, number + 1)) for number in range(first, first + count)]


def said(first: int, count: int) -> list[dict[str, str]]:
    """*count* messages from *first* on."""
    return [{"role": "user", "content": text(number)} for number in range(first, first + count)]


def parts(count: int) -> list[tuple[int, int]]:
    """The first place and the size of each call that writes a part of *count*."""
    return [(first, min(AT_ONCE, count - first)) for first in range(0, count, AT_ONCE)]


def opened(store: MemoryStore, name: str) -> Session:
    """A session that never compacts by itself."""
    return Session.open(
        None, name, memory=store, policy=ThresholdCompactor(), model=lambda _: "What was said.",
        context_window=100_000_000,
    )  # fmt: skip


def sentences() -> list[str]:
    """The lines of Python's help pages with more than ten words."""
    whole = " ".join(topics[name] for name in sorted(topics)).split()
    found = re.split(r"(?<=[.:;]) ", " ".join(whole))
    return [each for each in found if len(each.split()) > 10]


def questions(said: Sequence[str], count: int = 200) -> list[str]:
    """Eight words each, of some of the sentences *said*."""
    return [" ".join(each.split()[2:10]) for each in said[:: len(said) // count]][:count]


def draw(panels: Mapping[str, Mapping[str, Mapping[int, float]]], unit: str, path: Path) -> None:
    """Draws *panels*, a field for each, with both axes logarithmic: by size what each call takes."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context({"svg.hashsalt": "siltstone", "svg.fonttype": "none", "font.size": 9}):
        figure = Figure(figsize=(1 + 3 * len(panels), 3.6), layout="constrained")
        fields = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
        for field, (what, calls) in zip(fields, panels.items(), strict=True):
            for name, by_size in calls.items():
                field.plot(list(by_size), list(by_size.values()), marker="o", markersize=3, label=name)
            field.set(xscale="log", yscale="log", xlabel=what)
            field.grid(visible=True, color="#dddddd", linewidth=0.6)
            field.legend(fontsize=7)
        fields[0].set_ylabel(unit)
        figure.savefig(path, metadata={"Date": None})
