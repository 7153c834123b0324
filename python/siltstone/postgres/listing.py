"""Queries over the tables of all mirrors: the mirror of a session, lists of sessions, and totals."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, TypeAlias

from siltstone import _native
from siltstone.errors import StoreOpenError
from siltstone.memory.convert import datetime_from
from siltstone.memory.reports import SessionInfo, StoreStats
from siltstone.postgres.database import Database
from siltstone.postgres.schema import TABLES

__all__ = ["Listing", "Place"]

Place: TypeAlias = tuple[str, bool]
"""The owner of a mirror: the name of a session or of a namespace, and whether it is a namespace."""


class Listing:
    """Queries to a database that no single mirror can answer."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._schema = database.name

    def place(self, session_id: str) -> Place | None:
        """The mirror of a session; None if the session was never written."""
        number = _native.word_hash(session_id)
        rows = self._rows(
            "SELECT s.name, r.name, r.spaced FROM {s}.session s JOIN {s}.root r ON r.k = s.k "
            "WHERE s.name_hash = %s",
            number - 2**64 if number >= 2**63 else number,
        )
        for name, own, spaced in rows:
            if name != session_id.encode():
                raise StoreOpenError(
                    f"session {session_id!r} has the hash of {name.decode(errors='replace')!r}: "
                    "choose another name",
                    path=self._database.schema,
                )
            return own.decode(), spaced
        return None

    def place_of_entry(self, entry_id: int) -> Place | None:
        """The mirror that has the entry; None if there is no such entry."""
        rows = self._rows(
            "SELECT r.name, r.spaced FROM {s}.entry t JOIN {s}.root r ON r.k = t.k WHERE t.id = %s", entry_id
        )
        return next(((name.decode(), spaced) for name, spaced in rows), None)

    def places(self, entry_ids: Collection[int] | None) -> list[Place]:
        """The mirrors of those entries; for None, all mirrors."""
        if entry_ids is None:
            rows = self._rows("SELECT name, spaced FROM {s}.root ORDER BY k")
        else:
            known = [each for each in entry_ids if abs(each) < 2**63]
            rows = self._rows(
                "SELECT name, spaced FROM {s}.root WHERE k IN "
                "(SELECT k FROM {s}.entry WHERE id = ANY(%s::bigint[]) UNION "
                "SELECT k FROM {s}.quarantine WHERE id = ANY(%s::bigint[])) ORDER BY k",
                known,
                known,
            )
        return [(name.decode(), spaced) for name, spaced in rows]

    def sessions(self, namespace: str | None, offset: int, limit: int) -> list[SessionInfo]:
        """Sessions that were not deleted, in the order of their first writes."""
        rows = self._rows(
            "SELECT name, namespace, title, next_seq, entries, compactions, tokens, first_at, last_at "
            "FROM {s}.session WHERE dropped = 0 AND (%s::bytea IS NULL OR namespace = %s::bytea) "
            "ORDER BY born OFFSET %s LIMIT %s",
            *[None if namespace is None else namespace.encode()] * 2,
            offset,
            limit,
        )
        return [_info(row) for row in rows]

    def session_with_settings(self, has: str, lacks: str) -> tuple[str, str] | None:
        """The first session whose settings contain the text *has*, and do not contain a non-empty *lacks*."""
        rows = self._rows(
            "SELECT name, settings FROM {s}.session WHERE settings <> '' AND dropped = 0 "
            "AND position(%s::bytea IN settings) > 0 "
            "AND (%s::bytea = '' OR position(%s::bytea IN settings) = 0) ORDER BY born LIMIT 1",
            has.encode(),
            lacks.encode(),
            lacks.encode(),
        )
        return next(((name.decode(), settings.decode()) for name, settings in rows), None)

    def stats(self) -> StoreStats:
        """The totals of the store."""
        names = ", ".join(
            f"('{self._schema.replace(chr(39), chr(39) * 2)}.{table}')" for table in (*TABLES, "root", "step")
        )
        ((sessions, messages, entries, compactions, size, aside, disk),) = self._rows(
            "SELECT count(*) FILTER (WHERE next_seq > 0 OR entries > 0), coalesce(sum(next_seq), 0)::bigint, "
            "coalesce(sum(entries), 0)::bigint, coalesce(sum(compactions), 0)::bigint, "
            "(SELECT coalesce(sum(octet_length(text)), 0)::bigint FROM {s}.entry), "
            "(SELECT count(*) FROM {s}.quarantine), "
            f"(SELECT sum(pg_total_relation_size(name::regclass))::bigint FROM (VALUES {names}) AS t (name)) "
            "FROM {s}.session"
        )
        return StoreStats(sessions, messages, entries, compactions, size, disk, quarantined=aside)

    def lacking_vectors(self) -> int:
        """How many entries have no vectors."""
        sql = "SELECT (SELECT count(*) FROM {s}.entry) - (SELECT count(*) FROM {s}.vector)"
        ((lacking,),) = self._rows(sql)
        return int(lacking)

    def _rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        return self._database.rows(sql.replace("{s}", self._schema), values)


def _info(row: tuple[Any, ...]) -> SessionInfo:
    name, namespace, title, messages, entries, compactions, tokens, first_at, last_at = row
    begun, active = (None if at is None else datetime_from(at) for at in (first_at, last_at))
    counts = messages, entries, compactions, tokens
    return SessionInfo(name.decode(), namespace.decode(), title.decode(), *counts, begun, active)
