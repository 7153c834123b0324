"""The command ``siltstone``."""

from __future__ import annotations

import io
import os
import sys

__all__ = ["main"]

INSTALL = "the siltstone command needs its extra: pip install 'siltstone[cli]'"


def main() -> None:
    """Runs the command line. If the extra is missing, it names the extra to install."""
    try:
        from siltstone.cli.app import app
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] not in {"typer", "rich"}:
            raise
        sys.exit(INSTALL)
    _write_utf_8()
    app(prog_name="siltstone")  # also of `python -m siltstone`


def _write_utf_8() -> None:
    """Writes UTF-8 also where the system names a smaller code: messages may be in any script."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and "PYTHONIOENCODING" not in os.environ:
            stream.reconfigure(encoding="utf-8")
