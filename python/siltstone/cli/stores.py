"""Which store does a path mean, and which session of it?"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from siltstone.errors import StoreOpenError
from siltstone.figures.reading import require_session
from siltstone.session import Session
from siltstone.stores import MemoryStore

__all__ = ["find_store", "opened", "opened_session"]

_FILE = Path("memory", "memory.sqlite3")  #: of a store, below its directory
_DEEPEST = 4  #: directories below a path that are looked into
_MOST_SHOWN = 5  #: stores that an error names


def find_store(path: Path) -> Path:
    """The directory of the store that *path* means.

    That is *path* itself, or else the nearest one above that has a store (so the store's own file will do),
    or else the only one below.

    Raises:
        StoreOpenError: there is none, or there are several below; carries ``path``.
    """
    if not path.exists():
        raise StoreOpenError(f"there is nothing at {str(path)!r}", path=str(path))
    for directory in (path, *path.absolute().parents):
        if (directory / _FILE).is_file():
            return directory
    below = list(_below(path)) if path.is_dir() else []
    if len(below) == 1:
        return below[0]
    if not below:
        raise StoreOpenError(f"there is no store at {str(path)!r}, above or below", path=str(path))
    shown = ", ".join(repr(str(found)) for found in below[:_MOST_SHOWN])
    more = f" and {len(below) - _MOST_SHOWN} more" if len(below) > _MOST_SHOWN else ""
    raise StoreOpenError(
        f"there are {len(below)} stores below {str(path)!r}: {shown}{more}; name one", path=str(path)
    )


def _below(path: Path) -> Iterator[Path]:
    deepest = len(path.parts) + _DEEPEST
    for directory, inner, _ in os.walk(path):
        here = Path(directory)
        if (here / _FILE).is_file():
            yield here
            inner.remove(_FILE.parts[0])
        inner.sort()
        if len(here.parts) >= deepest:
            inner.clear()


@contextmanager
def opened(path: Path, *, read_only: bool) -> Iterator[MemoryStore]:
    """The store that *path* means; none is made."""
    with MemoryStore.open(find_store(path), read_only=read_only) as store:
        yield store


@contextmanager
def opened_session(path: Path, session_id: str, *, read_only: bool) -> Iterator[tuple[MemoryStore, Session]]:
    """A session that is in the store which *path* means; none is begun.

    Raises:
        ConfigError: the store has no such session.
    """
    with opened(path, read_only=read_only) as store:
        require_session(store, session_id)
        options: Any = {"preset": None} if read_only else {}  # what is only looked at needs no preset
        with Session.open(None, session_id, memory=store, **options) as session:
            yield store, session
