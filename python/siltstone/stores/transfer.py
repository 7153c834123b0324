"""Copies a store into another store of any kind, compares both, and can go on after an interrupt.

A session is replayed through the contract of all stores, in its original order: its messages, its rows with
their entries, and entries of callers between them. So ids ascend as before, and equal scores keep their
order. Data that the target has already must be the beginning of the source's data, and is not written again.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import count, groupby, zip_longest
from operator import itemgetter
from typing import Any, Final, TypeVar

from siltstone.errors import ConfigError
from siltstone.memory import log as logs
from siltstone.memory.base import Store, entries_of, rows_of, sessions_of
from siltstone.memory.convert import new_entry
from siltstone.memory.database_log import MOST_RECALLS
from siltstone.memory.entry import Entry, StoredEntry

_T = TypeVar("_T")

_PAGE: Final = 500  #: rows that are written at once
_BYTES: Final = 4 << 20  #: of messages or texts that are written at once
_MESSAGE: Final = tuple(logs.NewMessage._fields)
_ROW: Final = tuple(name for name in logs.NewCompaction._fields if name not in ("view", "derived"))
_NEW_TEXT: Final = tuple(logs.NewDerived._fields)
_TEXT: Final = (*_NEW_TEXT, "redacted")


@dataclass(slots=True)
class Copied:
    """The result of a copy: numbers of rows that both stores have now.

    Attributes:
        sessions: Sessions of the source. The target has all of them now.
        messages: Their messages.
        compactions: Their compactions and branches, including undone ones.
        entries: Their entries.
        facts: Their facts and rules.
        skipped: Sessions of which the target had an equal copy already.
        differing: Ids of sessions that differ afterwards, because one of the stores was written meanwhile.
    """

    sessions: int = 0
    messages: int = 0
    compactions: int = 0
    entries: int = 0
    facts: int = 0
    skipped: int = 0
    differing: tuple[str, ...] = ()


def copy_store(
    source: Store, target: Store, *, progress: Callable[[str, int, int], None] | None = None
) -> Copied:
    """Copies every session of *source* into *target*, and compares both when it is done.

    Ids of entries and compactions are the target's own, in the same order. Other sessions of the target stay.
    A session that an interrupted copy has begun gets the rest. Not copied are tombstones of deleted sessions,
    vectors (an embedder makes them again), and files that a preset keeps beside a store.

    Args:
        source: It may be open read-only. A write to it meanwhile makes the copy differ.
        target: It must be open for writing.
        progress: Called with a session's id, the number of messages and entries handled so far, and the total
            number in the store.

    Raises:
        ConfigError: *target* has a different session of the same id, or a session of which the source has
            forgotten, undone or expired a part since an earlier copy. Sessions before it are complete.
        SiltstoneError: an error of a read or a write. Call again, and the copy goes on.
    """
    done, differing = Copied(), []
    total = source.stats()
    rows = total.messages + total.entries
    behind = 0
    for info in sessions_of(source):
        name = info.session_id

        def tell(read: int, name: str = name, behind: int = behind) -> None:
            if progress is not None:
                progress(name, behind + read, rows)

        was = _figures(source, name)
        if was == _figures(target, name):
            done.skipped += 1
        else:
            _Session(source, target, name, tell).run()
            if _figures(source, name) != _figures(target, name):
                differing.append(name)
        behind += info.messages + info.entries
        tell(0, behind=behind)
        done.sessions += 1
        done.messages += was["messages"][0]
        done.compactions += was["rows"][0]
        done.entries += was["entries"][0]
        done.facts += was["facts"][0]
    done.differing = tuple(differing)
    return done


class _Names:
    """Names rows and texts by their place, so that two stores with different ids can be compared."""

    def __init__(self, log: logs.SessionLog) -> None:
        self.rows = log.compactions()
        self.texts = log.derived_after(0)
        self.places: dict[int | None, int | None] = {None: None}
        self.places |= {row.compaction_id: place for place, row in enumerate(self.rows)}
        self.text_places = {text.derived_id: place for place, text in enumerate(self.texts)}

    def row(self, row: logs.CompactionRow) -> dict[str, Any]:
        """The row without ids."""
        view = [piece if isinstance(piece, tuple) else [self._piece(piece)] for piece in row.compaction.view]
        own = {name: getattr(row.compaction, name) for name in _ROW}
        brought = [self.text_places[each] for each in row.derived_ids]
        return {**own, "view": view, "derived": brought, "parent": self.places[row.parent]}

    def _piece(self, piece: logs.NewRef | int) -> int:
        return self.text_places[piece if isinstance(piece, int) else piece.place]

    def text(self, text: logs.Derived) -> dict[str, Any]:
        """The text without its id."""
        return {name: getattr(text, name) for name in _TEXT}

    def entry(self, entry: StoredEntry) -> dict[str, Any]:
        """The entry without its id."""
        fields = asdict(entry)
        del fields["entry_id"], fields["session_id"]
        return {**fields, "compaction_id": self.places[entry.compaction_id]}

    def mark(self, mark: tuple[int, bytes]) -> tuple[int, int, str]:
        """A digest, with its message or the place of its derived text."""
        seq, digest = mark
        return (0, seq, digest.hex()) if seq >= 0 else (1, self.text_places[-seq], digest.hex())


def _message(row: logs.LogRow) -> dict[str, Any]:
    return {name: getattr(row, name) for name in _MESSAGE}


def _fact(row: Sequence[Any]) -> tuple[Any, ...]:
    _, namespace, state, key, body, *_ = row
    return namespace, state, key, body


def _figures(store: Store, session_id: str) -> dict[str, tuple[int, str]]:
    """For each kind of row the number in the session, and a checksum without ids."""
    log = store.open_log(session_id)
    state, names = log.state(), _Names(log)
    head = None if state.head is None else state.head.compaction_id
    session = (state.namespace, state.clock, state.settings, state.next_seq, names.places[head])
    forgotten = log.forgotten()
    return {
        "session": _summed([session]),
        "messages": _summed(map(_message, rows_of(log, 0, state.next_seq))),
        "rows": _summed(map(names.row, names.rows)),
        "texts": _summed(map(names.text, names.texts)),
        "entries": _summed(map(names.entry, entries_of(store, session_id))),
        "facts": _summed(map(_fact, store.facts(session_id))),
        "recalls": _summed(_recalls(log, store, session_id, count(1))),
        "marks": _summed(sorted(map(names.mark, forgotten))),
        "salt": _summed([log.salt().hex()] if forgotten else []),
    }


def _recalls(
    log: logs.SessionLog, store: Store, session_id: str, others: Iterable[int]
) -> list[logs.NewRecall]:
    """The recalls of a session, with *others* for the ids of its entries, in order.

    An entry that has left, or is of another session, is 0.
    """
    rows = log.recalls(MOST_RECALLS)
    ids = (
        {each.entry_id: other for each, other in zip(entries_of(store, session_id), others, strict=False)}
        if rows
        else {}
    )
    found = []
    for row in rows:
        body = json.loads(row.body)
        body["e"] = [[ids.get(entry, 0), *figures] for entry, *figures in body["e"]]
        found.append(row._replace(body=json.dumps(body, separators=(",", ":"))))
    return found


def _summed(rows: Iterable[object]) -> tuple[int, str]:
    digest, number = hashlib.blake2b(digest_size=16), 0
    for row in rows:
        digest.update(json.dumps(row, default=str, sort_keys=True).encode() + b"\n")
        number += 1
    return number, digest.hexdigest()


class _Session:
    """Copies the missing parts of one session to the target."""

    def __init__(self, source: Store, target: Store, name: str, tell: Callable[[int], None]) -> None:
        self._source, self._target, self._name, self._tell = source, target, name, tell
        self._from, self._to = source.open_log(name), target.open_log(name)
        self._state = self._from.state()
        self._names = _Names(self._from)  # of the source
        self._ids: dict[int | None, int | None] = {None: None}  # ids of rows: from source to target
        self._texts: dict[int, int] = {}
        self._dealt = 0

    def run(self) -> None:
        """Copies the session in steps. Each step is one transaction of the target."""
        if self._to.open(self._state.namespace).deleted:
            raise self._refused("was deleted there")
        self._copy_messages()
        self._copy_rows_and_entries()
        self._copy_texts_written_again()
        self._go_back()
        self._copy_facts()
        self._copy_recalls()
        self._copy_marks()
        self._settle()

    def _refused(self, what: str) -> ConfigError:
        message = f"the target has a session {self._name!r} that is another one: it {what}"
        return ConfigError(message, field="session", value=self._name)

    def _version(self) -> logs.SessionVersion:
        version = self._to.version()
        if version is None:
            raise self._refused("was deleted")
        return version

    def _count(self, rows: int) -> None:
        self._dealt += rows
        self._tell(self._dealt)

    def _copy_messages(self) -> None:
        length, have = self._state.next_seq, self._version().next_seq
        if have > length:
            raise self._refused(f"has {have} messages, and the source {length}")
        for here, there in zip(rows_of(self._from, 0, have), rows_of(self._to, 0, have), strict=True):
            if _message(here) != _message(there):
                raise self._refused(f"has another message {here.seq}")
        self._count(have)
        for batch in _batches(rows_of(self._from, have, length), lambda row: len(row.raw)):
            messages = [logs.NewMessage(**_message(row)) for row in batch]
            self._to.append(messages, expected=self._version(), clock="", write_id=_write_id())
            self._count(len(batch))

    def _copy_rows_and_entries(self) -> None:
        """Copies rows and entries in the order of the entries' ids. A row comes with its first entry."""
        have = _Names(self._to)
        if len(have.rows) > len(self._names.rows):
            raise self._refused(f"has {len(have.rows)} compactions, and the source {len(self._names.rows)}")
        for here, there in zip(self._names.rows, have.rows, strict=False):
            texts = zip(here.derived_ids, there.derived_ids, strict=False)
            if self._names.row(here) != have.row(there):
                raise self._refused(f"has another compaction in place of {here.compaction_id}")
            self._ids[here.compaction_id] = there.compaction_id
            self._texts |= dict(texts)
        waiting = iter(self._names.rows[len(have.rows) :])
        for brought_by, pairs in groupby(self._with_rows(self._new_entries(have)), key=itemgetter(0)):
            entries = map(itemgetter(1), pairs)
            if brought_by is None:
                self._index(entries, self._count)
            else:
                brought = list(entries)
                for row in waiting:
                    mine = brought if row.compaction_id == brought_by else []
                    self._commit(row, mine)
                    self._count(len(mine))
                    if row.compaction_id == brought_by:
                        break
                self._index(each for each in brought if each.compaction_id is None)
        for row in waiting:
            self._commit(row, [])

    def _copy_texts_written_again(self) -> None:
        """Copies summaries of which the target still has the sentence that a forget put there."""
        theirs = {text.derived_id: text for text in self._to.derived_after(0)}
        for here in self._names.texts:
            there = theirs[self._texts[here.derived_id]]
            if there.redacted and not here.redacted:
                self._to.renew(there.derived_id, here.raw, expected=self._version(), write_id=_write_id())

    def _new_entries(self, have: _Names) -> Iterator[StoredEntry]:
        """The entries that the target lacks. Its own entries must be the first ones of the source."""
        theirs = entries_of(self._target, self._name)
        for here, there in zip_longest(entries_of(self._source, self._name), theirs):
            if here is None:
                raise self._refused(f"has an entry {there.entry_id} more")
            if there is None:
                yield here
            else:
                mine, other = self._names.entry(here), have.entry(there)
                if mine != other:
                    if mine != {**other, "compaction_id": None}:
                        raise self._refused(f"has another entry in place of {here.entry_id}")
                    self._index([here])
                self._count(1)

    def _with_rows(self, entries: Iterable[StoredEntry]) -> Iterator[tuple[int | None, StoredEntry]]:
        """Each entry, with the id of the row that brought it; None where a caller indexed it.

        One write gives its entries ids without gaps. So an entry without a row between two entries of one row
        came with that row, and a caller indexed it again later.
        """
        last = {entry.compaction_id: entry.entry_id for entry in entries_of(self._source, self._name)}
        row: int | None = None
        for entry in entries:
            if entry.compaction_id is not None:
                row = entry.compaction_id
            elif row is not None and entry.entry_id > last.get(row, 0):
                row = None
            yield row, entry

    def _index(self, entries: Iterable[StoredEntry], tell: Callable[[int], None] = lambda _: None) -> None:
        """Gives *entries* to the target as a caller does. One that came with a row then stays without it."""
        for batch in _batches(entries, lambda entry: len(entry.content)):
            self._target.index(self._name, [_entry(each) for each in batch])
            tell(len(batch))

    def _commit(self, row: logs.CompactionRow, brought: Sequence[StoredEntry]) -> None:
        texts = self._from.derived(row.derived_ids)
        places = {text.derived_id: logs.NewRef(place) for place, text in enumerate(texts)}

        def piece(each: logs.ViewItem) -> logs.ViewItem:
            return each if not isinstance(each, int) else places.get(each) or self._texts[each]

        new = row.compaction._replace(
            view=tuple(map(piece, row.compaction.view)),
            derived=tuple(
                logs.NewDerived(**{name: getattr(each, name) for name in _NEW_TEXT}) for each in texts
            ),
        )
        entries = [new_entry(_entry(each)) for each in brought]
        version, parent = self._version(), self._ids[row.parent]
        if parent == version.head:
            receipt = self._to.commit(new, entries, expected=version, clock="", write_id=_write_id())
        else:
            receipt = self._to.rewrite(
                new,
                [],
                entries,
                expected=version,
                withdrawn=[],
                parent=parent,
                clock="",
                write_id=_write_id(),
            )
        self._ids[row.compaction_id] = receipt.compaction_id
        self._texts |= dict(zip(row.derived_ids, receipt.derived_ids, strict=True))

    def _go_back(self) -> None:
        """Undoes the compactions that were undone in the source."""
        wanted = self._ids[None if self._state.head is None else self._state.head.compaction_id]
        while (version := self._version()).head != wanted:
            if version.head is None:
                raise self._refused("stands on another compaction")
            self._to.undo(expected=version, clock="", write_id=_write_id())

    def _copy_facts(self) -> None:
        """Copies new facts, and facts that have changed in the source."""
        here, there = self._source.facts(self._name), self._target.facts(self._name)
        if [row[3] for row in there] != [row[3] for row in here[: len(there)]]:
            raise self._refused("has other facts")
        ids = [row[0] for row in there] + [None] * (len(here) - len(there))
        known = [_fact(row) for row in there]
        rows = [
            (fact_id, row[3], row[2], row[4])
            for place, (fact_id, row) in enumerate(zip(ids, here, strict=True))
            if fact_id is None or _fact(row) != known[place]
        ]
        for start in range(0, len(rows), _PAGE):
            self._target.put_facts(self._name, rows[start : start + _PAGE])

    def _copy_recalls(self) -> None:
        """The recalls of a session, with the ids of the entries in the target."""
        theirs = (entry.entry_id for entry in entries_of(self._target, self._name))
        recalls = _recalls(self._from, self._source, self._name, theirs)
        if recalls and recalls != self._to.recalls(MOST_RECALLS):
            self._to.append(
                (),
                expected=self._version(),
                clock=self._to.state().clock,
                write_id=_write_id(),
                recalls=recalls[::-1],
            )

    def _copy_marks(self) -> None:
        """Copies the marks by which forgotten texts are recognised."""
        marks = [(seq if seq >= 0 else -self._texts[-seq], digest) for seq, digest in self._from.forgotten()]
        redacted = [self._texts[text.derived_id] for text in self._names.texts if text.redacted]
        done = {text.derived_id for text in self._to.derived_after(0) if text.redacted}
        if sorted(marks) != sorted(self._to.forgotten()) or not done.issuperset(redacted):
            self._target.restore_marks(self._name, self._from.salt(), marks, redacted)

    def _settle(self) -> None:
        there = self._to.state()
        if there.settings != self._state.settings:
            self._to.save_settings(self._state.settings, expected=self._version(), write_id=_write_id())
        if there.clock != self._state.clock:
            self._to.save_clock(self._state.clock, expected=self._version(), write_id=_write_id())


def _batches(rows: Iterable[_T], size: Callable[[_T], int]) -> Iterator[list[_T]]:
    """*rows* in lists of at most ``_PAGE`` rows, and about ``_BYTES`` bytes."""
    batch: list[_T] = []
    held = 0
    for row in rows:
        batch.append(row)
        held += size(row)
        if len(batch) == _PAGE or held > _BYTES:
            yield batch
            batch, held = [], 0
    if batch:
        yield batch


def _entry(entry: StoredEntry) -> Entry:
    """*entry* as a new entry. A repaired text gets lone surrogates again, so the target repairs it too."""
    content = entry.content.replace("\ufffd", "\ud800") if entry.repaired else entry.content
    return Entry(
        content,
        entry.source_range,
        entry.role,
        entry.name,
        entry.kind,
        entry.created_at,
        None if entry.expires_at is None else entry.expires_at - entry.created_at,
    )


def _write_id() -> int:
    return int.from_bytes(os.urandom(8)) >> 1
