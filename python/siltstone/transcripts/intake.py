"""Takes the records of transcripts into a store, again and again, and takes them back."""

from __future__ import annotations

import base64
import json
import os
import time
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import chain, count
from typing import Any, Final
from zlib import crc32

from siltstone.errors import ConfigError, SiltstoneError, StoreConflictError
from siltstone.memory.base import Store, sessions_of
from siltstone.memory.log import SessionLog
from siltstone.messages import RawMessage
from siltstone.session.concurrency import retried
from siltstone.session.core import SessionCore
from siltstone.session.opening import open_session, preset_of_store
from siltstone.session.state import union
from siltstone.session.transfer import IMPORT, take_in
from siltstone.transcripts import Record, Transcripts
from siltstone.transcripts.files import Source, Told, without_secrets

_MOST_OPEN: Final = 64  #: sessions that are written to at once
_REMEDY: Final = "; import without another namespace adds what is new, and a new store takes all of it"
_TRIES: Final = 50  #: of a file, while others write to its sessions
_PAGE: Final = 500  #: messages of a write
_CHARACTERS: Final = 4 << 20  #: of the messages of a write, about
_UUID: Final = 32  #: characters from which on the id of a record is the same in every session
_KEY: Final = "imports"  #: the setting of a session that has its files: path, size, time, options
_GONE: Final = "imports_gone"  #: the setting that has the places of imported messages that were taken back


@dataclass(slots=True)
class Taken:
    """What an import brought.

    Attributes:
        sessions: The number of new messages of each session that got some.
        known: Messages that the store had from an earlier import.
        unchanged: Files that are as they were at an earlier import, and were not read.
        refused: Sessions that could not be written, each with the reason.
        beside: Sessions of a list that is not the one that the store had, each with its new name.
        taken_back: Messages that the store had, of branches that were left since.
    """

    sessions: Counter[str] = field(default_factory=Counter)
    known: int = 0
    unchanged: int = 0
    refused: dict[str, str] = field(default_factory=dict)
    beside: dict[str, str] = field(default_factory=dict)
    taken_back: int = 0

    @property
    def new(self) -> int:
        """The number of new messages."""
        return self.sessions.total()


class _Known:
    """What earlier imports brought: the keys of records, and the states of files."""

    def __init__(self, store: Store | None) -> None:
        self.keys, self.files = set[int](), dict[str, list[int]]()
        self.sessions = dict[str, list[str]]()  # with the files that imports brought
        self.counts = Counter[str]()  # the messages that imports brought
        self.ends = Counter[str]()  # the messages that sessions ever had
        if store is None:
            return
        for info in sessions_of(store):
            log = store.open_log(info.session_id)
            files, self.ends[info.session_id] = files_of(log), info.messages
            if files or info.messages:
                self.sessions[info.session_id] = list(files)
            self.files |= files
            for _, _, keys in _messages(log) if files else ():
                self.keys.update(keys)
                self.counts[info.session_id] += 1


def _settings(log: SessionLog) -> dict[str, Any]:
    text = log.state().settings
    value = json.loads(text) if text else {}
    return value if isinstance(value, dict) else {}


def files_of(log: SessionLog) -> dict[str, list[int]]:
    """The files that the session was imported from, each with its size and time."""
    found: dict[str, list[int]] = _settings(log).get(_KEY, {})
    return found


def _save(log: SessionLog, files: dict[str, list[int]], gone: Sequence[tuple[int, int]] = ()) -> None:
    """Notes states of *files*, and places of messages that are *gone*, beside what is noted."""

    def step() -> None:
        version, settings = log.state().version, _settings(log)
        settings[_GONE] = union(map(tuple, settings.get(_GONE, ())), gone)
        settings[_KEY] = settings.get(_KEY, {}) | files
        write_id = int.from_bytes(os.urandom(8)) >> 1
        log.save_settings(json.dumps(settings), expected=version, write_id=write_id)

    retried(step)


