"""The process that opened a session. A forked child has a copy of the session, but none of its threads."""

from __future__ import annotations

import os

from siltstone.errors import StoreForkedError

__all__ = ["Origin"]


class Origin:
    """The process that opens a session. Create it in that process."""

    __slots__ = ("_process", "_session_id")

    def __init__(self, session_id: str) -> None:
        self._process, self._session_id = os.getpid(), session_id

    @property
    def is_here(self) -> bool:
        """Whether this process opened the session. False in a forked child."""
        return os.getpid() == self._process

    def check(self) -> None:
        """Checks the process. Call it before any lock: in a forked child, a missing thread may hold the lock.

        Raises:
            StoreForkedError: the session was opened in another process.
        """
        if os.getpid() != self._process:  # asked by every call: without a call of ``is_here``
            raise StoreForkedError(
                f"session {self._session_id!r} was opened in process {self._process}, of which this one is a "
                "fork: open it here anew",
                session_id=self._session_id,
            )
