"""Copies sessions: to another store, to files and back, and to a fork for another try."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from itertools import groupby
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any, Final

from siltstone import errors
from siltstone.archive import records as archived
from siltstone.archive.files import write_vectors
from siltstone.documented import DIMENSION, hash_vector
from siltstone.engine import Outcome
from siltstone.knowledge import KINDS, StoredFacts
from siltstone.llm import Steps
from siltstone.memory import log as logs
from siltstone.memory.base import Store, entries_of, rows_of
from siltstone.memory.convert import new_entry
from siltstone.memory.entry import Entry, StoredEntry
from siltstone.messages import RawMessage, groups, read_message
from siltstone.messages.json_text import dump
from siltstone.session import rows
from siltstone.session.archiving import write_new
from siltstone.session.boundary import compaction
from siltstone.session.concurrency import retried
from siltstone.session.core import SessionCore
from siltstone.session.opening import Opened, open_session
from siltstone.session.state import Item, RangeSet, content_of, minus, union

# Copies sessions between stores and files: whole sessions, or the documented files of an archive.

_PAGE: Final = 500
_MESSAGE: Final = tuple(name for name in logs.LogRow._fields if name != "write_id")
_of_message: Final = attrgetter(*_MESSAGE)
_of_new_message: Final = itemgetter(*logs.NewMessage._fields)
_LEFT_OUT: Final = frozenset({"gone"})  #: states of facts that are not exported


@dataclass(slots=True)
class Imported:
    """The result of an import.

    Attributes:
        sessions: Ids of the sessions that were written, in order.
        messages: Number of messages.
        compactions: Number of compactions that lead to the current view.
        entries: Number of memory entries.
        facts: Number of facts and corrections.
        duplicates: Number of entries and facts that the store had already.
        skipped: Number of lines that were bad, or of a kind that this version does not know.
    """

    sessions: list[str] = field(default_factory=list)
    messages: int = 0
    compactions: int = 0
    entries: int = 0
    facts: int = 0
    duplicates: int = 0
    skipped: int = 0


def records_of(store: Store, session_id: str) -> Iterator[archived.Record]:
    """All records of a session, read one by one on demand.

    The order is: the messages; the compactions that lead to the current view, each followed by the entries
    that it added; the other entries; the facts. Undone compactions and left branches are not exported, except
    their messages.
    """
    log = store.open_log(session_id)
    state = log.state()
    yield archived.Record("session", session_id, {"namespace": state.namespace, "clock": state.clock})
    for row in rows_of(log, 0, state.next_seq):
        yield archived.Record("message", session_id, dict(zip(_MESSAGE, _of_message(row), strict=True)))
    told: set[int] = set()
    before: RangeSet = ()
    for made in reversed(list(logs.ancestors(log, state.head))):
        yield archived.Record("compaction", session_id, _compaction_body(log, made))
        covers = union(made.compaction.covers)
        for span in minus(covers, before):
            for entry in entries_of(store, session_id, span):
                if entry.entry_id not in told:
                    told.add(entry.entry_id)
                    yield _entry_record(entry)
        before = covers
    yield archived.Record("end", session_id, {"of": "compactions"})
    for entry in entries_of(store, session_id):
        if entry.entry_id not in told:
            yield _entry_record(entry)
    for _, _, fact_state, key, text, *_ in store.facts(session_id):
        if fact_state not in _LEFT_OUT:
            yield archived.Record(
                "known", session_id, {"state": fact_state, "key": key, "body": json.loads(text)}
            )


def _free(path: str | os.PathLike[str]) -> str | os.PathLike[str]:
    """*path*, unless a store has its rows there, or its log: an export would destroy them.

    The file is not opened: to close it would end the locks of a store that this process has open.
    """
    if Path(path).name.startswith(_STORE) and Path(path).with_name(_STORE).exists():
        errors.refuse("path", "a file that is not the file of a store", os.fspath(path))
    if Path(path).is_dir():
        errors.refuse("path", "the path of a file, not of a directory", os.fspath(path))
    return path


_STORE: Final = "memory.sqlite3"


def export_everything(store: Store, session_ids: Iterable[str], path: str | os.PathLike[str]) -> int:
    """Writes whole sessions to a file of siltstone's own format, atomically. Returns the number of lines."""
    return archived.write_everything(
        _free(path), (each for name in session_ids for each in records_of(store, name))
    )


