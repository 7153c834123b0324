"""Our own file: all that a session is made of, a JSON line each."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from siltstone.archive.lines import Loaded, read_lines, write_lines
from siltstone.errors import ConfigError
from siltstone.knowledge import Correction, Fact, fact_of
from siltstone.values import asdict, dataclass

__all__ = ["FORMAT", "Record", "read_everything", "write_everything"]

FORMAT: Final = "siltstone-archive-1"
_KINDS: Final = frozenset(
    {"session", "message", "entry", "fact", "correction", "known", "compaction", "end", "vector"}
)


@dataclass(frozen=True, slots=True)
class Record:
    """One line: what it is, whose it is, and its fields, which are JSON.

    Attributes:
        kind: ``session`` (its namespace and clock, before the rest), ``message``, ``compaction`` (the entries
            that it brought follow it), ``end`` (what follows belongs to no compaction), ``entry``, ``fact``,
            ``correction``, ``known`` (a row of facts as a store has it) or ``vector``.
        session_id: The session.
        body: All of it. Of a message ``seq``, ``created_at`` and ``raw``, the caller's own JSON.
    """

    kind: str
    session_id: str
    body: Mapping[str, Any]

    @classmethod
    def of(cls, known: Fact | Correction, session_id: str = "") -> Record:
        """The record of a fact or a correction."""
        kind = "fact" if isinstance(known, Fact) else "correction"
        return cls(kind, known.session_id if isinstance(known, Fact) else session_id, asdict(known))

    def fact(self) -> Fact:
        """The fact that a record of kind ``fact`` holds. Fields that this version does not know are left out.

        Raises:
            ConfigError: it is of another kind, or holds no fact.
        """
        if self.kind != "fact":
            raise ConfigError(f"a record of kind {self.kind!r} holds no fact", field="kind", value=self.kind)
        return fact_of(self.body)


def write_everything(path: str | os.PathLike[str], records: Iterable[Record]) -> int:
    """Writes *records*, whole or not at all; how many there were.

    Raises:
        ConfigError: a record of an unknown kind.
    """
    return write_lines(Path(path), ({"format": FORMAT, **_fields(record)} for record in records))


def read_everything(path: str | os.PathLike[str]) -> Loaded[Record]:
    """The records of a file, streamed. Lines of another format, and bad ones, are skipped and counted."""
    return read_lines(Path(path), _record)


def _fields(record: Record) -> dict[str, Any]:
    if record.kind not in _KINDS:
        known = ", ".join(sorted(_KINDS))
        raise ConfigError(
            f"unknown kind of record {record.kind!r}; known are {known}", field="kind", value=record.kind
        )
    return {"kind": record.kind, "session_id": record.session_id, "body": dict(record.body)}


def _record(line: dict[str, Any]) -> Record | None:
    kind, session_id, body = line.get("kind"), line.get("session_id"), line.get("body")
    if line.get("format") != FORMAT or kind not in _KINDS:
        return None
    if not isinstance(session_id, str) or not isinstance(body, dict):
        return None
    return Record(kind, session_id, body)
