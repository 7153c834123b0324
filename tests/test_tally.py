"""Does a run without tests count as a failure, and does nothing get lost in counting?"""

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


@pytest.mark.parametrize(
    ("lines", "code", "expected", "counted"),
    [
        ([CARGO.format(3, 0, 1), "   Doc-tests siltstone_core", CARGO.format(2, 0, 0)], 0, 0, (5, 0, 1)),
        ([CARGO.format(4, 1, 0)], 101, 101, (4, 1, 0)),
        (["===== 7 passed in 1.24s ====="], 0, 0, (7, 0, 0)),
        (["7 passed in 0.24s"], 0, 0, (7, 0, 0)),
        (["= 2 failed, 7 passed, 1 skipped, 1 xfailed in 61.24s (0:01:01) ="], 1, 1, (8, 2, 1)),
        (["\x1b[32m= \x1b[1m4 passed\x1b[0m, \x1b[33m1 error\x1b[0m in 2.00s ="], 1, 1, (4, 1, 0)),
        (["a test printed: 3 passed in total"], 0, 5, (0, 0, 0)),  # no test ran
        ([], 0, 5, (0, 0, 0)),
        ([CARGO.format(0, 0, 0)], 0, 5, (0, 0, 0)),
        ([CARGO.format(0, 0, 9)], 0, 5, (0, 0, 9)),
        (["9 skipped in 0.01s"], 0, 5, (0, 0, 9)),
    ],
)
def test_every_test_is_counted_a_failure_keeps_its_code_and_a_run_without_tests_fails(
    tmp_path, lines, code, expected, counted
):
    found, shown, record = tally(tmp_path, *lines, code=code)
    assert (found, record) == (expected, "{} passed, {} failed, {} skipped\n".format(*counted))
    assert all(line in shown for line in lines)
