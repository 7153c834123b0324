"""Defines and makes the tables in PostgreSQL.

A row of a table has exactly the values of the core's row in SQLite, with its checksum: the core made the row,
and checks it when it is read. Two columns stand before them: ``k``, the key of its mirror, and ``n``, the
version of the mirror after the last write of the row.

Texts of users are ``bytea`` (UTF-8), because ``text`` refuses NUL. JSON and our own words are ``text``, not
``jsonb``, because ``jsonb`` refuses some values that JSON allows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from siltstone.errors import StoreOpenError, StoreVersionError

if TYPE_CHECKING:
    import psycopg


__all__ = ["HASH_RULES", "SCHEMA_VERSION", "TABLES", "Column", "another", "quoted", "setup", "version_of"]

SCHEMA_VERSION: Final = 2
TOKENIZER: Final = "words-1"
HASH_RULES: Final = ("xxh3", "poly31")
BLOCK: Final = 1_024  #: ids of entries that a store takes at once
_LOCK: Final = 0x73746E65  # "stne": the lock by which set-ups wait for each other

WHOLE, TEXT, USER, BYTES = "bigint", "text", "user", "bytes"


class Column(NamedTuple):
    """A column: its name, the kind of its values, and whether they may be NULL."""

    name: str
    holds: str  #: ``bigint``, ``text`` (ours, or JSON), ``user`` (text as bytea) or ``bytes``
    optional: bool = False

    @property
    def is_bytea(self) -> bool:
        """Whether PostgreSQL has it as bytes."""
        return self.holds in (USER, BYTES)


def _table(words: str) -> tuple[Column, ...]:
    """Parses columns: ``name`` bigint, ``:t`` text, ``:u`` a user's text, ``:b`` bytes, ``?`` may be NULL."""
    kinds = {"": WHOLE, "t": TEXT, "u": USER, "b": BYTES}
    columns = []
    for word in words.split():
        name, _, kind = word.rstrip("?").partition(":")
        columns.append(Column(name, kinds[kind], word.endswith("?")))
    return tuple(columns)


TABLES: Final[dict[str, tuple[Column, ...]]] = {
    "session": _table(
        "id name:u name_hash namespace:u next_seq entries compactions revision epoch redactions counter "
        "write_id dropped head? clock:t settings:t tokens first_at? last_at? title:u checksum"
    ),
    "message": _table("id write_id raw:t role:t dialect:t provenance:t tokens created_at checksum"),
    "compaction": _table(
        "id session parent? policy:u reason:u state:t covers:t view:t derived:t next_seq model:u usage:t "
        "tokens_before tokens_after messages_before messages_after created_at checksum notes:t"
    ),
    "derived": _table(
        "id session kind:t seq? level degraded redacted dialect:t covers:t raw:u created_at digest checksum"
    ),
    "entry": _table(
        "id session source_start source_end role:u name:u? kind:u tags:t created_at expires_at? repaired "
        "compaction? text:u fingerprint checksum"
    ),
    "stage": _table("id session token:t fingerprint:u digest state size held receipt:t created_at checksum"),
    "staged": _table(
        "id stage place source_start source_end role:u name:u? kind:u tags:t created_at expires_at? repaired "
        "text:u checksum"
    ),
    "quarantine": _table("id session text:b found_at checksum"),
    "embedder": _table("id name:u dimension checksum"),
    "vector": _table("entry session revision embedder data:b checksum"),
    "fact": _table("id session namespace:u state:u key:u body:u created_at changed_at checksum"),
    "recall": _table("id created_at body:t checksum"),
    "forgotten": _table("session seq digest:b checksum"),
}
"""The mirrored tables with their columns, in the order of the core."""

KEYS: Final[dict[str, tuple[str, ...]]] = {
    table: {"vector": ("entry",), "forgotten": ("session", "seq", "digest")}.get(table, ("id",))
    for table in TABLES
}
"""The key columns of each table, within a mirror."""

