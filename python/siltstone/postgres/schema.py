"""The tables in PostgreSQL, and the SQL that reads or writes them: one statement for each.

A row of a table has exactly the values of the core's row in SQLite, with its checksum: the core made the row,
and checks it when it is read. Two columns stand before them: ``k``, the key of its mirror, and ``n``, the
version of the mirror after the last write of the row.

Texts are ``bytea`` (UTF-8), because ``text`` refuses NUL. ``convert_from(raw, 'UTF8')`` shows one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias
from zlib import crc32

from siltstone import _native
from siltstone.errors import StoreOpenError, StoreVersionError

if TYPE_CHECKING:
    import psycopg


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
    check_encoding(connection)
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


def check_encoding(connection: psycopg.Connection[Any]) -> None:
    """Checks that texts of every script can be kept, and read again. It asks the server nothing.

    Raises:
        StoreOpenError: the database has another encoding than UTF-8, or a caller's own pool has.
    """
    told = connection.info.parameter_status
    if (has := told("server_encoding")) != "UTF8":
        raise StoreOpenError(
            f"database {connection.info.dbname!r} has the encoding {has}, and a store needs UTF8: make one "
            f"with CREATE DATABASE ... ENCODING 'UTF8' TEMPLATE template0",
            path=connection.info.dbname,
        )
    if (has := told("client_encoding")) != "UTF8":
        raise StoreOpenError(
            f"the connections of the pool have the encoding {has}, and a store needs UTF8: open the pool "
            "with kwargs={'client_encoding': 'UTF8'}",
            path=connection.info.dbname,
        )


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


# The SQL that reads or writes a mirror: one statement for each, with every value as a parameter.

KEPT_STEPS: Final = 1_000  #: writes by which a mirror may be behind; with more, it reads everything again
AGED: Final = 64  #: how many older steps a write deletes at once: seldom, because each costs the server time

Row: TypeAlias = tuple[Any, ...]
Changed: TypeAlias = tuple[str, list[Row], list[int]]
"""A table, its new and changed rows, and the keys of its deleted rows."""


class Changes(NamedTuple):
    """The changes of a write, as the core passes them."""

    tables: list[Changed]
    high_water: int
    sequences: list[tuple[str, int]]
    salt: str


class Write(NamedTuple):
    """A write: the version that the mirror must have, and the new mark."""

    k: int
    name: str
    spaced: bool
    n: int  #: the version that it is based on; 0 for a mirror without rows
    was: str | None  #: the mark of that version
    mark: str
    changes: Changes


class Found(NamedTuple):
    """The rows that a mirror lacks.

    Attributes:
        n: The version in the database; 0 if nothing was written yet.
        mark: The mark of that version.
        name: The name of the session or namespace.
        spaced: Whether it is a namespace.
        was: The mark of the mirror's own version; None if ``step`` no longer has it.
        tables: The rows.
        sequences: The highest key that each table ever had.
        salt: The salt of digests.
        size: The approximate bytes of the rows in memory.
    """

    n: int
    mark: str | None
    name: bytes | None
    spaced: bool
    was: str | None
    tables: list[Changed]
    sequences: list[tuple[str, int]]
    salt: str
    size: int


_STEP: Final = len(TABLES)
_ROOT: Final = _STEP + 1
_ROW_BYTES: Final = 800  # bytes of a row in memory without its texts: in the database and in its indexes
_COPIES: Final = 2  # bytes in memory for each byte of a text


def weight(row: Iterable[object]) -> int:
    """The approximate bytes of a row in memory, measured with entries by ``benches/postgres/bench.py``."""
    return _ROW_BYTES + _COPIES * sum(len(value) for value in row if isinstance(value, (str, bytes)))


class Statements:
    """The statements over the tables of a schema, which is quoted."""

    def __init__(self, schema: str) -> None:
        self.schema = schema
        self.where = f"""
            SELECT v.version, r.n, r.mark::text
            FROM {schema}.version v LEFT JOIN {schema}.root r ON r.k = %(k)s::bigint"""
        self.settle = f"""
            SELECT r.n, r.mark::text, (SELECT s.mark::text FROM {schema}.step s WHERE s.k = r.k AND s.n = %s)
            FROM {schema}.root r WHERE r.k = %s FOR UPDATE OF r"""
        self._slots = {kind: _most(kind) for kind in ("bigint", "text", "bytea")}
        self._places: list[Callable[[Row], Row]] = []
        self.read = self._read()

    # -- reading

    def _read(self) -> str:
        """Selects the rows of mirror ``k`` above version ``n``. The tables share the result's columns."""
        parts = [
            self._part(
                _ROOT,
                f"{self.schema}.version v LEFT JOIN {self.schema}.root t ON t.k = %(k)s::bigint",
                {
                    "bigint": ["v.version::bigint", "t.n", "t.spaced::integer::bigint"],
                    "text": ["t.mark::text", "t.salt", "t.sequences"],
                    "bytea": ["t.name"],
                },
            ),
            self._part(
                _STEP,
                f"{self.schema}.step t WHERE t.k = %(k)s::bigint AND t.n >= %(n)s::bigint",
                {"bigint": ["t.n"], "text": ["t.mark::text", "t.gone"], "bytea": []},
            ),
        ]  # fmt: skip
        for place, (table, columns) in enumerate(TABLES.items()):
            by_kind: dict[str, list[str]] = {"bigint": [], "text": [], "bytea": []}
            at: list[tuple[str, int]] = []
            for column in columns:
                at.append((column.kind, len(by_kind[column.kind])))
                by_kind[column.kind].append(f"t.{column.name}")
            offsets = {"bigint": 1, "text": 1 + self._slots["bigint"]}
            offsets["bytea"] = offsets["text"] + self._slots["text"]
            self._places.append(itemgetter(*(offsets[kind] + index for kind, index in at)))
            where = f"{self.schema}.{table} t WHERE t.k = %(k)s::bigint AND t.n > %(n)s::bigint"
            parts.append(self._part(place, where, by_kind))
        return " UNION ALL ".join(parts)

    def _part(self, place: int, source: str, columns: dict[str, list[str]]) -> str:
        shown = [f"{place}::bigint"]
        for kind, most in self._slots.items():
            names = columns[kind]
            shown += names + [f"NULL::{kind}"] * (most - len(names))
        return f"(SELECT {', '.join(shown)} FROM {source})"

    def found(self, n: int, rows: Iterable[Row]) -> tuple[int | None, Found]:
        """The version of the tables, or None, and the rows that a mirror of version *n* lacks."""
        names, places = list(TABLES), self._places
        numbers, texts = 1, 1 + self._slots["bigint"]
        bytea = texts + self._slots["text"]
        tables: list[Changed] = [(name, [], []) for name in names]
        gone: dict[str, set[int]] = {name: set() for name in names}
        root: Row = (None,) * (bytea + 1)
        was, size = None, 0
        for row in rows:
            place = row[0]
            if place < _STEP:
                tables[place][1].append(places[place](row))
                size += weight(row[texts:])
            elif place == _ROOT:
                root = row
            elif row[numbers] == n:
                was = row[texts]
            else:
                for table, ids in json.loads(row[texts + 1] or "{}").items():
                    gone[table].update(ids)
        changed = [(name, rows, sorted(gone[name])) for name, rows, _ in tables if rows or gone[name]]
        version, at, spaced = root[numbers : numbers + 3]
        mark, salt, sequences = root[texts : texts + 3]
        last = [(table, key) for table, key in json.loads(sequences or "[]")]
        return version, Found(at or 0, mark, root[bytea], bool(spaced), was, changed, last, salt or "", size)

    # -- writing

    def write(self, write: Write) -> tuple[str, dict[str, Any]]:
        """The statement of a write, and its values. It gives a row, or none if the version has changed."""
        changes = write.changes
        gone = {table: keys for table, _, keys in changes.tables if keys}
        values: dict[str, Any] = {
            "k": write.k,
            "n": write.n,
            "mark": write.mark,
            "was": write.was,
            "salt": changes.salt,
            "sequences": _as_json(changes.sequences),
            "gone": json.dumps(gone) if gone else "",
        }
        if write.n == 0:
            values.update(name=write.name.encode(), spaced=write.spaced)
        ages = write.n >= KEPT_STEPS and write.n % AGED == 0
        if ages:
            values["old"] = write.n - KEPT_STEPS
        forms = []
        for table, rows, keys in changes.tables:
            forms.append(Form(table, min(len(rows), 2), bool(keys)))
            if keys:
                values[f"{table}_gone"] = keys
            if rows:
                _bind(table, rows, values)
        return _writing(self.schema, write.n == 0, ages, tuple(forms)), values


