"""Does the script that runs sessions of nox side by side run each of them, and fail with any?"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parent.parent / "scripts"
NAMES = ["adapter(a, lowest)", "adapter(a, newest)", "server(mcp 1)"]

sys.path.append(str(SCRIPTS))
from sessions import main  # noqa: E402


class Nox:
    """Stands in for nox: lists *NAMES*, and fails the session *fails*."""

    def __init__(self, fails: str = "") -> None:
        self.fails = fails
        self.calls: list[list[str]] = []

    def __call__(self, arguments: Sequence[str]) -> tuple[int, bytes]:
        self.calls.append(list(arguments))
        if "--list" in arguments:
            return 0, b"nox > a warning\n" + json.dumps([{"session": name} for name in NAMES]).encode()
        return int(arguments[-1] == self.fails) * 3, f"ran {arguments[-1]}\n".encode()


@pytest.mark.parametrize(("fails", "expected"), [("", 0), *((name, 3) for name in NAMES)])
def test_every_session_runs_once_and_the_worst_exit_code_counts(
    fails: str, expected: int, capfdbinary: pytest.CaptureFixture[bytes]
):
    nox = Nox(fails)
    assert main(["--envdir", ".nox", "-s", "adapter", "server"], nox) == expected
    assert sorted(nox.calls[1:]) == [["--envdir", ".nox", "-s", name] for name in NAMES]
    shown = capfdbinary.readouterr().out.decode().splitlines()
    assert sorted(line for line in shown if line.startswith("ran ")) == [f"ran {name}" for name in NAMES]
    assert len([line for line in shown if "FAILED" in line]) == bool(fails)


def test_a_choice_that_nox_refuses_or_that_is_empty_fails(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit, match="no such session"):
        main(["-s", "x"], lambda arguments: (1, b"no such session"))
    assert main(["-s", "x"], lambda arguments: (0, b"[]")) == 1
    assert "no session" in capsys.readouterr().err
