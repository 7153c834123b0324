"""siltstone's own file format: all parts of a session, with one JSON line for each part."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from siltstone.archive.lines import Loaded, read_lines, write_lines
from siltstone.errors import ConfigError
from siltstone.knowledge import Correction, Fact, fact_of

__all__ = ["FORMAT", "Record", "read_everything", "write_everything"]

FORMAT: Final = "siltstone-archive-1"
_KINDS: Final = frozenset(
    {"session", "message", "entry", "fact", "correction", "known", "compaction", "end", "vector"}
)


@dataclass(frozen=True, slots=True)
class Record:
    """One line: its kind, its session, and its fields as JSON.

    Attributes:
        kind: ``session`` (its namespace and clock, before all else), ``message``, ``compaction`` (followed by
            its entries), ``end`` (the lines after it belong to no compaction), ``entry``, ``fact``,
            ``correction``, ``known`` (a row of facts in the form of a store) or ``vector``.
        session_id: The session.
        body: The fields. A message has ``seq``, ``created_at`` and ``raw``, the caller's own JSON.
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
        """The fact in a record of kind ``fact``. Unknown fields are left out.

        Raises:
            ConfigError: the record has another kind, or no valid fact.
        """
        if self.kind != "fact":
            raise ConfigError(f"a record of kind {self.kind!r} holds no fact", field="kind", value=self.kind)
        return fact_of(self.body)


def write_everything(path: str | os.PathLike[str], records: Iterable[Record]) -> int:
    """Writes *records* as a new file, completely or not at all. Returns their number.

    Raises:
        ConfigError: a record of an unknown kind.
    """
    return write_lines(Path(path), ({"format": FORMAT, **_fields(record)} for record in records))


def read_everything(path: str | os.PathLike[str]) -> Loaded[Record]:
    """The records of a file, one at a time. Bad lines and other formats are skipped and counted."""
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
