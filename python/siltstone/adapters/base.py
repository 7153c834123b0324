"""The common part of all adapters: the steps around a model call, sync and async."""

from __future__ import annotations

import asyncio
import logging
import re
import threading
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import AbstractContextManager
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cache
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from siltstone import errors
from siltstone.adapters.host import HostDialect, HostHistory, HostMessage, Shown, answered, are_equal
from siltstone.compaction.rewrite import clamp_result
from siltstone.engine import Outcome
from siltstone.errors import ConfigError
from siltstone.llm import UsageRecord, at_once as at_once, done as done
from siltstone.messages import RawMessage, encode, read_message
from siltstone.session import Prepared, Session
from siltstone.session.aio import AsyncSession
from siltstone.tokens import rule
from siltstone.tools.base import Tool

# What other middleware has changed in one request, applied to the session's view.

M = TypeVar("M")


def edited(
    stored: Sequence[M], request: Sequence[M], view: Sequence[RawMessage], history: HostHistory[M]
) -> list[M]:
    """The messages of *view* with the changes of *request* against *stored*.

    A message that was edited, copied or moved has its new form and its new place, but a result that the view
    shows in a shorter form stays short. A message that was left out stays out, and so does a summary of
    nothing but such messages. A message that was added stands after the same message as in *request*.

    Args:
        stored: The list that the host keeps, and that the session got.
        request: The list of this request, after the changes of others.
        view: The session's view of *stored*.
        history: The history of the host, which was given *stored* last.
    """
    dialect = history.dialect
    if _common(dialect.said(stored), dialect.said(request)) == len(stored) == len(request):
        twins = {id(one): other for one, other in zip(stored, request, strict=True)}
        return [twins.get(id(message), message) for message in history.write(view)]
    shown_now = history.shown(view)
    origins = _origins(stored, request, dialect)
    places = {id(message): place for place, message in enumerate(stored)}
    of_view = [None if each.origin is None else places.get(id(each.origin.live)) for each in shown_now]
    in_request = {origin.place: at for at, origin in enumerate(origins) if origin and not origin.is_repeated}
    at_place: dict[int, list[Shown]] = {}
    for shown, place in zip(shown_now, of_view, strict=True):
        if place is not None:
            at_place.setdefault(place, []).append(shown)

    def form(shown: Shown, at: int) -> M:
        return _form(shown, stored[_place(origins[at])], request[at], dialect)

    added: dict[int, list[M]] = {}  # by the place of the stored message before
    before = -1
    for at, (message, origin) in enumerate(zip(request, origins, strict=True)):
        if origin is None:
            added.setdefault(before, []).append(message)
        elif not origin.is_moved:
            before = origin.place
        elif origin.place in at_place:
            added.setdefault(before, []).extend(form(shown, at) for shown in at_place[origin.place])
        elif origin.is_repeated:
            added.setdefault(before, []).append(message)
    moved = {origin.place for origin in origins if origin and origin.is_moved and not origin.is_repeated}
    gone = set(range(len(stored))) - at_place.keys()
    is_told = not gone or not gone.isdisjoint(in_request)  # whether the request has what a summary tells of
    result = list(added.pop(-1, ()))
    for shown, place in zip(shown_now, of_view, strict=True):
        if place is None:
            result += [shown.message] if is_told or not shown.is_summary else []
            continue
        for earlier in sorted(each for each in added if each < place):
            result += added.pop(earlier)  # the messages before them have left the view
        if place in in_request and place not in moved:
            result.append(form(shown, in_request[place]))
        if shown is at_place[place][-1]:
            result += added.pop(place, ())
    return result + [message for place in sorted(added) for message in added[place]]


def new_items(stored: Sequence[M], request: Sequence[M], dialect: HostDialect[M]) -> list[M]:
    """The end of *request* after the last of the *stored* messages, in their order, that it has."""
    end, known = len(request), len(stored)
    if are_equal(dialect.said(stored), dialect.said(request[:known])):
        return list(request[known:])
    origins = _origins(stored, request, dialect)
    while end and ((origin := origins[end - 1]) is None or origin.is_moved):
        end -= 1
    return list(request[end:])


class _Origin(NamedTuple):
    """The stored message of which a message of the request is a form.

    Attributes:
        place: Its place among the stored messages.
        is_moved: Whether the order of the request is another one.
        is_repeated: Whether it is in the request a second time.
    """

    place: int
    is_moved: bool = False
    is_repeated: bool = False


