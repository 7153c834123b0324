"""``vectors.bin``, VMEM version 1: ids and float32 vectors, little-endian."""

from __future__ import annotations

import os
import struct
import sys
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final

from siltstone.archive.lines import CAN_LOCK, Stamp, release_lock, replaced, stamp_of, take_lock
from siltstone.errors import ConfigError

__all__ = [
    "MAGIC",
    "Vectors",
    "append_vectors",
    "dimension_of",
    "id_bytes",
    "merge_vectors",
    "read_vectors",
    "write_vectors",
]

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
    with replaced(Path(path)) as file:
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
    path: str | os.PathLike[str], vectors: Mapping[str, Sequence[float]], dimension: int, stamp: Stamp
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
    if not CAN_LOCK:  # without a lock, another process could append at the same time
        return False
    rows = [_row(name, values, dimension) for name, values in vectors.items()]
    if stamp_of(path) is None:
        return False
    with Path(path).open("r+b") as file:
        take_lock(file.fileno(), path)
        try:
            if stamp_of(path) != stamp or os.fstat(file.fileno()).st_ino != stamp[0]:
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
            release_lock(file.fileno())
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
            field="id",
            value=name[:80],
        )
    return raw


def _row(name: str, values: Sequence[float], dimension: int) -> bytes:
    raw = id_bytes(name)
    if len(values) != dimension:
        raise ConfigError(
            f"the vector of {name!r} must have {dimension} values, got {len(values)}",
            field="dimension",
            value=len(values),
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