_BORN = ("session", "stage")  # tables whose rows are listed in the order of their insertion


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

    Tables of an earlier version are upgraded, and keep all rows. An earlier siltstone that has them open then
    gets ``StoreVersionError``.

    Args:
        connection: A connection outside any transaction, of a role that may create tables. To upgrade tables,
            the role must own them.
        schema: The schema of the tables. It is created if it is missing.
        hash_rule: The rule of new tables by which words are hashed for ``cosine``.

    Raises:
        StoreVersionError: a newer siltstone has made the tables. They stay unchanged.
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
                f"INSERT INTO {name}.meta (key, value) VALUES ('hash_rule', %s), "
                f"('tokenizer', '{TOKENIZER}')",
                [hash_rule],
                prepare=False,
            )
        elif found > SCHEMA_VERSION:
            raise another(schema, found)
        elif found < SCHEMA_VERSION:
            _bring_up_to_date(connection, schema)


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
    way = (
        "use a newer siltstone"
        if version > SCHEMA_VERSION
        else "bring them up to it with PostgresStore.open(..., setup=True) or `siltstone postgres setup`"
    )
    return StoreVersionError(
        f"the tables in schema {schema!r} have version {version}, and this siltstone knows {SCHEMA_VERSION}: "
        f"{way}",
        path=schema,
    )


def _bring_up_to_date(connection: psycopg.Connection[Any], schema: str) -> None:
    """Upgrades tables from version 1 to 2: adds the table ``recall`` and the column ``compaction.notes``."""
    name = quoted(schema)
    statements = [
        *_table_statements(name, "recall"),
        f"ALTER TABLE {name}.compaction ADD COLUMN notes text COLLATE \"C\" NOT NULL DEFAULT ''",
        f"UPDATE {name}.version SET version = {SCHEMA_VERSION}",
    ]
    connection.execute(";\n".join(statements), prepare=False)
    # Roles that may use the other tables may use the new one too.
    granted = connection.execute(
        "SELECT r.rolname, a.privilege_type FROM pg_catalog.pg_class c, pg_catalog.aclexplode(c.relacl) a "
        "JOIN pg_catalog.pg_roles r ON r.oid = a.grantee "
        "WHERE c.oid = %s::regclass AND a.grantee <> c.relowner",
        [f"{name}.fact"],
        prepare=False,
    )
    for row in granted.fetchall():
        role, privilege = row.values() if isinstance(row, dict) else row
        connection.execute(f"GRANT {privilege} ON {name}.recall TO {quoted(role)}", prepare=False)


def _definition(schema: str) -> str:
    statements = [
        # Every statement of a client reads the version, so a client that is too old reads and writes nothing.
        f"CREATE TABLE {schema}.version (version integer NOT NULL)",
        f"INSERT INTO {schema}.version VALUES ({SCHEMA_VERSION})",
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
        f"CREATE UNIQUE INDEX stage_token ON {schema}.stage (token)",
        f"CREATE INDEX stage_waiting ON {schema}.stage (born) WHERE state = 0",
    ]
    return ";\n".join(statements)


def _table_statements(schema: str, table: str) -> list[str]:
    """The statements that make a mirrored table in *schema*, a quoted name."""
    lines = ["k bigint NOT NULL", "n bigint NOT NULL"]
    for column in TABLES[table]:
        kind = "bytea" if column.is_bytea else column.holds
        kind += ' COLLATE "C"' if column.holds == TEXT else ""
        lines.append(f"{column.name} {kind}{'' if column.optional else ' NOT NULL'}")
    if table in _BORN:
        sequence = f"{schema}.arrivals".replace("'", "''")
        lines.append(f"born bigint NOT NULL DEFAULT nextval('{sequence}'::regclass)")
    lines.append(f"PRIMARY KEY (k, {', '.join(KEYS[table])})")
    return [
        f"CREATE TABLE {schema}.{table} ({', '.join(lines)})",
        f"CREATE INDEX {table}_n ON {schema}.{table} (k, n)",
    ]
