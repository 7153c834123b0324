"""Defines and makes the tables in PostgreSQL.

A row of a table has exactly the values of the core's row in SQLite, with its checksum: the core made the row,
and checks it when it is read. Two columns stand before them: ``k``, the key of its mirror, and ``n``, the
version of the mirror after the last write of the row.

Texts are ``bytea`` (UTF-8), because ``text`` refuses NUL. ``convert_from(raw, 'UTF8')`` shows one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple
from zlib import crc32

from siltstone import _native
from siltstone.errors import StoreOpenError, StoreVersionError

if TYPE_CHECKING:
    import psycopg


__all__ = ["HASH_RULES", "SCHEMA_VERSION", "TABLES", "Column", "another", "quoted", "setup", "version_of"]

TOKENIZER: Final = "words-1"
HASH_RULES: Final = ("xxh3", "poly31")
BLOCK: Final = 1_024  #: ids of entries that a store takes at once
_LOCK: Final = 0x73746E65  # "stne": the lock by which set-ups wait for each other


class Column(NamedTuple):
    """A column of a mirrored table.

    Attributes:
        name: Its name, as in the core.
        kind: The type of its values in PostgreSQL: ``bigint`` or ``bytea``.
        optional: Whether they may be NULL.
        is_key: Whether it is a part of the table's key within a mirror.
    """

    name: str
    kind: str
    optional: bool
    is_key: bool


_CORE_VERSION, _CORE_TABLES = _native.mirror_schema()
_KINDS = {"INTEGER": "bigint", "TEXT": "bytea", "BLOB": "bytea"}

TABLES: Final[dict[str, tuple[Column, ...]]] = {
    table: tuple(Column(name, _KINDS[kind], optional, is_key) for name, kind, optional, is_key in columns)
    for table, columns in _CORE_TABLES
}
"""The mirrored tables with their columns, as the core has them and in its order."""

KEYS: Final[dict[str, tuple[str, ...]]] = {
    table: tuple(column.name for column in columns if column.is_key) for table, columns in TABLES.items()
}
"""The key columns of each table, within a mirror."""


def quoted(name: str) -> str:
    """*name* as a quoted identifier of SQL.

    Raises:
        StoreOpenError: PostgreSQL does not allow such a name.
    """
    if not name or "\x00" in name or len(name.encode("utf-8", "surrogatepass")) > 63:
        raise StoreOpenError(f"a schema has a name of 1 to 63 bytes, got {name!r}", path=name)
    return '"' + name.replace('"', '""') + '"'


def setup(connection: psycopg.Connection[Any], schema: str = "siltstone", hash_rule: str = "xxh3") -> None:
    """Makes missing tables in *schema*. Several processes may call it at the same time.

    Args:
        connection: A connection outside any transaction, of a role that may create tables.
        schema: The schema of the tables. It is created if it is missing.
        hash_rule: The rule of new tables by which words are hashed for ``cosine``.

    Raises:
        StoreVersionError: another version of siltstone has made the tables. They stay unchanged.
    """
    name = quoted(schema)
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK], prepare=False)
        found = version_of(connection, schema)
        if found is None:
            exists = connection.execute(
                "SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = %s", [schema], prepare=False
            )
            if exists.fetchone() is None:  # with an existing schema the role needs no right to create one
                connection.execute(f"CREATE SCHEMA {name}", prepare=False)
            connection.execute(_definition(name), prepare=False)
            connection.execute(
                f"WITH version AS (INSERT INTO {name}.version VALUES ({SCHEMA_VERSION})) "
                f"INSERT INTO {name}.meta (key, value) VALUES ('hash_rule', %s), "
                f"('tokenizer', '{TOKENIZER}')",
                [hash_rule],
                prepare=False,
            )
        elif found != SCHEMA_VERSION:
            raise another(schema, found)


def version_of(connection: psycopg.Connection[Any], schema: str) -> int | None:
    """The version of the tables in *schema*; None if there are no tables."""
    there = connection.execute(
        "SELECT 1 FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace s ON s.oid = c.relnamespace "
        "WHERE s.nspname = %s AND c.relname = 'version' AND c.relkind = 'r'",
        [schema],
        prepare=False,
    )
    if there.fetchone() is None:
        return None
    row = connection.execute(f"SELECT version FROM {quoted(schema)}.version", prepare=False).fetchone()
    return None if row is None else int(next(iter(row.values())) if isinstance(row, dict) else row[0])


def another(schema: str, version: int) -> StoreVersionError:
    """The error for tables that another version of siltstone has made."""
    found, own = (f"{each:08x}" for each in (version, SCHEMA_VERSION))
    return StoreVersionError(
        f"the tables in schema {schema!r} have version {found}, and this siltstone reads and writes version "
        f"{own}: use the siltstone that made them, or export their sessions with that one (siltstone export "
        "--format everything) and import them into a new schema",
        path=schema,
        version=found,
        supported=own,
    )


def _definition(schema: str) -> str:
    statements = [
        # Every statement of a client reads the version, so a client of another one reads and writes nothing.
        f"CREATE TABLE {schema}.version (version integer NOT NULL)",
        f'CREATE TABLE {schema}.meta (key text COLLATE "C" PRIMARY KEY, value text COLLATE "C" NOT NULL)',
        f"CREATE SEQUENCE {schema}.entry_ids AS bigint INCREMENT BY {BLOCK} MAXVALUE {2**53}",
        f"CREATE SEQUENCE {schema}.arrivals AS bigint",
        # The state of each mirror: a writer names n and mark, and every write has a new random mark.
        f"""CREATE TABLE {schema}.root (
            k bigint PRIMARY KEY, name bytea NOT NULL, spaced boolean NOT NULL, n bigint NOT NULL,
            mark uuid NOT NULL, salt text NOT NULL, sequences text NOT NULL)""",
        # The last writes: a client finds the rows that it lacks, and the outcome of its own write.
        f"""CREATE TABLE {schema}.step (
            k bigint NOT NULL, n bigint NOT NULL, mark uuid NOT NULL, gone text NOT NULL,
            PRIMARY KEY (k, n))""",
    ]
    for table in TABLES:
        statements += _table_statements(schema, table)
    statements += [
        f"CREATE UNIQUE INDEX session_name ON {schema}.session (name_hash)",
        f"CREATE INDEX session_born ON {schema}.session (born)",
        f"CREATE INDEX session_settings ON {schema}.session (born) WHERE settings <> ''",
        f"CREATE INDEX entry_id ON {schema}.entry (id)",
    ]
    return ";\n".join(statements)


def _table_statements(schema: str, table: str) -> list[str]:
    """The statements that make a mirrored table in *schema*, a quoted name."""
    columns = [f"{each.name} {each.kind}{'' if each.optional else ' NOT NULL'}" for each in TABLES[table]]
    lines = ["k bigint NOT NULL", "n bigint NOT NULL", *columns]
    if table == "session":  # sessions are listed in the order of their insertion
        sequence = f"{schema}.arrivals".replace("'", "''")
        lines.append(f"born bigint NOT NULL DEFAULT nextval('{sequence}'::regclass)")
    lines.append(f"PRIMARY KEY (k, {', '.join(KEYS[table])})")
    return [
        f"CREATE TABLE {schema}.{table} ({', '.join(lines)})",
        f"CREATE INDEX {table}_n ON {schema}.{table} (k, n)",
    ]


SCHEMA_VERSION: Final = crc32(f"{_CORE_VERSION} {_definition('siltstone')}".encode()) >> 1
"""The version of the tables: a digest of their definition, and of the version of the core's rows."""
