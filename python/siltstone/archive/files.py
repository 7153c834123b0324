"""The documented store of messages and vectors as files, limited by number and age."""

from __future__ import annotations

import os
import struct
import sys
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from heapq import heappop, heappush
from operator import attrgetter
from pathlib import Path
from threading import RLock
from typing import BinaryIO, Final, NamedTuple

from siltstone import checks
from siltstone.archive import records
from siltstone.errors import ConfigError

_DAY_MS: Final = 86_400_000


class Said(NamedTuple):
    """A message for the archive. ``id`` is the id of its segment, if it already has one."""

    role: str
    content: str
    timestamp: int
    id: str | None = None
    session_key: str | None = None


def dedup_key(session_id: str, role: str, content: str) -> bytes:
    """The SHA-256 (32 bytes) of session, role and content, each with its length before it."""
    digest = sha256()
    for text in (session_id, role, content):
        raw = text.encode("utf-8", "surrogatepass")
        digest.update(len(raw).to_bytes(8, "little") + raw)
    return digest.digest()


class SegmentArchive:
    """``segments.jsonl`` of a folder. A line is on the disk when ``add`` returns.

    The file is read at its first use, and again when another process has written it. Several processes may
    write: each write locks the folder, and begins with the lines of the others. Bad lines are skipped and
    counted in ``skipped``. If a write fails, its caller gets the error; later writes are not affected.

    Args:
        folder: The folder of the file; it is made by the first write.
        max_segments: The most segments; the oldest are removed first.
        eviction_days: A segment that is older than so many days is removed; 0 means never.

    Raises:
        ConfigError: *max_segments* is below 1, or *eviction_days* below 0.
    """

    def __init__(
        self, folder: str | os.PathLike[str], *, max_segments: int = 20_000, eviction_days: int = 90
    ) -> None:
        checks.at_least("max_segments", max_segments, 1)
        checks.at_least("eviction_days", eviction_days, 0)
        self.path: Final = Path(folder) / "segments.jsonl"
        self.skipped = 0
        self._most, self._days = max_segments, eviction_days
        self._segments: dict[bytes, records.Segment] | None = None
        self._oldest: list[tuple[int, str, bytes]] = []  # a heap
        self._lines = 0  # of the file, those that count no more included
        self.revision = 0  #: how often the file was read; values that were made of it before are out of date
        self._seen: records.Stamp | None = None  # of the file, when it was last read or written here
        self._is_alone = False
        self._lock = RLock()

    def __len__(self) -> int:
        return len(self._loaded())

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keeps other threads and processes from the folder. The lines that others wrote are known inside.

        Raises:
            OSError: the folder cannot be made or locked.
        """
        with self._lock:
            if self._is_alone:
                yield
                return
            with records.locked(self.path.parent):
                self._is_alone = True
                try:
                    yield
                finally:
                    self._is_alone = False

    def segments(self, session_id: str | None = None) -> Sequence[records.Segment]:
        """The segments of a session, or all, oldest first."""
        with self._lock:
            found = [
                each
                for each in self._loaded().values()
                if session_id is None or each.session_id == session_id
            ]
        return sorted(found, key=attrgetter("timestamp", "id"))

    def add(
        self,
        session_id: str,
        role: str,
        content: str,
        timestamp: int,
        *,
        id: str | None = None,  # noqa: A002 - the documented word
        session_key: str | None = None,
    ) -> records.Segment | None:
        """Writes a message. Returns None if it is blank, or if the session already has its role and text.

        Raises:
            OSError: the message could not be written. No part of it stays.
            ValueError: the message cannot be encoded in UTF-8.
        """
        said = Said(role, content, timestamp, id, session_key)
        [added] = self.add_all(session_id, [said])
        if isinstance(added, Exception):
            raise added
        return added

    def add_all(
        self, session_id: str, said: Sequence[Said]
    ) -> list[records.Segment | OSError | ValueError | None]:
        """Writes several messages at once. Returns for each its segment, None as :meth:`add`, or the error.

        If the write fails, the messages are written one by one, so that one failure does not stop the others.
        """
        answers: list[records.Segment | OSError | ValueError | None] = []
        with ExitStack() as stack:
            try:
                stack.enter_context(self.alone())
                known = self._loaded()
            except OSError as error:
                return [error for _ in said]
            new: dict[bytes, tuple[int, records.Segment, bytes]] = {}  # with its place, and its line
            for place, each in enumerate(said):
                answers.append(None)
                try:
                    key = dedup_key(session_id, each.role, each.content)
                    if each.content.strip() and key not in known and key not in new:
                        segment = _segment(session_id, each)
                        new[key] = place, segment, records.line_of(records.segment_fields(segment))
                except ValueError as error:
                    answers[place] = error
            if not new:
                return answers
            self._seen = None  # after an interrupt from here on, the next call reads the file
            failed = self._written({place: line for place, _, line in new.values()})
            for key, (place, segment, _) in new.items():
                answers[place] = failed.get(place, segment)
                if place not in failed:
                    known[key] = segment
                    heappush(self._oldest, (segment.timestamp, segment.id, key))
            while len(known) > self._most:
                del known[heappop(self._oldest)[2]]
            self._seen = records.stamp_of(self.path)
            if self._lines > 2 * len(known) + 64:
                with suppress(OSError):  # a full disk: the file stays as it is
                    self._rewrite(known)  # half of the file counts no more
        return answers

    def _written(self, lines: Mapping[int, bytes]) -> dict[int, OSError]:
        """Appends *lines*. Returns the places of those that failed, with their errors."""
        try:
            self._append(b"".join(lines.values()))
        except OSError as error:
            if len(lines) == 1:
                return dict.fromkeys(lines, error)
            failed: dict[int, OSError] = {}
            for place, line in lines.items():
                failed |= self._written({place: line})
            return failed
        self._lines += len(lines)
        return {}

    def has_older(self, now: int) -> bool:
        """Whether :meth:`evict` would remove a segment."""
        with self._lock:
            self._loaded()
            return bool(self._days and self._oldest and self._oldest[0][0] < now - self._days * _DAY_MS)

    def replace(self, session_id: str, segments: Iterable[records.Segment]) -> int:
        """Replaces all segments of the session by *segments*, in one write. Returns their number.

        The segments of other sessions stay.
        """
        with self.alone():
            known = self._loaded()
            kept = {key: each for key, each in known.items() if each.session_id != session_id}
            others = len(kept)
            for each in segments:
                kept.setdefault(dedup_key(each.session_id, each.role, each.content), each)
            return max(0, len(self._rewrite(kept)) - others)

    def evict(self, now: int) -> int:
        """Removes segments older than ``eviction_days`` at *now* (ms since 1970). Returns their number."""
        if not self._days:
            return 0
        oldest = now - self._days * _DAY_MS
        with self.alone():
            known = self._loaded()
            kept = {key: each for key, each in known.items() if each.timestamp >= oldest}
            if len(kept) == len(known):
                return 0
            return len(known) - len(self._rewrite(kept))

    def _rewrite(self, kept: Mapping[bytes, records.Segment]) -> dict[bytes, records.Segment]:
        """Makes *kept* the content of the file, and then of memory. After an error both are as before."""
        newest = self._newest(kept)
        records.remove_leftovers(self.path)
        written = records.write_segments(self.path, (kept[key] for _, _, key in newest))
        self._oldest, self._lines = newest, written
        self._segments = {key: kept[key] for _, _, key in newest}
        self._seen = records.stamp_of(self.path)
        return self._segments

    def _append(self, lines: bytes) -> None:
        with records.opened_to_append(self.path) as file:
            size = file.tell()
            try:
                if size and not _ends_with_line(self.path):
                    file.write(b"\n")  # the line before was cut off by a crash
                file.write(lines)
                file.flush()
                os.fsync(file.fileno())
            except OSError:
                os.ftruncate(file.fileno(), size)
                raise

    def _loaded(self) -> dict[bytes, records.Segment]:
        """The segments that the file has now, by their keys."""
        with self._lock:
            stamp = records.stamp_of(self.path)  # before the file is read: a later write is noticed
            if self._segments is None or stamp != self._seen:
                found: dict[bytes, records.Segment] = {}
                self.revision += 1
                count, loaded = 0, records.read_segments(self.path)
                for each in loaded:
                    count += 1
                    found.setdefault(dedup_key(each.session_id, each.role, each.content), each)
                self.skipped = loaded.skipped
                self._lines = count + loaded.skipped
                self._oldest = self._newest(found)  # in order, and so a heap
                self._segments = {key: found[key] for _, _, key in self._oldest}
                self._seen = stamp  # only now: a read that breaks off is made again
            return self._segments

    def _newest(self, found: Mapping[bytes, records.Segment]) -> list[tuple[int, str, bytes]]:
        """The keys of the newest ``max_segments`` of *found*, oldest first, each after its time and id."""
        return sorted((each.timestamp, each.id, key) for key, each in found.items())[-self._most :]


def _segment(session_id: str, said: Said) -> records.Segment:
    return records.segment_of(
        session_id, said.role, said.content, said.timestamp, id=said.id, session_key=said.session_key
    )


def _ends_with_line(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


# ``vectors.bin``, VMEM version 1: ids and float32 vectors, little-endian.

MAGIC: Final = 0x4D454D56  #: the bytes ``V M E M``
VERSION: Final = 1
_HEADER: Final = struct.Struct("<IIII")
_LENGTH: Final = struct.Struct("<H")
_COUNT: Final = struct.Struct("<I")
_COUNT_AT: Final = 12  #: the offset of the count in the header


@dataclass(frozen=True, slots=True)
class Vectors:
    """The content of a file: the dimension, and for each id its float32 values, in the order of the file."""

    dimension: int
    by_id: dict[str, array[float]] = field(default_factory=dict)


def write_vectors(
    path: str | os.PathLike[str], vectors: Mapping[str, Sequence[float]], dimension: int
) -> None:
    """Writes *vectors* as a new file, completely or not at all. Values are rounded to float32.

    Raises:
        ConfigError: a vector of another dimension, or an id of more than 65,535 bytes.
    """
    rows = [_row(name, values, dimension) for name, values in vectors.items()]
    with records.replaced(Path(path)) as file:
        file.write(_HEADER.pack(MAGIC, VERSION, dimension, len(rows)))
        file.writelines(rows)


def read_vectors(path: str | os.PathLike[str]) -> Vectors | None:
    """The content of the file; None if it is missing, too short, or of another format or version.

    If the end of the file is missing, the complete vectors are kept.
    """
    try:
        data = Path(path).read_bytes()
    except FileNotFoundError:
        return None
    if len(data) < _HEADER.size:
        return None
    magic, version, dimension, count = _HEADER.unpack_from(data)
    if magic != MAGIC or version != VERSION:
        return None
    vectors = Vectors(dimension)
    at, width = _HEADER.size, 4 * dimension
    for _ in range(count):
        if at + 2 > len(data):
            break
        start = at + 2 + _LENGTH.unpack_from(data, at)[0]
        if start + width > len(data):
            break
        values = array("f")
        values.frombytes(_little_bytes(data[start : start + width]))
        vectors.by_id[data[at + 2 : start].decode("utf-8", "replace")] = values
        at = start + width
    return vectors


def merge_vectors(
    path: str | os.PathLike[str],
    vectors: Mapping[str, Sequence[float]],
    dimension: int,
    *,
    gone: frozenset[str] = frozenset(),
) -> int:
    """Adds *vectors* to the file, and removes *gone*. Returns the number of vectors in the file.

    Sessions that share a folder keep each other's vectors. A file of another dimension is not changed, and
    the answer is 0: the owner of that file makes its vectors again.
    """
    known = read_vectors(path)
    if known is not None and known.by_id and known.dimension != dimension:
        return 0
    merged: dict[str, Sequence[float]] = dict(known.by_id) if known is not None else {}
    merged.update(vectors)
    kept = {name: values for name, values in merged.items() if name not in gone}
    write_vectors(path, kept, dimension)
    return len(kept)


def append_vectors(
    path: str | os.PathLike[str], vectors: Mapping[str, Sequence[float]], dimension: int, stamp: records.Stamp
) -> bool:
    """Appends *vectors* to the file, if it has not changed since *stamp*. Returns whether it did.

    The rows are on the disk before the count includes them. So a process that stops in between leaves the old
    content.

    Args:
        path: The file.
        vectors: The new vectors; none of them is in the file yet.
        dimension: The dimension of the file.
        stamp: The answer of :func:`stamp_of` after the last complete write of the file.

    Raises:
        ConfigError: a vector of another dimension, or an id of more than 65,535 bytes.
        OSError: the file cannot be written.
    """
    if not records.CAN_LOCK:  # without a lock, another process could append at the same time
        return False
    rows = [_row(name, values, dimension) for name, values in vectors.items()]
    if records.stamp_of(path) is None:
        return False
    with Path(path).open("r+b") as file:
        records.take_lock(file.fileno(), path)
        try:
            if records.stamp_of(path) != stamp or os.fstat(file.fileno()).st_ino != stamp[0]:
                return False
            file.seek(_COUNT_AT)
            (count,) = _COUNT.unpack(file.read(_COUNT.size))
            file.seek(0, os.SEEK_END)
            file.writelines(rows)
            _to_disk(file)
            file.seek(_COUNT_AT)
            file.write(_COUNT.pack(count + len(rows)))
            _to_disk(file)
        finally:
            records.release_lock(file.fileno())
    return True


def dimension_of(path: str | os.PathLike[str]) -> int | None:
    """The dimension of the vectors in the file; None where there are none, or the file is of another kind."""
    try:
        with Path(path).open("rb") as file:
            head = file.read(_HEADER.size)
    except FileNotFoundError:
        return None
    if len(head) < _HEADER.size:
        return None
    magic, version, dimension, count = _HEADER.unpack(head)
    return int(dimension) if (magic, version) == (MAGIC, VERSION) and count else None


def _to_disk(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def id_bytes(name: str) -> bytes:
    """The id of a segment as the file has it.

    Raises:
        ConfigError: an id of more than 65,535 bytes.
    """
    raw = name.encode("utf-8", "replace")
    if len(raw) > 0xFFFF:
        raise ConfigError(
            f"the id of a segment must be at most 65,535 bytes, got {len(raw):,} that begin with "
            f"{name[:20]!r}",
            "id",
            name[:80],
        )
    return raw


def _row(name: str, values: Sequence[float], dimension: int) -> bytes:
    raw = id_bytes(name)
    if len(values) != dimension:
        raise ConfigError(
            f"the vector of {name!r} must have {dimension} values, got {len(values)}",
            "dimension",
            len(values),
        )
    return _LENGTH.pack(len(raw)) + raw + _little(array("f", values))


def _little(values: array[float]) -> bytes:
    return _little_bytes(values.tobytes())


def _little_bytes(data: bytes) -> bytes:
    """Converts float32 between the machine's byte order and little-endian, in both directions."""
    if sys.byteorder == "little":
        return data
    swapped = array("I", data)
    swapped.byteswap()
    return swapped.tobytes()
