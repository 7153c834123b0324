"""Staging in the store's database: batches that wait, unseen, until their host has committed."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from siltstone.memory.convert import datetime_from, milliseconds
from siltstone.memory.database_base import DatabaseBase
from siltstone.memory.entry import Entry, Receipt, ReconcileReport, Stage

__all__ = ["DatabaseStages"]


class DatabaseStages(DatabaseBase):
    """What ``MemoryStore`` has for hosts that keep their own history."""

    def stage(self, session_id: str, entries: Sequence[Entry], fingerprint: str) -> str:
        """Keeps *entries* for the session, durably, and shows them to nobody. The batch's token.

        For hosts that keep their own history. They stage what leaves it, write the token into it, and
        finalize; wherever they are stopped in between, :meth:`reconcile` with the tokens of their history
        puts the store in step with it.

        Args:
            session_id: The session.
            entries: As for :meth:`index`.
            fingerprint: The host's own name for the batch, 1 to 1,024 bytes, the same in every retry: of a
                revision of its history, say. The same content under the same one is one batch with one
                token, whatever became of it; times are not part of the content.

        Raises:
            InvalidEntryError: an entry or the fingerprint is out of bounds.
            StoreConflictError: the session has another batch of this fingerprint.
        """
        return self._native.stage(session_id, self._batch(entries), fingerprint, milliseconds(None))

    def finalize(self, token: str) -> Receipt:
        """Makes the entries of a batch findable: all of them, durably. Calling it twice is fine.

        Of a session that was dropped, before or since, nothing is kept: a receipt of None alone. An entry
        that the session has already keeps its id, as with :meth:`index`.

        Raises:
            StageNotFoundError: the batch was aborted, or never handed over.
            StoreCorruptError: what waited is damaged: abort the batch, and hand it over again.
        """
        receipt = Receipt(tuple(self._native.finalize(token)))
        self._wake()
        return receipt

    def abort(self, token: str) -> bool:
        """Deletes a batch that waits. False where there is none of that token.

        Raises:
            StoreConflictError: it was finalized.
        """
        return self._native.abort(token)

    def reconcile(
        self,
        committed: Collection[str],
        *,
        session_id: str | None = None,
        before: datetime | float | None = None,
    ) -> ReconcileReport:
        """Brings batches that wait in step with the host's history, in one transaction.

        For a host that starts, before it stages anything.

        Args:
            committed: The tokens in the host's history: those that wait are finalized.
            session_id: Of the batches that were not committed, only those of this session are aborted.
                Without it those of every session: of a store that other hosts share, name yours.
            before: And only those handed over earlier than this: younger ones may be under way.
        """
        stamp = None if before is None else milliseconds(before)
        done = self._native.reconcile(list(committed), session_id, stamp)
        self._wake()
        return ReconcileReport(*map(tuple, done))

    def stages(self, session_id: str | None = None) -> list[Stage]:
        """The batches that wait, of one session or of all, in the order they were handed over."""
        return [Stage(*row[:4], datetime_from(row[4])) for row in self._native.stages(session_id)]
