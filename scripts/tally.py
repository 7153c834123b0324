"""Runs a test command, shows its output, counts its tests, and fails when none ran.

    python scripts/tally.py cargo test --workspace

A runner may be content with nothing: ``cargo test`` exits 0 where it found no test. The count is
appended to the file that ``TEST_TALLY`` names, a line a run, for whoever sums up.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

NOTHING_RAN = 5  #: exit code, as pytest's own for "no tests collected"

_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
_CARGO = re.compile(r"^test result: .*?(\d+) passed; (\d+) failed; (\d+) ignored;")
_PYTEST = re.compile(r"^(?:=+ )?(?P<counts>\d+ \w+(?:, \d+ \w+)*) in \d+(?:\.\d+)?s\b")


@dataclass(frozen=True, slots=True)
class Tally:
    """Tests of a run, by their outcome."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0

    @property
    def ran(self) -> int:
        """Tests that were carried out, whatever came of them."""
        return self.passed + self.failed

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.passed + other.passed, self.failed + other.failed, self.skipped + other.skipped)

    def __str__(self) -> str:
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


def read(line: str) -> Tally:
    """The tests that *line* of a runner's output tells of: none, for most lines."""
    line = _ESCAPES.sub("", line).strip()
    if cargo := _CARGO.match(line):
        passed, failed, ignored = map(int, cargo.groups())
        return Tally(passed, failed, ignored)
    if pytest := _PYTEST.match(line):
        pairs = (pair.split(" ") for pair in pytest["counts"].split(", "))
        counts = {word: int(number) for number, word in pairs}
        return Tally(
            counts.get("passed", 0) + counts.get("xfailed", 0),
            sum(counts.get(word, 0) for word in ("failed", "error", "errors", "xpassed")),
            counts.get("skipped", 0),
        )
    return Tally()


def run(command: list[str]) -> tuple[int, Tally]:
    """Runs *command*, passing its output on as it comes. Its exit code and the tests that it ran."""
    environment = dict(os.environ)
    if sys.stdout.isatty() and "NO_COLOR" not in environment:
        environment.setdefault("FORCE_COLOR", "1")
    tally = Tally()
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None  # asked for above
        for raw in process.stdout:
            sys.stdout.buffer.write(raw)
            sys.stdout.buffer.flush()
            tally += read(raw.decode("utf-8", "replace"))
    return process.returncode, tally


def main(command: list[str]) -> int:
    """The command's own exit code; ``NOTHING_RAN`` where it was content with no test."""
    code, tally = run(command)
    if record := os.environ.get("TEST_TALLY"):
        with Path(record).open("a", encoding="utf-8") as file:
            file.write(f"{tally}\n")
    if code == 0 and tally.ran == 0:
        print(f"no test ran: {' '.join(command)}", file=sys.stderr)
        return NOTHING_RAN
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
