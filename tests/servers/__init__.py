"""Servers that a test owns: PostgreSQL, old and new, pgbouncer, a standby, and a wire that can be cut.

Nothing here is shared with what else runs on the machine: every server has a folder and a port of its own,
listens on 127.0.0.1 alone, and is a child of the test's process, which kills it by its id.
"""

from servers.account import absent
from servers.installed import newest, oldest
from servers.pgbouncer import PgBouncer
from servers.postgres import DURABLE, QUICK, Postgres, running
from servers.proxy import Moment, Proxy

__all__ = [
    "DURABLE",
    "QUICK",
    "Moment",
    "PgBouncer",
    "Postgres",
    "Proxy",
    "absent",
    "newest",
    "oldest",
    "running",
]