def _messages(log: SessionLog) -> Iterator[tuple[str, int, array[int]]]:
    """The messages that imports brought and nobody took back: file, place in the log, keys of the pieces."""
    gone = {seq for start, end in _settings(log).get(_GONE, ()) for seq in range(start, end)}
    for row in log.compactions():
        if row.compaction.reason != IMPORT:
            continue
        notes, keys, at = json.loads(row.compaction.notes), array("Q"), 0
        keys.frombytes(base64.b64decode(notes["keys"]))
        for seq, size in enumerate(notes["pieces"], row.compaction.next_seq - len(notes["pieces"])):
            if seq not in gone:
                yield notes["from"], seq, keys[at : at + size]
            at += size


def _forget(store: Any, name: str, seqs: Iterable[int], files: dict[str, list[int]]) -> None:
    """Forgets messages that imports brought, and notes it, with new states of *files*."""
    spans = union((seq, seq + 1) for seq in seqs)
    for start, end in spans:
        store.forget(session_id=name, start=start, end=end)
    _save(store.open_log(name), files, spans)


class _Open:
    """A session that takes in records, after the *end* of what is known of it."""

    def __init__(self, core: SessionCore, end: int) -> None:
        self.core, self.salt, self.end = core, core.rows.salt(), end
        self.said, self.keys, self.size = list[tuple[RawMessage, int]](), array("Q"), 0
        self.pieces = list[int]()  # the number of keys of each message
        self.last = core.milliseconds()

    def add(self, message: dict[str, Any], record: Record, keys: list[int], source: str) -> None:
        """Adds a message; those that wait are written if they are many."""
        self.last = self.last if record.time is None else int(record.time.timestamp() * 1000)
        self.said.append((message, self.last))
        self.keys.extend(keys)
        self.pieces.append(len(keys))
        self.size += sum(len(str(each)) for each in message.values())
        if len(self.said) >= _PAGE or self.size > _CHARACTERS:
            self.write(source)

    def write(self, source: str) -> None:
        """Writes the messages that wait, and the keys of their records, in one transaction."""
        if self.said:
            keys = base64.b64encode(self.keys.tobytes()).decode()
            notes = {"from": source, "pieces": self.pieces, "keys": keys}
            take_in(self.core, self.said, json.dumps(notes), self.end)
            self.end += len(self.said)
        self.said, self.keys, self.size, self.pieces = [], array("Q"), 0, []


