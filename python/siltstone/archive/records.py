"""The records of an archive as JSON lines: the documented files, and siltstone's own format."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic, sleep
from typing import Any, BinaryIO, Final, Generic, TypeAlias, TypeVar

from siltstone.documented import estimate_utf16
from siltstone.errors import ConfigError
from siltstone.knowledge import KINDS, Fact, entities_of, topics_of
from siltstone.memory.entry import StoredEntry
from siltstone.messages.json_text import dump

# Files of JSON lines: read line by line without the bad ones, and written completely or not at all.

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]
CAN_LOCK = fcntl is not None  #: whether this system locks a folder; Windows does not


T = TypeVar("T")

LOCK_SECONDS: Final = 5.0  #: as long as a store waits for another process
_LOOK_SECONDS: Final = 0.001
_UNFINISHED: Final = ".part"  #: ends the name of a file that is not complete

#: The state of a file after its last write: its inode, its size, and the time of the write.
Stamp: TypeAlias = tuple[int, int, int]


class Loaded(Generic[T]):
    """The values of a file, in order. After the last value, ``skipped`` is the number of bad lines."""

    def __init__(self, items: Callable[[Loaded[T]], Iterator[T]]) -> None:
        self.skipped = 0
        self._items = items(self)

    def __iter__(self) -> Iterator[T]:
        return self._items


def read_lines(path: Path, parse: Callable[[dict[str, Any]], T | None]) -> Loaded[T]:
    """The results of *parse* for the lines of *path*. A line that gives None or raises is only counted.

    A missing file has no lines. A last line without its line break is read if it is complete.
    """

    def items(loaded: Loaded[T]) -> Iterator[T]:
        try:
            file = path.open("rb")
        except FileNotFoundError:
            return
        with file:
            for line in file:
                if not line.strip():
                    continue
                item = _parsed(line, parse)
                if item is None:
                    loaded.skipped += 1
                else:
                    yield item

    return Loaded(items)


def _parsed(line: bytes, parse: Callable[[dict[str, Any]], T | None]) -> T | None:
    try:
        value = json.loads(line)
        return parse(value) if isinstance(value, dict) else None
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return None


def line_of(fields: dict[str, Any]) -> bytes:
    """*fields* as a line, in their order."""
    return dump(fields).encode() + b"\n"


def make_folder(folder: Path) -> None:
    """Makes *folder* and its missing parents. Only their owner may use them, whatever the umask.

    Existing folders keep their permissions.
    """
    if folder.is_dir():
        return
    make_folder(folder.parent)
    folder.mkdir(mode=0o700, exist_ok=True)


def stamp_of(path: str | os.PathLike[str]) -> Stamp | None:
    """The state of a file, to see later whether it was written since; None if it is missing."""
    try:
        told = os.stat(path)  # noqa: PTH116 - a session does without pathlib
    except FileNotFoundError:
        return None
    return told.st_ino, told.st_size, told.st_mtime_ns


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keeps other processes from the files of *folder*, which is made if it is missing.

    The system ends the lock with the process. Windows has no such lock.

    Raises:
        OSError: the folder cannot be made or locked; a ``TimeoutError`` after ``LOCK_SECONDS`` of waiting.
    """
    make_folder(folder)
    if fcntl is None:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        take_lock(handle, folder)
        yield
    finally:
        release_lock(handle)
        os.close(handle)


def take_lock(handle: int, path: str | os.PathLike[str]) -> None:
    """Locks the open file *handle*, the one at *path*. A process that hangs must not hang this one.

    Raises:
        TimeoutError: another process had the lock for ``LOCK_SECONDS``.
    """
    until = monotonic() + LOCK_SECONDS
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if monotonic() >= until:
                raise TimeoutError(
                    errno.ETIMEDOUT, f"another process has locked it for {LOCK_SECONDS:g} s", os.fspath(path)
                ) from None
            sleep(_LOOK_SECONDS)
        else:
            return


