"""A pool of sessions for an agent with many conversations: a session for each, open while it is used."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Generic, TypeAlias, TypeVar

from siltstone.adapters.base import AnySession, Door, sync_session
from siltstone.adapters.host import HostDialect
from siltstone.errors import ConfigError
from siltstone.session import AsyncSession, Session

__all__ = ["MOST_OPEN", "OpenSession", "Pool"]

M = TypeVar("M")

OpenSession: TypeAlias = Callable[[str], "Session | Awaitable[AsyncSession]"]
"""Opens the session of a conversation, which is named by its id.

A hook that the framework awaits calls it in a thread, so that a file that is read delays no other task.
"""

MOST_OPEN = 100  #: the number of sessions above which a pool closes unused ones


class _Kept(Generic[M]):
    def __init__(self, door: Door[M]) -> None:
        self.door, self.users = door, 0


class _Turn:
    """A lock that is there as long as somebody holds it or waits for it."""

    def __init__(self, lock: Any) -> None:
        self.lock, self.users = lock, 0


class Pool(Generic[M]):
    """The sessions of an agent: one session for all conversations, or one for each.

    Args:
        source: A session, which you close yourself; or a function that opens the session of a conversation.
            The pool closes the sessions of the function, the least recently used first.
        dialect: The reader and writer of the host's messages.
        most_open: The number of open sessions above which unused ones are closed, 1 or more.
    """

    def __init__(
        self, source: AnySession | OpenSession, dialect: HostDialect[M], *, most_open: int = MOST_OPEN
    ) -> None:
        if type(most_open) is not int or most_open < 1:
            raise ConfigError(
                f"most_open must be an integer >= 1, got {most_open!r}", field="most_open", value=most_open
            )
        if not callable(source) and not isinstance(source, Session | AsyncSession):
            raise ConfigError(
                "session must be a Session, an AsyncSession, or a function that opens the session of a "
                f"conversation's id, got {type(source).__name__}",
                field="session",
                value=source,
            )
        self._one = Door(source, dialect) if isinstance(source, Session | AsyncSession) else None
        self._open: Any = source
        self._dialect, self._most = dialect, most_open
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, _Kept[M]] = OrderedDict()
        self._opening: dict[Hashable, _Turn] = {}

    @property
    def session(self) -> AnySession | None:
        """The session for all conversations; None if each has its own."""
        return None if self._one is None else self._one.session

    @contextmanager
    def door(self, conversation: str | None) -> Iterator[Door[M]]:
        """The session of *conversation*, open while the block runs.

        Raises:
            ConfigError: the host named no conversation, although each has its own session; or the session was
                opened as an ``AsyncSession``.
        """
        if self._one is not None:
            yield self._one
            return
        name = _named(conversation)
        while (kept := self._taken(name)) is None:  # another thread may close it again before it is taken
            session = self._opened(name)
            if session is not None:
                _dropped(session)
                raise ConfigError(
                    f"the session of conversation {name!r} is opened as an AsyncSession, and the framework "
                    "called a synchronous hook: run the agent with its async methods, or open it with "
                    "Session.open",
                    field="session",
                )
        try:
            yield kept.door
        finally:
            for idle in self._returned(kept):
                sync_session(idle.door.session).close()

    @asynccontextmanager
    async def adoor(self, conversation: str | None) -> AsyncIterator[Door[M]]:
        """:meth:`door`, for an async hook of the framework."""
        if self._one is not None:
            yield self._one
            return
        name = _named(conversation)
        while (kept := self._taken(name)) is None:
            await self._aopened(name)
        try:
            yield kept.door
        finally:
            for idle in self._returned(kept):
                await _closed(idle.door.session)

    def close(self) -> None:
        """Closes the sessions that were opened here."""
        for kept in self._emptied():
            sync_session(kept.door.session).close()

    async def aclose(self) -> None:
        """:meth:`close`, for async sessions too."""
        for kept in self._emptied():
            await _closed(kept.door.session)

    def _taken(self, name: str) -> _Kept[M] | None:
        with self._lock:
            kept = self._kept.get(name)
            if kept is not None:
                self._kept.move_to_end(name)
                kept.users += 1
            return kept

    def _opened(self, name: str) -> Awaitable[AsyncSession] | None:
        """Opens the session of *name*, where no other thread does; gives back what has to be awaited."""
        with self._turn(name, threading.Lock) as alone, alone:
            if name in self._kept:
                return None
            session = self._open(name)
            if inspect.isawaitable(session):
                return session
            self._added(name, session)
            return None

    async def _aopened(self, name: str) -> None:
        """:meth:`_opened`, in a thread, and what has to be awaited here: of tasks at once by one of them."""
        with self._turn((name, asyncio.get_running_loop()), asyncio.Lock) as alone:
            async with alone:
                opening = None if name in self._kept else await asyncio.to_thread(self._opened, name)
                if opening is not None:
                    session = await opening
                    if not self._added(name, session):  # another event loop has opened it meanwhile
                        await _closed(session)

    @contextmanager
    def _turn(self, key: Hashable, lock: Callable[[], Any]) -> Iterator[Any]:
        """The lock of *key*, which nobody holds yet."""
        with self._lock:
            turn = self._opening.get(key)
            if turn is None:
                turn = self._opening[key] = _Turn(lock())
            turn.users += 1
        try:
            yield turn.lock
        finally:
            with self._lock:
                turn.users -= 1
                if not turn.users:
                    del self._opening[key]

    def _added(self, name: str, session: AnySession) -> bool:
        """Keeps *session*, of which nobody is a user yet; False where *name* has one."""
        door = Door(session, self._dialect)
        with self._lock:
            return self._kept.setdefault(name, kept := _Kept(door)) is kept

    def _returned(self, kept: _Kept[M]) -> list[_Kept[M]]:
        """Ends a use of *kept*. Returns the unused sessions to close, taken out of the pool."""
        with self._lock:
            kept.users -= 1
            too_many = len(self._kept) - self._most
            idle = [name for name, each in self._kept.items() if not each.users][: max(0, too_many)]
            return [self._kept.pop(name) for name in idle]

    def _emptied(self) -> list[_Kept[M]]:
        with self._lock:
            kept = list(self._kept.values())
            self._kept.clear()
            return kept


def _named(conversation: str | None) -> str:
    if not conversation:
        raise ConfigError(
            "the host named no conversation, so its session cannot be told; name one (such as LangGraph's "
            "thread_id), or give one session for all",
            field="session",
        )
    return conversation


def _dropped(session: Any) -> None:
    close = getattr(session, "close", None)
    if inspect.iscoroutine(session) and close is not None:
        close()  # else Python warns that it was never awaited


async def _closed(session: AnySession) -> None:
    if isinstance(session, AsyncSession):
        await session.close()
    else:
        await asyncio.to_thread(session.close)
