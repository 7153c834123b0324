"""The tables in PostgreSQL, and how they are made.

A row of a table is the row that the core has in SQLite, to the value, checksum included: the core made it,
and the core judges it when it is read. Before its columns stand ``k``, the key of the mirror that it belongs
to, and ``n``, the version of the mirror that wrote it last.

What a user wrote is ``bytea`` (UTF-8), since ``text`` refuses NUL. JSON, and our own words, are ``text``,
never ``jsonb``, which refuses what JSON allows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from siltstone.errors import StoreOpenError, StoreVersionError

if TYPE_CHECKING:
    from typing import Any

    import psycopg

__all__ = ["HASH_RULES", "SCHEMA_VERSION", "TABLES", "Column", "another", "quoted", "setup", "version_of"]

SCHEMA_VERSION: Final = 2
TOKENIZER: Final = "words-1"
HASH_RULES: Final = ("xxh3", "poly31")
BLOCK: Final = 1_024  #: ids of entries that a store takes at once
_LOCK: Final = 0x73746E65  # "stne": set-ups wait for one another

WHOLE, TEXT, USER, BYTES = "bigint", "text", "user", "bytes"


class Column(NamedTuple):
    """A column: its name, what it holds, and whether that may be nothing."""

    name: str
    holds: str  #: ``bigint``, ``text`` (ours, or JSON), ``user`` (text as bytea) or ``bytes``
    optional: bool = False

    @property
    def is_bytea(self) -> bool:
        """Whether PostgreSQL has it as bytes."""
        return self.holds in (USER, BYTES)


def _table(words: str) -> tuple[Column, ...]:
    """``name`` is a bigint, ``:t`` text, ``:u`` a user's text, ``:b`` bytes; ``?`` may be nothing."""
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
"""The mirrored tables, with the columns that they have in the core, in its order."""

KEYS: Final[dict[str, tuple[str, ...]]] = {
    table: {"vector": ("entry",), "forgotten": ("session", "seq", "digest")}.get(table, ("id",))
    for table in TABLES
}
"""What tells rows of a mirror's table apart."""

_BORN = ("session", "stage")  # tables whose rows are listed in the order in which they came


def quoted(name: str) -> str:
    """*name* as SQL has it.

    Raises:
        StoreOpenError: PostgreSQL takes no such name.
    """
    if not name or "\x00" in name or len(name.encode("utf-8", "surrogatepass")) > 63:
        raise StoreOpenError(f"a schema has a name of 1 to 63 bytes, got {name!r}", path=name)
    return '"' + name.replace('"', '""') + '"'


def setup(connection: psycopg.Connection[Any], schema: str = "siltstone", hash_rule: str = "xxh3") -> None:
    """Makes the tables in *schema*, where they are not there; several processes may do so at once.

    Tables of an earlier version are brought up to this one, and keep all that they have. Whoever has them
    open with an earlier siltstone is refused by name from then on.

    Args:
        connection: A connection that is in no transaction, of a role that may create. Tables of an earlier
            version must be its own.
        schema: Where they are made. It is made if need be.
        hash_rule: How words are hashed for ``cosine``, of tables that are made.

    Raises:
        StoreVersionError: a newer siltstone has made them. They stay as they are.
    """
    name = quoted(schema)
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK], prepare=False)
        found = version_of(connection, schema)
        if found is None:
            exists = connection.execute(
                "SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = %s", [schema], prepare=False
            )
            if exists.fetchone() is None:  # who has its schema already need not be allowed to make one
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
    """The version of the tables in *schema*; None where there are none."""
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
    """The error of tables that another version of siltstone has made."""
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
    """Gives tables of version 1 what version 2 has: accounts of recalls and of compactions."""
    name = quoted(schema)
    statements = [
        *_table_statements(name, "recall"),
        f"ALTER TABLE {name}.compaction ADD COLUMN notes text COLLATE \"C\" NOT NULL DEFAULT ''",
        f"UPDATE {name}.version SET version = {SCHEMA_VERSION}",
    ]
    connection.execute(";\n".join(statements), prepare=False)
    # Who may use the other tables may use the new one.
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
        # A client reads the version with everything that it asks or writes: one that is too old does neither.
        f"CREATE TABLE {schema}.version (version integer NOT NULL)",
        f"INSERT INTO {schema}.version VALUES ({SCHEMA_VERSION})",
        f'CREATE TABLE {schema}.meta (key text COLLATE "C" PRIMARY KEY, value text COLLATE "C" NOT NULL)',
        f"CREATE SEQUENCE {schema}.entry_ids AS bigint INCREMENT BY {BLOCK} MAXVALUE {2**53}",
        f"CREATE SEQUENCE {schema}.arrivals AS bigint",
        # Where a mirror stands: who writes names n and mark, and a mark is drawn for every write.
        f"""CREATE TABLE {schema}.root (
            k bigint PRIMARY KEY, name bytea NOT NULL, spaced boolean NOT NULL, n bigint NOT NULL,
            mark uuid NOT NULL, salt text NOT NULL, sequences text NOT NULL)""",
        # The last writes, by which a client knows what it lacks, and whether a write of its own was done.
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
    """What makes a mirrored table in *schema*, which is quoted."""
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
