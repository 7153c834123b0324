"""Staging in process memory: the same rules, for as long as the process lives."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b

from siltstone.errors import InvalidEntryError, StageNotFoundError, StoreConflictError
from siltstone.memory.convert import datetime_from
from siltstone.memory.entry import MAX_FINGERPRINT_BYTES, Receipt, ReconcileReport, Stage, StoredEntry
from siltstone.memory.simple_entry import has_text

__all__ = ["SimpleStages"]


@dataclass(slots=True)
class Batch:
    """A batch of a session's: what waits of it by place, and its receipt once it is finalized."""

    token: str
    session_id: str
    fingerprint: str
    size: int
    created_at: int
    waiting: dict[int, tuple[int, StoredEntry]]
    receipt: Receipt | None = None
    dropped: bool = False


class SimpleStages:
    """The batches of a ``SimpleMemoryStore``. Its lock is held over every call.

    Args:
        publish: Stores entries of a session, all or none.
        is_dropped: Whether a session was dropped.
    """

    def __init__(
        self,
        publish: Callable[[str, Sequence[StoredEntry]], Receipt],
        is_dropped: Callable[[str], bool],
    ) -> None:
        self._publish, self._is_dropped = publish, is_dropped
        self._batches: dict[str, Batch] = {}
        self._last_id = 0

    def stage(self, session_id: str, entries: Sequence[StoredEntry], fingerprint: str, now: int) -> str:
        """Keeps *entries*, to which nothing is written where the session was dropped. The token."""
        size = len(fingerprint.encode("utf-8", "surrogatepass"))
        if not 0 < size <= MAX_FINGERPRINT_BYTES:
            raise InvalidEntryError(
                f"a fingerprint must be 1 to {MAX_FINGERPRINT_BYTES} bytes, got {size} bytes"
            )
        content = [(e.source_range, e.role, e.name, e.kind, e.content) for e in entries]
        token = blake2b(repr((session_id, fingerprint, content)).encode(), digest_size=16).hexdigest()
        dropped = self._is_dropped(session_id)
        known = self._find(session_id, fingerprint)
        if known is not None:
            if known.token == token and known.dropped == dropped:
                return token
            if not known.dropped:
                raise StoreConflictError(
                    f"session {session_id!r} has another batch of fingerprint {fingerprint!r}: one "
                    "fingerprint stands for one content",
                    token=known.token,
                )
            del self._batches[known.token]
        batch = self._batches[token] = Batch(token, session_id, fingerprint, len(entries), now, {})
        for place, entry in enumerate(entries):
            if has_text(entry.content):
                self._last_id += 1
                batch.waiting[place] = self._last_id, entry
        if dropped:
            self.delete_session(session_id)
        return token

    def finalize(self, token: str) -> Receipt:
        """Publishes a batch; the same receipt again for one that is published."""
        batch = self._batches.get(token)
        if batch is None:
            raise StageNotFoundError(
                f"the store has no batch {token!r}: it was aborted, or never handed over", token=token
            )
        if batch.receipt is None:
            places = list(batch.waiting)
            receipt = self._publish(batch.session_id, [entry for _, entry in batch.waiting.values()])
            ids = dict(zip(places, receipt.entry_ids, strict=True))
            batch.receipt = Receipt(tuple(ids.get(place) for place in range(batch.size)))
            batch.waiting = {}
        return batch.receipt

    def abort(self, token: str) -> bool:
        """Deletes a batch that waits."""
        batch = self._batches.get(token)
        if batch is None or batch.dropped:
            return False
        if batch.receipt is not None:
            raise StoreConflictError(
                f"batch {token} was finalized: forget its entries, if they are to go", token=token
            )
        del self._batches[token]
        return True

    def reconcile(
        self, committed: Collection[str], session_id: str | None, before: int | None
    ) -> ReconcileReport:
        """Publishes what was committed, and deletes what was not."""
        tokens = list(dict.fromkeys(committed))
        lost = [token for token in tokens if token not in self._batches]
        finalized = [token for token in tokens if token not in lost and self._waits(token)]
        for token in finalized:
            self.finalize(token)
        aborted = [
            batch.token for batch in self.waiting(session_id) if before is None or batch.created_at < before
        ]
        for token in aborted:
            del self._batches[token]
        return ReconcileReport(tuple(finalized), tuple(aborted), tuple(lost))

    def waiting(self, session_id: str | None) -> list[Batch]:
        """The batches that wait."""
        return [
            batch
            for batch in self._batches.values()
            if self._waits(batch.token) and session_id in (None, batch.session_id)
        ]

    def stages(self, session_id: str | None) -> list[Stage]:
        """The same, as the store gives them."""
        return [
            Stage(b.token, b.session_id, b.fingerprint, len(b.waiting), datetime_from(b.created_at))
            for b in self.waiting(session_id)
        ]

    def delete_session(self, session_id: str) -> None:
        """Makes every batch of the session one that is accepted as nothing."""
        for batch in self._batches.values():
            if batch.session_id == session_id:
                batch.waiting, batch.receipt, batch.dropped = {}, Receipt((None,) * batch.size), True

    def forget(self, session_id: str, ids: Collection[int], seqs: Sequence[int]) -> int:
        """Deletes entries that wait, by id or because they came from a message of *seqs*; how many."""
        gone = 0
        for batch in self.waiting(session_id):
            for place, (key, entry) in list(batch.waiting.items()):
                if key in ids or any(seq in range(*entry.source_range) for seq in seqs):
                    del batch.waiting[place]
                    gone += 1
        return gone

    def entries(self, session_id: str) -> list[StoredEntry]:
        """What of the session waits, each under the id it has here."""
        return [
            replace(entry, entry_id=key)
            for batch in self.waiting(session_id)
            for key, entry in batch.waiting.values()
        ]

    def _find(self, session_id: str, fingerprint: str) -> Batch | None:
        batches = self._batches.values()
        return next((b for b in batches if (b.session_id, b.fingerprint) == (session_id, fingerprint)), None)

    def _waits(self, token: str) -> bool:
        return self._batches[token].receipt is None
