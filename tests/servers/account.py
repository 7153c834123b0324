"""The account that runs a server, the folder of its files, and the skip if a server cannot run.

PostgreSQL and pgbouncer refuse to run as root. A test that runs as root therefore starts them as ``postgres``
(or ``nobody``), and gives them folders that this user can reach.
"""

from __future__ import annotations

import os
import random
import shutil
import socket
import stat
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest

if TYPE_CHECKING:
    import pwd


_LOCKED: dict[int, int] = {}  # the files of ours, by their ports


def absent(sentence: str) -> NoReturn:
    """Skips with *sentence*. With ``CI=true`` it fails on Linux: there every server must be tested."""
    if os.environ.get("CI") == "true" and sys.platform == "linux":
        pytest.fail(sentence, pytrace=False)
    pytest.skip(sentence)


def _account() -> pwd.struct_passwd | None:
    """Whom a server runs as, where that is somebody else than we are."""
    if sys.platform == "win32":
        absent("the servers of the tests run on Linux and macOS")
    if os.geteuid() != 0:
        return None
    import pwd  # there is none on Windows

    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    absent("a server of a test must not run as root, and there is no user 'postgres' or 'nobody'")


def as_account(*command: str | Path, ends_by: str = "QUIT") -> list[str]:
    """*command* as the account that servers run as. *ends_by* ends it when the test's process ends."""
    given = [str(each) for each in command]
    account = _account()
    if shutil.which("setpriv") is None:
        if account is not None:
            absent("a server of a test must not run as root, and there is no setpriv (of util-linux)")
        return given
    change = ["setpriv", "--pdeathsig", ends_by]
    if account is not None:
        change += [f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--init-groups"]
    return [*change, "env", "LC_ALL=C.UTF-8", *given]


def given_away(path: Path) -> Path:
    """*path*, which belongs to the account from now on."""
    if (account := _account()) is not None:
        os.chown(path, account.pw_uid, account.pw_gid)
    return path


def reachable(path: Path) -> bool:
    """Whether the account can go to *path* and read it: pytest's own folders and /root are closed to it."""
    if _account() is None:
        return True
    every = (path, *path.absolute().parents)
    return all(directory.stat().st_mode & stat.S_IXOTH for directory in every if directory.is_dir())


_ROOM = 2 << 30  #: bytes that memory must have left for a server's files


def folder(name: str, *, on_disk: bool = False) -> Path:
    """A new folder of the account, where it can reach it; the caller deletes it.

    In memory where there is room. A sync is free there, and a process that is killed loses no more than on a
    disk: what it wrote is with the system. Only the end of the system itself would tell the two apart.
    """
    memory = [] if on_disk or not _roomy("/dev/shm") else ["/dev/shm"]
    for place in (*memory, tempfile.gettempdir(), "/var/tmp", "/tmp"):
        if Path(place).is_dir() and reachable(Path(place)):
            return given_away(Path(tempfile.mkdtemp(prefix=f"siltstone-{name}-", dir=place)))
    absent(f"there is no folder for temporary files that {_account()} can reach")


def _roomy(place: str) -> bool:
    return Path(place).is_dir() and shutil.disk_usage(place).free > _ROOM


def free_port() -> int:
    """A port that nobody listens on now, and that no other test takes until :func:`give_back`.

    The system gives it to no client either: a server that is killed must find its port free afterwards.
    Somebody else may take it nevertheless, so who starts a server tries again.
    """
    import fcntl  # there is none on Windows

    # A locked file for each port that is taken. Another user's folder would be closed to us.
    taken = Path(tempfile.gettempdir()) / f"siltstone-ports-{os.getuid()}"
    taken.mkdir(exist_ok=True)
    ports = _no_clients_ports()
    for _ in range(1_000):
        port = random.SystemRandom().choice(ports)
        file = os.open(taken / str(port), os.O_CREAT | os.O_RDWR, 0o666)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", port))
        except OSError:
            os.close(file)
            continue
        _LOCKED[port] = file
        return port
    pytest.fail("a thousand ports were tried, and none is free")


def give_back(port: int) -> None:
    """Lets others take a port of :func:`free_port`."""
    if (file := _LOCKED.pop(port, None)) is not None:
        os.close(file)


def _no_clients_ports() -> range:
    """Ports that the system gives to nobody who asks for any."""
    try:
        low, high = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    except OSError:
        low, high = 49_152, 65_535
    below, above = range(10_000, low), range(high + 1, 65_536)
    return below if len(below) >= len(above) else above


def wait_until(holds: Callable[[], bool], what: str, seconds: float = 300.0) -> None:
    """Waits until *holds* does; fails after so long, on which no test counts, that it never will."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            pytest.fail(f"waited {seconds:g} s for {what}")
        time.sleep(0.01)
