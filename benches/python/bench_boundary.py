"""The cost of a boundary when nothing is due: `Session.prepare()` and `plan()` at 1,000 and 10,000 messages.

A message is appended before each call, so that no call is answered from the one before. The append is
durable and is timed apart; its cost is the disk's.

    python benches/python/bench_boundary.py
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path

from siltstone import Session, ThresholdCompactor, _native
from siltstone.systems.meerkat import CompactionConfig

SIZES = (1_000, 10_000)
CALLS = 200
BUDGET_MS = 2.0


def main() -> int:
    """Prints the table; 1 where the growth is worse than linear or the budget is exceeded."""
    if _native.build_profile != "release":
        print("a debug build is not worth measuring: make install")
        return 2
    policy = ThresholdCompactor(CompactionConfig(auto_compact_threshold=10**9))
    with tempfile.TemporaryDirectory() as directory:
        sessions = {size: filled(Path(directory) / str(size), size, policy) for size in SIZES}
        prepares: dict[int, list[float]] = {size: [] for size in SIZES}
        plans: dict[int, list[float]] = {size: [] for size in SIZES}
        appends: dict[int, list[float]] = {size: [] for size in SIZES}
        for call in range(CALLS):
            for size, session in sessions.items():  # interleaved: both see the same machine
                appends[size].append(timed(lambda s=session, c=call: s.append(message(c))))
                plans[size].append(timed(session.plan))
                prepares[size].append(timed(session.prepare))
        for session in sessions.values():
            session.close()
    print(
        "| messages | prepare, median | prepare, p99 | plan, median | plan, p99 | append (durable), median |"
    )
    print("| ---: | ---: | ---: | ---: | ---: | ---: |")
    for size in SIZES:
        spent = [figure for samples in (prepares[size], plans[size]) for figure in figures(samples)]
        row = " | ".join(f"{seconds * 1e6:.1f} us" for seconds in (*spent, statistics.median(appends[size])))
        print(f"| {size:,} | {row} |")
    growth = statistics.median(prepares[SIZES[1]]) / statistics.median(prepares[SIZES[0]])
    print(f"\n10 times the messages cost prepare {growth:.1f} times as much (linear: 10).")
    slowest = max(statistics.median(samples[SIZES[1]]) for samples in (prepares, plans))
    return int(growth > 12 or slowest * 1e3 > BUDGET_MS)


def figures(samples: list[float]) -> tuple[float, float]:
    """Median and p99."""
    return statistics.median(samples), statistics.quantiles(samples, n=100)[98]


def filled(path: Path, size: int, policy: ThresholdCompactor) -> Session:
    """A session of *size* messages whose view has been asked for once."""
    session = Session.open(path, "bench", policy=policy, context_window=10**9)
    session.append(*(message(number) for number in range(size)))
    prepared = session.prepare()
    assert len(prepared.messages) == size
    assert prepared.compaction is None
    assert session.plan().reason == "not_due"
    return session


def message(number: int) -> dict[str, str]:
    """A message of about 600 bytes."""
    role = "user" if number % 2 else "assistant"
    return {"role": role, "content": f"message {number}: " + "lorem ipsum " * 48}


def timed(call: object) -> float:
    """Seconds that *call* takes."""
    start = time.perf_counter()
    call()  # type: ignore[operator]
    return time.perf_counter() - start


if __name__ == "__main__":
    sys.exit(main())
