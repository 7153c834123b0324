"""Makes every sync of this process slow, to measure what it costs on a disk that is slower than this one."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

__all__ = ["start_again"]

ASKED = "SILTSTONE_BENCH_SYNC_US"
SOURCE = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

static void wait_first(void) {
    long us = atol(getenv("SILTSTONE_BENCH_SYNC_US"));
    struct timespec time = {us / 1000000, us % 1000000 * 1000};
    nanosleep(&time, 0);
}

int fdatasync(int file) {
    int (*sync)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    wait_first();
    return sync(file);
}

int fsync(int file) {
    int (*sync)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    wait_first();
    return sync(file);
}
"""


def start_again(milliseconds: float) -> None:
    """Runs this program again in its place, with a pause before each sync. Does nothing in that second run.

    Raises:
        SystemExit: the system is not Linux.
    """
    if ASKED in os.environ:
        return
    if sys.platform != "linux":
        raise SystemExit("a sync can only be made slow on Linux")
    library = Path(tempfile.mkdtemp()) / "slow_sync.so"
    command = ["cc", "-O2", "-shared", "-fPIC", "-x", "c", "-", "-o", str(library), "-ldl"]
    subprocess.run(command, input=SOURCE.encode(), check=True)
    asked = {"LD_PRELOAD": str(library), ASKED: str(round(milliseconds * 1e3))}
    os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **asked})