def _place(origin: _Origin | None) -> int:
    return -1 if origin is None else origin.place


def _origins(stored: Sequence[M], request: Sequence[M], dialect: HostDialect[M]) -> list[_Origin | None]:
    """For each message of *request* the stored message that it is, was copied from, or is an edit of."""
    found: list[_Origin | None] = [None] * len(request)
    start = _common(says := dialect.said(stored), said := dialect.said(request))
    end = _common(says[start:][::-1], said[start:][::-1])
    for at in range(start):
        found[at] = _Origin(at)
    for at in range(1, end + 1):
        found[-at] = _Origin(len(stored) - at)

    @cache
    def read(side: int, at: int) -> Sequence[dict[str, Any]]:
        return dialect.read((stored, request)[side][at])

    def name(side: int, at: int) -> Any:
        return dialect.identity((stored, request)[side][at]) or "".join(map(encode, read(side, at)))

    def shape(side: int, at: int) -> Any:
        return tuple((each.get("type"), each.get("role"), answered(each)) for each in read(side, at))

    ours, theirs = range(start, len(stored) - end), range(start, len(request) - end)
    left, new = list[int](), list[int]()
    for is_alike, mine, others in _runs(ours, theirs, name):
        if is_alike:
            for place, at in zip(mine, others, strict=True):
                found[at] = _Origin(place)
            continue
        for is_edited, before, after in _runs(mine, others, shape):
            if is_edited:
                for place, at in zip(before, after, strict=True):
                    found[at] = _Origin(place)
            else:
                left += before
                new += after
    if new:
        lost = {name(0, place): place for place in reversed(left)}
        known = {name(0, place): place for place in range(len(stored))}
        for at in new:
            key = name(1, at)
            if key in lost:
                found[at] = _Origin(lost.pop(key), is_moved=True)
            elif key in known:
                found[at] = _Origin(known[key], is_moved=True, is_repeated=True)
    return found


def _common(one: Sequence[object], other: Sequence[object]) -> int:
    """The number of equal values at the beginning of both."""
    if are_equal(one[: len(other)], other[: len(one)]):
        return min(len(one), len(other))
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, pair in pairs if not are_equal(*pair)), min(len(one), len(other)))


def _runs(
    ours: Sequence[int], theirs: Sequence[int], key: Callable[[int, int], Any]
) -> Iterator[tuple[bool, Sequence[int], Sequence[int]]]:
    """Runs of places, in order: those with equal keys, and those without."""
    one, other = [key(0, place) for place in ours], [key(1, at) for at in theirs]
    for kind, a, b, c, d in SequenceMatcher(None, one, other, autojunk=False).get_opcodes():
        yield kind == "equal", ours[a:b], theirs[c:d]


def _form(shown: Shown, stored: M, request: M, dialect: HostDialect[M]) -> M:
    """The message of the request that *stored* has become, as far as the view shows it."""
    if shown.pieces is None and not shown.is_cut:
        return request
    before, after = dialect.read(stored), dialect.read(request)
    message: M = shown.message
    if list(before) == list(after) or len(before) != len(after):
        return message
    if not shown.is_cut:
        return dialect.part(request, shown.pieces or ())
    place = 0 if shown.pieces is None else shown.pieces[0]
    cut = dialect.read(message)
    tokens = rule("blocks").count([read_message(each, 0) for each in cut])
    smaller = clamp_result(read_message(after[place], 0), tokens, rule("blocks"))
    if smaller is not None and isinstance(smaller.raw, Mapping):
        return dialect.write(smaller.raw, "substitute", request if shown.pieces is None else None)
    if rule("blocks").count([read_message(after[place], 0)]) > tokens:
        return message
    return request if shown.pieces is None else dialect.part(request, shown.pieces)


_log = logging.getLogger("siltstone")

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


def _name_of(model: Any) -> object:
    """The name of *model*: a text, or an object of an SDK or a framework, perhaps in a wrapper."""
    for each in (model, *(getattr(model, key, None) for key in ("bound", "model", "_model"))):
        named = [getattr(each, key, None) for key in ("model_name", "model_id", "model")]
        if found := [each for each in (each, *named) if isinstance(each, str)]:
            return found[0]
    return None


class RequestRefusedError(Exception):
    """The error of a provider that refused a request, for ``recover``. It never leaves an adapter."""


_BEGINNING = re.compile(
    r"response\.(?:created|queued|in_progress|output_item\.added|content_part\.added)|keepalive|ping|message_start|"
    r"content_block_start"
)


