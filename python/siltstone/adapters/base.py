"""The common part of all adapters: the steps around a model call, sync and async."""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

from siltstone import errors
from siltstone.adapters.edits import edited, is_same
from siltstone.adapters.host import HostDialect, HostHistory, HostMessage
from siltstone.errors import ConfigError
from siltstone.events import UsageRecord
from siltstone.messages import RawMessage
from siltstone.outcome import Outcome
from siltstone.session import AsyncSession, Prepared, Session
from siltstone.tools import Tool

__all__ = [
    "AnySession",
    "Door",
    "RawDoor",
    "Ready",
    "RequestRefusedError",
    "acalled_tool",
    "called",
    "check_bounded",
    "memory_tools",
    "requires",
    "sync_session",
]

_log = logging.getLogger("siltstone")

M = TypeVar("M")
T = TypeVar("T")

AnySession: TypeAlias = Session | AsyncSession


def memory_tools(session: AnySession) -> list[Tool]:
    """The tools that an adapter gives the model: ``memory_get``, and ``memory_search`` with a memory."""
    return [tool for tool in session.tools if tool.name in ("memory_search", "memory_get")]


def requires(extra: str) -> AbstractContextManager[None]:
    """A context for the imports of a framework. If it is not installed, the error names its extra."""
    return errors.requires(extra, f"siltstone.adapters.{extra.replace('-', '_')}")


@dataclass(frozen=True, slots=True)
class Ready(Generic[M]):
    """The result of a boundary, in the host's own kind of message.

    Attributes:
        messages: The messages to send now, with recalled text. Never store them.
        prepared: The session's own result.
        usage: The model calls that siltstone made at this boundary; empty if the same result is given again.
        lists: The host's list, and its list in this request if others have changed it.
    """

    messages: list[M]
    prepared: Prepared
    usage: tuple[UsageRecord, ...]
    lists: tuple[Sequence[M], Sequence[M] | None]
    _write: Callable[[Sequence[RawMessage]], list[M]]

    @property
    def history(self) -> list[M]:
        """The same messages without recalled text, which a host may store. They are written on demand."""
        return self._write(self.prepared.history)


class RequestRefusedError(Exception):
    """The error of a provider that refused a request, for ``recover``. It never leaves an adapter."""


class Door(Generic[M]):
    """A session for the list of one host. It gives the list to the session, and returns the view.

    Args:
        session: The session. A sync hook of the framework needs a ``Session``; an async hook takes either.
        dialect: The reader and writer of the host's messages.
        begins: Whether a list without history is that of a host that begins anew. It is not, if the host
            reads its list from the session.
    """

    def __init__(self, session: AnySession, dialect: HostDialect[M], *, begins: bool = True) -> None:
        check_bounded(session)
        self._begins = begins
        self.session, self.dialect = session, dialect
        self._list = HostHistory(dialect)
        self._last: tuple[Outcome, ...] = ()
        # Two runs at the same time each get the view of their own list.
        self._lock, self._alock = threading.Lock(), asyncio.Lock()

    def observe(self, history: Sequence[M]) -> None:
        """Gives the host's whole *history* to the session."""
        with self._lock:
            self._observe(history)

    async def aobserve(self, history: Sequence[M]) -> None:
        """:meth:`observe`, for an async hook of the framework."""
        if not isinstance(self.session, AsyncSession):
            return await asyncio.to_thread(self.observe, history)
        async with self._alock:
            return await self._aobserve(history)

    def prepare(
        self, history: Sequence[M], request: Sequence[M] | None = None, *, goes_back: bool = False
    ) -> Ready[M]:
        """Gives *history* to the session, and returns the messages to send instead.

        *request* is the host's list in this request, if others have changed it. Their changes stay in the
        request: the session does not get them, or else every call would look like a rewritten past.
        *goes_back* tells that a list without answers is an earlier state of the conversation, and not the
        list of a host that begins anew.
        """
        with self._lock:
            self._observe(history, goes_back)
            return self._ready(sync_session(self.session).prepare(), history, request)

    async def aprepare(
        self, history: Sequence[M], request: Sequence[M] | None = None, *, goes_back: bool = False
    ) -> Ready[M]:
        """:meth:`prepare`, for an async hook of the framework."""
        if not isinstance(self.session, AsyncSession):
            return await asyncio.to_thread(self.prepare, history, request, goes_back=goes_back)
        async with self._alock:
            await self._aobserve(history, goes_back)
            return self._ready(await self.session.prepare(), history, request)

    def recover(self, error: Exception, refused: Ready[M]) -> Ready[M]:
        """A smaller request, after the provider *refused* a request as too large.

        Raises:
            Exception: *error* itself, if it is not an overflow, or after the last retry.
        """
        with self._lock:
            return self._ready(sync_session(self.session).recover(error), *refused.lists)

    async def arecover(self, error: Exception, refused: Ready[M]) -> Ready[M]:
        """:meth:`recover`, for an async hook of the framework."""
        if not isinstance(self.session, AsyncSession):
            return await asyncio.to_thread(self.recover, error, refused)
        async with self._alock:
            return self._ready(await self.session.recover(error), *refused.lists)

    def _observe(self, history: Sequence[M], goes_back: bool = False) -> None:
        session = sync_session(self.session)
        if history:
            raws, usage = self._read(history, goes_back)
            session.observe(raws, usage=usage)

    async def _aobserve(self, history: Sequence[M], goes_back: bool = False) -> None:
        if history and isinstance(self.session, AsyncSession):
            raws, usage = self._read(history, goes_back)
            await self.session.observe(raws, usage=usage)

    def _read(self, history: Sequence[M], goes_back: bool) -> tuple[list[HostMessage], Any]:
        """*history* in the session's form, and the usage of its newest answer.

        A list without an answer of the model has no history: the host begins anew.
        """
        raws, usage = self._list.read(history)
        begins = (
            self._begins
            and not goes_back
            and not any(raw.get("role", "assistant") == "assistant" for raw in raws)
        )
        if begins and self.session._core.unrelated == "first":
            self.session.new_run()
        return raws, usage

    def _ready(self, prepared: Prepared, stored: Sequence[M], request: Sequence[M] | None) -> Ready[M]:
        is_new, self._last = prepared.outcomes is not self._last, prepared.outcomes
        usage = [record for outcome in prepared.outcomes if is_new for record in outcome.usage]
        if request is None or is_same(stored, request):
            messages = self._list.write(prepared.messages)
        else:
            messages = edited(stored, request, prepared.messages, self._list)
        return Ready(messages, prepared, tuple(usage), (stored, request), self._list.write)


