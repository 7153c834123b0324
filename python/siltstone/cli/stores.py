"""Finds the store for a path, and a session in it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from siltstone.errors import StoreOpenError
from siltstone.figures.reading import require_session
from siltstone.memory.limits import DEFAULTS, Limits
from siltstone.memory.opening import is_database
from siltstone.session import Session
from siltstone.stores import MemoryStore

if TYPE_CHECKING:
    from siltstone.postgres import PostgresStore  # needs psycopg

__all__ = ["AnyStore", "Place", "find_store", "open_place", "opened", "opened_session", "parts_of", "shown"]

Place: TypeAlias = str | Path  #: a path, or the address of a database
AnyStore: TypeAlias = "MemoryStore | PostgresStore"

_FILE = Path("memory", "memory.sqlite3")  #: the file of a store, inside its directory
_DEEPEST = 4  #: the maximum levels of directories that are searched below a path
_MOST_SHOWN = 5  #: the maximum number of stores that an error names


def find_store(place: Place) -> Place:
    """The directory of the store for *place*; the address of a database is returned unchanged.

    It is the path itself, else the nearest directory above it with a store (so the path of the store's own
    file works too), else the only directory below it with a store.

    Raises:
        StoreOpenError: there is no store, or there are several below the path; carries ``path``.
    """
    if is_database(place):
        return place
    path = Path(place)
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


def parts_of(address: str) -> tuple[str, str]:
    """The address of a database for libpq, and the schema after a ``#``, by default ``siltstone``."""
    conninfo, _, schema = address.partition("#")
    return conninfo, schema or "siltstone"


def shown(place: Place) -> str:
    """*place* as printable text, without the password of an address."""
    if not is_database(place):
        return str(place)
    from siltstone.postgres.administration import address

    conninfo, schema = parts_of(str(place))
    return f"{address(conninfo)}, schema {schema!r}"


@contextmanager
def opened(
    place: Place, *, read_only: bool, make: bool = False, limits: Limits = DEFAULTS
) -> Iterator[AnyStore]:
    """The store for *place*; with *make*, a new store in a directory that has none."""
    with open_place(place if make else find_store(place), read_only=read_only, limits=limits) as store:
        yield store


def open_place(place: Place, *, read_only: bool, limits: Limits = DEFAULTS) -> AnyStore:
    """The store in the directory *place*, or at the address *place* of a database."""
    if not is_database(place):
        return MemoryStore.open(place, read_only=read_only, limits=limits)
    from siltstone.postgres import PostgresStore
    from siltstone.postgres.administration import address

    conninfo, schema = parts_of(str(place))
    address(conninfo)  # refuses a wrong address without quoting it
    return PostgresStore.open(conninfo, schema=schema, read_only=read_only, limits=limits)


@contextmanager
def opened_session(place: Place, session_id: str, *, read_only: bool) -> Iterator[tuple[AnyStore, Session]]:
    """An existing session in the store for *place*, with the store; a new session is never begun.

    Raises:
        ConfigError: the store has no such session.
    """
    with opened(place, read_only=read_only) as store:
        require_session(store, session_id)
        options: Any = {"preset": None} if read_only else {}  # reading needs no preset
        with Session.open(None, session_id, memory=store, **options) as session:
            yield store, session
