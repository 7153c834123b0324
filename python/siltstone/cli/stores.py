"""Which store does a path mean, and which session of it?"""

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
    from siltstone.postgres import PostgresStore

__all__ = ["AnyStore", "Place", "find_store", "open_place", "opened", "opened_session", "parts_of", "shown"]

Place: TypeAlias = str | Path  #: a path, or the address of a database
AnyStore: TypeAlias = "MemoryStore | PostgresStore"

_FILE = Path("memory", "memory.sqlite3")  #: of a store, below its directory
_DEEPEST = 4  #: directories below a path that are looked into
_MOST_SHOWN = 5  #: stores that an error names


def find_store(place: Place) -> Place:
    """The directory of the store that *place* means; the address of a database is as it is.

    That is the path itself, or else the nearest one above that has a store (so the store's own file will do),
    or else the only one below.

    Raises:
        StoreOpenError: there is none, or there are several below; carries ``path``.
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
    """The address of a database as libpq takes it, and the schema that stands behind a ``#``."""
    conninfo, _, schema = address.partition("#")
    return conninfo, schema or "siltstone"


def shown(place: Place) -> str:
    """*place* as it may be printed: without the password of an address."""
    if not is_database(place):
        return str(place)
    from siltstone.postgres.administration import address

    conninfo, schema = parts_of(str(place))
    return f"{address(conninfo)}, schema {schema!r}"


@contextmanager
def opened(
    place: Place, *, read_only: bool, make: bool = False, limits: Limits = DEFAULTS
) -> Iterator[AnyStore]:
    """The store that *place* means; with *make*, a new one in a directory that has none."""
    with open_place(place if make else find_store(place), read_only=read_only, limits=limits) as store:
        yield store


def open_place(place: Place, *, read_only: bool, limits: Limits = DEFAULTS) -> AnyStore:
    """The store in the directory *place*, or at that address of a database."""
    if not is_database(place):
        return MemoryStore.open(place, read_only=read_only, limits=limits)
    from siltstone.postgres import PostgresStore
    from siltstone.postgres.administration import address

    conninfo, schema = parts_of(str(place))
    address(conninfo)  # refuses what is none, and quotes no word of it
    return PostgresStore.open(conninfo, schema=schema, read_only=read_only, limits=limits)


@contextmanager
def opened_session(place: Place, session_id: str, *, read_only: bool) -> Iterator[tuple[AnyStore, Session]]:
    """A session that is in the store which *path* means; none is begun.

    Raises:
        ConfigError: the store has no such session.
    """
    with opened(place, read_only=read_only) as store:
        require_session(store, session_id)
        options: Any = {"preset": None} if read_only else {}  # what is only looked at needs no preset
        with Session.open(None, session_id, memory=store, **options) as session:
            yield store, session
