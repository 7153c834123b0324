"""The agent's tools: they list, search and read the installed Python standard library."""

from __future__ import annotations

import re
import sysconfig
from collections.abc import Callable
from pathlib import Path

__all__ = ["TOOLS", "module_file", "run_tool"]

ROOT = Path(sysconfig.get_path("stdlib"))
MAX_MATCHES = 40  #: the maximum lines that one grep returns
MAX_LINES = 80  #: the maximum lines that one read returns


def module_file(module: str) -> str | None:
    """The path of *module* inside the library (``http.client``: ``http/client.py``); None if absent."""
    stem = module.replace(".", "/")
    return next((name for name in (f"{stem}.py", f"{stem}/__init__.py") if (ROOT / name).is_file()), None)


def list_directory(path: str) -> str:
    """The names in a directory of the library, with the size of each file."""
    entries = sorted((ROOT / path).iterdir())
    return "\n".join(
        f"{entry.name}/" if entry.is_dir() else f"{entry.name}  {entry.stat().st_size} bytes"
        for entry in entries
        if not entry.name.startswith("__pycache__")
    )


def grep(pattern: str, path: str) -> str:
    """The lines of a file that match a regular expression, with their numbers."""
    expression = re.compile(pattern)
    found = [f"{path}:{number}: {line}" for number, line in _lines(path) if expression.search(line)]
    more = [f"… {len(found) - MAX_MATCHES} more"] if len(found) > MAX_MATCHES else []
    return "\n".join(found[:MAX_MATCHES] + more) or f"no line of {path} matches {pattern!r}"


def read_file(path: str, start: int = 1, lines: int = MAX_LINES) -> str:
    """Lines of a file, with their numbers."""
    wanted = range(start, start + min(lines, MAX_LINES))
    return "\n".join(f"{number:5}  {line}" for number, line in _lines(path) if number in wanted)


TOOLS: dict[str, Callable[..., str]] = {
    "list_directory": list_directory,
    "grep": grep,
    "read_file": read_file,
}


def run_tool(name: str, arguments: dict[str, object]) -> str:
    """The answer of the tool *name*. A failure becomes a text, as an agent would get it."""
    try:
        return TOOLS[name](**arguments)
    except OSError as error:
        return f"error: {error.strerror}"


def _lines(path: str) -> list[tuple[int, str]]:
    text = (ROOT / path).read_text(encoding="utf-8", errors="replace")
    return list(enumerate(text.splitlines(), 1))
