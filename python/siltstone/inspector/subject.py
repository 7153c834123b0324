"""The store that is inspected, and the sessions of it that were opened for reading."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from typing import Self, TypeVar, cast

from siltstone.errors import SiltstoneError
from siltstone.figures.reading import require_session
from siltstone.memory import SessionInfo
from siltstone.memory.base import Store
from siltstone.memory.paging import sessions_of
from siltstone.session import Session

__all__ = ["Subject"]

T = TypeVar("T")
_MOST = 8  #: sessions that are held open
_KEPT = {"context": 1_000}  #: of how many sessions a figure is kept; of anything larger of _MOST


class Subject:
    """A store, open for reading.

    Args:
        name: The name of the store on the pages.
        open_store: Opens it: for reading where its argument is True.
        write: Whether the pages may undo, forget, pin and unpin.
    """

    def __init__(self, name: str, open_store: Callable[[bool], Store], *, write: bool = False) -> None:
        self.name, self.open_store, self.write = name, open_store, write
        self.store = open_store(True)
        self._sessions: OrderedDict[str, Session] = OrderedDict()
        self._kept: dict[str, OrderedDict[str, tuple[object, object]]] = {}
        self._lock = threading.Lock()

    @property
    def short_name(self) -> str:
        """The last part of the name."""
        return self.name.rstrip("/\\").replace("\\", "/").rpartition("/")[2] or self.name

    def session(self, session_id: str) -> Session:
        """A session of the store, open for reading. It follows writes of other processes.

        Raises:
            ConfigError: the store has no such session.
        """
        require_session(self.store, session_id)
        with self._lock:
            held = self._sessions.pop(session_id, None)
            if held is None:
                held = Session.open(None, session_id, memory=self.store, preset=None)
            self._sessions[session_id] = held
            while len(self._sessions) > _MOST:
                self._sessions.popitem(last=False)[1].close()
            return held

    def forget_session(self, session_id: str) -> None:
        """Lets go of a session that could not be read: it is opened anew when it is next asked for."""
        with self._lock:
            held = self._sessions.pop(session_id, None)
        if held is not None:
            with suppress(SiltstoneError):
                held.close()

    def kept(self, session_id: str, what: str, version: object, make: Callable[[], T]) -> T:
        """The result of *make*, kept as long as the session is at *version*."""
        with self._lock:
            known = self._kept.setdefault(what, OrderedDict()).get(session_id)
        if known is not None and known[0] == version:
            return cast("T", known[1])
        made = make()
        with self._lock:
            held = self._kept[what]
            held[session_id] = (version, made)
            while len(held) > _KEPT.get(what, _MOST):
                held.popitem(last=False)
        return made

    def info(self, session_id: str) -> SessionInfo | None:
        """The row of one session in the list of sessions."""
        return next((info for info in sessions_of(self.store) if info.session_id == session_id), None)

    def close(self) -> None:
        """Lets go of the store."""
        with self._lock:
            sessions, self._sessions = list(self._sessions.values()), OrderedDict()
        for held in sessions:
            with suppress(SiltstoneError):
                held.close()
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