class Held:
    """The events of a stream, which are kept back until content has come.

    Until then a stream that ends with a refusal is begun again, with a smaller request. So the reader gets
    the events of one stream alone.
    """

    def __init__(self) -> None:
        self._events: list[Any] = []
        self.has_begun = False

    def take(self, event: Any) -> list[Any]:
        """The events that the reader may get now, after *event*.

        Raises:
            RequestRefusedError: *event* says that the request was refused.
        """
        self._events.append(event)
        kind = getattr(event, "type", None)
        if not self.has_begun and kind in ("response.failed", "error"):
            error = getattr(getattr(event, "response", event), "error", None) or event
            said = [getattr(error, "code", ""), getattr(error, "message", error)]
            raise RequestRefusedError(" ".join(map(str, said)))
        self.has_begun = self.has_begun or _has_content(event, str(kind))
        return self.rest() if self.has_begun else []

    def rest(self) -> list[Any]:
        """The events that were kept back."""
        events, self._events = self._events, []
        return events


def _has_content(event: Any, kind: str) -> bool:
    """Whether *event* of a stream is more than the beginning of an answer."""
    choices = getattr(event, "choices", None)
    if isinstance(choices, list):
        deltas = [dict(getattr(each, "delta", None) or ()) for each in choices]
        return any(value for delta in deltas for key, value in delta.items() if key != "role")
    if isinstance(contents := getattr(event, "contents", None), list):  # of Agent Framework
        return bool(contents)
    if isinstance(event, Mapping):  # of Strands
        return "contentBlockDelta" in event.get("event", event) or "stop" in event
    return _BEGINNING.fullmatch(kind) is None


async def begun_again(
    stream: Any, send: Callable[[], Any], recover: Callable[[Exception], Coroutine[Any, Any, Any]]
) -> AsyncIterator[Any]:
    """The events of *stream*, or of the one that *send* gives after *recover* made its request smaller.

    *recover* raises its error if it cannot help.
    """
    while True:
        held = Held()
        try:
            async for event in stream if isinstance(stream, AsyncIterable) else _each(stream):
                for each in held.take(event):
                    yield each
            break
        except Exception as error:
            if held.has_begun:
                raise
            try:
                await recover(error)
            except RequestRefusedError:  # the reader gets the refusal as it came
                break
            stream = await done(send())
    for each in held.rest():
        yield each


async def _each(events: Iterable[Any]) -> AsyncIterator[Any]:
    for event in events:
        yield event


def each_at_once(events: AsyncIterator[Any]) -> Iterator[Any]:
    """*events* of which none waits, for a sync client."""
    while True:
        try:
            yield at_once(anext(events))
        except StopAsyncIteration:
            return


class _OneByOne:
    """A session whose steps are made one by one, so that each of two runs gets the view of its own list."""

    def __init__(self, session: AnySession) -> None:
        check_bounded(session)
        self.session = session
        self.model: Any = None  # that gets the next request
        self._lock, self._alock = threading.Lock(), asyncio.Lock()

    def _run(self, step: Callable[..., Coroutine[Any, Any, T]], waits: bool, *arguments: Any) -> Any:
        """The result of *step*; with *waits* it is awaited.

        A sync hook needs a ``Session``, with which a step waits for nothing.
        """
        return self._awaited(step, *arguments) if waits else self._alone(step, *arguments)

    def _alone(self, step: Callable[..., Coroutine[Any, Any, T]], *arguments: Any) -> Any:
        sync_session(self.session)
        with self._lock:
            return at_once(step(*arguments))

    async def _awaited(self, step: Callable[..., Coroutine[Any, Any, T]], *arguments: Any) -> Any:
        """The result of *step*. A ``Session`` runs in a thread, beside the loop."""
        if not isinstance(self.session, AsyncSession):
            return await asyncio.to_thread(self._alone, step, *arguments)
        async with self._alock:
            return await step(*arguments)

    def _use_model(self) -> None:
        self.session._core.use_model(_name_of(self.model))


