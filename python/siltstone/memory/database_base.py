"""What every part of the store in a database stands on."""

from __future__ import annotations

import os
from collections.abc import Sequence

from siltstone import _native
from siltstone.errors import StoreOpenError
from siltstone.memory.convert import EntryRow, entry_to_row
from siltstone.memory.entry import Entry
from siltstone.memory.limits import Limits

__all__ = ["DatabaseBase", "as_path"]


def as_path(path: str | os.PathLike[str]) -> str:
    """*path* as text that a file can be named by.

    Raises:
        StoreOpenError: no file has such a name.
    """
    path = os.fspath(path)
    try:
        os.fsencode(path)
    except UnicodeEncodeError as error:
        raise StoreOpenError(
            f"cannot open a store at {path!r}: no file has such a name", path=path
        ) from error
    return path


class DatabaseBase:
    """The core's store, and what its holder settled when it was opened."""

    _native: _native.Store
    _limits: Limits

    @property
    def path(self) -> str:
        """The directory it was opened by."""
        return self._native.path

    @property
    def hash_rule(self) -> str:
        """How words are hashed for ``cosine``."""
        return self._native.hash_rule

    @property
    def read_only(self) -> bool:
        """Whether it can only be read."""
        return self._native.read_only

    @property
    def limits(self) -> Limits:
        """How much it takes in one call."""
        return self._limits

    def _batch(self, entries: Sequence[Entry]) -> list[EntryRow]:
        """*entries* as the core takes them, if they are within the limits."""
        self._limits.check_batch(entries)
        return [entry_to_row(entry) for entry in entries]

    def _wake(self, *, anew: bool = False) -> None:
        """There may be entries without vectors; with *anew*, among those that had some."""