class Intake:
    """An import of transcripts into a store; without a store, what an import would bring.

    Args:
        store: The store.
        options: Options of ``Session.open`` for the sessions: ``redaction``, ``namespace``.
        session: The name of the only session, in place of the file's.
        by_project: Whether the namespace of a session is the folder of its project.
        writes: Whether anything is written.
    """

    def __init__(
        self,
        store: Store | None,
        *,
        options: dict[str, Any],
        session: str | None,
        by_project: bool,
        writes: bool,
    ) -> None:
        self._store, self._options, self._session = store, options, session
        self._by_project, self._writes = by_project, writes and store is not None
        self._plain: Callable[[str], str] = without_secrets if options.get("redaction") else str
        asked = (by_project, options.get("namespace"))
        self._asked = crc32(repr(asked).encode()) if any(asked) else 0
        self._known, self.taken = _Known(store), Taken()
        self._open: dict[str, _Open] = {}
        self._preset = preset_of_store(store) if store is not None and self._writes else None

    def run(self, transcripts: Transcripts, progress: Callable[[int], None] = lambda _: None) -> Taken:
        """Takes in every record that is new. A file that is as it was is not read."""
        read, before = False, 0
        for source in transcripts.sources:
            state = source.state()
            own = [source.place] if self._session is None else self._known.sessions.get(self._session, ())
            *known, asked = self._known.files.get(source.place) or [0]
            if state and source.place in own and known == state and self._asked in (0, asked):
                self.taken.unchanged += 1
                continue
            read = True
            for tries in range(_TRIES):
                new, had, beside = self.taken.new, self.taken.known, dict(self.taken.beside)
                told = deepcopy(transcripts.told)
                try:
                    self._read(transcripts, source, before, progress)
                    break
                except StoreConflictError:
                    if tries + 1 == _TRIES:
                        raise
                finally:
                    self._leave()
                time.sleep(os.urandom(1)[0] * tries / 1000)  # another import writes the same sessions
                transcripts.told, self._known, self.taken.beside = told, _Known(self._store), beside
                self.taken.known = had + new - self.taken.new  # what was written will be known
            before += source.size
        if read and not self.taken.unchanged:
            transcripts.check()
        return self.taken

    def _read(
        self, transcripts: Transcripts, source: Source, before: int, progress: Callable[[int], None]
    ) -> None:
        """Takes in what is new of a file.

        Raises:
            StoreConflictError: a session has other messages than were known. What was written stays.
        """
        state, filled = source.state(), set[str]()
        self._counts, left = Counter[str](), defaultdict[str, set[int]](set)
        names = {} if transcripts.has_ids(source) else self._names(transcripts, source)
        for number, record in enumerate(transcripts.records(source)):
            name = self._session or self._plain(record.session)
            name = names.get(name, name)
            if record.is_left:
                left[name] |= self._known.keys & {_key(name, str(record.id), record.message, b"")}
                continue
            self._take(name, record, source)
            filled.add(name)
            if number % 1000 == 0:
                progress(before + source.done)
        self._close(source.place)
        self._take_back(left)
        if self._store is not None and self._writes:
            for name in filled - self.taken.refused.keys():
                _save(self._store.open_log(name), {source.place: [*state, self._asked]})

    def _names(self, transcripts: Transcripts, source: Source) -> dict[str, str]:
        """New names of lists without ids that do not begin with what their session has from an import."""
        counts, fitting = Counter[str](), dict[str, dict[str, bytes]]()
        for record in transcripts.records(source, Told()) if self._known.counts else ():
            name = self._session or self._plain(record.session)
            counts[name] += 1
            if name not in fitting:
                fitting[name] = {each: self._salt(each) for each in self._series(name)}
            for each, salt in list(fitting[name].items()):
                key = _key(each, f"#{counts[name]}", record.message, salt)
                if counts[name] <= self._known.counts[each] and key not in self._known.keys:
                    del fitting[name][each]
        moved = {name: new for name, fits in fitting.items() if (new := next(iter(fits))) != name}
        self.taken.beside |= {name: new for name, new in moved.items() if new not in self._known.sessions}
        return moved

    def _series(self, name: str) -> Iterator[str]:
        """The names of a session, of those that stand beside it, and one that is free."""
        for each in chain([name], (f"{name}~{number}" for number in count(2))):
            yield each
            if each not in self._known.counts:
                return

    def _salt(self, name: str) -> bytes:
        return b"" if self._store is None else self._store.open_log(name).salt()

    def _take_back(self, left: dict[str, set[int]]) -> None:
        """Takes back the messages of branches that were left since they came in."""
        for name, keys in left.items():
            if self._store is None or not keys:
                continue
            log = self._store.open_log(name)
            gone = {seq: own for _, seq, own in _messages(log) if keys.issuperset(own)}
            self.taken.taken_back += len(gone)
            self._known.keys.difference_update(*gone.values())
            if self._writes and gone:
                _forget(self._store, name, gone, {})

    def _take(self, name: str, record: Record, source: Source) -> None:
        if name in self.taken.refused:
            return
        files = self._known.sessions.get(name)
        is_of_file = record.id is None and name.startswith(f"{source.stem}-")
        if files is not None and (not files or (is_of_file and source.place not in files)):
            self.taken.refused[name] = (
                f"the store has messages of session {name!r} already, and they did not come from "
                f"{source.name}: --session gives another name"
            )
            return
        if files is None:
            self._known.sessions[name] = [source.place]
        held = None
        if self._writes:
            try:
                held = self._opened(name, record, source.place)
            except SiltstoneError as error:
                fixed = getattr(error, "field", "") == "namespace"
                self.taken.refused[name] = f"{error}{_REMEDY if fixed else ''}"
                return
        self._counts[name] += 1
        message, keys = self._new(name, record, b"" if held is None else held.salt)
        if message is None:
            self.taken.known += 1
            return
        self._known.counts[name] += 1
        self.taken.sessions[name] += 1
        if held is not None:
            held.add(message, record, keys, source.place)

    def _new(self, name: str, record: Record, salt: bytes) -> tuple[dict[str, Any] | None, list[int]]:
        """The message without the pieces that are known, None if all are; and the keys of its new pieces."""
        known, message = self._known.keys, record.message
        if record.id is None:
            key = _key(name, f"#{self._counts[name]}", message, salt or self._salt(name))
        elif len(record.pieces) < 2:
            key = _key(name, record.id, message, b"")
        if len(record.pieces) < 2:
            new = key not in known
            known.add(key)
            return (message if new else None), [key]
        content, keys, at = list[Any](), list[int](), 0
        for piece, length in record.pieces:
            blocks = message["content"][at : at + length]
            key = _key(name, piece, {"role": message["role"], "content": blocks}, b"")
            at += length
            if key not in known:
                known.add(key)
                keys.append(key)
                content += blocks
        return ({**message, "content": content} if content else None), keys

    def _opened(self, name: str, record: Record, source: str) -> _Open:
        held = self._open.get(name)
        if held is None:
            if len(self._open) >= _MOST_OPEN:
                self._close(source)
            options: Any = {**self._options, "memory": self._store, "preset": self._preset}
            if self._by_project and record.project:
                options["namespace"] = self._plain(record.project)
            core = open_session(None, name, options, is_async=False).core
            held = self._open[name] = _Open(core, self._known.ends[name])
            if source not in files_of(core.rows):
                _save(core.rows, {source: [0, 0, 0]})  # an import that breaks off may be repeated
        return held

    def _close(self, source: str) -> None:
        for name, held in self._open.items():
            held.write(source)
            self._known.ends[name] = held.end
        self._leave()

    def _leave(self) -> None:
        """Closes the sessions. Messages that wait are not written."""
        for name, held in self._open.items():
            if held.said:
                self.taken.sessions -= Counter({name: len(held.said)})
            held.core.close(False)
        self._open.clear()


