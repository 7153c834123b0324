"""How contenders are timed: in turns, a query by its quickest pass."""

from __future__ import annotations

import gc
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from common import least, middle_and_last, timed

K = 10
ROUNDS = 5
LONG = 100_000  # nanoseconds from which on a query is timed by CPU


class Contender:
    """A contender: one of ours by default, which reads the texts itself.

    Queries are prepared before they are timed, in the form that the contender takes. Of a peer whose queries
    take milliseconds, *most* are asked.
    """

    most = sys.maxsize

    def __init__(self, name: str, index: Any) -> None:
        self.name, self.index = name, index

    def add(self, rows: Any) -> None:
        self.index.add(rows)

    def ready(self) -> None:
        """Called after the last row."""

    def prepare(self, queries: Sequence[Any]) -> Sequence[Any]:
        return list(queries)

    def ask(self, query: Any) -> Sequence[int]:
        return self.index.search(query, K)[0]  # type: ignore[no-any-return]

    def size(self) -> int | None:
        """Bytes, where it says so."""
        return int(self.index.stats()["bytes"])


def present(*makers: Callable[[], Any]) -> list[Any]:
    """The contenders that can be made here; it prints those that cannot."""
    made = []
    for make in makers:
        try:
            made.append(make())
        except ImportError as error:
            print(f"absent: {error}", file=sys.stderr)
    return made


def times(contender: Any, prepared: Sequence[Any]) -> list[int]:
    """Nanoseconds of each query, in one pass: by the clock, or by this thread's CPU time above 100 us.

    Reading the CPU time takes a call of the system, which short queries would be blurred by; long ones
    are interrupted by other work of the machine, which is none of theirs. A short pass tells which is meant.
    """
    ask, some = contender.ask, prepared[:10]
    gc.disable()
    short = statistics.median(_pass(ask, some, time.thread_time_ns)) < LONG
    spent = _pass(ask, prepared, time.perf_counter_ns if short else time.thread_time_ns)
    gc.enable()
    return spent


def _pass(ask: Callable[[Any], Any], prepared: Sequence[Any], now: Callable[[], int]) -> list[int]:
    spent = []
    for query in prepared:
        start = now()
        ask(query)
        spent.append(now() - start)
    return spent


def fill(contenders: Sequence[Any], rows: Any) -> dict[str, float]:
    """Microseconds of CPU a row, in ten pieces; the contenders take turns. Some peers work in threads."""
    spent = {each.name: 0.0 for each in contenders}
    piece = max(1, len(rows) // 10)
    for first in range(0, len(rows), piece):
        for each in contenders:
            add = partial(each.add, rows[first : first + piece])
            spent[each.name] += timed(add, time.process_time)
    for each in contenders:
        spent[each.name] += timed(each.ready, time.process_time)
    return {name: taken / len(rows) * 1e3 for name, taken in spent.items()}


def quickest(contenders: Sequence[Any], prepared: dict[str, Sequence[Any]]) -> dict[str, list[float]]:
    """Microseconds of each query, each by the quickest of the passes; the contenders take turns."""
    passes = [{each.name: times(each, prepared[each.name]) for each in contenders} for _ in range(ROUNDS)]
    return {each.name: [ns / 1e3 for ns in least([one[each.name] for one in passes])] for each in contenders}


def compare(
    contenders: Sequence[Any], rows: Any, queries: Sequence[Any], judge: Callable[[int, Sequence[int]], float]
) -> list[dict[str, Any]]:
    """Fills, checks and times: *judge* gives the recall of an answer to the query of a number."""
    inserts = fill(contenders, rows)
    prepared, recalls = {}, {}
    for each in contenders:
        numbers = range(0, len(queries), max(1, len(queries) // each.most))
        prepared[each.name] = each.prepare([queries[number] for number in numbers])
        answers = map(each.ask, prepared[each.name])
        recalls[each.name] = statistics.fmean(map(judge, numbers, answers))
    figures = []
    for name, spent in quickest(contenders, prepared).items():
        (one,) = (each for each in contenders if each.name == name)
        middle, last = middle_and_last(spent)
        size = one.size()
        found = {"name": name, "insert": inserts[name], "query": middle, "p99": last}
        figures.append({**found, "recall": recalls[name], "bytes": size and size / len(rows)})
    return figures