def export_segments(store: Store, session_ids: Iterable[str], path: str | os.PathLike[str]) -> int:
    """Writes the entries of the sessions as ``segments.jsonl``. Returns the number of entries."""
    return archived.write_segments(
        _free(path), (each for name in session_ids for each in entries_of(store, name))
    )


def export_knowledge(store: Store, session_ids: Iterable[str], path: str | os.PathLike[str]) -> int:
    """Writes the facts of the sessions as ``knowledge.jsonl``, without retracted facts."""
    facts = [fact for name in session_ids for fact in StoredFacts(store, name).facts()]
    return archived.write_knowledge(_free(path), facts)


def export_vectors(store: Store, session_ids: Iterable[str], path: str | os.PathLike[str]) -> int:
    """Writes ``vectors.bin``: the documented hashed vectors of the entries, by segment id."""
    entries = (each for name in session_ids for each in entries_of(store, name))
    vectors = {archived.of_entry(entry).id: hash_vector(entry.content) for entry in entries}
    write_vectors(_free(path), vectors, DIMENSION)
    return len(vectors)


def kind_of(path: str | os.PathLike[str]) -> str:
    """The kind of a file by its first line: ``everything``, ``segments``, ``knowledge`` or ``transcript``."""
    with Path(path).open("rb") as file:
        line = next((each for each in iter(lambda: file.readline(1 << 20), b"") if each.strip()), b"")
    try:
        first = json.loads(line)
    except (ValueError, RecursionError):
        return "transcript"
    if not isinstance(first, dict):
        return "transcript"
    if first.get("format") == archived.FORMAT:
        return "everything"
    if isinstance(first.get("sessionId"), str) and "content" in first:
        return "segments"
    kind, when = first.get("type"), first.get("timestamp")
    is_fact = isinstance(kind, str) and kind in KINDS and "role" not in first and isinstance(when, int)
    return "knowledge" if is_fact or first.get("_deleted") is True else "transcript"


def import_everything(
    store: Store, path: str | os.PathLike[str], *, session_id: str | None = None
) -> Imported:
    """Reads a file of siltstone's own format into new sessions.

    *session_id* gives another id to the session, if the file has only one. The file is read line by line; bad
    lines are counted and skipped. Each session is complete before the next one begins.

    Raises:
        ConfigError: a session has messages already, or *session_id* was given for a file with several
            sessions. Nothing of that session was written; sessions before it stay.
    """
    loaded: archived.Loaded[archived.Record] = archived.read_everything(path)
    done = Imported()
    for name, records in groupby(loaded, key=lambda record: record.session_id):
        if session_id is not None and done.sessions:
            raise errors.ConfigError(
                f"session_id names one session, and {os.fspath(path)} has several", "session_id", session_id
            )
        chosen = name if session_id is None else session_id
        _SessionImport(store, chosen, done).run(records)
        done.sessions.append(chosen)
    done.skipped += loaded.skipped
    return done


def write_session(store: Store, session_id: str, records: Iterable[archived.Record]) -> Imported:
    """Writes *records* of one session, as from :func:`records_of`, to the new session *session_id*.

    No record is skipped: a copy is whole, or there is none. If the write breaks off, its rows are deleted, so
    that it can be repeated. Rows of other writers stay.

    Raises:
        ConfigError: the store has messages of *session_id* already. Nothing was written.
        StoreConflictError: another worker began to write to *session_id* meanwhile.
        StoreCorruptError: a record cannot be written. The message names the record and the reason.
    """
    done = Imported()
    there = store.stats(session_id)
    writing = _SessionImport(store, session_id, done, skips=False)
    try:
        writing.run(records)
    except BaseException:
        with suppress(errors.StoreError):
            if not there.messages and not there.entries:
                writing.take_back()
        raise
    done.sessions.append(session_id)
    return done


def import_segments(store: Store, path: str | os.PathLike[str], *, session_id: str | None = None) -> Imported:
    """Indexes the segments of a file, in *session_id* if given, else each in its own session.

    A text that the session already has with the same role is not indexed twice, so a file can be imported
    again.
    """
    done = Imported()
    loaded = archived.read_segments(path)
    known: dict[str, set[tuple[str, str]] | None] = {}  # None: no session can have that id
    waiting: dict[str, list[Entry]] = {}
    nameless = 0

    def write(name: str) -> None:
        receipt = store.index(name, waiting.pop(name))
        done.entries += sum(each is not None for each in receipt.entry_ids)

    for segment in loaded:
        name = session_id or segment.session_id
        if name not in known:
            known[name] = _texts(store, name)
            done.sessions += [] if known[name] is None else [name]
        there, key = known[name], (segment.role, segment.content)
        if there is None:
            nameless += 1
            continue
        if key in there:
            done.duplicates += 1
            continue
        there.add(key)
        waiting.setdefault(name, []).append(_entry_of(segment))
        if len(waiting[name]) == _PAGE:
            write(name)
    for name in list(waiting):
        write(name)
    done.skipped = loaded.skipped + nameless
    return done


