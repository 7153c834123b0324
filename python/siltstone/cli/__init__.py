"""The command ``siltstone``."""

from __future__ import annotations

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
    app(prog_name="siltstone")  # also of `python -m siltstone`
