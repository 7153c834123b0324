"""Files of JSON lines: read line by line without the bad ones, and written completely or not at all."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Any, BinaryIO, Final, Generic, TypeAlias, TypeVar

from siltstone.messages.json_text import dump

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]
CAN_LOCK = fcntl is not None  #: whether this system locks a folder; Windows does not

__all__ = [
    "CAN_LOCK",
    "LOCK_SECONDS",
    "Loaded",
    "Stamp",
    "line_of",
    "locked",
    "make_folder",
    "opened_to_append",
    "read_lines",
    "release_lock",
    "remove_leftovers",
    "replaced",
    "stamp_of",
    "take_lock",
]

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