def import_knowledge(store: Store, path: str | os.PathLike[str], *, session_id: str) -> Imported:
    """Adds the facts of a file to *session_id*, with their ids. Facts that are there already stay."""
    facts, skipped = archived.read_knowledge(path)
    kept = StoredFacts(store, session_id)
    known = {fact.id for fact in kept.facts()}
    new = [replace(fact, session_id=session_id) for fact in facts if fact.id not in known]
    kept.put(new)
    return Imported([session_id], facts=len(new), duplicates=len(facts) - len(new), skipped=skipped)


class _SessionImport:
    """Writes the records of one session, in their order, as long as nobody else writes to it."""

    def __init__(self, store: Store, session_id: str, done: Imported, *, skips: bool = True) -> None:
        self._store, self._session, self._done = store, session_id, done
        self._skips = skips  # whether a record that cannot be written is counted and left out
        self._log = store.open_log(session_id)
        self._ids: dict[int, int] = {}  # ids of derived texts: from the file's to this store's
        self._messages: list[logs.NewMessage] = []
        self._entries: list[Entry] = []
        self._known: list[tuple[int | None, str, str, str]] = []
        self._compaction: dict[str, Any] | None = None
        self._clock = ""
        self._version: logs.SessionVersion | None = None
        self._write_ids: set[int] = set()
        self._most_entries = 0  # those that the store has, and those of a write that may be interrupted

    def run(self, records: Iterable[archived.Record]) -> None:
        state = self._log.state()
        if state.next_seq:
            raise errors.ConfigError(
                f"the store has messages of session {self._session!r} already: import it under another id",
                "session_id",
                self._session,
            )
        self._write_ids.add(state.write_id)
        self._version = state.version
        for record in records:
            try:
                self._take(record)
            except (KeyError, TypeError, ValueError, AttributeError, errors.SiltstoneError) as error:
                if isinstance(error, errors.SiltstoneError) and not isinstance(error, errors.ConfigError):
                    raise
                if not self._skips:
                    raise errors.StoreCorruptError(
                        f"a record {record.kind!r} of session {record.session_id!r} cannot be copied: "
                        f"{type(error).__name__}: {error}"
                    ) from error
                self._done.skipped += 1
        self._finish_compaction()
        self._write_messages()
        self._write_entries()
        self._write_known()
        if self._clock:
            self._log.save_clock(self._clock, expected=self._expected(), write_id=self._new_id())

    def take_back(self) -> None:
        """Deletes what was written, unless somebody else has written to the session too."""
        self._store.take_back(self._session, self._write_ids, self._most_entries)

    def _expected(self) -> logs.SessionVersion:
        """The version that the last write has left. If another worker has written since, it is a conflict."""
        return self._version or self._log.state().version  # a deleted session has none, and keeps nothing

    def _new_id(self) -> int:
        """The id of the next write, noted before it: a write that is interrupted may be durable."""
        write_id = int.from_bytes(os.urandom(8)) >> 1
        self._write_ids.add(write_id)
        return write_id

    def _take(self, record: archived.Record) -> None:
        body = record.body
        match record.kind:
            case "session":
                self._clock = str(body["clock"])
                self._log.open(str(body["namespace"]) or None)
            case "message":
                self._messages.append(logs.NewMessage(*_of_new_message(body)))
                if len(self._messages) == _PAGE:
                    self._write_messages()
            case "compaction":
                self._finish_compaction()
                self._write_messages()
                self._compaction = dict(body)
            case "end":
                self._finish_compaction()
                self._write_messages()
            case "entry":
                self._entries.append(_entry_from(body))
                if self._compaction is None and len(self._entries) == _PAGE:
                    self._write_entries()
            case "known":
                fields = dict(body["body"])
                if fields.get("session_id") == record.session_id:
                    fields["session_id"] = self._session
                self._known.append((None, str(body["key"]), str(body["state"]), dump(fields)))
                if len(self._known) == _PAGE:
                    self._write_known()
            case _:
                self._done.skipped += 1

    def _write_messages(self) -> None:
        if self._messages:
            self._version = self._log.append(
                self._messages, expected=self._expected(), clock="", write_id=self._new_id()
            )
            self._done.messages += len(self._messages)
            self._messages = []

    def _write_entries(self) -> None:
        if self._entries:
            self._most_entries += len(self._entries)
            receipt = self._store.index(self._session, self._entries)
            self._done.entries += sum(each is not None for each in receipt.entry_ids)
            self._entries = []

    def _write_known(self) -> None:
        if self._known:
            self._store.put_facts(self._session, self._known)
            self._done.facts += sum(state != "note" for _, _, state, _ in self._known)
        self._known = []

    def _finish_compaction(self) -> None:
        """Commits the compaction that was read last, with the entries read after it."""
        if self._compaction is None:
            return
        body, entries = self._compaction, list(map(new_entry, self._entries))
        self._compaction, self._entries = None, []
        texts = [dict(each) for each in body["derived"]]
        places = {text["derived_id"]: place for place, text in enumerate(texts)}
        row = logs.NewCompaction(
            **{name: body[name] for name in _PLAIN},
            covers=_spans(body["covers"]),
            view=tuple(self._piece(piece, places) for piece in body["view"]),
            derived=tuple(_derived_from(text) for text in texts),
        )
        self._most_entries += len(entries)
        receipt = self._log.commit(row, entries, expected=self._expected(), clock="", write_id=self._new_id())
        self._version = receipt.version
        old = [text["derived_id"] for text in texts]
        self._ids.update(zip(old, receipt.derived_ids, strict=True))
        self._done.compactions += 1
        self._done.entries += sum(each is not None for each in receipt.entry_ids)

    def _piece(self, piece: Any, places: dict[int, int]) -> tuple[int, int] | logs.NewRef | int:
        if isinstance(piece, list):
            return int(piece[0]), int(piece[1])
        return logs.NewRef(places[piece]) if piece in places else self._ids[piece]


