"""Takes the records of transcripts into a store, again and again, and takes them back."""

from __future__ import annotations

import base64
import json
import os
from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Final

from siltstone.errors import ConfigError, SiltstoneError
from siltstone.memory.base import Store, sessions_of
from siltstone.memory.log import CompactionRow, SessionLog
from siltstone.messages import RawMessage
from siltstone.session.core import SessionCore
from siltstone.session.opening import open_session, preset_of_store
from siltstone.session.transfer import IMPORT, take_in
from siltstone.transcripts import Record, Transcripts
from siltstone.transcripts.files import Source

_MOST_OPEN: Final = 64  #: sessions that are written to at once
_PAGE: Final = 500  #: messages of a write
_CHARACTERS: Final = 4 << 20  #: of the messages of a write, about
_UUID: Final = 32  #: characters from which on the id of a record is the same in every session
_KEY: Final = "imports"  #: the setting of a session that has its files: path, size and time


@dataclass(slots=True)
class Taken:
    """What an import brought.

    Attributes:
        sessions: The number of new messages of each session that got some.
        known: Messages that the store had from an earlier import.
        unchanged: Files that are as they were at an earlier import, and were not read.
        refused: Sessions that could not be written, each with the reason.
    """

    sessions: dict[str, int] = field(default_factory=dict)
    known: int = 0
    unchanged: int = 0
    refused: dict[str, str] = field(default_factory=dict)

    @property
    def new(self) -> int:
        """The number of new messages."""
        return sum(self.sessions.values())


class _Known:
    """What earlier imports brought: the keys of records, and the states of files."""

    def __init__(self, store: Store | None) -> None:
        self.keys, self.files = set[int](), dict[str, list[int]]()
        self.sessions = dict[str, list[str]]()  # with the files that imports brought
        if store is None:
            return
        for info in sessions_of(store):
            log = store.open_log(info.session_id)
            files = files_of(log)
            if files or info.messages:
                self.sessions[info.session_id] = list(files)
            self.files |= files
            for row, _ in _rows(log) if files else ():
                self.keys.update(_keys(row))


def _settings(log: SessionLog) -> dict[str, Any]:
    text = log.state().settings
    value = json.loads(text) if text else {}
    return value if isinstance(value, dict) else {}


def files_of(log: SessionLog) -> dict[str, list[int]]:
    """The files that the session was imported from, each with its size and time."""
    found: dict[str, list[int]] = _settings(log).get(_KEY, {})
    return found


def _save(log: SessionLog, settings: dict[str, Any]) -> None:
    write_id = int.from_bytes(os.urandom(8)) >> 1
    log.save_settings(json.dumps(settings), expected=log.state().version, write_id=write_id)


def _rows(log: SessionLog) -> Iterator[tuple[CompactionRow, dict[str, Any]]]:
    """The rows that imports wrote and nobody took back, each with its notes."""
    gone = set(_settings(log).get("imports_gone", ()))
    for row in log.compactions():
        if row.compaction.reason == IMPORT and row.compaction_id not in gone:
            yield row, json.loads(row.compaction.notes)


def _keys(row: CompactionRow) -> array[int]:
    found = array("Q")
    found.frombytes(base64.b64decode(json.loads(row.compaction.notes)["keys"]))
    return found


class _Open:
    """A session that takes in records."""

    def __init__(self, core: SessionCore) -> None:
        self.core, self.salt = core, core.rows.salt()
        self.said, self.keys, self.size = list[tuple[RawMessage, int]](), array("Q"), 0
        self.last = core.milliseconds()

    def add(self, message: dict[str, Any], record: Record, keys: list[int], source: str) -> None:
        """Adds a message; those that wait are written if they are many."""
        self.last = self.last if record.time is None else int(record.time.timestamp() * 1000)
        self.said.append((message, self.last))
        self.keys.extend(keys)
        self.size += sum(len(str(each)) for each in message.values())
        if len(self.said) >= _PAGE or self.size > _CHARACTERS:
            self.write(source)

    def write(self, source: str) -> None:
        """Writes the messages that wait, and the keys of their records, in one transaction."""
        if self.said:
            keys = base64.b64encode(self.keys.tobytes()).decode()
            notes = {"from": source, "messages": len(self.said), "keys": keys}
            take_in(self.core, self.said, json.dumps(notes))
        self.said, self.keys, self.size = [], array("Q"), 0


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
        self._known, self.taken = _Known(store), Taken()
        self._open: dict[str, _Open] = {}
        self._preset = preset_of_store(store) if store is not None and self._writes else None

    def run(self, transcripts: Transcripts, progress: Callable[[int], None] = lambda _: None) -> Taken:
        """Takes in every record that is new. A file that is as it was is not read."""
        read, before = False, 0
        for source in transcripts.sources:
            state = source.state()
            own = [source.place] if self._session is None else self._known.sessions.get(self._session, ())
            if state and source.place in own and self._known.files.get(source.place) == state:
                self.taken.unchanged += 1
                continue
            read, filled = True, set[str]()
            self._counts = Counter[str]()
            for number, record in enumerate(transcripts.records(source)):
                name = self._session or record.session
                self._take(name, record, source)
                filled.add(name)
                if number % 1000 == 0:
                    progress(before + source.done)
            before += source.size
            self._close(source.place)
            if self._store is not None and self._writes:
                for name in filled - self.taken.refused.keys():
                    log = self._store.open_log(name)
                    _save(log, {**_settings(log), _KEY: {**files_of(log), source.place: state}})
        if read and not self.taken.unchanged:
            transcripts.check()
        return self.taken

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
                self.taken.refused[name] = str(error)
                return
        self._counts[name] += 1
        message, keys = self._new(name, record, b"" if held is None else held.salt)
        if message is None:
            self.taken.known += 1
            return
        self.taken.sessions[name] = self.taken.sessions.get(name, 0) + 1
        if held is not None:
            held.add(message, record, keys, source.place)

    def _new(self, name: str, record: Record, salt: bytes) -> tuple[dict[str, Any] | None, list[int]]:
        """The message without the pieces that are known, None if all are; and the keys of its new pieces."""
        known, message = self._known.keys, record.message
        if record.id is None:
            if not salt and self._store is not None:
                salt = self._store.open_log(name).salt()
            key = _key(name, f"#{self._counts[name]}", message, salt)
            return (None if key in known else message), [key]
        if len(record.pieces) < 2:
            key = _key(name, record.id, message, b"")
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
                options["namespace"] = record.project
            held = self._open[name] = _Open(open_session(None, name, options, is_async=False).core)
        return held

    def _close(self, source: str) -> None:
        try:
            for held in self._open.values():
                held.write(source)
        finally:
            for held in self._open.values():
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
            for each in files
            if any(each == place or each.startswith(place + os.sep) for place in places)
        }
        rows = [(row, notes) for row, notes in _rows(log) if notes["from"] in gone] if gone else []
        if not rows:
            continue
        done[name] = sum(notes["messages"] for _, notes in rows)
        if not writes:
            continue
        if done[name] == info.messages:
            store.delete_session(name)
            store.revive(name)
            continue
        for row, notes in rows:
            end = row.compaction.next_seq
            store.forget(session_id=name, start=end - notes["messages"], end=end)
        log = store.open_log(name)
        settings = _settings(log)
        settings["imports_gone"] = [
            *settings.get("imports_gone", ()),
            *(row.compaction_id for row, _ in rows),
        ]
        settings[_KEY] = {each: [] if each in gone else state for each, state in files.items()}
        _save(log, settings)
    if not done:
        raise ConfigError(f"nothing in the store came from {', '.join(map(repr, places))}", "undo", places)
    return done
