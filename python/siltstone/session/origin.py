"""The process that opened a session. A fork of it has the session's memory, and none of its threads."""

from __future__ import annotations

import os

from siltstone.errors import StoreForkedError

__all__ = ["Origin"]


class Origin:
    """The process that opens a session, which is the one that makes this."""

    __slots__ = ("_process", "_session_id")

    def __init__(self, session_id: str) -> None:
        self._process, self._session_id = os.getpid(), session_id

    @property
    def is_here(self) -> bool:
        """Whether this process opened the session, and is no fork of the one that did."""
        return os.getpid() == self._process

    def check(self) -> None:
        """Refuses the session in a fork, before any lock: a thread that is not there may have it for ever.

        Raises:
            StoreForkedError: the session was opened in another process.
        """
        if not self.is_here:
            raise StoreForkedError(
                f"session {self._session_id!r} was opened in process {self._process}, of which this one is a "
                "fork: open it here anew",
                session_id=self._session_id,
            )
