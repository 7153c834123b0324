"""The slow twin of a store: staging, entries and retention in a few dictionaries, in simple code.

Tests compare the stores with it. It checks no limits, and forgets only by text.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from types import SimpleNamespace
from typing import Any

from siltstone import _native
from siltstone.errors import InvalidEntryError, StageNotFoundError, StoreConflictError
from siltstone.memory import (
    Entry,
    ExpireReport,
    Page,
    Receipt,
    ReconcileReport,
    SourceRange,
    Stage,
    StoredEntry,
)
from siltstone.memory.convert import datetime_from, milliseconds, range_of
from siltstone.memory.entry import MAX_FINGERPRINT_BYTES
from siltstone.messages import well_formed


class DictionaryStore:
    """The methods of a store that the tests compare."""

    def __init__(self) -> None:
        self._entries: dict[str, dict[int, StoredEntry]] = {}
        self._known: set[str] = set()
        self._dropped: set[str] = set()
        self._ids = itertools.count(1)
        self._stages = DictionaryStages(self._keep, self._dropped.__contains__)
        self.abort = self._stages.abort
        self.finalize = self._stages.finalize
        self.stages = partial(self._stages.stages)

    def index(self, session_id: str, entries: Sequence[Entry]) -> Receipt:
        return self._keep(session_id, [stored_of(session_id, entry) for entry in entries])

    def entries(self, session_id: str, offset: int = 0, limit: int = 100) -> Page:
        entries = list(self._entries.get(session_id, {}).values())
        more = offset + limit < len(entries)
        return Page(tuple(entries[offset : offset + limit]), offset + limit if more else None)

    def stage(self, session_id: str, entries: Sequence[Entry], fingerprint: str) -> str:
        self._known.add(session_id)
        stored = [stored_of(session_id, entry) for entry in entries]
        return self._stages.stage(session_id, stored, fingerprint, milliseconds(None))

    def reconcile(self, committed: Collection[str], *, session_id: str | None = None) -> ReconcileReport:
        return self._stages.reconcile(committed, session_id, None)

    def forget(self, *, text: str) -> Any:
        gone = 0
        for session_id in self._known:
            meant = [each.entry_id for each in self._stages.entries(session_id) if text in each.content]
            gone += self._stages.forget(session_id, meant, [])
            entries = self._entries.get(session_id, {})
            for entry_id in [each for each, entry in entries.items() if text in entry.content]:
                del entries[entry_id]
                gone += 1
        return SimpleNamespace(entries=gone)

    def delete_session(self, session_id: str) -> int:
        if session_id in self._known:
            self._dropped.add(session_id)
        self._stages.delete_session(session_id)
        return len(self._entries.pop(session_id, {}))

    def expire(
        self, session_id: str, *, keep: int | None = None, before: float | None = None
    ) -> ExpireReport:
        entries = sorted(
            self.entries(session_id, limit=10**9).entries, key=lambda e: (e.created_at, e.entry_id)
        )
        since = None if before is None else datetime_from(milliseconds(before))
        aged = [e.entry_id for e in entries if since is not None and e.created_at < since]
        left = [e.entry_id for e in entries if e.entry_id not in aged]
        over = [] if keep is None else left[: max(0, len(left) - keep)]
        for entry_id in aged + over:
            del self._entries[session_id][entry_id]
        return ExpireReport(len(aged), len(over))

    def stats(self, session_id: str) -> Any:
        return SimpleNamespace(staged=sum(stage.entries for stage in self._stages.stages(session_id)))

    def close(self) -> None:
        pass

    def _keep(self, session_id: str, stored: Sequence[StoredEntry]) -> Receipt:
        if session_id in self._dropped:
            return Receipt((None,) * len(stored))
        self._known.add(session_id)
        kept = self._entries.setdefault(session_id, {})
        twins = {key: entry_id for entry_id, entry in kept.items() if (key := identity(entry))}
        ids: list[int | None] = []
        for entry in stored:
            if not has_text(entry.content):
                ids.append(None)
                continue
            key = identity(entry)
            entry_id = twins.get(key) if key else None
            if entry_id is None:
                entry_id = next(self._ids)
                kept[entry_id] = replace(entry, entry_id=entry_id)
                if key:
                    twins[key] = entry_id
            ids.append(entry_id)
        return Receipt(tuple(ids))


def stored_of(session_id: str, entry: Entry) -> StoredEntry:
    """*entry* in its stored form, without its number."""
    text = well_formed(entry.content)
    return StoredEntry(
        entry_id=0,
        session_id=session_id,
        content=text,
        source_range=SourceRange(*range_of(entry.source_range, "source_range")),
        role=well_formed(entry.role),
        name=None if entry.name is None else well_formed(entry.name),
        kind=well_formed(entry.kind),
        created_at=datetime_from(milliseconds(entry.created_at)),
        repaired=text != entry.content,
    )


def identity(entry: StoredEntry) -> tuple[Any, ...] | None:
    """The values by which an entry is recognised; None for an entry that came from no message."""
    start, end = entry.source_range
    if start == end:
        return None
    return start, end, entry.role, entry.name, entry.kind, entry.content


def has_text(text: str) -> bool:
    """Whether *text* has more than white space."""
    return bool(_native.whitespace_words(text))  # the core's notion of white space, which is not Python's


@dataclass(slots=True)
class Batch:
    """A batch of a session: its waiting entries by place, and its receipt after it was finalized."""

    token: str
    session_id: str
    fingerprint: str
    size: int
    created_at: int
    waiting: dict[int, tuple[int, StoredEntry]]
    receipt: Receipt | None = None
    dropped: bool = False


class DictionaryStages:
    """The batches of a :class:`DictionaryStore`.

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
        """Stores *entries* as a batch, unless the session was dropped. Returns the token."""
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
        """Publishes a batch. A published batch gives the same receipt again."""
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
        """Publishes the committed batches, and deletes the others."""
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
        """Turns every batch of the session into a tombstone: a later finalize has no effect."""
        for batch in self._batches.values():
            if batch.session_id == session_id:
                batch.waiting, batch.receipt, batch.dropped = {}, Receipt((None,) * batch.size), True

    def forget(self, session_id: str, ids: Collection[int], seqs: Sequence[int]) -> int:
        """Deletes waiting entries by id, or if they came from a message of *seqs*. Returns their number."""
        gone = 0
        for batch in self.waiting(session_id):
            for place, (key, entry) in list(batch.waiting.items()):
                if key in ids or any(seq in range(*entry.source_range) for seq in seqs):
                    del batch.waiting[place]
                    gone += 1
        return gone

    def entries(self, session_id: str) -> list[StoredEntry]:
        """The waiting entries of the session, each with its id in this twin."""
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
