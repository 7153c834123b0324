"""The output and the errors of all commands."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Annotated, Any, NoReturn, TypeAlias

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

from siltstone.errors import SiltstoneError
from siltstone.messages import well_formed
from siltstone.messages.wording import is_hidden

__all__ = [
    "AsJson",
    "choice",
    "errors",
    "line",
    "moment",
    "output",
    "print_json",
    "printable",
    "progress",
    "refusals",
    "refuse",
    "working",
]

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


@contextmanager
def progress(*, hidden: bool) -> Iterator[Progress]:
    """A progress bar on standard error, if that is a terminal."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=errors, disable=hidden or not errors.is_terminal) as shown:
        yield shown


@contextmanager
def working(text: str, *, hidden: bool) -> Iterator[None]:
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
        refuse(str(error))


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
