"""The cost of a session as it grows: by compactions, and by messages where a host edits its first one.

Each figure is the median of *rounds* calls on a store in a file, in milliseconds of the processor. Of "open"
and "observe" every round opens the session anew; what is timed is the second list that it observes, as the
first one reads the log.

    python benches/python/bench_growth.py [--rounds 20] [--most 3200]
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from siltstone import CompactionConfig, MemoryStore, Session, ThresholdCompactor, _native

POLICY = ThresholdCompactor(
    CompactionConfig(auto_compact_threshold=400, recent_turn_budget=1, max_summary_tokens=40)
)
COUNTS = (100, 800, 3_200)
MESSAGES = (1_000, 4_000, 16_000)


def said(number: int) -> list[dict[str, Any]]:
    """A turn that is compacted soon."""
    return [
        {"role": "user", "content": f"question {number} " + "gravel " * 60},
        {"role": "assistant", "content": f"answer {number}"},
    ]


def opened(store: MemoryStore, name: str) -> Session:
    """A session whose summaries cost nothing."""
    return Session.open(None, name, memory=store, policy=POLICY, model=lambda _: "What was said.")


def milliseconds(call: Callable[[], object]) -> float:
    """The CPU time of one call: other programs may be at work meanwhile."""
    begin = time.process_time()
    call()
    return (time.process_time() - begin) * 1_000


def by_compactions(store: MemoryStore, session: Session, rounds: int) -> dict[str, float]:
    """The medians of each call on a session as it is now."""
    taken: dict[str, list[float]] = {}

    def note(name: str, call: Callable[[], object]) -> None:
        taken.setdefault(name, []).append(milliseconds(call))

    for number in range(rounds):
        new = said(10**6 + number)
        note("append", lambda new=new: session.append(*new))
        session.compact()
        note("undo", session.undo_compaction)
        session.compact()
        note("compactions()", session.compactions)
        with opened(store, session.session_id) as other:
            host = [*other.history(), *said(2 * 10**6 + number)]
            copied = json.loads(json.dumps(host))
            other.observe(copied)
            copied += said(3 * 10**6 + number)
            note("observe", lambda other=other, copied=copied: other.observe(copied))
        session.reload()
        note("open", lambda: opened(store, session.session_id).close())
    return {name: statistics.median(times) for name, times in taken.items()}


def edited_first(store: MemoryStore, count: int, rounds: int) -> tuple[float, float]:
    """Medians of observing *count* repeating messages: with one more, and with the first one edited."""
    longer, edited = [], []
    for number in range(rounds):
        session = opened(store, f"{count} {number}")
        host = [{"role": "user", "content": "again"}, {"role": "assistant", "content": "ok"}] * (count // 2)
        session.observe(json.loads(json.dumps(host)))
        host.append({"role": "user", "content": "more"})
        fresh = json.loads(json.dumps(host))
        longer.append(milliseconds(lambda session=session, fresh=fresh: session.observe(fresh)))
        host[0] = {"role": "user", "content": "edited"}
        fresh = json.loads(json.dumps(host))
        edited.append(milliseconds(lambda session=session, fresh=fresh: session.observe(fresh)))
        session.close()
    return statistics.median(longer), statistics.median(edited)


def main() -> int:
    """Prints both tables, in milliseconds."""
    if _native.build_profile != "release":
        print("a debug build is not worth measuring: make install")
        return 2
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--most", type=int, default=COUNTS[-1])
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory, MemoryStore.open(Path(directory)) as store:
        session, made = opened(store, "s"), 0
        columns = ("append", "observe", "undo", "open", "compactions()")
        print("| compactions | " + " | ".join(columns) + " |\n|---|" + "---|" * len(columns))
        for count in (each for each in COUNTS if each <= asked.most):
            while made < count:
                session.append(*said(made))
                session.append(*said(made))
                session.compact()
                made += 1
            row = by_compactions(store, session, asked.rounds)
            print(f"| {count:,} | " + " | ".join(f"{row[name]:.2f} ms" for name in columns) + " |")
        print("\n| repeating messages | observe, one more | observe, the first one edited |\n|---|---|---|")
        for count in MESSAGES:
            longer, edited = edited_first(store, count, max(3, asked.rounds // 4))
            print(f"| {count:,} | {longer:.1f} ms | {edited:.1f} ms |")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