class Form(NamedTuple):
    """The properties of a table's changes that determine the text of the statement."""

    table: str
    rows: int  #: 0, 1, or 2 for any larger number
    leave: bool  #: whether rows are deleted


@lru_cache(maxsize=512)
def _writing(schema: str, begins: bool, ages: bool, forms: tuple[Form, ...]) -> str:
    """The statement for changes of these forms. It is cached: a store has few forms, and uses each often."""
    current = f"(SELECT version FROM {schema}.version) = {SCHEMA_VERSION}"
    if begins:
        root = (
            f"INSERT INTO {schema}.root (k, name, spaced, n, mark, salt, sequences) "
            f"SELECT %(k)s::bigint, %(name)s::bytea, %(spaced)s::boolean, 1, %(mark)s::uuid, "
            f"%(salt)s::text, %(sequences)s::text "
            f"WHERE {current} ON CONFLICT (k) DO NOTHING RETURNING k, n"
        )
    else:
        root = (
            f"UPDATE {schema}.root SET n = n + 1, mark = %(mark)s::uuid, salt = %(salt)s::text, "
            f"sequences = %(sequences)s::text WHERE k = %(k)s::bigint AND n = %(n)s::bigint "
            f"AND mark = %(was)s::uuid AND {current} RETURNING k, n"
        )
    parts = [
        f"root AS ({root})",
        f"""step AS (INSERT INTO {schema}.step (k, n, mark, gone)
                SELECT k, n, %(mark)s::uuid, %(gone)s::text FROM root)""",
    ]
    if ages:
        parts.append(
            f"old AS (DELETE FROM {schema}.step s USING root WHERE s.k = root.k AND s.n <= %(old)s::bigint)"
        )
    for table, rows, leave in forms:
        if leave:
            parts.append(
                f"{table}_gone AS (DELETE FROM {schema}.{table} t USING root "
                f"WHERE t.k = root.k AND t.{KEYS[table][0]} = ANY(%({table}_gone)s::bigint[]))"
            )
        if rows:
            parts.append(_upsert(schema, table, is_one=rows == 1))
    return f"WITH {', '.join(parts)} SELECT n FROM root"


