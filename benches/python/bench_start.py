"""A process until README's opening has its first request: CPU above an empty process.

    python benches/python/bench_start.py

Every line is a process of its own, with the bytecode that a first run has left, as an installed package has.
The least of several runs is the machine at its quietest. The bars are 30 ms for the import, and 100 ms for
the opening with its first ``prepare`` in a new store.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[1]))
from common import begin, head, row

RUNS = 15

NOTHING = "pass"
IMPORTED = "import siltstone"
READY = """
import sys, siltstone
session = siltstone.Session.open(sys.argv[1], "chat-1", context_window=4_000)
session.append({"role": "user", "content": "How is the next one?"})
assert len(session.prepare().messages) == 1
"""
MODULES = READY + "print(sum(name.partition('.')[0] == 'siltstone' for name in sys.modules))"


def milliseconds(code: str, *arguments: str) -> float:
    """CPU of a process that runs *code*, its own and the system's."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    pid = os.posix_spawn(sys.executable, [sys.executable, "-c", code, *arguments], kept)
    _, status, used = os.wait4(pid, 0)
    if status:
        raise SystemExit("the process failed")
    return (used.ru_utime + used.ru_stime) * 1e3


def main() -> None:
    """Prints the table, and how many modules of ours a session takes."""
    begin("milliseconds of the processor above an empty process")
    with tempfile.TemporaryDirectory() as path:
        milliseconds(READY, f"{path}/first")  # makes the bytecode of what is imported
        rounds = [
            (milliseconds(NOTHING), milliseconds(IMPORTED), milliseconds(READY, f"{path}/{run}"))
            for run in range(RUNS)
        ]
        empty, *others = zip(*rounds, strict=True)
        head("", "at least", "in the median")
        for name, spent in zip(
            ("import siltstone", "the opening with its first prepare"), others, strict=True
        ):
            row(name, min(spent) - min(empty), median(spent) - min(empty))
        print("modules of siltstone by then: ", end="", flush=True)
        milliseconds(MODULES, f"{path}/last")


if __name__ == "__main__":
    main()
