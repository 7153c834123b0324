"""The asyncio twin of ``Session``: the same state, the same order of steps."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from datetime import datetime
from functools import partial
from types import EllipsisType
from typing import Any, Final, Generic, NoReturn, Self, TypeVar, Unpack

from siltstone.compaction.base import Checkpoint, Compactor, MemoryReport
from siltstone.engine import AsyncAfterCompact, AsyncBeforeCompact, Outcome, Plan
from siltstone.errors import SessionBusyError
from siltstone.knowledge import Correction, Fact, FactType, Learned, MemoryType
from siltstone.llm import AsyncModels, Steps, advanced, run_async
from siltstone.memory.database_log import RecallRecord
from siltstone.memory.entry import ForgetReport, Ranker, SearchFilters, SearchHit, SearchOrder, SearchScope
from siltstone.messages import RawMessage
from siltstone.session import compactions
from siltstone.session.background import Job
from siltstone.session.base import CLOSING_SECONDS, BaseSession
from siltstone.session.boundary import Prepared
from siltstone.session.calls import OFFLOAD_TOKENS, OWN_POLICY, OwnPolicy
from siltstone.session.compactions import CompactionRecord
from siltstone.session.concurrency import Claim
from siltstone.session.forgetting import ForgetCriteria
from siltstone.session.learning import extraction
from siltstone.session.observing import OnConflict, observe
from siltstone.session.opening import Opened, Options, Path, open_session
from siltstone.session.recovery import Answer, again, check_call, ended

__all__ = ["AsyncSession", "in_thread"]

THREADS: Final = 32  #: the maximum number of worker threads, shared by all sessions of the process

_log = logging.getLogger("siltstone")

T = TypeVar("T")
R = TypeVar("R")
S = TypeVar("S", bound="AsyncSession")


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

    async def append(self, message: RawMessage, *more: RawMessage, usage: Any = None) -> range:
        """Adds messages to the end of the history, durably: all, or none. Returns their sequence numbers."""
        raws = (message, *more)
        with self._core.calls.begin("append", (*raws, usage)) as call:
            return await self._step(partial(self._core.append, raws, usage, call))

    async def observe(
        self, history: Sequence[RawMessage], *, usage: Any = None, on_conflict: OnConflict = "branch"
    ) -> int:
        """Brings the session in step with *history*, the message list that the host keeps itself."""
        return await self._step(partial(observe, self._core, history, usage, on_conflict))

    async def prepare(
        self,
        *,
        policy: Compactor | OwnPolicy | None = OWN_POLICY,
        request_bytes: int | None = None,
        recall: bool = True,
    ) -> Prepared:
        """The messages to send to the model now. Call it before every model call."""
        try:
            with self._one_look():
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

    async def recall(self, query: str | Sequence[RawMessage]) -> str:
        """The block that would be recalled for *query*, or for the last user messages of a list."""
        with self._one_look():
            return await in_thread(partial(self._calls.recall, query))  # it changes nothing

    async def plan(self) -> Plan:
        """Tells what :meth:`prepare` would do now. Calls no model and no hook, and changes nothing."""
        return await self._step(self._calls.plan)

    async def compact(self, focus: str | None = None) -> Outcome:
        """Compacts now, whether it is due or not."""
        try:
            outcome = await self._run(self._calls.compaction(focus), timeout=0)
        except SessionBusyError:
            return await self._step(self._calls.in_flight)
        self._begin_reader()
        return outcome

    async def fork(self, session_id: str, *, prompt: str = "") -> Self:
        """A new session that begins with a copy of this one."""
        from siltstone.session.transfer import fitted, forked

        fork = type(self)(await self._step(lambda: forked(self._opened, session_id, prompt, is_async=True)))
        try:
            await fork._run(fitted(fork._opened, prompt))
            if prompt:
                await fork.append({"role": "user", "content": prompt})
        except BaseException:
            await fork.close()
            raise
        return fork

    async def memory_status(self) -> MemoryReport:
        """The state of waterfall memory."""
        return await self._step(self._calls.memory_status)

    async def checkpoints(self) -> list[Checkpoint]:
        """The chronicle of the session: every checkpoint on the way to its view, in order."""
        return await self._step(self._calls.checkpoints)

    async def compact_memories(self) -> Outcome:
        """Runs waterfall summaries now, even below their trigger."""
        self._calls.check_reporter("compact_memories")
        return await self.compact()

    async def resummarize(self, focus: str | None = None) -> Outcome:
        """Writes the summaries in the view again, from the messages that they replace."""
        try:
            return await self._run(self._calls.resummarizing(focus), timeout=0)
        except SessionBusyError:
            return await self._step(self._calls.in_flight)

    async def recover(self, error: Exception) -> Prepared:
        """A smaller request, after the provider refused the prepared one as too large."""
        return await self._run(self._calls.recovery(error))

    async def ask(self, call: Callable[[list[Any]], Awaitable[R]]) -> Answer[R]:
        """Prepares a request and awaits ``call(messages)``; after an overflow, sends a smaller request."""
        check_call(call)
        prepared = await self.prepare()
        messages, retries = prepared.messages, 0
        while True:
            try:
                return Answer(await call(messages), "", retries, prepared)
            except Exception as error:
                try:
                    prepared = await self.recover(error)
                except Exception as refused:
                    if refused is not error:
                        raise
                    return ended(error, retries, self._calls.policy, prepared, self.history())
            messages, retries = again(prepared), retries + 1

    async def offload(self, result: RawMessage, tokens: int = OFFLOAD_TOKENS, *, usage: Any = None) -> range:
        """Appends a message with a large tool result. Requests show only a part of the result."""
        with self._core.calls.begin("offload", (result, tokens, usage)) as call:
            return await self._run(self._calls.offload(call, result, tokens, usage))

    async def reload(self) -> None:
        """Reads the session's current state from the store, after another worker appended to it."""
        await self._step(self._core.reload)

    async def pin(self, seq: int) -> None:
        """Keeps message *seq* of the log, and its group, verbatim in every view. Durable at once."""
        await self._step(partial(self._core.pin, seq, pinned=True))

    async def unpin(self, seq: int) -> None:
        """Takes the pin from message *seq*. A message without a pin is left alone."""
        await self._step(partial(self._core.pin, seq, pinned=False))

    async def search(
        self,
        query: str,
        limit: int = 5,
        *,
        ranker: Ranker | None = None,
        min_score: float = 0.0,
        explain: bool = False,
        scope: SearchScope = "session",
        order: SearchOrder = "score",
        **filters: Unpack[SearchFilters],
    ) -> list[SearchHit]:
        """The discarded messages most like *query*, best first."""
        step = partial(
            self._calls.search,
            query,
            limit,
            ranker=ranker,
            min_score=min_score,
            explain=explain,
            scope=scope,
            order=order,
            **filters,
        )
        return await in_thread(step)  # it changes nothing, and waits for nobody

    async def forget(self, **criteria: Unpack[ForgetCriteria]) -> ForgetReport:
        """Forgets what was said in this session: in the log, the entries, the summaries and the files."""
        return await self._run(self._calls.forgetting(criteria))

    async def facts(
        self,
        query: str | None = None,
        limit: int = 100,
        *,
        as_of: datetime | float | None = None,
        types: Sequence[str] = (),
        topic: str | None = None,
        entity: str | None = None,
        history: bool = False,
    ) -> list[Fact]:
        """The facts that hold, newest first; with a *query*, the facts that match it, best first."""
        filters = {"as_of": as_of, "types": types, "topic": topic, "entity": entity, "everything": history}
        return await in_thread(partial(self._calls.facts, query, limit, **filters))

    async def fact_history(self, fact_id: str) -> list[Fact]:
        """The versions of a fact, each in place of the one before, oldest first; [] for an unknown id."""
        return await self._step(partial(self._calls.fact_history, fact_id))

    async def save(
        self,
        text: str,
        memory_type: MemoryType | FactType = "fact",
        *,
        importance: float | None = None,
        context: str = "",
        source: str = "",
        tags: Sequence[str] = (),
        valid_until: datetime | float | None = None,
    ) -> Fact:
        """Keeps *text* as a fact. Durable when it returns."""
        known = {
            "importance": importance, "context": context, "source": source, "tags": tags,
            "valid_until": valid_until,
        }  # fmt: skip
        return await self._step(partial(self._calls.save, text, memory_type, **known))

    async def retract(self, fact_id: str) -> bool:
        """Takes a fact back. It holds no more, and stays in the history. False if no such fact held."""
        return await self._step(partial(self._calls.retract, fact_id))

    async def record_denial(
        self, tool: str, arguments: str | Mapping[str, Any], reason: str = "", goal: str = ""
    ) -> Correction:
        """Records that the user refused a call of *tool*. Corrections that repeat become rules."""
        with self._core.calls.begin("record_denial", (tool, arguments, reason, goal)) as call:
            step = partial(self._calls.record_denial, call, tool, arguments, reason, goal)
            return await self._step(step)

    async def learn(self) -> Learned:
        """Asks the model now for facts in discarded messages that it has not read yet."""
        self._calls.check_facts()
        return await self._read(self._timeout)

    async def log(self, start: int = 0, end: int | None = None) -> list[dict[str, Any]]:
        """Messages as they were appended, in order, read back from the store."""
        return await self._step(partial(self._core.log, start, end))

    async def compactions(self, *, undone: bool = False) -> list[CompactionRecord]:
        """The compactions and branches that led to the current view, oldest first."""
        return await self._step(partial(compactions.records, self._core, undone=undone))

    async def recalls(self, limit: int = 100) -> list[RecallRecord]:
        """Records of the session's recalls, newest first: the entries in each block, and those left out."""
        from siltstone.session.recalling import recalls  # for who looks back

        return await self._step(partial(recalls, self._core, limit))

    async def view_at(self, n: int) -> list[Any]:
        """The view right after the *n*-th of :meth:`compactions`, without messages appended later."""
        return await self._step(partial(compactions.view_at, self._core, n))

    async def undo_compaction(self, *, compaction_id: int | None = None) -> CompactionRecord | None:
        """Undoes the last compaction or branch, in one transaction. None if there is none.

        With *compaction_id*, it undoes that one alone, as ``Session.undo_compaction``.
        """
        key = () if compaction_id is None else (compaction_id,)
        with self._core.calls.begin("undo", key) as call:
            return await self._run(self._calls.undo(call))

    async def expand(self, summary_id: int) -> list[dict[str, Any]]:
        """The original messages that a compaction's summary replaces."""
        return await self._step(partial(compactions.expand, self._core, summary_id))

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

    async def _read(self, timeout: float | None) -> Learned:
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

    async def _run(self, flow: Steps[T], timeout: float | EllipsisType | None = ...) -> T:
        """Drives *flow* when no other call of this session may compact."""
        self._core.origin.check()  # before any lock
        seconds = self._timeout if isinstance(timeout, EllipsisType) else timeout
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


class Opening(Generic[S]):
    """A session that is about to be opened: await it, or enter it as a context manager."""

    def __init__(self, opening: Callable[[], S]) -> None:
        self._opening = opening
        self._opened: S | None = None

    def __await__(self) -> Generator[Any, None, S]:
        return self._open().__await__()

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(
            f"AsyncSession.open(...) must be awaited before {name!r} is used: "
            "session = await AsyncSession.open(...), or async with AsyncSession.open(...) as session",
            name=name,
            obj=self,
        )

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