_PLAIN: Final = tuple(
    name for name in logs.NewCompaction._fields if name not in ("covers", "view", "derived")
)


def _compaction_body(log: logs.SessionLog, row: logs.CompactionRow) -> dict[str, Any]:
    body = row.compaction._asdict()
    body["derived"] = [each._asdict() for each in log.derived(row.derived_ids)]
    return body


def _derived_from(body: dict[str, Any]) -> logs.NewDerived:
    fields = {name: body[name] for name in logs.NewDerived._fields}
    return logs.NewDerived(**{**fields, "covers": _spans(body["covers"])})


def _spans(value: Any) -> RangeSet:
    return tuple((int(start), int(end)) for start, end in value)


def _texts(store: Store, session_id: str) -> set[tuple[str, str]] | None:
    """Roles and texts of the session's entries; None where no session can have that id."""
    try:
        return {(each.role, each.content) for each in entries_of(store, session_id)}
    except errors.InvalidEntryError:
        return None


def _entry_record(entry: StoredEntry) -> archived.Record:
    body = asdict(entry)
    del body["session_id"]
    body["created_at"] = entry.created_at.isoformat()
    body["source_range"] = list(entry.source_range)
    if entry.expires_at is None:
        del body["expires_at"]
    else:
        body["expires_at"] = entry.expires_at.isoformat()
    return archived.Record("entry", entry.session_id, body)


def _entry_from(body: Any) -> Entry:
    start, end = body["source_range"]
    created_at = datetime.fromisoformat(body["created_at"])
    ends = body.get("expires_at")
    ttl = None if ends is None else datetime.fromisoformat(ends) - created_at
    entry = Entry(body["content"], (start, end), body["role"], body["name"], body["kind"], created_at, ttl)
    try:
        new_entry(entry)
    except errors.InvalidEntryError as error:
        raise ValueError("an entry that no store takes") from error
    return entry


def _entry_of(segment: archived.Segment) -> Entry:
    return Entry(segment.content, role=segment.role, created_at=segment.timestamp / 1000)


# Messages of other programs: they go to the log and to the search, and into nobody's context.

IMPORT: Final = "import"  #: the reason of rows that an import wrote


