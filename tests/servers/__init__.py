"""Servers that a test owns: PostgreSQL, pgbouncer, a proxy that can be cut; providers of models, each a file.

They share nothing with other programs of the machine: every server has a folder and a port of its own,
listens only on 127.0.0.1, and is a child of the test's process, which kills it by its id, or a thread of it.
"""

from servers.account import absent
from servers.installed import newest, oldest
from servers.pgbouncer import PgBouncer
from servers.postgres import DURABLE, QUICK, Postgres, running
from servers.proxy import Moment, Proxy

__all__ = [
    "DURABLE", "QUICK", "Moment", "PgBouncer", "Postgres", "Proxy", "absent", "newest", "oldest", "running",
]  # fmt: skip
