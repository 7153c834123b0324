"""A PostgreSQL server that a test owns: it can be started, killed, deleted, and followed by standbys."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pytest

from servers.account import absent, as_account, folder, free_port, give_back, given_away, wait_until
from servers.installed import newest

if TYPE_CHECKING:
    import psycopg


_ALWAYS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "60",
    "jit": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "lc_messages": "C",
    # In the data directory, which the test removes: a killed server leaves its shared memory behind.
    "dynamic_shared_memory_type": "mmap",
}

#: For tests whose subject is not durability: a killed server may lose everything.
QUICK = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "shared_buffers": "64MB",
    "max_wal_size": "512MB",
}

#: PostgreSQL's own defaults, and room for standbys.
DURABLE = {"wal_level": "replica", "max_wal_senders": "8", "wal_keep_size": "256MB"}

#: This role needs its password; all others are trusted.
_GUARDED = "host all guarded 127.0.0.1/32 scram-sha-256\n"


class Postgres:
    """One server. Its data outlive :meth:`stop` and :meth:`kill`, and go with :meth:`delete`.

    Attributes:
        version: 15, 18 or what there is.
        port: On 127.0.0.1. It may change at a start.
        data: Its folder.
        log: Its output.
        settings: As after ``-c``; a change holds from the next start on.
    """

    def __init__(self, programs: tuple[int, Path], place: Path, settings: Mapping[str, str]) -> None:
        self._installed = programs
        self.version, self._programs = programs
        self._place, self.data, self.log = place, place / "data", place / "server.log"
        self.port = free_port()
        self.settings = dict(settings)
        self._process: subprocess.Popen[bytes] | None = None

    @classmethod
    def create(
        cls, programs: tuple[int, Path] | None = None, *, on_disk: bool = False, **settings: str
    ) -> Self:
        """A new server, which runs.

        Args:
            programs: Whose programs; the newest.
            on_disk: On a disk rather than in memory: for what is measured.
            settings: Beside those of ``DURABLE``.
        """
        programs = programs or newest()
        place = folder(f"postgres-{programs[0]}", on_disk=on_disk)
        server = cls(programs, place, {**DURABLE, **settings})
        with server._deleted_on_failure():
            # Without syncs: what the server itself syncs is its settings' matter.
            server._run(
                "initdb", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync"
            )
            hba = server.data / "pg_hba.conf"
            hba.write_text(_GUARDED + hba.read_text())
            server.start()
        return server

    def standby(self, name: str, *, wait: bool = True) -> Self:
        """A server that follows this one as *name*, and is asked for each commit that must be with two.

        Args:
            name: As it stands in ``synchronous_standby_names``.
            wait: Until it streams.
        """
        other = type(self)(self._installed, folder(f"standby-{self.version}"), self.settings)
        with other._deleted_on_failure():
            other._run("pg_basebackup", "-d", self.dsn, "-X", "stream", "-c", "fast", "--no-sync")
            signal_file = other.data / "standby.signal"
            signal_file.touch()
            given_away(signal_file)
            other.settings |= {"primary_conninfo": f"{self.dsn} application_name={name}", "hot_standby": "on"}
            other.start()
            if wait:
                query = "SELECT state FROM pg_stat_replication WHERE application_name = %s"
                wait_until(lambda: self.rows(query, name) == [("streaming",)], f"standby {name!r}")
        return other

    @property
    def dsn(self) -> str:
        return self.address()

    def address(self, *, database: str = "postgres", user: str = "postgres", **more: str) -> str:
        said = {"host": "127.0.0.1", "port": self.port, "user": user, "dbname": database, **more}
        return " ".join(f"{key}={value}" for key, value in said.items())

    def url(self, *, database: str = "postgres", user: str = "postgres") -> str:
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}"

    def connect(self, **options: Any) -> psycopg.Connection[Any]:
        """A connection of the superuser, every statement of which commits by itself."""
        try:
            import psycopg
        except ImportError:
            absent("there is no client of PostgreSQL: pip install 'psycopg[binary,pool]'")
        return psycopg.connect(self.dsn, autocommit=True, connect_timeout=300, **options)

    def rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        with self.connect() as connection:
            cursor = connection.execute(query.encode(), values or None)
            return cursor.fetchall() if cursor.description else []

    @contextmanager
    def database(self) -> Iterator[str]:
        """A new database; gone at the end, whoever is still connected."""
        name = f"test_{uuid.uuid4().hex[:12]}"
        self.rows(f"CREATE DATABASE {name}")
        try:
            yield name
        finally:
            self.rows(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    @property
    def runs(self) -> bool:
        """Whether its process does."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Starts it, and waits until it takes connections. Another port, if somebody took this one."""
        for _ in range(5):
            if self._started():
                return
            give_back(self.port)
            self.port = free_port()
        pytest.fail(f"PostgreSQL {self.version} does not start:\n{self.log.read_text()[-4000:]}")

    def _started(self) -> bool:
        settings = {**_ALWAYS, **self.settings, "port": str(self.port)}
        options = [word for key, value in settings.items() for word in ("-c", f"{key}={value}")]
        before = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                as_account(self._programs / "postgres", "-D", self.data, *options),
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.data,
            )  # fmt: skip
        process = self._process

        def said() -> str:
            with self.log.open("rb") as log:
                log.seek(before)
                return log.read().decode(errors="replace")

        ready = re.compile(r"database system is ready to accept (read-only )?connections")
        wait_until(lambda: bool(ready.search(said())) or process.poll() is not None, "PostgreSQL to start")
        if process.poll() is None:
            return True
        if "could not bind" in said() or "could not create any TCP/IP sockets" in said():
            return False
        pytest.fail(f"PostgreSQL {self.version} does not start:\n{said()}")

    def stop(self) -> None:
        """Ends it in order: what runs is rolled back, and a checkpoint is written."""
        self._end(signal.SIGINT)

    def crash(self) -> None:
        """Ends it as an immediate shutdown does: nothing is written any more; the next start recovers."""
        self._end(signal.SIGQUIT)

    def kill(self) -> None:
        """Kills it and its children with a signal that nobody can handle."""
        if (process := self._process) is None or process.poll() is not None:
            return
        # A child that it makes meanwhile would outlive it, and the next start refuses what a child still has.
        process.send_signal(signal.SIGSTOP)
        wait_until(lambda: _is_stopped(process.pid), "a server to stand still")
        children = _children(process.pid)
        process.kill()
        process.wait()
        for child in children:
            try:
                os.kill(child, signal.SIGKILL)
            except ProcessLookupError:
                continue
        wait_until(lambda: not _running(children), "the children of a server that was killed")

    def _end(self, how: signal.Signals) -> None:
        if (process := self._process) is not None and process.poll() is None:
            process.send_signal(how)
            process.wait(timeout=300)

    def promote(self) -> None:
        (done,) = self.rows("SELECT pg_promote(true, 300)")
        assert done == (True,)
        self.settings.pop("primary_conninfo", None)

    def delete(self) -> None:
        self.kill()
        give_back(self.port)
        shutil.rmtree(self._place, ignore_errors=True)

    def _run(self, program: str, *arguments: str) -> None:
        command = as_account(self._programs / program, "-D", self.data, *arguments)
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=300, check=False, cwd=self._place
        )
        if done.returncode != 0:
            pytest.fail(f"{program} of PostgreSQL {self.version}: {done.stderr}")

    @contextmanager
    def _deleted_on_failure(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.delete()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.delete()


def _children(pid: int) -> list[int]:
    """The children of a process. Backends are in sessions of their own, so its group does not have them."""
    listed = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False
    )
    return [int(word) for word in listed.stdout.split()]


def _is_stopped(pid: int) -> bool:
    """Whether it was stopped; or has ended."""
    listed = subprocess.run(
        ["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return listed.stdout.strip()[:1] in ("T", "Z", "")


def _running(pids: list[int]) -> bool:
    """Whether one of them runs. Who ended may keep its number: not every first process takes in orphans."""
    listed = subprocess.run(
        ["ps", "-o", "stat=", "-p", ",".join(map(str, pids)) or "0"],
        capture_output=True,
        text=True,
        check=False,
    )
    return any(not state.startswith("Z") for state in listed.stdout.split())


@contextmanager
def running(
    programs: tuple[int, Path] | None = None, *, on_disk: bool = False, **settings: str
) -> Iterator[Postgres]:
    with Postgres.create(programs, on_disk=on_disk, **settings) as server:
        yield server
