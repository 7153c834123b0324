"""A store in process memory, for tests and small scripts: words are found as parts of words."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, NoReturn, Self

from siltstone.errors import EntryNotFoundError, InvalidEntryError, StoreClosedError
from siltstone.memory.convert import datetime_from, milliseconds, range_of
from siltstone.memory.entry import (
    Entry,
    ExpireReport,
    Finding,
    ForgetReport,
    Page,
    Ranker,
    Receipt,
    ReconcileReport,
    SearchHit,
    Stage,
    StoredEntry,
    StoreStats,
)
from siltstone.memory.forgetting import REPLACEMENT, Criteria, Target, plan
from siltstone.memory.limits import DEFAULTS, Limits
from siltstone.memory.log import SessionLog
from siltstone.memory.simple_entry import (
    check_search,
    check_session_id,
    has_text,
    identity,
    passes,
    stored_of,
)
from siltstone.memory.simple_log import LogRecord, SimpleLog
from siltstone.memory.simple_stages import SimpleStages

__all__ = ["SimpleMemoryStore"]


class SimpleMemoryStore:
    """The contract of :class:`~siltstone.memory.base.Store` in a few dictionaries; nothing is durable.

    Query and texts are put in lower case, and the query is split at white space;
    ``score = words found anywhere in the text / words``. Entries without any are left out.
    """

    def __init__(self, *, limits: Limits = DEFAULTS) -> None:
        self.limits = limits
        self._lock = threading.RLock()
        self._closed = False
        self._entries: dict[str, dict[int, StoredEntry]] = {}
        self._logs: dict[str, LogRecord] = {}
        self._dropped: set[str] = set()
        self._ids = itertools.count(1)
        self._compaction_ids = itertools.count(1)
        self._stages = SimpleStages(self._publish, self._dropped.__contains__)

    def index(self, session_id: str, entries: Sequence[Entry]) -> Receipt:
        """Remembers *entries*: all of them, or none."""
        return self._index(session_id, entries, None)

    def search(
        self,
        session_id: str,
        query: str,
        limit: int = 5,
        ranker: Ranker | None = None,
        min_score: float = 0.0,
        explain: bool = False,
    ) -> list[SearchHit]:
        """The entries of the session that have most of the query's words, best first.

        ``ranker`` must be None: there is only one way here. With ``explain`` a hit has
        ``{"terms": [{"term", "found"}, …]}``.
        """
        with self._lock:
            entries = list(self._of(session_id).values())
        check_search(self.limits, query, limit, ranker, min_score)
        words = query.lower().split()
        hits = []
        for entry in entries:
            text = entry.content.lower()
            found = [word in text for word in words]
            score = sum(found) / len(words) if words else 0.0
            if score > 0.0 and score >= min_score:
                terms = [{"term": word, "found": has} for word, has in zip(words, found, strict=True)]
                hits.append(_hit(entry, score, {"terms": terms} if explain else None))
        hits.sort(key=lambda hit: hit.entry_id)
        hits.sort(key=lambda hit: (hit.score, hit.created_at), reverse=True)
        return hits[: min(limit, self.limits.hits)]

    def get(self, entry_id: int) -> StoredEntry:
        """The entry of that id."""
        with self._lock:
            self._check()
            for entries in self._entries.values():
                if entry_id in entries:
                    return entries[entry_id]
        raise EntryNotFoundError(f"the store has no entry {entry_id}", entry_id=entry_id)

    def entries(
        self,
        session_id: str,
        overlaps: tuple[int, int] | None = None,
        since: datetime | float | None = None,
        offset: int = 0,
        limit: int = 100,
    ) -> Page:
        """The entries of the session in id order, a page at a time; the filters come after the paging."""
        with self._lock:
            entries = list(self._of(session_id).values())
        if limit < 1:
            raise InvalidEntryError(f"limit must be at least 1, got {limit}")
        if offset < 0:
            raise InvalidEntryError(f"offset must be at least 0, got {offset}")
        wanted = None if overlaps is None else range_of(overlaps, "overlaps")
        after = None if since is None else datetime_from(milliseconds(since))
        page = entries[offset : offset + limit]
        return Page(
            tuple(entry for entry in page if passes(entry, wanted, after)),
            offset + limit if offset + limit < len(entries) else None,
        )

    def stage(self, session_id: str, entries: Sequence[Entry], fingerprint: str) -> str:
        """Keeps *entries* for the session, and shows them to nobody. The batch's token."""
        with self._lock:
            self._log(session_id)  # it is known from now on
            self.limits.check_batch(entries)
            stored = [stored_of(session_id, entry) for entry in entries]
            return self._stages.stage(session_id, stored, fingerprint, milliseconds(None))

    def finalize(self, token: str) -> Receipt:
        """Makes the entries of a batch findable. Calling it twice is fine."""
        with self._lock:
            self._check()
            return self._stages.finalize(token)

    def abort(self, token: str) -> bool:
        """Deletes a batch that waits. False where there is none of that token."""
        with self._lock:
            self._check()
            return self._stages.abort(token)

    def reconcile(
        self,
        committed: Collection[str],
        *,
        session_id: str | None = None,
        before: datetime | float | None = None,
    ) -> ReconcileReport:
        """Brings batches that wait in step with the host's history."""
        with self._lock:
            self._check(session_id)
            stamp = None if before is None else milliseconds(before)
            return self._stages.reconcile(committed, session_id, stamp)

    def stages(self, session_id: str | None = None) -> list[Stage]:
        """The batches that wait, of one session or of all, in the order they were handed over."""
        with self._lock:
            self._check(session_id)
            return self._stages.stages(session_id)

    def forget(
        self,
        *,
        entry_ids: Collection[int] | None = None,
        session_id: str | None = None,
        start: int | None = None,
        end: int | None = None,
        name: str | None = None,
        before: datetime | float | None = None,
        text: str | None = None,
        identifiers: bool = False,
        dry_run: bool = False,
    ) -> ForgetReport:
        """Forgets what was said. Criteria and report are those of ``MemoryStore.forget``."""
        criteria = Criteria.of(
            entry_ids=entry_ids,
            session_id=session_id,
            start=start,
            end=end,
            name=name,
            before=before,
            text=text,
            identifiers=identifiers,
        )
        with self._lock:
            self._check(session_id)
            sessions = sorted(self._entries.keys() | self._logs.keys())
            chosen = plan(self, sessions, criteria, self._stages.entries)
            if dry_run:
                return chosen.expected
            counts = [self._forget(target) for target in chosen.targets]
            changed = [count for count in counts if any(count)]
            messages, entries, summaries = (sum(each) for each in zip((0, 0, 0), *changed, strict=True))
            return chosen.report(len(changed), messages, entries, summaries, erased=True)

    def delete_session(self, session_id: str) -> int:
        """Deletes the session: its entries, its log, its compactions. The number of entries it had.

        What is written to it from now on is accepted as nothing.
        """
        with self._lock:
            self._check(session_id)
            if session_id in self._logs or session_id in self._entries:
                self._dropped.add(session_id)
            self._stages.delete_session(session_id)
            self._logs.pop(session_id, None)
            return len(self._entries.pop(session_id, {}))

    def revive(self, session_id: str) -> bool:
        """Begins a session that was dropped anew, empty. False for one that was not dropped."""
        with self._lock:
            self._check(session_id)
            was_dropped = session_id in self._dropped
            self._dropped.discard(session_id)
            return was_dropped

    def expire(
        self, session_id: str, *, keep: int | None = None, before: datetime | float | None = None
    ) -> ExpireReport:
        """Takes entries out of what can be found: those from before *before*, and the oldest but *keep*."""
        with self._lock:
            self._check(session_id)
            if keep is not None and keep < 0:
                raise InvalidEntryError(f"keep must be at least 0, got {keep}")
            entries = sorted(self._of(session_id).values(), key=lambda e: (e.created_at, e.entry_id))
            since = None if before is None else datetime_from(milliseconds(before))
            aged = [e.entry_id for e in entries if since is not None and e.created_at < since]
            left = [e.entry_id for e in entries if e.entry_id not in aged]
            over = [] if keep is None else left[: max(0, len(left) - keep)]
            for entry_id in aged + over:
                del self._entries[session_id][entry_id]
                self._log(session_id).brought.pop(entry_id, None)
            return ExpireReport(len(aged), len(over))

    def stats(self, session_id: str | None = None) -> StoreStats:
        """What the store, or one session of it, holds."""
        with self._lock:
            self._check(session_id)
            everyone = self._entries.keys() | self._logs.keys()
            sessions = everyone if session_id is None else everyone & {session_id}
            logs = [self._logs.get(session, LogRecord()) for session in sessions]
            texts = [entry.content for session in sessions for entry in self._of(session).values()]
            return StoreStats(
                sessions=sum(1 for each in sessions if self._of(each) or self._messages(each)),
                messages=sum(len(log.messages) for log in logs),
                entries=len(texts),
                compactions=sum(len(log.compactions) for log in logs),
                text_bytes=sum(len(text.encode()) for text in texts),
                disk_bytes=0,
                detail={"index": "none"} if session_id in sessions else {},
                staged=sum(stage.entries for stage in self._stages.stages(session_id)),
            )

    def check(self, *, repair: bool = False) -> list[Finding]:  # noqa: ARG002 - the contract's
        """Nothing: there is no file that could be damaged, nor repaired."""
        self._check()
        return []

    def quarantined(self, session_id: str) -> tuple[int, ...]:
        """None, for the same reason."""
        self._check(session_id)
        return ()

    def open_log(self, session_id: str) -> SessionLog:
        """The session's log, in process memory like the entries."""
        self._check(session_id)
        return SimpleLog(
            session_id,
            partial(self._log, session_id),
            partial(next, self._compaction_ids),
            partial(self._index, session_id),
            partial(self._withdraw, session_id),
            self._lock,
            self.limits,
        )

    def close(self) -> None:
        """Refuses every further call. Closing twice is fine."""
        self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a SimpleMemoryStore cannot be pickled or copied: it is shared by who holds it")

    def _index(self, session_id: str, entries: Sequence[Entry], compaction: int | None) -> Receipt:
        with self._lock:
            self._check(session_id)
            if compaction is None:
                self.limits.check_batch(entries)
            else:
                entries = self.limits.cut(entries)
            stored = [stored_of(session_id, entry) for entry in entries]  # raises before anything is kept
            return self._keep(session_id, stored, compaction)

    def _publish(self, session_id: str, entries: Sequence[StoredEntry]) -> Receipt:
        return self._keep(session_id, entries, None)

    def _keep(self, session_id: str, stored: Sequence[StoredEntry], compaction: int | None) -> Receipt:
        with self._lock:
            if session_id in self._dropped:
                return Receipt((None,) * len(stored))
            kept, brought = self._of(session_id), self._log(session_id).brought
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
                    self._entries.setdefault(session_id, {})[entry_id] = replace(entry, entry_id=entry_id)
                    if key:
                        twins[key] = entry_id
                    if compaction is not None:
                        brought[entry_id] = compaction
                elif compaction is None:
                    brought.pop(entry_id, None)  # the caller's own from now on
                ids.append(entry_id)
            return Receipt(tuple(ids))

    def _withdraw(self, session_id: str, compaction: int) -> int:
        brought = self._log(session_id).brought
        gone = [entry_id for entry_id, origin in brought.items() if origin == compaction]
        for entry_id in gone:
            del brought[entry_id]
            del self._entries[session_id][entry_id]
        return len(gone)

    def _check(self, session_id: str | None = None) -> None:
        if self._closed:
            raise StoreClosedError("the store is closed")
        if session_id is not None:
            check_session_id(session_id)

    def _of(self, session_id: str) -> dict[int, StoredEntry]:
        self._check(session_id)
        return self._entries.get(session_id, {})

    def _forget(self, target: Target) -> tuple[int, int, int]:
        """Messages, entries and summaries that were forgotten."""
        record, entries = self._log(target.session_id), self._entries.get(target.session_id, {})
        messages, summaries = record.forget(target.messages, target.summaries, REPLACEMENT)
        seqs = [seq for seq, _ in target.messages]
        gone = [
            entry_id
            for entry_id, entry in entries.items()
            if entry_id in target.entries or any(seq in range(*entry.source_range) for seq in seqs)
        ]
        for entry_id in gone:
            del entries[entry_id]
            record.brought.pop(entry_id, None)
        waited = self._stages.forget(target.session_id, target.staged, seqs)
        return messages, len(gone) + waited, summaries

    def _log(self, session_id: str) -> LogRecord:
        self._check(session_id)
        if session_id in self._dropped:
            return LogRecord(dropped=True)
        return self._logs.setdefault(session_id, LogRecord())

    def _messages(self, session_id: str) -> int:
        return len(self._logs[session_id].messages) if session_id in self._logs else 0


def _hit(entry: StoredEntry, score: float, explain: dict[str, Any] | None) -> SearchHit:
    return SearchHit(
        content=entry.content,
        score=score,
        source_range=entry.source_range,
        entry_id=entry.entry_id,
        role=entry.role,
        created_at=entry.created_at,
        explain=explain,
    )
