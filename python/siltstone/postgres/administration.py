"""Tools for the operator of a store in PostgreSQL: the durability of the server, and the erasing of bytes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from secrets import token_hex
from typing import Any, Final

from siltstone.errors import StoreOpenError, requires
from siltstone.postgres.schema import TABLES, quoted, setup, version_of

with requires("postgres", by="siltstone.PostgresStore"):
    import psycopg
    from psycopg.conninfo import conninfo_to_dict


_SHOWN: Final = ("user", "host", "hostaddr", "port", "dbname", "service")
_OWN: Final = ("version", "meta", "root", "step")  #: tables without rows of sessions


@dataclass(frozen=True, slots=True)
class Standing:
    """The durability of an acknowledged write on this server.

    Attributes:
        server: The version of PostgreSQL.
        tables: The version of the tables.
        is_standby: Whether it follows another server, and is read-only.
        fsync: Whether writes survive a loss of power.
        synchronous_commit: The role's own setting; ``off`` acknowledges before a write is on the disk.
        standbys: ``synchronous_standby_names``: the standbys that must have a write before it is
            acknowledged.
        warnings: The ways in which an acknowledged write may be lost.
    """

    server: str
    tables: int
    is_standby: bool
    fsync: bool
    synchronous_commit: str
    standbys: str
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Erased:
    """The result of ``erase``, and the places that it cannot reach.

    Attributes:
        bytes_before: The size of the tables with their indexes before.
        bytes_after: The size now.
        checkpoint: Whether a checkpoint was written, so that the old files are gone. The role
            ``pg_checkpoint`` may write one.
        transactions: Other transactions that were open meanwhile. Rows that they may still see were kept.
        archive: Whether the server archives its log.
        standbys: Servers that follow this one now; None if the role may not see them.
    """

    bytes_before: int
    bytes_after: int
    checkpoint: bool
    transactions: int
    archive: bool
    standbys: int | None

    @property
    def done(self) -> bool:
        """Whether the files of the tables have no deleted bytes any more."""
        return self.checkpoint and not self.transactions


def address(conninfo: str) -> str:
    """*conninfo* without its secrets.

    Raises:
        StoreOpenError: it is not an address. The error does not quote it, because a part may be a password.
    """
    try:
        given = conninfo_to_dict(conninfo)
        is_one = str(given.get("port") or "0").replace(",", "").isdigit()
    except psycopg.Error:
        given, is_one = {}, False
    if not is_one:
        raise StoreOpenError("that is no address of a database, as libpq takes it", path="")
    return " ".join(f"{key}={given[key]}" for key in _SHOWN if given.get(key))


def look(conninfo: str, schema: str = "siltstone") -> Standing:
    """The durability of a store in this schema.

    Raises:
        StoreOpenError: the server does not answer, there are no tables, or the role may not read them.
    """
    with _connected(conninfo, schema) as connection:
        server, standby, fsync, commit, standbys, version = _one(
            connection,
            "SELECT current_setting('server_version'), pg_is_in_recovery(), current_setting('fsync') = 'on', "
            "current_setting('synchronous_commit'), current_setting('synchronous_standby_names'), "
            f"(SELECT version FROM {quoted(schema)}.version)",
        )
    warnings = []
    if not fsync:
        warnings.append("fsync is off: a power cut of the server may lose or damage what was acknowledged")
    if commit == "off":
        warnings.append("synchronous_commit is off: the end of the server may lose what was acknowledged")
    return Standing(server, version, standby, fsync, commit, standbys, tuple(warnings))


def erase(conninfo: str, schema: str = "siltstone") -> Erased:
    """Rewrites the tables of a store, so that their files lose deleted bytes, and writes a checkpoint.

    Each table is locked meanwhile, and needs room for a second copy of it. The server's log, its archive,
    standbys and backups keep the old bytes.

    Raises:
        StoreOpenError: the server does not answer, there are no tables, or the role does not own them.
    """
    with _connected(conninfo, schema) as connection:
        before = _size(connection, schema)
        for table in (*TABLES, *_OWN):
            connection.execute(f"VACUUM (FULL, ANALYZE) {quoted(schema)}.{table}".encode())
        try:
            connection.execute("CHECKPOINT")
            checkpoint = True
        except psycopg.errors.InsufficientPrivilege:
            checkpoint = False
        others, archive, following = _one(
            connection,
            "SELECT (SELECT count(*) FROM pg_stat_activity "
            "WHERE backend_xmin IS NOT NULL AND pid <> pg_backend_pid() "
            "AND (datname = current_database() OR datname IS NULL)), "
            "current_setting('archive_mode') <> 'off', "
            "CASE WHEN pg_has_role('pg_read_all_stats', 'usage') "
            "THEN (SELECT count(*) FROM pg_stat_replication) END",
        )
        after = _size(connection, schema)
    return Erased(before, after, checkpoint, others, archive, following)


@contextmanager
def passing_schema(conninfo: str, word: str) -> Iterator[str]:
    """A new schema with the tables of a store, which is dropped at the end. Its name begins with *word*.

    Raises:
        StoreOpenError: nobody answers, or the role may not create a schema.
    """
    name = f"{word}_{token_hex(8)}"
    with _connected(conninfo, name, has_tables=False) as connection:
        setup(connection, name)
    try:
        yield name
    finally:
        with _connected(conninfo, name) as connection:
            connection.execute(f"DROP SCHEMA {quoted(name)} CASCADE".encode())


@contextmanager
def _connected(conninfo: str, schema: str, *, has_tables: bool = True) -> Iterator[psycopg.Connection[Any]]:
    """A connection to a database; one that has the tables, unless they are yet to be made."""
    shown = address(conninfo)
    try:
        with psycopg.connect(
            conninfo, autocommit=True, prepare_threshold=None, connect_timeout=10, client_encoding="UTF8"
        ) as connection:
            if has_tables and version_of(connection, schema) is None:
                raise StoreOpenError(
                    f"schema {schema!r} has no tables of a store: make them with `siltstone postgres setup`",
                    path=schema,
                )
            yield connection
    except psycopg.Error as error:
        said = str(error).strip().splitlines()[0]
        raise StoreOpenError(f"the store at {shown}, schema {schema!r}: {said}", path=shown) from error


def _one(connection: psycopg.Connection[Any], sql: str, *values: str) -> tuple[Any, ...]:
    """The one row that *sql* gives."""
    (row,) = connection.execute(sql.encode(), values).fetchall()
    return tuple(row)


def _size(connection: psycopg.Connection[Any], schema: str) -> int:
    (size,) = _one(
        connection,
        "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c "
        "JOIN pg_namespace s ON s.oid = c.relnamespace WHERE s.nspname = %s AND c.relkind = 'r'",
        schema,
    )
    return int(size)