def _upsert(schema: str, table: str, *, is_one: bool) -> str:
    """Inserts rows of a table, or overwrites rows of the same key.

    A single row has plain parameters, and several have arrays: most writes have one row of each table, and
    the server takes twice as long to plan a statement with arrays.
    """
    columns, keys = TABLES[table], KEYS[table]
    names = [column.name for column in columns]
    others = ", ".join(f"{name} = excluded.{name}" for name in ("n", *names) if name not in keys)
    bound = [f"%({table}_{each.name})s::{each.kind}" for each in columns]
    if is_one:
        source = f"{', '.join(bound)} FROM root"
    else:
        arrays = ", ".join(f"{each}[]" for each in bound)
        source = (
            f"{', '.join(f'u.{name}' for name in names)} "
            f"FROM root, unnest({arrays}) AS u ({', '.join(names)})"
        )
    return (
        f"{table}_rows AS (INSERT INTO {schema}.{table} (k, n, {', '.join(names)}) "
        f"SELECT root.k, root.n, {source} "
        f"ON CONFLICT (k, {', '.join(keys)}) DO UPDATE SET {others})"
    )


def _as_json(sequences: Iterable[tuple[str, int]]) -> str:
    return "[" + ", ".join([f'["{table}", {key}]' for table, key in sequences]) + "]"  # our own words


_NAMES: Final = {table: [f"{table}_{each.name}" for each in columns] for table, columns in TABLES.items()}


def _bind(table: str, rows: Sequence[Row], values: dict[str, Any]) -> None:
    """Adds the values of rows to *values*, by the names of their parameters."""
    values.update(zip(_NAMES[table], rows[0] if len(rows) == 1 else zip(*rows, strict=True), strict=True))


def _most(kind: str) -> int:
    """The largest number of columns of that kind in a row, at least 3."""
    return max(3, *(sum(column.kind == kind for column in columns) for columns in TABLES.values()))
