"""Runs work in a forked child, and returns the result."""

import os
import select
import signal
import time
import warnings
from collections.abc import Callable

PATIENCE = 300.0  #: seconds until a child counts as hung


def in_child(work: Callable[[], object], patience: float = PATIENCE) -> str:
    """The result of *work* in a forked child, or its error; ``hung`` for a child that never ends."""
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads, which are meant here
        child = os.fork()
    if child == 0:
        try:
            told = str(work())
        except BaseException as error:
            told = f"{type(error).__name__}: {error}"
        os.write(write, told.encode()[:4_000])
        os._exit(0)
    os.close(write)
    told, until = b"", time.monotonic() + patience
    while time.monotonic() < until:
        if select.select([read], [], [], 0.1)[0]:
            if not (more := os.read(read, 4_096)):
                break
            told += more
    else:
        os.kill(child, signal.SIGKILL)
        told = b"hung"
    os.close(read)
    os.waitpid(child, 0)
    return told.decode()
