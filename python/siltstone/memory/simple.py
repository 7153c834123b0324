"""A store in process memory, for tests and small scripts: words are found as parts of words."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, NoReturn, Self

from siltstone import _native
from siltstone.errors import ConfigError, EntryNotFoundError, InvalidEntryError, StoreClosedError
from siltstone.memory.convert import datetime_from, milliseconds, range_of
from siltstone.memory.entry import (
    MAX_LIMIT,
    MAX_QUERY_BYTES,
    MAX_TEXT_BYTES,
    Entry,
    Finding,
    ForgetReport,
    Page,
    Ranker,
    Receipt,
    SearchHit,
    SourceRange,
    StoredEntry,
    StoreStats,
)
from siltstone.memory.forgetting import REPLACEMENT, Criteria, Target, targets
from siltstone.memory.log import SessionLog
from siltstone.memory.simple_log import LogRecord, SimpleLog

__all__ = ["SimpleMemoryStore"]

MAX_SESSION_ID_BYTES = 1024


class SimpleMemoryStore:
    """The contract of :class:`~siltstone.memory.base.Store` in a few dictionaries; nothing is durable.

    Query and texts are put in lower case, and the query is split at white space;
    ``score = words found anywhere in the text / words``. Entries without any are left out.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._closed = False
        self._entries: dict[str, dict[int, StoredEntry]] = {}
        self._logs: dict[str, LogRecord] = {}
        self._dropped: set[str] = set()
        self._ids = itertools.count(1)
        self._compaction_ids = itertools.count(1)

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
        _check_search(query, limit, ranker, min_score)
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
        return hits[: min(limit, MAX_LIMIT)]

    def get(self, entry_id: int) -> StoredEntry:
        """The entry of that id."""
        with self._lock:
            self._check()
            for entries in self._entries.values():
                if entry_id in entries:
                    return entries[entry_id]
        raise EntryNotFoundError(f"the store has no entry {entry_id}", entry_id=entry_id)

    def enumerate(
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
            tuple(entry for entry in page if _passes(entry, wanted, after)),
            offset + limit if offset + limit < len(entries) else None,
        )

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
        )
        with self._lock:
            self._check(session_id)
            sessions = sorted(self._entries.keys() | self._logs.keys())
            counts = [self._forget(target) for target in targets(self, sessions, criteria)]
            changed = [count for count in counts if any(count)]
            messages, entries, summaries = (sum(each) for each in zip((0, 0, 0), *changed, strict=True))
            return ForgetReport(len(changed), messages, entries, summaries, erased=True)

    def drop(self, session_id: str) -> int:
        """Deletes the session: its entries, its log, its compactions. The number of entries it had.

        What is written to it from now on is accepted as nothing.
        """
        with self._lock:
            self._check(session_id)
            if session_id in self._logs or session_id in self._entries:
                self._dropped.add(session_id)
            self._logs.pop(session_id, None)
            return len(self._entries.pop(session_id, {}))

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
            )

    def check(self) -> list[Finding]:
        """Nothing: there is no file that could be damaged."""
        self._check()
        return []

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
            stored = [_stored(session_id, entry) for entry in entries]  # raises before anything is kept
            if session_id in self._dropped:
                return Receipt((None,) * len(stored))
            kept, brought = self._of(session_id), self._log(session_id).brought
            twins = {key: entry_id for entry_id, entry in kept.items() if (key := _identity(entry))}
            ids: list[int | None] = []
            for entry in stored:
                if not _has_text(entry.content):
                    ids.append(None)
                    continue
                key = _identity(entry)
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
            _check_session_id(session_id)

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
        return messages, len(gone), summaries

    def _log(self, session_id: str) -> LogRecord:
        self._check(session_id)
        if session_id in self._dropped:
            return LogRecord(dropped=True)
        return self._logs.setdefault(session_id, LogRecord())

    def _messages(self, session_id: str) -> int:
        return len(self._logs[session_id].messages) if session_id in self._logs else 0


def _check_session_id(session_id: str) -> None:
    try:
        size = len(session_id.encode())
    except UnicodeEncodeError as error:
        raise InvalidEntryError("a session id must not hold lone surrogates") from error
    if not 0 < size <= MAX_SESSION_ID_BYTES:
        raise InvalidEntryError(f"a session id must be 1 to {MAX_SESSION_ID_BYTES} bytes, got {size} bytes")


def _check_search(query: str, limit: int, ranker: Ranker | None, min_score: float) -> None:
    size, _ = _native.text_size(query)
    if size > MAX_QUERY_BYTES:
        raise InvalidEntryError(f"a query must be at most {MAX_QUERY_BYTES} bytes, got {size} bytes")
    if limit < 0:
        raise InvalidEntryError(f"limit must be at least 0, got {limit}")
    if not 0.0 <= min_score <= 1.0:
        raise InvalidEntryError(f"min_score must be in 0..1, got {min_score}")
    if ranker is not None:
        raise ConfigError(
            f"a SimpleMemoryStore has one ranker; ranker must be None, got {ranker!r}",
            field="ranker",
            value=ranker,
        )


def _stored(session_id: str, entry: Entry) -> StoredEntry:
    """*entry* as it is kept, without its number."""
    text = _repaired(entry.text)
    size = len(text.encode())
    if size > MAX_TEXT_BYTES:
        raise InvalidEntryError(
            f"an entry's text must be at most {MAX_TEXT_BYTES} bytes, got {size} bytes",
            limit=MAX_TEXT_BYTES,
            size=size,
        )
    return StoredEntry(
        entry_id=0,
        session_id=session_id,
        content=text,
        source_range=SourceRange(*range_of(entry.source_range, "source_range")),
        role=_repaired(entry.role),
        name=None if entry.name is None else _repaired(entry.name),
        kind=_repaired(entry.kind),
        created_at=datetime_from(milliseconds(entry.created_at)),
        repaired=text != entry.text,
    )


def _identity(entry: StoredEntry) -> tuple[Any, ...] | None:
    """What makes two entries one; None for an entry that says of no message that it came from it."""
    start, end = entry.source_range
    if start == end:
        return None
    return start, end, entry.role, entry.name, entry.kind, entry.content


def _repaired(text: str) -> str:
    """*text* with surrogates paired where they can be, and replaced where not, as the core does it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _has_text(text: str) -> bool:
    return bool(_native.whitespace_words(text))  # the core's notion of white space, which is not Python's


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


def _passes(entry: StoredEntry, overlaps: tuple[int, int] | None, since: datetime | None) -> bool:
    """Half-open ranges share a message where each begins before the other ends; an empty one has none."""
    if since is not None and entry.created_at <= since:
        return False
    if overlaps is None:
        return True
    start = max(entry.source_range.start, overlaps[0])
    end = min(entry.source_range.end, overlaps[1])
    return start < end
