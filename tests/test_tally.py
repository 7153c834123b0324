"""Does a run without tests count as a failure, and does nothing get lost in counting?"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent.parent / "scripts" / "tally.py"
CARGO = "test result: ok. {} passed; {} failed; {} ignored; 0 measured; 0 filtered out; finished in 0.00s"


def tally(tmp_path: Path, *lines: str, code: int = 0) -> tuple[int, str, str]:
    """Runs the script over a runner that prints *lines*. Its exit code, its output, its record."""
    record = tmp_path / "record"
    runner = f"import sys; print({chr(10).join(lines)!r}); sys.exit({code})"
    done = subprocess.run(
        [sys.executable, str(SCRIPT), sys.executable, "-c", runner],
        capture_output=True,
        text=True,
        env=os.environ | {"TEST_TALLY": str(record)},
        check=False,
    )
    return done.returncode, done.stdout, record.read_text("utf-8")


def test_every_binary_of_cargo_is_counted(tmp_path):
    code, shown, record = tally(
        tmp_path, CARGO.format(3, 0, 1), "   Doc-tests siltstone_core", CARGO.format(2, 0, 0)
    )
    assert (code, record) == (0, "5 passed, 0 failed, 1 skipped\n")
    assert "Doc-tests" in shown


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("===== 7 passed in 1.24s =====", "7 passed, 0 failed, 0 skipped\n"),
        ("7 passed in 0.24s", "7 passed, 0 failed, 0 skipped\n"),
        (
            "= 2 failed, 7 passed, 1 skipped, 1 xfailed in 61.24s (0:01:01) =",
            "8 passed, 2 failed, 1 skipped\n",
        ),
        (
            "\x1b[32m= \x1b[1m4 passed\x1b[0m, \x1b[33m1 error\x1b[0m in 2.00s =",
            "4 passed, 1 failed, 0 skipped\n",
        ),
        ("a test printed: 3 passed in total", "0 passed, 0 failed, 0 skipped\n"),
    ],
)
def test_the_closing_line_of_pytest_is_counted(tmp_path, line, expected):
    assert tally(tmp_path, line)[2] == expected


def test_a_failure_keeps_the_exit_code_of_the_runner(tmp_path):
    assert tally(tmp_path, CARGO.format(4, 1, 0), code=101)[0] == 101


@pytest.mark.parametrize(
    "lines", [[], [CARGO.format(0, 0, 0)], [CARGO.format(0, 0, 9)], ["9 skipped in 0.01s"]]
)
def test_a_run_without_tests_fails(tmp_path, lines):
    assert tally(tmp_path, *lines)[0] == 5
