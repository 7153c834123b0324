"""The disk calls of an append: one sync of the write, and two pages."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from siltstone import MemoryStore, Session
from storing import database

APPENDS = 20
FRAME = 24 + 4096  # bytes of a page in the log

CHILD = """
import os, sys
from siltstone import Session

session = Session.open(sys.argv[1], "agent", policy=None, recall=sys.argv[3] == "recall")
session.append({"role": "user", "content": "first"})
os.kill(os.getpid(), 0)  # so that the trace tells what comes after
for number in range(int(sys.argv[2])):
    session.prepare()
    session.append({"role": "user", "content": f"message {number}"})
os.kill(os.getpid(), 0)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="system calls are those of Linux")
@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not there")
@pytest.mark.parametrize("form", ["plain", "recall"])
def test_an_append_syncs_once_and_only_what_was_written(form: str, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    command = ["strace", "-f", "-o", str(trace), "-e", "trace=fsync,fdatasync,sync_file_range,msync,kill"]
    child = [sys.executable, "-c", CHILD, str(tmp_path / "store"), str(APPENDS), form]
    done = subprocess.run([*command, *child], capture_output=True, text=True, check=False, timeout=300)
    if done.returncode and "ptrace" in done.stderr.lower():
        pytest.skip("processes may not be traced here")
    assert done.returncode == 0, done.stderr
    names = [line.split()[1].partition("(")[0] for line in trace.read_text().splitlines() if "(" in line]
    first, last = (at for at, name in enumerate(names) if name == "kill")
    assert names[first + 1 : last] == ["fdatasync"] * APPENDS


def test_an_append_writes_the_message_and_the_session(tmp_path: Path) -> None:
    with MemoryStore.open(tmp_path) as store:
        session = Session.open(None, "agent", memory=store, policy=None)
        session.append({"role": "user", "content": "first"})
        log = database(tmp_path).with_suffix(".sqlite3-wal")
        grew = list[int]()
        for number in range(APPENDS):
            before = log.stat().st_size
            session.append({"role": "user", "content": f"message {number}"})
            grew.append((log.stat().st_size - before) // FRAME)
        assert sorted(grew)[APPENDS // 2] == 2  # more only where a page is full
        assert max(grew) <= 5
        session.close()