def take_in(core: SessionCore, said: Sequence[tuple[RawMessage, int]], notes: str, end: int) -> None:
    """Appends messages with their times (ms since 1970), and takes them out of the view in the same step.

    Each is found by a search from now on, whatever its role; so is reasoning.
    *notes*, a JSON text, stay with the row that does so. *end* is the end of the log that the caller knows.

    Raises:
        StoreConflictError: the log has another end. Nothing was written.
        SecretRefusedError: a rule of the session refuses one of the messages.
    """

    def step() -> None:
        state = core.followed()
        rule, seq = state.view.rule, state.end
        if seq != end:
            said_so = f"session {core.session_id!r} has {seq:,} messages now, and had {end:,}; import again"
            raise errors.StoreConflictError(said_so, session_id=core.session_id)
        read = [(read_message(raw, at), time) for at, (raw, time) in enumerate(said, seq)]
        items = [Item(message, rule.units(message), time) for message, time in read]
        before = content_of(state.head)
        shown, since = ((), 0) if before is None else (before.view, before.next_seq)
        row = logs.NewCompaction(
            reason=IMPORT,
            covers=union(() if before is None else before.covers, [(seq, seq + len(items))]),
            view=(*shown, *union([(since, seq)])),
            next_seq=seq + len(items),
            state="" if before is None else before.state,
            tokens_before=state.view.tokens,
            tokens_after=state.view.tokens,
            messages_before=len(state.view),
            messages_after=len(state.view),
            created_at=core.milliseconds(),
            notes=notes,
        )
        core.rows.commit(
            row,
            rows.Entries(items, index_tools=core.index_tools, redacting=core.redacting, whole=True),
            expected=state.version,
            clock=state.clock.to_json(),
            write_id=core.pend(),
            messages=core.message_rows(items, state.view),
        )
        core.pending = None
        core.followed()

    core.locked(lambda: retried(step))
    core.tell_secrets()
    write_new(core)
    core.catch_up()


# A fork: a session that begins as a copy of another one, to try another way or to brief a helper agent.

_AS_READ: Final = frozenset({"message", "entry"})  #: kinds whose bodies JSON would leave as they are


def forked(opened: Opened, session_id: str, prompt: str, *, is_async: bool) -> Opened:
    """A copy of the session under another id, opened with the same options.

    The log, the view, the entries and the facts are copied as they are now. Facts that a
    namespace shares are not copied, since the fork shares them too. If a
    copy breaks off, what it wrote is deleted, so that it can be made again.

    Raises:
        ConfigError: the store has messages of *session_id* already, a call in view waits for its result, or
            *prompt* is no text. Nothing was written.
        StoreConflictError: another worker began to write to *session_id* meanwhile. Its rows stay.
    """
    core = opened.core
    core.check_open()
    if not isinstance(prompt, str):
        errors.refuse("prompt", "a text", prompt)
    if session_id == core.session_id:
        raise errors.ConfigError(
            f"session_id of a fork must be another one than {session_id!r}", "session_id", session_id
        )

    def step() -> None:
        state = core.followed()
        _check_answered(core, state.view.messages())
        write_session(core.store, session_id, _copied(core))

    core.locked(step)
    options: Any = dict(opened.options)
    if not opened.owns_store:
        options["memory"] = core.store
    namespace = core.rows.state().namespace
    if namespace:
        options["namespace"] = namespace
    return open_session(opened.path, session_id, options, is_async=is_async)


def fitted(opened: Opened, prompt: str) -> Steps[Outcome | None]:
    """Compacts the fork by its policy, if it is too large for its window. Returns the outcome, if any."""
    core, policy = opened.core, opened.policy
    if policy is None:
        return None
    state = core.follow()
    rule = policy.token_rule
    fixed = core.reserved_tokens + (rule.count_text(prompt) if prompt else 0)
    tokens = state.view.recounted(rule).tokens
    trigger = policy.fork_trigger(tokens, fixed, core.context_window)
    if trigger is None:
        return None
    trigger = replace(trigger, reserved_tokens=core.reserved_tokens)
    return (yield from compaction(core, policy, trigger, max(state.clock.boundary - 1, 0)))


def _copied(core: SessionCore) -> Iterator[archived.Record]:
    """The records of the session, as if read from an exported file, without facts that a namespace shares."""
    for record in records_of(core.store, core.session_id):
        if record.kind in _AS_READ:
            yield record
        elif record.kind != "known" or not core.knowing.is_shared:
            yield replace(record, body=json.loads(json.dumps(record.body)))


def _check_answered(core: SessionCore, view: Iterable[Any]) -> None:
    waiting = [group for group in groups(list(view)) if group.pending]
    if waiting:
        raise errors.ConfigError(
            f"session {core.session_id!r} has {len(waiting)} calls without a result: a fork would wait for "
            "them for ever; fork it when they are answered",
            "session_id",
            core.session_id,
        )