class RawDoor:
    """A session for a list of messages in a dialect that it reads itself.

    Args:
        session: The session; sync calls need a ``Session``.
    """

    def __init__(self, session: AnySession) -> None:
        check_bounded(session)
        self.session = session
        self._usage: Any = None  # the provider's count for the newest answer, until the session gets it
        self._lock, self._alock = threading.Lock(), asyncio.Lock()

    def prepare(self, messages: Sequence[RawMessage]) -> list[Any]:
        """Gives *messages* to the session, and returns the messages to send instead."""
        session = sync_session(self.session)
        with self._lock:
            session.observe(messages, usage=self._taken())
            return session.prepare().messages

    async def aprepare(self, messages: Sequence[RawMessage]) -> list[Any]:
        """:meth:`prepare`, awaited."""
        if not isinstance(self.session, AsyncSession):
            return await asyncio.to_thread(self.prepare, messages)
        async with self._alock:
            await self.session.observe(messages, usage=self._taken())
            return (await self.session.prepare()).messages

    def recover(self, error: Exception) -> list[Any]:
        """The messages of a smaller request, after the provider refused a request as too large.

        Raises:
            Exception: *error* itself, if it is not an overflow, or after the last retry.
        """
        with self._lock:
            return sync_session(self.session).recover(error).messages

    async def arecover(self, error: Exception) -> list[Any]:
        """:meth:`recover`, awaited."""
        if not isinstance(self.session, AsyncSession):
            return await asyncio.to_thread(self.recover, error)
        async with self._alock:
            return (await self.session.recover(error)).messages

    def heard(self, usage: Any, answer: Sequence[RawMessage]) -> None:
        """Keeps the provider's count for an *answer*, for the next call.

        A host that sends only what is new does not send the answer back, so the session gets it here.
        """
        self._usage = usage
        if answer and self.logs_answers:
            sync_session(self.session).append(*answer, usage=self._taken())

    async def aheard(self, usage: Any, answer: Sequence[RawMessage]) -> None:
        """:meth:`heard`, awaited."""
        self._usage = usage
        if answer and self.logs_answers:
            await called(self.session, self.session.append, *answer, usage=self._taken())

    @property
    def logs_answers(self) -> bool:
        """Whether the host sends only what is new."""
        return self.session._core.unrelated == "always"

    def _taken(self) -> Any:
        usage, self._usage = self._usage, None
        return usage


async def acalled_tool(tool: Tool, arguments: Any) -> str:
    """The answer of *tool*, in a thread: a search may wait for a disk or a server, and the loop may not."""
    return await asyncio.to_thread(tool.call, arguments)


def check_bounded(session: AnySession) -> None:
    """Logs a warning if the model's window is unknown: then requests may become too large."""
    if session.context_window is None:
        _log.warning(
            "session %r has no context_window, so nothing bounds its requests: open it with a number, or "
            'with context_window="auto" and agent_model="..."',
            session.session_id,
            extra={"session_id": session.session_id},
        )


async def called(session: AnySession, method: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """The result of a *method* of *session*. A ``Session`` runs in a thread, and does not block the loop."""
    if not isinstance(session, AsyncSession):
        return await asyncio.to_thread(method, *arguments, **options)
    made = method(*arguments, **options)
    return await made if inspect.isawaitable(made) else made


def sync_session(session: AnySession) -> Session:
    """*session*, for a sync hook of the framework.

    Raises:
        ConfigError: it is an ``AsyncSession``.
    """
    if isinstance(session, AsyncSession):
        raise ConfigError(
            f"session {session.session_id!r} is an AsyncSession, and the framework called a synchronous "
            "hook: run the agent with its async methods, or open the session with Session.open",
            field="session",
            value=session,
        )
    return session
