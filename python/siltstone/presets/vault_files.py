"""Keeps the vault of a session equal to its log: a file for each message, and the two summaries."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Final

from siltstone.archive.lines import locked
from siltstone.compaction.base import Compactor
from siltstone.compaction.prompts import unframed
from siltstone.compaction.waterfall import WaterfallRestored
from siltstone.compaction.waterfall_config import WaterfallConfig
from siltstone.compaction.waterfall_prompts import LONGTERM_PREFIX, RECENT_PREFIX
from siltstone.compaction.waterfall_state import Memory, WaterfallState
from siltstone.errors import StoreIoError
from siltstone.memory.convert import datetime_from
from siltstone.memory.log import CompactionRow, Derived, LogRow, SessionLog
from siltstone.memory.paging import rows_of
from siltstone.messages import RawMessage, decode, indexable_text, read_message
from siltstone.vault import Contents, Vault, VaultMemory, VaultSummary

__all__ = ["FOLDER", "VaultFiles"]

FOLDER: Final = "vault"
"""The folder of the vaults, inside the directory of the store."""

POLICY: Final = "waterfall"


class VaultFiles:
    """Writes the messages and summaries of a session's log to its vault.

    The log is the truth: after a crash the vault is completed from it, and forgotten messages leave it. Other
    files in the folder are left alone.

    Args:
        path: The directory of the store.
        session_id: The session of the vault.
        log: The log of that session.
        config: The settings of its summaries.
    """

    def __init__(self, path: Path, session_id: str, log: SessionLog, *, config: WaterfallConfig) -> None:
        self._vault = Vault(path / FOLDER, session_id, durable=False)
        self._log, self._config = log, config
        self._found: Contents | None = None  # the content of the vault before the session
        self._end = 0  # all messages before this number have their file
        self._redactions: int | None = None  # the redactions of the log at the last update of the files
        self._row: int | None = None  # the compaction whose summaries are written

    @property
    def path(self) -> Path:
        """The folder of the vault."""
        return self._vault.path

    def found(self) -> Sequence[RawMessage]:
        """The memories in the vault, in their order, as messages with their roles."""
        self._found = self._vault.read()
        return [
            {"role": role if role in ("user", "assistant") else "user", "content": memory.content}
            for memory in self._found.memories
            for role in (memory.metadata.get("role", "user"),)
        ]

    def begun(self) -> Compactor | None:
        """Gives the memories their numbers in the log, and returns their summaries as a policy.

        None if there are no summaries, or if they do not fit the memories or one another; then the session
        makes new ones.
        """
        found, self._found = self._found, None
        if found is None:
            return None
        for number, memory in enumerate(found.memories):
            if memory.seq != number:  # `_reconcile` removes the file with the old number
                self._vault.add(replace(memory, seq=number))
        return _restored(found, self._config)

    def catch_up(self) -> None:
        """Updates the files from the log. One process at a time does so, and goes on where another one was.

        Raises:
            StoreIoError: a file cannot be written. The next call continues from there.
        """
        if self._log.state().deleted:
            return
        try:
            with locked(self._vault.path):
                self._catch_up()
        except OSError as error:
            if isinstance(error, StoreIoError):
                raise
            path = self._vault.path
            raise StoreIoError(f"the vault at {path} cannot be used: {error}", path=str(path)) from error

    def _catch_up(self) -> None:
        state = self._log.state()
        if state.deleted:
            return
        kept: set[int] = set()
        if self._redactions != state.redactions:  # just opened, or something was forgotten
            kept = self._reconcile(state.next_seq)
            self._end, self._row = 0, None
        else:
            self._end = max(self._end, self._end_of_others(state.redactions, state.next_seq))
        if self._end == state.next_seq and not kept:
            self._write_summaries(state.head)
            return
        for row in rows_of(self._log, self._end, state.next_seq):
            if row.seq not in kept:
                self._add(row)
        self._end, self._redactions = state.next_seq, state.redactions
        self._vault.end = f"{state.redactions} {state.next_seq}"
        self._write_summaries(state.head)

    def _end_of_others(self, redactions: int, most: int) -> int:
        """All messages before this number have their file, by another process; 0 if that is not known."""
        before, _, end = self._vault.end.partition(" ")
        if before != str(redactions) or not end.isdecimal():
            return 0
        return min(int(end), most)

    def _reconcile(self, end: int) -> set[int]:
        """Removes memories that differ from the log or occur twice. Returns the numbers of the others."""
        truth = {row.seq: _content(row) for row in rows_of(self._log, 0, end)}
        kept: set[int] = set()

        def wrong(memory: VaultMemory) -> bool:
            seq = memory.seq
            if seq is None or seq in kept or truth.get(seq) != memory.content:
                return True
            kept.add(seq)
            return False

        self._vault.remove(wrong)
        known = {_text(each) for each in _summaries(self._log)}
        self._vault.remove_summaries(lambda summary: summary.text not in known)
        return kept

    def _add(self, row: LogRow) -> None:
        content = _content(row)
        if content.strip():
            at = datetime_from(row.created_at)
            self._vault.add(VaultMemory(content, at, row.seq, {"event_type": "message", "role": row.role}))

    def _write_summaries(self, head: CompactionRow | None) -> None:
        """Writes the summaries of the newest run, if they are not written yet."""
        row = head
        while row is not None and not (row.compaction.policy == POLICY and row.compaction.state):
            row = None if row.parent is None else self._log.compaction(row.parent)
        if row is None or row.compaction_id == self._row:
            return
        state = WaterfallState.read(json.loads(row.compaction.state))
        ids = [piece for piece in row.compaction.view if isinstance(piece, int)]
        shown = [each for each in self._log.derived(ids) if each.kind == "summary"]
        if state is not None and shown:
            at = datetime_from(row.compaction.created_at)
            self._save(shown, state, at)
        self._row = row.compaction_id

    def _save(self, shown: Sequence[Derived], state: WaterfallState, at: datetime) -> None:
        there = self._vault.current()
        *older, recent = shown
        if state.longterm_end and older:
            text = "\n\n".join(_text(each) for each in older)
            if "longterm" not in there or there["longterm"].text != text:
                level = max(each.level for each in older)
                covers = (0, state.longterm_end)
                self._vault.save(VaultSummary(text, "longterm", at, covers, state.last, level))
        text = _text(recent)
        if "recent" not in there or there["recent"].text != text:
            covers = (state.longterm_end, state.covered)
            self._vault.save(VaultSummary(text, "recent", at, covers, state.last, recent.level))


def _restored(found: Contents, config: WaterfallConfig) -> Compactor | None:
    """A policy that begins with the summaries of *found*; None if they do not cover its oldest memories."""
    known = [memory.seq for memory in found.memories]
    numbers = range(len(known)) if None in known else [seq for seq in known if seq is not None]

    def at(seq: int) -> int:
        return bisect_left(numbers, seq)

    recent, longterm = found.recent, found.longterm
    if recent is None or (longterm is None) != (recent.covers[0] == 0):
        return None
    if longterm is not None and (longterm.covers[0], longterm.covers[1]) != (0, recent.covers[0]):
        return None
    border, covered = at(recent.covers[0]), at(recent.covers[1])
    if not border < covered <= len(known) or (longterm is not None and not border):
        return None
    copies = [
        ((at(each.covers[0]), at(each.covers[1])), each.text)
        for each in found.copies
        if each.text != recent.text and at(each.covers[0]) < at(each.covers[1])
    ]
    last = max(at(recent.last), covered)
    state = WaterfallState(last, covered, border, max(1, len(found.copies)))
    older = ("", 0) if longterm is None else (longterm.text, longterm.level)
    return WaterfallRestored(config, Memory(state, older[0], recent.text, older[1]), copies)


def _summaries(log: SessionLog) -> list[Derived]:
    return [each for each in log.derived_after(0) if each.kind == "summary"]


def _text(derived: Derived) -> str:
    for prefix in (LONGTERM_PREFIX, RECENT_PREFIX):
        text = unframed(derived.raw, prefix)
        if text != derived.raw:
            break
    return text.strip()


def _content(row: LogRow) -> str:
    message = read_message(decode(row.raw), row.seq, dialect=row.dialect, provenance=row.provenance)
    return indexable_text(message)
