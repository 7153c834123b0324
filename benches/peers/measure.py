"""How contenders are timed: in turns, a query by its quickest pass, on this path of kernels or another."""

from __future__ import annotations

import gc
import importlib
import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from siltstone.index import Bm25Index, HashedTfIndex

K = 10
PORTABLE = "portable"
LONG = 100_000  # nanoseconds from which on a query is timed by CPU
VARIABLE = "SILTSTONE_SIMD"


class Contender(Protocol):
    """A contender. Queries are prepared before they are timed, in the form that it takes."""

    name: str

    def add(self, rows: Any) -> None: ...
    def ready(self) -> None: ...  # after the last row
    def prepare(self, queries: Any) -> Sequence[Any]: ...
    def ask(self, query: Any) -> Sequence[int]: ...
    def ask_all(self) -> Callable[[], Any] | None: ...  # its own call for all prepared queries
    def size(self) -> int | None: ...  # bytes


class OverTexts:
    """A contender of ours that reads the texts itself."""

    def __init__(self, name: str, index: HashedTfIndex | Bm25Index) -> None:
        self.name, self.index = name, index
        self._queries: list[str] = []

    def add(self, rows: Any) -> None:
        self.index.add(rows)

    def ready(self) -> None: ...

    def prepare(self, queries: Any) -> Sequence[str]:
        self._queries = list(queries)
        return self._queries

    def ask(self, query: Any) -> Sequence[int]:
        return self.index.search(query, K)[0]  # type: ignore[return-value]

    def ask_all(self) -> Callable[[], Any]:
        return lambda: self.index.search_batch(self._queries, K)

    def size(self) -> int:
        return int(self.index.stats()["bytes"])


@dataclass(slots=True)
class Figures:
    """One contender at one size. Times in microseconds: inserts and batches by CPU, see :func:`times`."""

    name: str
    insert: float
    query: float = 0.0
    p99: float = 0.0
    batch: float | None = None
    recall: float = 0.0
    bytes: float | None = None
    groups: dict[str, float] = field(default_factory=dict)  # medians by group of queries
    asked: int = 0


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


class Elsewhere:
    """A contender in a process of its own, under a forced path of the kernels."""

    def __init__(self, path: str, module: str, maker: str, *arguments: Any) -> None:
        context = get_context("spawn")
        self._pipe, theirs = context.Pipe()
        before = os.environ.get(VARIABLE)
        os.environ[VARIABLE] = path
        try:
            self._process = context.Process(
                target=_serve, args=(theirs, module, maker, arguments), daemon=True
            )
            self._process.start()
        finally:
            os.environ.pop(VARIABLE) if before is None else os.environ.update({VARIABLE: before})
        theirs.close()
        self.name = f"{self.call('name')}, {path}"

    def call(self, what: str, *arguments: Any) -> Any:
        """The answer of the contender there."""
        self._pipe.send((what, arguments))
        return self._pipe.recv()

    def close(self) -> None:
        """Ends the process."""
        self._pipe.close()
        self._process.join()


def _serve(pipe: Any, module: str, maker: str, arguments: tuple[Any, ...]) -> None:
    """Answers calls until the other end is closed."""
    importlib.import_module("numpy")  # what gives arrays imports it with its first call otherwise
    contender = getattr(importlib.import_module(module), maker)(*arguments)
    prepared: Sequence[Any] = ()
    while True:
        try:
            what, given = pipe.recv()
        except EOFError:
            return
        answer: Any = None
        if what == "name":
            answer = contender.name
        elif what == "add":
            answer = _spent(partial(contender.add, given[0]))
        elif what == "ready":
            answer = _spent(contender.ready)
        elif what == "prepare":
            prepared = contender.prepare(given[0])
        elif what == "answers":
            answer = [list(map(int, contender.ask(query))) for query in prepared]
        elif what == "times":
            answer = times(contender, prepared)
        elif what == "ef":
            contender.ef = given[0]
        pipe.send(answer)


