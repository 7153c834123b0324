"""The SQL of reading and writing a mirror: one statement each, every value bound."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any, Final, NamedTuple, TypeAlias

from siltstone.postgres.schema import KEYS, SCHEMA_VERSION, TABLES, TEXT, Column

__all__ = ["Changed", "Changes", "Found", "Statements", "Write", "weight"]

KEPT_STEPS: Final = 1_000  #: writes that a mirror may be behind without reading everything anew

Row: TypeAlias = tuple[Any, ...]
Changed: TypeAlias = tuple[str, list[Row], list[int]]
"""A table, rows of it that are new or others than before, and the keys of those that left."""


class Changes(NamedTuple):
    """What a write changes, as the core hands it over."""

    tables: list[Changed]
    high_water: int
    sequences: list[tuple[str, int]]
    salt: str


class Write(NamedTuple):
    """A write: where the mirror must stand, and the mark that it leaves."""

    k: int
    name: str
    spaced: bool
    n: int  #: the version that it stands on; 0 for a mirror that nothing was written of
    was: str | None  #: the mark of that version
    mark: str
    changes: Changes


class Found(NamedTuple):
    """What a mirror lacks.

    Attributes:
        n: Where it stands in the database; 0 where nothing was written of it.
        mark: The mark of that version.
        name: Whose it is.
        spaced: Whether that is a namespace.
        was: The mark of the version that was asked about; None where it is not known any more.
        tables: The rows.
        sequences: The highest keys ever given.
        salt: Of digests.
        size: About how many bytes the rows take.
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
_ROW_BYTES: Final = 800  # what a row takes in memory beside its texts: in the database, and in its indexes
_COPIES: Final = 2  # what a byte of a text takes there


def weight(row: Iterable[object]) -> int:
    """About how many bytes a row takes in memory: measured of entries, see ``benches/postgres/memory.py``."""
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
        """All that is newer than version ``n`` of mirror ``k``, in columns that the tables share."""
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
                kind = _kind(column)
                at.append((kind, len(by_kind[kind])))
                by_kind[kind].append(f"t.{column.name}")
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

    def found(self, n: int, rows: Iterable[Row]) -> tuple[int, Found]:
        """The version of the tables, and what a mirror that stands at *n* lacks."""
        names, places = list(TABLES), self._places
        numbers, texts = 1, 1 + self._slots["bigint"]
        bytea = texts + self._slots["text"]
        tables: list[Changed] = [(name, [], []) for name in names]
        gone: dict[str, set[int]] = {name: set() for name in names}
        root: Row = ()
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
        """The statement of a write, and its values. It gives a row, or none where the mirror has moved on."""
        changes = write.changes
        gone = {table: keys for table, _, keys in changes.tables if keys}
        values: dict[str, Any] = {
            "k": write.k,
            "n": write.n,
            "mark": write.mark,
            "was": write.was,
            "salt": changes.salt,
            "sequences": json.dumps(changes.sequences),
            "gone": json.dumps(gone) if gone else "",
        }
        if write.n == 0:
            values.update(name=write.name.encode(), spaced=write.spaced)
        ages = write.n >= KEPT_STEPS
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
    """What a write has for a table, as far as its statement depends on it."""

    table: str
    rows: int  #: none, one, or 2 for any number
    leave: bool  #: whether rows leave


@lru_cache(maxsize=512)
def _writing(schema: str, begins: bool, ages: bool, forms: tuple[Form, ...]) -> str:
    """The statement of writes of those forms: a store has few of them, and writes each again and again."""
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
            f"old AS (DELETE FROM {schema}.step s USING root WHERE s.k = root.k AND s.n = %(old)s::bigint)"
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
    """Rows of a table, over those of the same key.

    One row is bound as it is: most writes have one of each table, and the server takes twice as long to plan
    a statement with arrays.
    """
    columns, keys = TABLES[table], KEYS[table]
    names = [column.name for column in columns]
    others = ", ".join(f"{name} = excluded.{name}" for name in ("n", *names) if name not in keys)
    bound = [f"%({table}_{each.name})s::{_kind(each)}" for each in columns]
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


def _bind(table: str, rows: Sequence[Row], values: dict[str, Any]) -> None:
    """The values of rows, by the names that they have in the statement."""
    for column, cells in zip(TABLES[table], zip(*rows, strict=True), strict=True):
        values[f"{table}_{column.name}"] = cells[0] if len(cells) == 1 else cells


def _kind(column: Column) -> str:
    if column.is_bytea:
        return "bytea"
    return "text" if column.holds == TEXT else "bigint"


def _most(kind: str) -> int:
    """How many columns of that kind a row has at most."""
    return max(3, *(sum(_kind(column) == kind for column in columns) for columns in TABLES.values()))
