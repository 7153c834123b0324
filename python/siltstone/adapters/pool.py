"""A pool of sessions for an agent with many conversations: a session for each, open while it is used."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from types import MappingProxyType
from typing import Any, Generic, TypeAlias, TypeVar
from uuid import UUID

from siltstone import checks
from siltstone.adapters.base import AnySession, Door, at_once, memory_tools, sync_session
from siltstone.adapters.host import HostDialect
from siltstone.errors import ConfigError
from siltstone.hooks import gives_coroutine
from siltstone.memory.base import Store
from siltstone.session import Session
from siltstone.session.aio import AsyncSession
from siltstone.tools.base import Tool
from siltstone.tools.memory import memory_get, memory_search

M = TypeVar("M")

OpenSession: TypeAlias = Callable[[str], "Session | Awaitable[AsyncSession]"]
"""Opens the session of a conversation, which is named by its id.

A hook that the framework awaits calls it in a thread, so that a file that is read delays no other task.
"""

Source: TypeAlias = AnySession | Store | OpenSession
"""A session, or what has or opens a session for each conversation."""

MOST_OPEN = 100  #: the number of sessions above which a pool closes unused ones


MOST_CLOSED = 100_000  #: the closed conversations that a pool remembers


class _Kept(Generic[M]):
    def __init__(self, door: Door[M]) -> None:
        self.door, self.users = door, 0


class _Turn:
    """A lock that is there as long as somebody holds it or waits for it."""

    def __init__(self, lock: Any) -> None:
        self.lock, self.users = lock, 0


class Pool(Generic[M]):
    """The sessions of an agent: one session for its conversation, or one for each of many.

    Args:
        source: A session, which you close yourself; or a store, or a function that opens the session of a
            conversation. The pool closes the sessions that are opened here, the least recently used first.
        dialect: The reader and writer of the host's messages.
        most_open: The number of open sessions above which unused ones are closed, 1 or more.
        options: The options of the sessions of a store, as of ``Session.open``.
        tools: Whether the model gets the tools of the sessions.
    """

    def __init__(
        self,
        source: Source,
        dialect: HostDialect[M],
        *,
        most_open: int = MOST_OPEN,
        options: Mapping[str, Any] = MappingProxyType({}),
        tools: bool = True,
    ) -> None:
        checks.at_least("most_open", most_open, 1)
        is_store = hasattr(source, "open_log")
        if not is_store and not callable(source) and not isinstance(source, Session | AsyncSession):
            raise ConfigError(
                "session must be a Session, an AsyncSession, a store, or a function that opens the session "
                f"of a conversation's id, got {type(source).__name__}",
                "session",
                source,
            )
        if options and not is_store:
            raise ConfigError(
                f"the options of sessions ({', '.join(sorted(options))}) go with a store, got "
                f"{type(source).__name__}: give them where you open the session",
                "session",
                source,
            )
        self._door = partial(Door[M], dialect=dialect, tools=tools)
        self._one = self._door(source) if isinstance(source, Session | AsyncSession) else None
        self._thread: str | None = None  # the host's own name of the one conversation
        self._open: Any = partial(_opened_in, source, options) if is_store else source
        self._most = most_open
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, _Kept[M]] = OrderedDict()
        self._opening: dict[Hashable, _Turn] = {}
        self._closed: OrderedDict[str, None] = OrderedDict()  # conversations that were observed before

    @property
    def session(self) -> AnySession | None:
        """The session for all conversations; None if each has its own."""
        return None if self._one is None else self._one.session

    def tools(self) -> list[Tool]:
        """The tools for the model. If each conversation has its session, they only describe the tools."""
        if self._one is not None:
            return memory_tools(self._one.session)
        return [memory_search(lambda _query, _limit, **_: []), memory_get(lambda _handle: None)]

    @asynccontextmanager
    async def door(
        self, conversation: str | None, thread: str | None = None, *, waits: bool = True
    ) -> AsyncIterator[Door[M]]:
        """The session of *conversation*, open while the block runs.

        *thread* is the name that the host itself keeps for the conversation, from one process to the next;
        None if it has none. A sync hook of the framework does not wait.

        Raises:
            ConfigError: the host named no conversation, although each has its own session; or it named a
                second one, although there is one session; or the hook does not wait, and the session was
                opened as an ``AsyncSession``.
        """
        if self._one is not None:
            yield self._of(thread, self._one)
            return
        name = _named(conversation)
        while (kept := self._taken(name)) is None:  # another thread may close it again before it is taken
            if waits:
                await self._aopened(name)
            elif (session := self._opened(name)) is not None:
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
                await _closed(idle.door.session, waits)

    def close(self) -> None:
        """Closes the sessions that were opened here."""
        at_once(self.aclose(waits=False))

    async def aclose(self, *, waits: bool = True) -> None:
        """:meth:`close`, for async sessions too."""
        for kept in self._emptied():
            await _closed(kept.door.session, waits)

    def _of(self, thread: str | None, one: Door[M]) -> Door[M]:
        """The only door, for the only *thread*."""
        with self._lock:
            self._thread = self._thread or thread
            known = self._thread
        if thread is not None and thread != known:
            raise ConfigError(
                f"session {one.session.session_id!r} is one conversation, that of {known!r}, and the host "
                f"named a second one, {thread!r}; nothing was written; give the adapter a store, or a "
                "function that opens a session, instead of the session: then each has a session of its own",
                "session",
                thread,
            )
        return one

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
        door = self._door(session)
        with self._lock:
            if name in self._closed:  # its next list goes on with the last one: this is no restart
                session._core.is_first_list = False
            return self._kept.setdefault(name, kept := _Kept(door)) is kept

    def _returned(self, kept: _Kept[M]) -> list[_Kept[M]]:
        """Ends a use of *kept*. Returns the unused sessions to close, taken out of the pool."""
        with self._lock:
            kept.users -= 1
            too_many = len(self._kept) - self._most
            idle = [name for name, each in self._kept.items() if not each.users][: max(0, too_many)]
            for name in idle:
                if not self._kept[name].door.session._core.is_first_list:
                    self._closed[name] = None
            while len(self._closed) > MOST_CLOSED:
                self._closed.popitem(last=False)
            return [self._kept.pop(name) for name in idle]

    def _emptied(self) -> list[_Kept[M]]:
        with self._lock:
            kept = list(self._kept.values())
            self._kept.clear()
            return kept


def named_by_host(conversation: str | None) -> str | None:
    """*conversation*, if the host has named it; None of a UUID, which a framework makes for each new run.

    A host that goes on with two such conversations in one session is stopped by the session, because its
    list goes on with an earlier run.
    """
    try:
        UUID(conversation or "")
    except ValueError:
        return conversation
    return None


def _opened_in(store: Any, options: Mapping[str, Any], name: str) -> Session | Awaitable[AsyncSession]:
    """The session *name* of *store*: an ``AsyncSession`` if its model is async."""
    model: Any = options.get("model")
    models = model if isinstance(model, list | tuple) else (model,)
    kind: Any = AsyncSession if any(map(gives_coroutine, models)) else Session
    opened: Session | Awaitable[AsyncSession] = kind.open(None, name, **{**options, "memory": store})
    return opened


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


async def _closed(session: AnySession, waits: bool = True) -> None:
    if not waits:
        sync_session(session).close()
    elif isinstance(session, AsyncSession):
        await session.close()
    else:
        await asyncio.to_thread(session.close)
