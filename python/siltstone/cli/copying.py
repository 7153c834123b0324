"""The command ``copy``: copies a whole store into another store."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from siltstone.cli.console import AsJson, line, print_json, progress, refusals, refuse
from siltstone.cli.looking import StorePath
from siltstone.cli.stores import AnyStore, Place, opened, shown
from siltstone.memory.limits import Limits
from siltstone.stores import MemoryStore
from siltstone.stores.copying import Copied, copy_store

__all__ = ["copy"]

#: The widest limits, so that every text is copied, whatever the limits of its writer were.
_WIDEST = Limits(text_bytes=256 << 20)


def copy(
    source: StorePath,
    target: Annotated[
        str,
        typer.Argument(
            metavar="OTHER", help="The directory of a store; a new one is made. Or postgresql://..."
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Copy every session of a store into another store.

    Both are compared afterwards. If a copy was stopped, the same command continues it.

    Example: siltstone copy agent-data other-data

    Exit code 1: a session was written to meanwhile, and is not the same; run the command again. A session
    that has another history in the target is refused.
    """
    with (
        refusals(),
        opened(source, read_only=True) as here,
        opened(target, read_only=False, make=True, limits=_WIDEST) as there,
        progress(hidden=as_json) as bar,
    ):
        if shown(_place_of(here, source)) == shown(_place_of(there, target)):
            refuse(f"{shown(source)} and {shown(target)} are the same store")
        task = bar.add_task("copying", total=None)

        def tell(session: str, done: int, total: int) -> None:
            bar.update(task, completed=done, total=total, description=f"copying session {session!r}")

        copied = copy_store(here, there, progress=tell)
    if as_json:
        print_json({"source": shown(source), "target": shown(target), **asdict(copied)})
    else:
        _show(copied, target)
    raise typer.Exit(1 if copied.differing else 0)


def _place_of(store: AnyStore, place: Place) -> Place:
    """The place of *store*; *place* may be a path above or below its directory."""
    return store.path if isinstance(store, MemoryStore) else place


def _show(copied: Copied, target: Place) -> None:
    line(
        f"{shown(target)} has all {copied.sessions:,} sessions, {copied.skipped:,} of them from before: "
        f"{copied.messages:,} messages, {copied.compactions:,} compactions, {copied.entries:,} entries, "
        f"{copied.facts:,} facts; all of it was compared"
        if not copied.differing
        else f"written to meanwhile, and not the same: {', '.join(map(repr, copied.differing))}"
    )
