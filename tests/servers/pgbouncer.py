"""pgbouncer in transaction mode: after each transaction a client may get another connection."""

import shutil
import subprocess
from pathlib import Path
from typing import Self

import pytest

from servers.account import absent, as_account, folder, free_port, give_back, given_away, wait_until
from servers.postgres import Postgres

_SETTINGS = """\
[databases]
* = host=127.0.0.1 port={server}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = trust
auth_file = {users}
pool_mode = transaction
default_pool_size = {connections}
max_client_conn = 200
server_login_retry = 1
logfile = {log}
"""


class PgBouncer:
    """A pgbouncer before one server, with few connections, so that clients really share them."""

    def __init__(
        self, server: Postgres, *, connections: int = 3, roles: tuple[str, ...] = ("postgres",)
    ) -> None:
        program = shutil.which("pgbouncer") or "/usr/sbin/pgbouncer"
        if not Path(program).is_file():
            absent("there is no pgbouncer: apt-get install pgbouncer")
        self._place = folder("pgbouncer")
        self.log = self._place / "pgbouncer.log"
        for _ in range(5):
            self.port = free_port()
            if self._started(program, server, connections, roles):
                return
            give_back(self.port)
        pytest.fail(f"pgbouncer does not start:\n{self.log.read_text()}")

    def _started(self, program: str, server: Postgres, connections: int, roles: tuple[str, ...]) -> bool:
        settings, users = self._place / "pgbouncer.ini", self._place / "users.txt"
        users.write_text("".join(f'"{role}" ""\n' for role in roles))
        settings.write_text(
            _SETTINGS.format(
                server=server.port, port=self.port, users=users, log=self.log, connections=connections
            )
        )
        given_away(settings), given_away(users)
        self._process = subprocess.Popen(
            # It has no handler for QUIT, which a job in the background ignores.
            as_account(program, "-q", settings, ends_by="KILL"), stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=self._place,
        )  # fmt: skip
        process = self._process

        def told() -> bool:
            return process.poll() is not None or (
                self.log.exists() and "process up" in self.log.read_text(errors="replace")
            )

        wait_until(told, "pgbouncer")
        return process.poll() is None

    def address(self, *, database: str = "postgres", user: str = "postgres") -> str:
        return f"host=127.0.0.1 port={self.port} user={user} dbname={database}"

    def delete(self) -> None:
        self._process.kill()
        self._process.wait()
        give_back(self.port)
        shutil.rmtree(self._place, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.delete()
