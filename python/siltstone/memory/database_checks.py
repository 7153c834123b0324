"""What the store's database holds, whether it is whole, and how it is put right."""

from __future__ import annotations

import os

from siltstone.memory.convert import milliseconds
from siltstone.memory.database_base import DatabaseBase, as_path
from siltstone.memory.entry import Finding, StoreStats

__all__ = ["DatabaseChecks"]


class DatabaseChecks(DatabaseBase):
    """What ``MemoryStore`` tells of itself, and repairs."""

    def stats(self, session_id: str | None = None) -> StoreStats:
        """What the store, or one session of it, holds."""
        return StoreStats(**self._native.stats(session_id))

    def check(self, *, repair: bool = False) -> list[Finding]:
        """Everything in the store that is not what it should be; empty for a store that is whole.

        Looks at every page and every row: checksums, counts, ids, sequences, the lineage of views, what they
        cover, batches that wait, and the indexes in memory. Without *repair* nothing is changed, and a
        damaged row does not end it. Searches of this process wait meanwhile.

        Args:
            repair: Make anew what follows from the rest, in one transaction: indexes, counts, fingerprints,
                the mark of ids, a session's place. Entries that do not match their checksums are set
                aside, and batches that are not whole deleted. The log cannot be made anew: damage to
                messages and compactions stays, and stays in the list. docs/design/storage.md says what
                becomes of each kind of damage. Findings that were put right have ``repaired``.

        Raises:
            StoreBusyError: with *repair*: another process is at such work, and was waited for.
            ReadOnlyStoreError: with *repair*: the store is open for reading.
        """
        if not repair:
            return [Finding(*finding) for finding in self._native.check()]
        found = self._native.repair(milliseconds(None))
        self._wake(anew=True)
        return [Finding(*finding, repaired) for finding, repaired in found]

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Makes a store in the directory *path* of what is committed now, while others go on with this one.

        Everything in the copy is looked at before it gets its name: where there is a store at *path*
        afterwards, it is whole. A process that is killed meanwhile leaves none. The copy has room for what it
        holds alone, and nothing of what was forgotten.

        Args:
            path: A directory without a store. It is made if need be, with those that lead to it.

        Raises:
            StoreOpenError: there is a store already, or it cannot be written. What is there stays.
            StoreCorruptError: this store is damaged: ``check(repair=True)`` first.
            StoreIoError: the disk is full, or failed.
        """
        self._native.backup(as_path(path))

    def quarantined(self, session_id: str) -> tuple[int, ...]:
        """The ids of the session's entries that do not match their checksums, ascending.

        No search finds them, and every other entry is found as if they had never been there. They are those
        that were met: a session that was opened from its cache meets a row when a search leads to it.
        :meth:`check` reads all of them.
        """
        return tuple(self._native.quarantined(session_id))