class Door(_OneByOne, Generic[M]):
    """A session for the list of one host. It gives the list to the session, and returns the view.

    The caller of a method awaits its result if the hook of the framework *waits*.

    Args:
        session: The session. A sync hook of the framework needs a ``Session``; an async hook takes either.
        dialect: The reader and writer of the host's messages.
        begins: Whether a list without history is that of a host that begins anew. It is not, if the host
            reads its list from the session.
        tools: Whether the model gets the session's tools.
    """

    def __init__(
        self, session: AnySession, dialect: HostDialect[M], *, begins: bool = True, tools: bool = True
    ) -> None:
        super().__init__(session)
        if not tools:
            session.withhold_tools()
        self._begins, self.dialect = begins, dialect
        self._list = HostHistory(dialect)
        self._last: tuple[Outcome, ...] = ()

    def observe(self, history: Sequence[M], *, waits: bool = False) -> Any:
        """Gives the host's whole *history* to the session."""
        return self._run(self._observe, waits, history)

    def prepare(
        self,
        history: Sequence[M],
        request: Sequence[M] | None = None,
        *,
        goes_back: bool = False,
        waits: bool = False,
    ) -> Any:
        """Gives *history* to the session, and returns what is :class:`Ready` to send instead.

        *request* is the host's list in this request, if others have changed it. Their changes stay in the
        request: the session does not get them, or else every call would look like a rewritten past.
        *goes_back* tells that a list without answers is an earlier state of the conversation, and not the
        list of a host that begins anew.
        """
        return self._run(self._prepare, waits, history, request, goes_back)

    def recover(self, error: Exception, refused: Ready[M], *, waits: bool = False) -> Any:
        """A smaller request, after the provider *refused* a request as too large.

        Raises:
            Exception: *error* itself, if it is not an overflow, or after the last retry.
        """
        return self._run(self._recover, waits, error, refused)

    async def _observe(self, history: Sequence[M], goes_back: bool = False) -> None:
        if history:
            raws, usage = self._read(history, goes_back)
            await done(self.session.observe(raws, usage=usage))

    async def _prepare(self, history: Sequence[M], request: Sequence[M] | None, goes_back: bool) -> Ready[M]:
        await self._observe(history, goes_back)
        self._use_model()
        return self._ready(await done(self.session.prepare()), history, request)

    async def _recover(self, error: Exception, refused: Ready[M]) -> Ready[M]:
        return self._ready(await done(self.session.recover(error)), *refused.lists)

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
        if request is None or HostHistory.is_same(stored, request):
            messages = self._list.write(prepared.messages)
        else:
            messages = edited(stored, request, prepared.messages, self._list)
        return Ready(messages, prepared, tuple(usage), (stored, request), self._list.write)


class RawDoor(_OneByOne):
    """A session for a list of messages in a dialect that it reads itself.

    Args:
        session: The session; sync calls need a ``Session``.
    """

    def __init__(self, session: AnySession) -> None:
        super().__init__(session)
        self._usage: Any = None  # the provider's count for the newest answer, until the session gets it

    def prepare(self, messages: Sequence[RawMessage], *, waits: bool) -> Any:
        """Gives *messages* to the session, and returns the messages to send instead."""
        return self._run(self._prepare, waits, messages)

    def recover(self, error: Exception, *, waits: bool) -> Any:
        """The messages of a smaller request, after the provider refused a request as too large.

        Raises:
            Exception: *error* itself, if it is not an overflow, or after the last retry.
        """
        return self._run(self._recover, waits, error)

    async def _prepare(self, messages: Sequence[RawMessage]) -> list[Any]:
        await done(self.session.observe(messages, usage=self._taken()))
        self._use_model()
        prepared: Prepared = await done(self.session.prepare())
        return prepared.messages

    async def _recover(self, error: Exception) -> list[Any]:
        prepared: Prepared = await done(self.session.recover(error))
        return prepared.messages

    async def heard(self, usage: Any, answer: Sequence[RawMessage], *, waits: bool) -> None:
        """Keeps the provider's count for an *answer*, for the next call.

        A host that sends only what is new does not send the answer back, so the session gets it here.
        """
        self._usage = usage
        if answer and self.session._core.unrelated == "always":
            if waits:
                await called(self.session, self.session.append, *answer, usage=self._taken())
            else:
                sync_session(self.session).append(*answer, usage=self._taken())

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
    return await done(method(*arguments, **options))


def sync_session(session: AnySession) -> Session:
    """*session*, for a sync hook of the framework.

    Raises:
        ConfigError: it is an ``AsyncSession``.
    """
    if isinstance(session, AsyncSession):
        raise ConfigError(
            f"session {session.session_id!r} is an AsyncSession, and the framework called a synchronous "
            "hook: run the agent with its async methods, or open the session with Session.open",
            "session",
            session,
        )
    return session
