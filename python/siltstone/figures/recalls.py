"""The recalls of a session, with the entries as they are now."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from siltstone.errors import EntryNotFoundError, StoreCorruptError
from siltstone.memory import RecallCandidate, RecallRecord, StoredEntry
from siltstone.memory.base import Store
from siltstone.messages import decode, read_message
from siltstone.session import Session

__all__ = ["PLACINGS", "REASONS", "RecalledEntry", "ShownRecall", "recalls", "shown"]

#: The outcome of an entry, in words.
PLACINGS = {"placed": "placed", "cut": "placed, cut", "budget": "left out for the budget"}
#: Why nothing was placed, in words.
REASONS = {
    "short_query": "nothing was placed: the query was too short",
    "no_hits": "nothing was placed: nothing scored enough",
    "no_room": "nothing was placed: there was no room",
}


@dataclass(frozen=True, slots=True)
class RecalledEntry:
    """An entry that a recall found.

    Attributes:
        candidate: The record of the entry in the log.
        entry: The entry; None if it was deleted since, or cannot be read.
    """

    candidate: RecallCandidate
    entry: StoredEntry | None


@dataclass(frozen=True, slots=True)
class ShownRecall:
    """A recall.

    Attributes:
        record: The record of the recall in the log.
        query: The messages of the query as one text; empty if they were forgotten.
        entries: The entries that it found, the best first.
    """

    record: RecallRecord
    query: str
    entries: tuple[RecalledEntry, ...]


def recalls(session: Session, store: Store, limit: int) -> list[ShownRecall]:
    """The newest recalls of *session*, at most *limit*, the newest first."""
    return shown(session, store, session.recalls(limit))


def shown(session: Session, store: Store, records: Iterable[RecallRecord]) -> list[ShownRecall]:
    """*records* of *session* with the entries and the query as they are now."""
    return [
        ShownRecall(
            record,
            _query(session, store, record),
            tuple(RecalledEntry(each, _entry(store, each.entry_id)) for each in record.candidates),
        )
        for record in records
    ]


def _query(session: Session, store: Store, record: RecallRecord) -> str:
    """The words of the messages that a query was made of."""
    log = store.open_log(session.session_id)
    rows = [row for seq in record.query for row in log.read(seq, seq + 1) if row.provenance != "placeholder"]
    return " ".join(read_message(decode(row.raw), row.seq, dialect=row.dialect).text for row in rows)


def _entry(store: Store, entry_id: int) -> StoredEntry | None:
    try:
        return store.get(entry_id) if entry_id > 0 else None
    except (EntryNotFoundError, StoreCorruptError):
        return None
