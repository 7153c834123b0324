"""``siltstone bench``: measures the times of the calls of a turn on this machine."""

from __future__ import annotations

import gc
import platform
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Final

import typer

from siltstone import __version__
from siltstone.cli.stores import AsJson, Place, line, open_place, parts_of, print_json, progress, refusals
from siltstone.memory import Entry
from siltstone.memory.opening import is_database
from siltstone.session import Session
from siltstone.systems.meerkat import CompactionConfig, ThresholdCompactor

# ``siltstone bench``: measures the times of the calls of a turn on this machine.

_REPEATS: Final = 200  #: calls of each kind; their median and their 99th percentile are printed
_BATCH: Final = 500  #: messages in one call while the session is filled
_WINDOW: Final = 1_000_000


def bench(
    messages: Annotated[
        int, typer.Option(min=100, help="Messages of the session, and entries of its memory.")
    ] = 10_000,
    store: Annotated[
        str | None,
        typer.Option(
            help="Where to measure: a directory on the disk in question, or postgresql://USER@HOST/DATABASE. "
            "[default: the directory for temporary files]"
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure the calls of a turn on this machine.

    It makes a store of its own, fills it with made-up messages, and takes it away again: a new directory, or
    a new schema of a database, which needs a role that may create one.

    Example: siltstone bench --messages 1000
    """
    with refusals(), progress(hidden=as_json) as bar:
        task = bar.add_task("measuring", total=6)
        with _passing(store) as place:
            times = _measured(place, messages, lambda: bar.advance(task))
    machine = {"siltstone": __version__, "python": platform.python_version(), "machine": platform.machine()}
    if as_json:
        print_json({**machine, "messages": messages, "microseconds": times})
        return
    line(f"siltstone {__version__}, Python {machine['python']}, {machine['machine']}, {messages:,} messages")
    line(f"{'':<36}{'median':>12}{'99 %':>12}", "bold")
    for name, found in times.items():
        line(f"{name:<36}{_shown(found['p50']):>12}{_shown(found['p99']):>12}")


@contextmanager
def _passing(store: str | None) -> Iterator[Place]:
    """The place of a new store, which is taken away at the end."""
    if store is None or not is_database(store):
        with tempfile.TemporaryDirectory(prefix="siltstone-bench-", dir=store) as folder:
            yield folder
        return
    from siltstone.postgres.administration import passing_schema

    conninfo, _ = parts_of(store)
    with passing_schema(conninfo, "siltstone_bench") as schema:
        yield f"{conninfo}#{schema}"


def _measured(place: Place, count: int, step: Callable[[], object]) -> dict[str, dict[str, float]]:
    """Median and 99th percentile of each call, in microseconds."""
    times = {}
    with open_place(place, read_only=False) as store:
        for start in range(0, count, _BATCH):
            texts = (_text(number) for number in range(start, min(start + _BATCH, count)))
            store.index("bench", [Entry(text, (0, 1)) for text in texts])
        step()
        with Session.open(None, "bench", memory=store, context_window=_WINDOW) as session:
            for start in range(0, count, _BATCH):
                numbers = range(start, min(start + _BATCH, count))
                session.append(*({"role": _role(number), "content": _text(number)} for number in numbers))
            session.prepare()
            step()
            times["append, on disk"] = _timed(
                lambda at: session.append({"role": "user", "content": _text(at)})
            )
            times["prepare, nothing due"] = _timed(
                lambda _at: session.prepare(),
                before=lambda _at: session.append({"role": "user", "content": "ok"}),
            )
            step()
            session.search("pump 1", limit=5)
            times["search, best 5"] = _timed(lambda at: session.search(f"pressure of pump {at}", limit=5))
            step()
        policy = ThresholdCompactor(CompactionConfig(auto_compact_threshold=4_000))
        with Session.open(None, "compact", memory=store, policy=policy, context_window=8_000) as session:
            times["a compaction of 4,000 tokens"] = _timed(
                lambda _at: session.compact(), before=lambda at: _fill(session, at), repeats=20
            )
            step()
    began = time.perf_counter()
    with open_place(place, read_only=False) as store:
        store.search("bench", "pump 1", 5)
        opened = (time.perf_counter() - began) * 1e6
    times["open a store, and its first search"] = {"p50": opened, "p99": opened}
    step()
    return times


def _timed(
    call: Callable[[int], object],
    *,
    before: Callable[[int], object] = lambda _at: None,
    repeats: int = _REPEATS,
) -> dict[str, float]:
    """The times of *repeats* calls, in microseconds. *before* runs before each call, and is not measured."""
    found = []
    gc.disable()
    try:
        for at in range(repeats):
            before(at)
            began = time.perf_counter()
            call(at)
            found.append((time.perf_counter() - began) * 1e6)
    finally:
        gc.enable()
    found.sort()
    return {"p50": round(statistics.median(found), 1), "p99": round(found[int(len(found) * 0.99)], 1)}


def _fill(session: Session, at: int) -> None:
    session.append(*({"role": _role(each), "content": _text(at * 40 + each)} for each in range(40)))


def _role(number: int) -> str:
    return "assistant" if number % 2 else "user"


def _text(number: int) -> str:
    """A text of about 400 bytes, a different one for each *number*."""
    rows = (f"At minute {minute} pump {number} held {number * 7 % 997 + minute} bar." for minute in range(9))
    return f"Report {number}, station {number % 41}. {' '.join(rows)}"


def _shown(microseconds: float) -> str:
    if microseconds < 1_000:
        return f"{microseconds:,.0f} µs"
    return f"{microseconds / 1_000:,.1f} ms"


# Measures the time that siltstone adds to a turn.


class Stopwatch:
    """Adds up the time of blocks until the turn ends. Each turn gives one sample, in microseconds."""

    def __init__(self) -> None:
        self.samples: list[float] = []
        self._current = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Adds the time of the block to the current turn."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self._current += time.perf_counter() - start

    def lap(self) -> None:
        """Ends the turn."""
        self.samples.append(self._current * 1e6)
        self._current = 0.0
