"""JSON, a line each: streamed, tolerant of bad lines, whole or not there at all."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, BinaryIO, Generic, TypeVar

from siltstone.messages.json_text import dump

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Loaded", "line_of", "make_folder", "opened_to_append", "read_lines", "replaced"]

T = TypeVar("T")


class Loaded(Generic[T]):
    """The values of a file, in order. After the last, ``skipped`` says how many lines were bad."""

    def __init__(self, items: Callable[[Loaded[T]], Iterator[T]]) -> None:
        self.skipped = 0
        self._items = items(self)

    def __iter__(self) -> Iterator[T]:
        return self._items


def read_lines(path: Path, parse: Callable[[dict[str, Any]], T | None]) -> Loaded[T]:
    """What *parse* makes of every line of *path*; what it refuses, by None or ``ValueError``, is counted.

    A file that is not there has no lines. A last line without its line break is read if it is whole.
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
    """Makes *folder*, and those above it that are missing: for their owner alone, whatever the mask.

    What is there already keeps its permissions.
    """
    if folder.is_dir():
        return
    make_folder(folder.parent)
    folder.mkdir(mode=0o700, exist_ok=True)


def opened_to_append(path: Path) -> BinaryIO:
    """The file at *path*, to write at its end; a new one is for its owner alone, whatever the mask."""
    make_folder(path.parent)
    return open(path, "ab", opener=lambda name, flags: os.open(name, flags, 0o600))


@contextmanager
def replaced(path: Path) -> Iterator[BinaryIO]:
    """A file to write that takes the place of *path* when all is written and on the disk, and not before."""
    import tempfile  # with shutil and four compressors: only who writes files needs it

    make_folder(path.parent)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
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
    """Writes *lines* in the place of *path*; how many there were."""
    count = 0
    with replaced(path) as file:
        for fields in lines:
            file.write(line_of(fields))
            count += 1
    return count
