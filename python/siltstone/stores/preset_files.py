"""Removes forgotten and deleted texts from the files that presets keep beside a store."""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from siltstone.archive.live import ContextArchive
from siltstone.errors import StoreError, StoreIoError
from siltstone.knowledge import StoredFacts
from siltstone.memory.base import Store, entries_of
from siltstone.memory.forgetting import Sought
from siltstone.systems.openclaw import archives_of
from siltstone.systems.waterfall.config import WaterfallConfig
from siltstone.systems.waterfall.vault import Vault, VaultFiles

_log = logging.getLogger("siltstone")


def after_forget(
    store: Store,
    directory: str,
    session_ids: Iterable[str],
    known: Collection[str],
    sought: Sought | None,
    only: str | None,
) -> bool:
    """Updates the files after a ``forget`` in these sessions. Returns whether they lack what was forgotten.

    With *sought*, files that still have the text are updated too, also those of deleted sessions: a process
    may have died before. *known* are the sessions of the store, *only* the one that was meant; None for all.
    If this fails, the next opening of such a session with its preset updates the files.
    """
    try:
        holding = [] if sought is None else list(_holding(directory, sought, only))
        for session_id in dict.fromkeys((*session_ids, *holding)):
            state = store.open_log(session_id).state()
            if state.deleted:
                after_delete(directory, session_id)
            if state.next_seq:  # else a vault waits for the first message of its session
                _vault_in_step(store, directory, session_id)
            if session_id in known:  # else an archive has it from elsewhere
                for archive in _archives(directory):
                    _archive_in_step(store, archive, session_id)
        return sought is None or not any(True for _ in _holding(directory, sought, only))
    except (OSError, StoreError):
        _log.exception("the files of presets in %s still have what was forgotten", directory)
        return False


def _holding(directory: str, sought: Sought, only: str | None) -> Iterator[str]:
    """The session of each file, or line of a shared file, that has the text; of *only*, if that is given."""
    for owner in Path(directory, "vault").glob("*/.name"):
        name = owner.read_text("utf-8", "surrogatepass")
        files = filter(Path.is_file, owner.parent.rglob("*") if only in (None, name) else ())
        if any(sought.is_in(path.read_text("utf-8", "replace")) for path in files):
            yield name
    for path in Path(directory, "memory", "context").glob("*.jsonl"):
        for line in filter(sought.is_in, path.read_text("utf-8", "replace").split("\n")):
            try:
                name = str(json.loads(line)["sessionId"])
            except (ValueError, LookupError, TypeError):
                name = ""  # what is left of a line
            if only in (None, name):
                yield name


def after_delete(directory: str, session_id: str) -> None:
    """Removes the texts of a session from the files. Files that siltstone did not write stay.

    Raises:
        StoreIoError: a file cannot be deleted. The next call goes on from there.
    """
    try:
        vault = _vault(directory, session_id)
        if vault is not None:
            vault.clear()
        for archive in _archives(directory):
            archive.replace(session_id, ())
            archive.put_facts(session_id, ())
    except OSError as error:
        raise StoreIoError(
            f"files of session {session_id!r} in {directory!r} cannot be removed: {error}; delete it again",
            path=directory,
        ) from error


def _vault(directory: str, session_id: str) -> Vault | None:
    root = Path(directory, "vault")
    if not root.is_dir():
        return None

    return Vault.existing(root, session_id)


def _vault_in_step(store: Store, directory: str, session_id: str) -> None:
    if _vault(directory, session_id) is None:
        return

    files = VaultFiles(Path(directory), session_id, store.open_log(session_id), config=WaterfallConfig())
    files.catch_up()


def _archives(directory: str) -> Iterator[ContextArchive]:
    """The archives of the store: those that are open in this process, else one of its own."""
    folder = Path(directory, "memory", "context")
    if folder.is_dir():
        yield from archives_of(directory)


def _archive_in_step(store: Store, archive: ContextArchive, session_id: str) -> None:
    """Removes texts and facts of the session that the store no longer has."""
    texts = {entry.content for entry in entries_of(store, session_id)}
    segments = archive.timeline(session_id)
    kept = [each for each in segments if each.content in texts]
    if len(kept) < len(segments):
        archive.replace(session_id, kept)
    facts = StoredFacts(store, session_id).facts()
    archive.put_facts(session_id, [each for each in facts if each.session_id == session_id])
