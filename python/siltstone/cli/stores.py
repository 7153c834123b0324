"""Finds the store for a path, and a session in it; the output and the errors of all commands."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TypeAlias

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)

from siltstone.errors import SiltstoneError, StoreOpenError
from siltstone.figures import require_session
from siltstone.memory import opening
from siltstone.memory.limits import DEFAULTS, Limits
from siltstone.memory.opening import is_database
from siltstone.messages import well_formed
from siltstone.messages.text import is_hidden
from siltstone.session import Session
from siltstone.stores import MemoryStore

if TYPE_CHECKING:
    from siltstone.postgres import PostgresStore


Place: TypeAlias = str | Path  #: a path, or the address of a database
AnyStore: TypeAlias = "MemoryStore | PostgresStore"

STORE_FILE = Path("memory", "memory.sqlite3")  #: the file of a store, inside its directory
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
        if (directory / STORE_FILE).is_file():
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
        if (here / STORE_FILE).is_file():
            yield here
            inner.remove(STORE_FILE.parts[0])
        inner.sort()
        if len(here.parts) >= deepest:
            inner.clear()


def parts_of(address: str) -> tuple[str, str]:
    """The address of a database for libpq, and the schema behind it, by default ``siltstone``."""
    conninfo, schema = opening.parts_of(address)
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
def opened_session(
    place: Place, session_id: str | None, *, read_only: bool
) -> Iterator[tuple[AnyStore, Session]]:
    """An existing session in the store for *place*, with the store; a new session is never begun.

    Print no lines meanwhile: the terminal shows that it is read.

    Raises:
        ConfigError: the store has no such session, or none was named and it has several.
    """
    with opened(place, read_only=read_only) as store:
        session_id = require_session(store, session_id)
        options: Any = {"preset": None} if read_only else {}  # reading needs no preset
        with Session.open(None, session_id, memory=store, **options) as session, working("reading"):
            yield store, session


# The output and the errors of all commands.

AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print one JSON object instead.")]

#: JSON escapes the other control characters itself.
_STEERING = re.compile("[\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_NO_EDGE = 100_000  # columns of an output that is not a terminal, so that no line is cut or wrapped


def _console(*, stderr: bool = False) -> Console:
    console = Console(stderr=stderr)
    if not console.is_terminal:
        console.width = _NO_EDGE
    return console


output = _console()
errors = _console(stderr=True)


def line(text: str, style: str | None = None) -> None:
    """Prints a line without markup, and not cut. A terminal wraps it."""
    output.print(printable(text), style=style, highlight=False, markup=False, soft_wrap=True, emoji=False)


def printable(text: str) -> str:
    """*text* with U+FFFD for half characters, and escapes in place of what would steer a terminal.

    The text of a session may be of anybody: of a page that a tool has read, for example.
    """
    shown = well_formed(text).replace("\r\n", "\n")
    if "\r" not in shown and not any(map(is_hidden, shown)):
        return shown
    return "".join(
        char.encode("unicode_escape").decode() if char == "\r" or is_hidden(char) else char for char in shown
    )


def print_json(value: dict[str, Any]) -> None:
    """Prints one JSON object. Characters that steer a terminal, and half characters, are escaped."""
    text = json.dumps(value, ensure_ascii=False, indent=2)
    typer.echo(_STEERING.sub(lambda match: f"\\u{ord(match[0]):04x}", text))


def tell(value: dict[str, Any], said: str, *, as_json: bool) -> None:
    """Prints what a command did: *value* as one JSON object, or *said* as a line."""
    if as_json:
        print_json(value)
    else:
        line(said)


@contextmanager
def progress(*, hidden: bool) -> Iterator[Progress]:
    """A progress bar on standard error, if that is a terminal."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=errors, disable=hidden or not errors.is_terminal) as shown:
        yield shown


@contextmanager
def working(text: str, *, hidden: bool = False) -> Iterator[None]:
    """Shows *text* and the elapsed time during a step of unknown length, and removes the line at the end.

    The line is on standard error, and only if that is a terminal. Do not print other lines meanwhile.
    """
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(
        *columns, console=errors, transient=True, disable=hidden or not errors.is_terminal
    ) as shown:
        shown.add_task(text, total=None)
        yield


@contextmanager
def refusals() -> Iterator[None]:
    """Turns errors of siltstone and of the operating system into one line and exit code 2."""
    try:
        yield
    except (SiltstoneError, OSError) as error:
        missing = error.filename if isinstance(error, FileNotFoundError) else None
        refuse(f"there is nothing at {str(missing)!r}" if missing else str(error))


def refuse(message: str) -> NoReturn:
    """Prints one line on standard error, and ends with exit code 2."""
    said = printable(f"siltstone: {message}")
    errors.print(said, style="red", highlight=False, markup=False, soft_wrap=True)
    raise typer.Exit(2)


def choice(option: str, value: str, known: dict[str, Any]) -> None:
    """Refuses a value that is not one of *known*."""
    if value not in known:
        refuse(f"{option} must be one of {', '.join(known)}, got {value!r}")


def moment(time: datetime) -> str:
    """*time* to the second, with its offset from UTC."""
    return time.isoformat(sep=" ", timespec="seconds")
