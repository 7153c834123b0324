"""Reads and writes ``segments.jsonl`` and ``knowledge.jsonl`` in the documented form."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from siltstone.archive.lines import Loaded, read_lines, write_lines
from siltstone.documented import estimate_utf16
from siltstone.knowledge import KINDS, Fact, entities_of, topics_of
from siltstone.memory.entry import StoredEntry

__all__ = [
    "Segment",
    "fact_fields",
    "read_knowledge",
    "read_segments",
    "segment_fields",
    "segment_of",
    "write_knowledge",
    "write_segments",
]

_FIRST, _LAST = -62_135_596_800_000, 253_402_300_799_999  # milliseconds of the years 1 to 9999


@dataclass(frozen=True, slots=True)
class Segment:
    """A message of the documented archive. Its embedding is in ``vectors.bin``, never here.

    Attributes:
        id: A UUID.
        session_id: Its session.
        timestamp: Milliseconds since 1970.
        role: The role of the speaker.
        content: The text.
        tokens: A third of its UTF-16 units, rounded up, and at least 1.
        session_key: The host's own name for the session, if it has one.
        topics: The topics of the text.
        entities: The entities that the text names.
    """

    id: str
    session_id: str
    timestamp: int
    role: str
    content: str
    tokens: int = 0
    session_key: str | None = None
    topics: tuple[str, ...] = field(default=())
    entities: tuple[str, ...] = field(default=())


def segment_of(
    session_id: str,
    role: str,
    content: str,
    created_at: datetime | int,
    *,
    id: str | None = None,  # noqa: A002 - the documented word
    session_key: str | None = None,
) -> Segment:
    """A segment with its id, tokens, topics and entities. A number as *created_at* is in ms since 1970."""
    return Segment(
        id or _new_id(),
        session_id,
        created_at if isinstance(created_at, int) else _ms(created_at),
        role,
        content,
        estimate_utf16(content),
        session_key,
        topics_of(content),
        tuple(entity.text for entity in entities_of(content)),
    )


def of_entry(entry: StoredEntry) -> Segment:
    """The segment of a stored entry. Its id follows from session and entry id, so it is always the same."""
    name = f"{entry.session_id}\0{entry.entry_id}"
    return segment_of(
        entry.session_id,
        entry.role,
        entry.content,
        entry.created_at,
        id=_id_of(name),
    )


def _path(path: str | os.PathLike[str]) -> Path:
    from pathlib import Path  # with urllib: a session without files does without

    return Path(path)


def write_segments(path: str | os.PathLike[str], segments: Iterable[Segment | StoredEntry]) -> int:
    """Writes segments or entries to ``segments.jsonl``, completely or not at all. Returns their number."""
    made = (each if isinstance(each, Segment) else of_entry(each) for each in segments)
    return write_lines(_path(path), map(segment_fields, made))


def read_segments(path: str | os.PathLike[str]) -> Loaded[Segment]:
    """The segments of a file, one at a time. Corrupt and invalid lines are skipped and counted."""
    return read_lines(_path(path), _segment)


def write_knowledge(path: str | os.PathLike[str], facts: Iterable[Fact]) -> int:
    """Writes ``knowledge.jsonl``, completely or not at all, without deleted facts. Superseded ones stay."""
    return write_lines(_path(path), (fact_fields(fact) for fact in facts if fact.deleted_at is None))


def read_knowledge(path: str | os.PathLike[str]) -> tuple[list[Fact], int]:
    """The facts of a file, and the number of bad lines. The last line of an id counts, also a tombstone."""
    loaded = read_lines(_path(path), _fact_or_tombstone)
    facts: dict[str, Fact] = {}
    for each in loaded:
        if isinstance(each, Fact):
            facts[each.id] = each
        else:
            facts.pop(str(each), None)
    return list(facts.values()), loaded.skipped


def segment_fields(segment: Segment) -> dict[str, Any]:
    """The documented JSON of a segment."""
    fields: dict[str, Any] = {"id": segment.id, "sessionId": segment.session_id}
    if segment.session_key is not None:
        fields["sessionKey"] = segment.session_key
    return fields | {
        "timestamp": segment.timestamp,
        "role": segment.role,
        "content": segment.content,
        "tokens": segment.tokens or estimate_utf16(segment.content),
        "metadata": {"topics": list(segment.topics), "entities": list(segment.entities)},
    }


def fact_fields(fact: Fact) -> dict[str, Any]:
    """The documented JSON of a fact."""
    fields: dict[str, Any] = {"id": fact.id, "type": fact.type, "content": fact.content}
    if fact.context:
        fields["context"] = fact.context
    fields["timestamp"] = fact.created_at
    if fact.superseded_by is not None:
        fields["supersededBy"] = fact.superseded_by
    return fields


def _segment(fields: dict[str, Any]) -> Segment | None:
    names = ("id", "sessionId", "role", "content")
    if not all(isinstance(fields.get(name), str) and fields[name] for name in names):
        return None
    timestamp, tokens = _stamp(fields.get("timestamp")), fields.get("tokens")
    if timestamp is None:
        return None
    metadata = fields.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    key = fields.get("sessionKey")
    return Segment(
        fields["id"],
        fields["sessionId"],
        timestamp,
        fields["role"],
        fields["content"],
        tokens if type(tokens) is int and tokens > 0 else estimate_utf16(fields["content"]),
        key if isinstance(key, str) else None,
        _strings(metadata.get("topics")),
        _strings(metadata.get("entities")),
    )


def _fact_or_tombstone(fields: dict[str, Any]) -> Fact | str | None:
    name, content, kind = fields.get("id"), fields.get("content"), fields.get("type")
    if not isinstance(name, str) or not name:
        return None
    if fields.get("_deleted") is True:
        return name
    timestamp = _stamp(fields.get("timestamp"))
    if not isinstance(content, str) or not content or kind not in KINDS or timestamp is None:
        return None
    after, context, session = fields.get("supersededBy"), fields.get("context"), fields.get("sessionId")
    return Fact(
        name,
        str(kind),
        content,
        context if isinstance(context, str) else "",
        timestamp,
        after if isinstance(after, str) else None,
        session_id=session if isinstance(session, str) else "",
    )


def _stamp(value: object) -> int | None:
    """*value* as milliseconds since 1970; None if it is not a time of the years 1 to 9999."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not _FIRST <= value <= _LAST:
        return None
    return int(value)


def _strings(value: object) -> tuple[str, ...]:
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()


def _ms(moment: datetime) -> int:
    zoned = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
    return int(zoned.timestamp() * 1000)


def _new_id() -> str:
    import uuid  # with platform and hashlib: only who makes an id needs it

    return str(uuid.uuid4())


def _id_of(name: str) -> str:
    import uuid

    return str(uuid.uuid5(uuid.NAMESPACE_OID, name))
