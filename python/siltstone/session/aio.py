"""The asyncio twin of ``Session``: the same state, the same order of steps."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Coroutine, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import partial, wraps
from typing import Any, Concatenate, Final, Generic, NoReturn, ParamSpec, Self, TypeVar, Unpack

from siltstone.compaction.base import Compactor
from siltstone.engine import AsyncAfterCompact, AsyncBeforeCompact, Outcome
from siltstone.errors import ConfigError, SessionBusyError
from siltstone.knowledge import Learned
from siltstone.llm import AsyncModels, Steps, advanced, run_async
from siltstone.session.background import Job
from siltstone.session.boundary import Prepared
from siltstone.session.calls import CLOSING_SECONDS, COMPACTION_TIMEOUT, OWN_POLICY, BaseSession, OwnPolicy
from siltstone.session.concurrency import Call, Claim
from siltstone.session.learning import extraction
from siltstone.session.opening import Opened, Options, Path, open_session, shows_options
from siltstone.session.recovery import Answer, asked
from siltstone.session.session import Session
from siltstone.session.transfer import fitted, forked

THREADS: Final = 32  #: the maximum number of worker threads, shared by all sessions of the process

_log = logging.getLogger("siltstone")

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")
S = TypeVar("S", bound="AsyncSession")


def _twin(
    method: Callable[Concatenate[Any, P], T],
    how: Callable[[Any, Callable[[], Any]], Awaitable[Any]] = lambda session, work: session._step(work),
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """A method of :class:`Session`, with its arguments and its docstring, for asyncio.

    It runs in a thread, in its turn among the steps of the session, unless *how* runs it in another way.
    """

    @wraps(method)
    async def twin(session: Any, /, *args: P.args, **options: P.kwargs) -> T:
        answer: T = await how(session, partial(method, session, *args, **options))
        return answer

    twin.__qualname__ = f"AsyncSession.{method.__name__}"
    return twin


def _aside(_session: Any, work: Callable[[], Any]) -> Awaitable[Any]:
    """Runs *work*, which changes nothing, in a thread. It waits for no other step."""
    return in_thread(work)


def _driven(_session: Any, work: Callable[[], Any]) -> Awaitable[Any]:
    """Runs *work* here. It ends with a call of ``_run`` or ``_once``, which is awaited."""
    answer: Awaitable[Any] = work()
    return answer


class AsyncSession(BaseSession):
    """One conversation, from asyncio. See :class:`siltstone.Session` for what each method does.

    The calls of an event loop are served in the order in which they were made; calls of several loops in any
    order. Their steps run in worker threads, async models on the event loop. Other calls go on while a model
    writes. A cancelled task leaves the current step either undone or whole.
    """

    def __init__(self, opened: Opened) -> None:
        """Use :meth:`open`."""
        super().__init__(opened)
        self._turns: dict[asyncio.AbstractEventLoop, asyncio.Lock] = {}

    @classmethod
    @shows_options
    def open(
        cls,
        path: Path | None,
        session_id: str,
        **options: Unpack[Options[AsyncModels, AsyncBeforeCompact, AsyncAfterCompact]],
    ) -> Opening[Self]:
        """Opens the session *session_id*. Arguments and errors are those of :meth:`Session.open`.

        *model* and the two hooks may be async callables. A sync model runs in a thread of its own. Await
        the answer, or use it as a context manager::

            session = await AsyncSession.open("agent-data", "chat-1", context_window=32_000)
            async with AsyncSession.open("agent-data", "chat-2", context_window=32_000) as session:
                ...
        """
        return Opening(lambda: cls(open_session(path, session_id, options, is_async=True)))

    append = _twin(Session.append, _driven)
    observe = _twin(Session.observe)
    recall = _twin(Session.recall, _aside)
    plan = _twin(Session.plan)
    compact = _twin(Session.compact, _driven)
    memory_status = _twin(Session.memory_status)
    checkpoints = _twin(Session.checkpoints)
    compact_memories = _twin(Session.compact_memories, _driven)
    resummarize = _twin(Session.resummarize, _driven)
    recover = _twin(Session.recover, _driven)
    offload = _twin(Session.offload, _driven)
    reload = _twin(Session.reload)
    pin = _twin(Session.pin)
    unpin = _twin(Session.unpin)
    search = _twin(Session.search, _aside)
    forget = _twin(Session.forget, _driven)
    facts = _twin(Session.facts, _aside)
    standing = _twin(Session.standing, _aside)
    fact_history = _twin(Session.fact_history)
    save = _twin(Session.save)
    retract = _twin(Session.retract)
    restore = _twin(Session.restore)
    record_denial = _twin(Session.record_denial, _driven)
    learn = _twin(Session.learn, _driven)
    log = _twin(Session.log)
    compactions = _twin(Session.compactions)
    recalls = _twin(Session.recalls)
    view_at = _twin(Session.view_at)
    undo_compaction = _twin(Session.undo_compaction, _driven)
    expand = _twin(Session.expand)

    async def prepare(
        self,
        *,
        policy: Compactor | OwnPolicy | None = OWN_POLICY,
        request_bytes: int | None = None,
        recall: bool = True,
    ) -> Prepared:
        """The messages to send to the model now. Call it before every model call."""
        try:
            with self._core.one_look():
                answer = await self._run(self._calls.boundary(policy, request_bytes, recall))
        finally:
            self._begin_driver()
        self._begin_reader()
        return answer

    async def wait_for_compaction(self, timeout: float | None = None) -> bool:
        """Waits until the background compaction has its summary. The next ``prepare`` shows the summary."""
        self._core.origin.check()
        if self._driver is not None:
            await _has_ended(self._driver[1], timeout)
        return not self._core.background.is_running

    async def fork(self, session_id: str, *, prompt: str = "") -> Self:
        """A new session that begins with a copy of this one."""
        fork = type(self)(await self._step(lambda: forked(self._opened, session_id, prompt, is_async=True)))
        try:
            await fork._run(fitted(fork._opened, prompt))
            if prompt:
                await fork.append({"role": "user", "content": prompt})
        except BaseException:
            await fork.close()
            raise
        return fork

    async def ask(self, call: Callable[[list[Any]], Awaitable[R]]) -> Answer[R]:
        """Prepares a request and awaits ``call(messages)``; after an overflow, sends a smaller request."""
        return await asked(self, call, waits=True)

    async def close(self) -> None:
        """Writes pending changes, and closes the store if the session opened it."""
        if not self._core.origin.is_here:
            return
        if self._driver is not None:
            self._driver[1].cancel()
        await self._step(self._calls.end_background)
        reader = self._reader
        is_inside = self._core.knowing.slot.is_own  # the reader would wait for itself
        if reader is not None and not is_inside and not await _has_ended(reader, CLOSING_SECONDS):
            reader.cancel()
            _log.warning("facts of session %r are read when it is next opened", self.session_id)
        await self._step(partial(self._core.close, self._owns_store))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    def _beside(self, work: Callable[[], Coroutine[Any, Any, T]]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(work(), asyncio.get_running_loop())

    async def _drive(self, job: Job) -> None:
        await run_async(job.steps(), self._model, in_thread)

    async def _read(self, timeout: float) -> Learned:
        model = self._calls.extraction_model(self._model)
        if model is None:
            return Learned()
        flow, slot = extraction(self._core), self._core.knowing.slot
        claim = Claim(flow)
        try:
            if not await slot.take_async(claim, timeout):
                return Learned()
            return await run_async(flow, model, in_thread)  # it waits for no call, and no call for it
        finally:
            flow.close()
            slot.wake()

    async def _at_once(self, flow: Steps[Outcome], *, reads: bool = False) -> Outcome:
        try:
            outcome = await self._run(flow, timeout=0)
        except SessionBusyError:
            return await self._step(self._calls.in_flight)
        if reads:
            self._begin_reader()
        return outcome

    async def _once(self, what: str, key: tuple[object, ...], work: Callable[[Call], Awaitable[T]]) -> T:
        with self._core.calls.begin(what, key) as call:
            return await work(call)

    async def _run(self, flow: Steps[T], timeout: float | None = None) -> T:
        """Drives *flow* when no other call of this session may compact."""
        self._core.origin.check()  # before any lock
        seconds = COMPACTION_TIMEOUT if timeout is None else timeout
        slot, claim = self._core.slot, Claim(flow)
        begin = partial(advanced, partial(next, flow))
        try:
            async with self._turn:  # calls begin in their order
                asked = await in_thread(begin) if slot.enter(claim) else None
            if asked is None:  # an earlier call waits for a model: steps of other calls may run meanwhile
                if not await slot.take_async(claim, seconds):
                    raise self._calls.busy(seconds)
                asked = await self._step(begin)
            return await run_async(flow, self._model, self._step, asked)
        finally:
            flow.close()
            slot.wake()

    async def _step(self, step: Callable[[], T]) -> T:
        """Runs *step* in a thread, after the steps that were asked for before it."""
        self._core.origin.check()  # before any lock
        async with self._turn:
            return await in_thread(step)

    @property
    def _turn(self) -> asyncio.Lock:
        """The lock that keeps the order of the calls of one event loop. It serves first who came first."""
        for loop in list(self._turns):
            if loop.is_closed():
                self._turns.pop(loop, None)
        return self._turns.setdefault(asyncio.get_running_loop(), asyncio.Lock())


async def in_thread(step: Callable[[], T]) -> T:
    """Runs *step* in a worker thread, with the caller's context variables.

    A step cannot be interrupted half way. A cancelled caller waits for its end, so that the store and the
    session's memory agree.
    """
    work = asyncio.get_running_loop().run_in_executor(_threads, copy_context().run, _whole, step)
    cancelled: asyncio.CancelledError | None = None
    while not work.done():
        try:
            await asyncio.wait([work])
        except asyncio.CancelledError as error:
            cancelled = error
    try:
        if cancelled is None:
            return work.result()
        work.exception()  # nobody else asks for it
        raise cancelled
    finally:
        del work, cancelled  # an error keeps this frame


async def _has_ended(work: Future[Any], timeout: float | None) -> bool:
    """Waits up to *timeout* seconds for the end of *work*, which goes on afterwards. Whether it has ended."""
    waiting = asyncio.wrap_future(work)
    waiting.add_done_callback(lambda done: done.cancelled() or done.exception())  # it is told elsewhere
    await asyncio.wait([waiting], timeout=timeout)
    return work.done()


def _whole(step: Callable[[], T]) -> T:
    try:
        return step()
    except StopIteration as error:  # a future takes none, and would never end
        raise RuntimeError("a step raised StopIteration") from error


class _NotAwaitedError(ConfigError, AttributeError):
    pass


class Opening(Generic[S]):
    """A session that is about to be opened: await it, or enter it as a context manager."""

    def __init__(self, opening: Callable[[], S]) -> None:
        self._opening = opening
        self._opened: S | None = None

    def __await__(self) -> Generator[Any, None, S]:
        return self._open().__await__()

    def __getattr__(self, name: str) -> NoReturn:
        raise _NotAwaitedError(
            f"AsyncSession.open(...) must be awaited before {name!r} is used: "
            "session = await AsyncSession.open(...), or async with AsyncSession.open(...) as session"
        )

    def __enter__(self, *_: object) -> NoReturn:
        self.__getattr__("with")

    __exit__ = __enter__

    async def __aenter__(self) -> S:
        self._opened = await self._open()
        return self._opened

    async def __aexit__(self, *exc: object) -> None:
        if self._opened is not None:
            await self._opened.close()

    async def _open(self) -> S:
        return await in_thread(self._opening)


_threads = ThreadPoolExecutor(THREADS, "siltstone")


def _begin_anew() -> None:
    global _threads  # a forked child has none of the threads
    _threads = ThreadPoolExecutor(THREADS, "siltstone")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)