def _key(session: str, record_id: str, message: dict[str, Any], salt: bytes) -> int:
    """The key of a record: of its id and its text; for an id that is unique, without the session."""
    scope = "" if len(record_id) >= _UUID else session
    said = json.dumps([scope, record_id, message.get("role"), message], sort_keys=True, default=str)
    digest = blake2b(said.encode(errors="surrogatepass"), digest_size=8, key=salt[:64])
    return int.from_bytes(digest.digest(), "little")


def take_back(store: Any, paths: list[str], *, writes: bool = True) -> dict[str, int]:
    """Takes back what imports of *paths* brought, and of files below them. Returns messages by session.

    Without *writes* it only says what would go.

    A session that has nothing else is deleted, and may be imported again. In others these messages are
    forgotten.

    Raises:
        ConfigError: nothing came from there.
    """
    places = [Source(path).place for path in paths]
    done: dict[str, int] = {}
    for info in list(sessions_of(store)):
        name, log = info.session_id, store.open_log(info.session_id)
        files = files_of(log)
        gone = {
            each
            for each, state in files.items()
            if state and any(each == place or each.startswith(place + os.sep) for place in places)
        }
        if not gone:
            continue
        seqs = [seq for source, seq, _ in _messages(log) if source in gone]
        done[name] = len(seqs)
        others = info.messages - done[name] - sum(end - start for start, end in _settings(log).get(_GONE, ()))
        if writes and not others:
            store.delete_session(name)
            store.revive(name)
        elif writes:
            _forget(store, name, seqs, {each: [] for each in gone})
    if not done:
        raise ConfigError(f"nothing in the store came from {', '.join(map(repr, places))}", "undo", places)
    return done
