"""How fast is each index, and how much does it find, beside those of others? Prints and records it.

    make bench-peers
    python benches/peers --record benches/record
    python benches/peers --quick --only text_search

Each part runs in a process of its own, on one thread. Packages other than NumPy are optional: what is
absent is said and left out. Texts, vectors and the numbers of the parts stay in ``--work``, and
``--report`` writes the page again from these.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
SIZES = {
    "embedding": [100_000],
    "text_search": [1_000, 10_000, 100_000],
    "words": [10_000, 100_000],
    "conversations": [1_000, 10_000],
    "vectors": [10_000, 100_000],
    "crossover": [100_000],
    "growth": [1_000, 10_000, 100_000, 1_000_000],
}
COMMAND = "python benches/peers --record benches/record"  # what `make bench-peers` runs


def main() -> int:
    """2 where it cannot measure."""
    parser = argparse.ArgumentParser(prog="peers", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="no more than 1,000 entries: does it run?")
    parser.add_argument("--size", type=int, default=1_000_000, help="no more entries than that")
    parser.add_argument("--only", default=",".join(SIZES), help="parts, with commas between")
    parser.add_argument("--report", action="store_true", help="measure nothing, write the page")
    parser.add_argument(
        "--record", type=Path, metavar="DIR", help="write DIR/DATE-peers.md and .json as well"
    )
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw growth into that SVG")
    parser.add_argument("--work", type=Path, default=Path("target", "peers"))
    parser.add_argument("--part", help=argparse.SUPPRESS)
    options = parser.parse_args()
    most = 1_000 if options.quick else options.size
    if options.part:
        return measure(options.part, most, options.work)
    options.work.mkdir(parents=True, exist_ok=True)
    for part in () if options.report else options.only.split(","):
        print(f"== {part}", file=sys.stderr, flush=True)
        command = [sys.executable, str(Path(__file__).parent), "--part", part, "--work", str(options.work)]
        environment = os.environ | dict.fromkeys(THREADS, "1")
        if subprocess.run([*command, "--size", str(most)], env=environment, check=False).returncode:
            return 2
    from record import page, plot

    numbers = {
        part: json.loads((options.work / f"{part}.json").read_text("utf-8"))
        for part in SIZES
        if (options.work / f"{part}.json").exists()
    }
    written = page(numbers, COMMAND)
    print(written)
    if options.plot and "growth" in numbers:
        options.plot.write_text(plot(numbers["growth"]["numbers"]), "utf-8")
    if options.record:
        target = options.record / f"{datetime.now(UTC):%Y-%m-%d}-peers"
        target.with_suffix(".md").write_text(written, "utf-8")
        target.with_suffix(".json").write_text(json.dumps(numbers, indent=1) + "\n", "utf-8")
        print(f"written to {target}.md and .json")
    return 0


def measure(part: str, most: int, work: Path) -> int:
    """One part, in this process."""
    from machine import machine
    from parts import PARTS
    from siltstone import _native

    if _native.build_profile != "release":
        print("a debug build is not worth measuring: make install", file=sys.stderr)
        return 2
    before, numbers = machine(), {}
    for size in sorted({min(size, most) for size in SIZES[part]}):
        numbers = merged(numbers, PARTS[part](size, work))
        (work / f"{part}.json").write_text(json.dumps({"machine": before, "numbers": numbers}), "utf-8")
    return 0


def merged(numbers: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """*numbers* and *more*, and what both have a dict of, merged."""
    both = {name: merged(numbers[name], more[name]) for name in numbers if isinstance(more.get(name), dict)}
    return numbers | more | both


if __name__ == "__main__":
    sys.exit(main())