def release_lock(handle: int) -> None:
    """Ends the lock of *handle*. A child forked meanwhile has the handle too, and would keep the lock."""
    fcntl.flock(handle, fcntl.LOCK_UN)


def opened_to_append(path: Path) -> BinaryIO:
    """Opens the file at *path* to append. Only its owner may use a new file, whatever the umask."""
    make_folder(path.parent)
    return open(path, "ab", opener=lambda name, flags: os.open(name, flags, 0o600))


def remove_leftovers(path: Path) -> None:
    """Deletes what processes that were killed have left of new files for *path*: it may be forgotten text.

    Call it when no other process can write *path*, as in :func:`locked`.
    """
    if fcntl is None:
        return
    for left in path.parent.glob(f".{path.name}.*{_UNFINISHED}"):
        with suppress(FileNotFoundError):
            left.unlink()


@contextmanager
def replaced(path: Path) -> Iterator[BinaryIO]:
    """A file to write. It replaces *path* at the end, when all of it is on the disk."""
    import tempfile  # imports shutil and four compressors, so only the writing of files imports it

    make_folder(path.parent)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=_UNFINISHED)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)  # noqa: PTH105 - a session does without pathlib
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(name)  # noqa: PTH108
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_lines(path: Path, lines: Iterable[dict[str, Any]]) -> int:
    """Replaces the file *path* by *lines*. Returns their number."""
    count = 0
    with replaced(path) as file:
        for fields in lines:
            file.write(line_of(fields))
            count += 1
    return count


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
        created_at if isinstance(created_at, int) else milliseconds(created_at),
        role,
        content,
        estimate_utf16(content),
        session_key,
        topics_of(content),
        tuple(entity.text for entity in entities_of(content)),
    )


def id_of_entry(entry: StoredEntry) -> str:
    """The id of the segment of a stored entry, which follows from session and entry id."""
    return _id_of(f"{entry.session_id}\0{entry.entry_id}")


def of_entry(entry: StoredEntry) -> Segment:
    """The segment of a stored entry, with always the same id."""
    return segment_of(entry.session_id, entry.role, entry.content, entry.created_at, id=id_of_entry(entry))


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


def milliseconds(moment: datetime) -> int:
    """A time in ms since 1970; one without a zone is in UTC."""
    zoned = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
    return int(zoned.timestamp() * 1000)


def _new_id() -> str:
    import uuid  # with platform and hashlib: only who makes an id needs it

    return str(uuid.uuid4())


def _id_of(name: str) -> str:
    import uuid

    return str(uuid.uuid5(uuid.NAMESPACE_OID, name))


# siltstone's own file format: all parts of a session, with one JSON line for each part.

FORMAT: Final = "siltstone-archive-1"
_KINDS: Final = frozenset({"session", "message", "entry", "known", "compaction", "end"})


@dataclass(frozen=True, slots=True)
class Record:
    """One line: its kind, its session, and its fields as JSON.

    Attributes:
        kind: ``session`` (its namespace and clock, before all else), ``message``, ``compaction`` (followed by
            its entries), ``end`` (the lines after it belong to no compaction), ``entry`` or ``known`` (a row
            of facts in the form of a store).
        session_id: The session.
        body: The fields. A message has ``seq``, ``created_at`` and ``raw``, the caller's own JSON.
    """

    kind: str
    session_id: str
    body: Mapping[str, Any]


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
        raise ConfigError(f"unknown kind of record {record.kind!r}; known are {known}", "kind", record.kind)
    return {"kind": record.kind, "session_id": record.session_id, "body": dict(record.body)}


def _record(line: dict[str, Any]) -> Record | None:
    kind, session_id, body = line.get("kind"), line.get("session_id"), line.get("body")
    if line.get("format") != FORMAT or kind not in _KINDS:
        return None
    if not isinstance(session_id, str) or not isinstance(body, dict):
        return None
    return Record(kind, session_id, body)
