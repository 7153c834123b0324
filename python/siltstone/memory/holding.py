"""Tells which rows of a session may hold a text. The core looks at all of them, so few are read in Python."""

from __future__ import annotations

from collections.abc import Sequence

from siltstone import _native
from siltstone.memory.convert import stored_entry
from siltstone.memory.reports import Page

__all__ = ["Holding"]


class Holding:
    """The rows of an open store that may have a text; ``messages.holds`` tells whether a row has it."""

    def __init__(self, native: _native.Store) -> None:
        self._native = native

    def entries(self, session_id: str, text: str) -> Page:
        """The entries that may hold *text*, in one page, expired ones too; and the ids of damaged ones."""
        page = self._native.entries_holding(session_id, text)
        return Page(tuple(map(stored_entry, page.entries)), None, tuple(page.damaged))

    def messages(self, session_id: str, text: str) -> list[int]:
        """The sequence numbers of the messages that may hold *text*, ascending."""
        return self._native.messages_holding(session_id, text)

    def came_from(self, session_id: str, seqs: Sequence[int]) -> list[int]:
        """The ids of the entries that came from one of the messages *seqs*, ascending."""
        return self._native.entries_from(session_id, list(seqs)) if seqs else []