def _spent(action: Callable[[], object]) -> float:
    """Seconds of CPU of the whole process: some peers work in threads."""
    start = time.process_time()
    action()
    return time.process_time() - start


def fill(contenders: Sequence[Any], rows: Any, piece: int) -> dict[str, float]:
    """Microseconds of CPU a row, in pieces; the contenders take turns."""
    spent = {each.name: 0.0 for each in contenders}
    count = len(rows)
    for first in range(0, count, piece):
        some = rows[first : first + piece]
        for each in contenders:
            there = isinstance(each, Elsewhere)
            spent[each.name] += each.call("add", some) if there else _spent(partial(each.add, some))
    for each in contenders:
        spent[each.name] += each.call("ready") if isinstance(each, Elsewhere) else _spent(each.ready)
    return {name: seconds / count * 1e6 for name, seconds in spent.items()}


def quickest(contenders: Sequence[Any], prepared: dict[str, Any], rounds: int) -> dict[str, list[float]]:
    """Microseconds of each query, each by the quickest of *rounds* passes; the contenders take turns."""
    found: dict[str, list[int]] = {}
    for number in range(rounds):
        for each in contenders:
            if number >= getattr(each, "rounds", rounds):
                continue
            there = isinstance(each, Elsewhere)
            spent = each.call("times") if there else times(each, prepared[each.name])
            found[each.name] = list(map(min, found.get(each.name, spent), spent))
    return {name: [nanoseconds / 1e3 for nanoseconds in spent] for name, spent in found.items()}


def batch(contender: Any, queries: int, rounds: int) -> float | None:
    """Microseconds of CPU a query of its own call for many; None where it has none."""
    call = None if isinstance(contender, Elsewhere) else contender.ask_all()
    if call is None:
        return None
    least = float("inf")
    for _ in range(rounds):
        least = min(least, _spent(call))
    return least / queries * 1e6


def p99(values: Sequence[float]) -> float:
    """The value that one in a hundred is above."""
    return sorted(values)[min(len(values) - 1, int(len(values) * 0.99))]


def compare(
    contenders: Sequence[Any],
    rows: Any,
    queries: dict[str, list[Any]],
    judge: Callable[[int, Sequence[int]], float],
    rounds: int,
) -> list[Figures]:
    """Fills, checks and times: *judge* gives the recall of an answer to the query of a number."""
    asked = [query for group in queries.values() for query in group]
    inserts = fill(contenders, rows, max(1, len(rows) // 10))
    prepared: dict[str, Any] = {}
    recalls: dict[str, float] = {}
    for each in contenders:
        most = getattr(each, "most", len(asked))
        if isinstance(each, Elsewhere):
            each.call("prepare", asked)
            answers = each.call("answers")
        else:
            prepared[each.name] = each.prepare(_spread(asked, most))
            answers = [each.ask(query) for query in prepared[each.name]]
        numbers = _spread(range(len(asked)), most)
        recalls[each.name] = statistics.fmean(
            judge(number, answer) for number, answer in zip(numbers, answers, strict=True)
        )
    spent = quickest(contenders, prepared, rounds)
    figures = []
    for each in contenders:
        mine = spent[each.name]
        found = Figures(each.name, inserts[each.name], statistics.median(mine), p99(mine), asked=len(mine))
        found.recall = recalls[each.name]
        found.batch = batch(each, len(mine), rounds)
        total = None if isinstance(each, Elsewhere) else each.size()
        found.bytes = None if total is None else total / len(rows)
        if len(mine) == len(asked):
            first = 0
            for group, members in queries.items():
                if members:
                    found.groups[group] = statistics.median(mine[first : first + len(members)])
                first += len(members)
        figures.append(found)
    return figures


def _spread(values: Sequence[Any], most: int) -> list[Any]:
    """At most *most* of *values*, evenly."""
    step = max(1, len(values) // most)
    return list(values[::step][:most])
