"""Keeps the files of an archive in step with a session. The store stays the source of truth.

After each write to the files, the store notes which messages the files have. A process that stops between
the two steps writes the same messages again later. The archive then drops the repeated texts.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from dataclasses import replace
from typing import Final
from weakref import WeakValueDictionary

from siltstone.archive.files import Said
from siltstone.archive.live import ContextArchive
from siltstone.archive.records import id_of_entry, milliseconds, of_entry, read_knowledge
from siltstone.errors import StoreError, refuse
from siltstone.events import ArchiveFailed
from siltstone.hooks import notify
from siltstone.memory.base import entries_of
from siltstone.memory.convert import MAX_INTEGER
from siltstone.memory.entry import Entry, StoredEntry
from siltstone.session.core import SessionCore
from siltstone.session.state import content_of, has, line_of, union

_log = logging.getLogger("siltstone")

_PAGE: Final = 500
_FIRST_PAGE: Final = 16  #: newest entries that are checked first for a copy in the files
_open: WeakValueDictionary[str, ContextArchive] = WeakValueDictionary()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_open.clear)  # a parent's thread may hold the archive's lock forever


def archive_of(given: object) -> ContextArchive:
    """The archive that a session is opened with. Sessions of one process share one archive for a folder.

    Raises:
        ConfigError: *given* is neither an archive nor a path.
    """
    if isinstance(given, ContextArchive):
        return given
    if not isinstance(given, str | os.PathLike):
        refuse("archive", "a folder, a ContextArchive or None", given)
    name = os.path.realpath(os.fspath(given))
    found = _open.get(name)
    if found is None:
        found = _open[name] = ContextArchive(name)
    return found


def begin(core: SessionCore) -> None:
    """Imports the files' texts into a new session, and writes the entries that the files lack."""
    archive = core.archive
    if archive is None:
        return
    try:
        if not core.next_seq and not core.knowing.facts.progress():
            _take_over(core, archive)
        write_new(core)
        write_facts(core)
    except (OSError, StoreError) as error:
        _failed(core, error)


def write_new(core: SessionCore) -> None:
    """Writes the entries that are new since the last call. An error is reported, and fails no compaction."""
    archive = core.archive
    if archive is None:
        return
    try:
        progress = core.knowing.progress
        if progress.archived and progress.redactions != core.follow().version.redactions:
            write_anew(core)  # messages were forgotten, or the past was rewritten: files must drop them too
            return
        lacking = _lacking(core)
        if not lacking:
            return
        done = archive.add(core.session_id, map(_said, lacking))
        archive.evict(core.milliseconds())
        if done.failed:
            notify(core.hooks, ArchiveFailed(core.session_id, done.failures[0], done.failed))
            return  # without a note, the next compaction tries again; the archive drops repeated texts
        _note(core, [each.source_range for each in lacking])
    except (OSError, StoreError) as error:
        _failed(core, error)


def write_facts(core: SessionCore) -> None:
    """Writes the facts of the session to its file."""
    if core.archive is None:
        return
    try:
        own = [each for each in core.knowing.facts.facts() if each.session_id == core.session_id]
        core.archive.put_facts(core.session_id, own)
    except (OSError, StoreError) as error:
        _failed(core, error)


def write_anew(core: SessionCore) -> None:
    """Replaces the files of the session, after a part of it was forgotten."""
    if core.archive is None:
        return
    try:
        entries = _entries(core)
        core.archive.replace(core.session_id, map(of_entry, entries))
        _note(core, [each.source_range for each in entries], is_all=True)
    except (OSError, StoreError) as error:
        _failed(core, error)
    write_facts(core)


def _note(core: SessionCore, written: Iterable[tuple[int, int]], *, is_all: bool = False) -> None:
    """Notes in the store that the files have the messages *written*, and follow all redactions so far."""
    with core.knowing.facts.lock:
        progress = core.knowing.progress
        archived = union(() if is_all else progress.archived, written)
        after = replace(progress, archived=archived, redactions=core.follow().version.redactions)
        core.knowing.facts.put_all((), after.kept)


def _take_over(core: SessionCore, archive: ContextArchive) -> None:
    known = archive.timeline(core.session_id)
    clean = core.redact_text
    entries = [Entry(clean(each.content), role=each.role, created_at=each.timestamp / 1000) for each in known]
    for start in range(0, len(entries), _PAGE):
        core.store.index(core.session_id, entries[start : start + _PAGE])

    facts, _ = read_knowledge(archive.folder / "knowledge.jsonl")
    own = [
        replace(each, session_id=core.session_id, content=clean(each.content), context=clean(each.context))
        for each in facts
        if each.session_id in ("", core.session_id)  # the documented form names no session
    ]
    core.knowing.facts.put_all(own, core.knowing.progress.kept)


def _lacking(core: SessionCore) -> list[StoredEntry]:
    """The entries of messages that are not in the files, oldest first.

    These entries are the newest ones, so pages are read from the end, up to one that begins with another.
    """
    archived = core.knowing.progress.archived
    end, size = core.store.stats(core.session_id).entries, _FIRST_PAGE
    lacking: list[StoredEntry] = []
    while end > 0:
        start = max(0, end - size)
        page = core.store.entries(core.session_id, offset=start, limit=end - start)
        found = [each for each in page.entries if not has(archived, *each.source_range)]
        lacking[:0] = found
        if page.entries and page.entries[0] not in found[:1]:
            break
        end, size = start, min(2 * size, _PAGE)
    return lacking


def _entries(core: SessionCore) -> list[StoredEntry]:
    """The entries of the session, without those of a past that was rewritten."""
    state = core.follow()
    line = line_of(core.rows, content_of(state.head), MAX_INTEGER)
    entries = entries_of(core.store, core.session_id)
    return [each for each in entries if has(line, *each.source_range)]


def _said(entry: StoredEntry) -> Said:
    return Said(entry.role, entry.content, milliseconds(entry.created_at), id_of_entry(entry))


def _failed(core: SessionCore, error: Exception) -> None:
    _log.warning("the archive of session %r was not written: %s", core.session_id, error)
    notify(core.hooks, ArchiveFailed(core.session_id, str(error), 0))
