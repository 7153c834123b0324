"""The asyncio twin of ``Session``: the same state, the same order of steps."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Self, TypeVar, Unpack

from siltstone.compaction.base import Checkpoint, Compactor, MemoryReport
from siltstone.errors import SessionBusyError
from siltstone.knowledge import Correction, Fact, FactType, Learned, MemoryType
from siltstone.llm import AsyncModels, Steps
from siltstone.memory.entry import Ranker, SearchFilters, SearchHit, SearchOrder, SearchScope
from siltstone.memory.recalled import RecallRecord
from siltstone.memory.reports import ForgetReport
from siltstone.messages import RawMessage
from siltstone.outcome import AsyncAfterCompact, AsyncBeforeCompact, Outcome, Plan
from siltstone.session import compactions
from siltstone.session.asking import Answer, again, check_call, ended
from siltstone.session.background_task import BackgroundTask
from siltstone.session.base import BaseSession
from siltstone.session.calls import OFFLOAD_TOKENS, OWN_POLICY, OwnPolicy
from siltstone.session.compactions import CompactionRecord
from siltstone.session.learning_task import LearningTask
from siltstone.session.observing import OnConflict, observe
from siltstone.session.opening import Opened, Options, Path, open_session
from siltstone.session.prepared import Prepared
from siltstone.session.repeats import Call

if TYPE_CHECKING:
    from siltstone.session.forgetting import ForgetCriteria
    from siltstone.session.threads import Queue


__all__ = ["AsyncSession"]

T = TypeVar("T")
R = TypeVar("R")
S = TypeVar("S", bound="AsyncSession")


class AsyncSession(BaseSession):
    """One conversation, from asyncio. See :class:`siltstone.Session` for what each method does.

    Calls are served in the order in which they were made. Their steps run in worker threads, async models on
    the event loop. Other calls go on while a model writes. A cancelled task leaves the current step either
    undone or whole. A session belongs to the event loop that first used it.
    """

    def __init__(self, opened: Opened) -> None:
        """Use :meth:`open`."""
        super().__init__(opened)
        self._learning = LearningTask(self._calls, opened.model)
        self._background = BackgroundTask(opened.core.background, opened.model)
        self._made_queue: Queue | None = None

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
        call = self._core.calls.begin("append", (*raws, usage))
        return await _answered(call, self._step(partial(self._core.append_as, call, raws, usage)))

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
            self._background.start()
        self._learning.start()
        return answer

    async def wait_for_compaction(self, timeout: float | None = None) -> bool:
        """Waits until the background compaction has its summary. The next ``prepare`` shows the summary."""
        self._core.origin.check()
        return await self._background.wait(timeout)

    async def recall(self, query: str | Sequence[RawMessage]) -> str:
        """The block that would be recalled for *query*, or for the last user messages of a list."""
        from siltstone.session.threads import in_thread

        with self._one_look():
            return await in_thread(partial(self._calls.recall, query))  # it changes nothing

    async def plan(self) -> Plan:
        """Tells what :meth:`prepare` would do now. Calls no model and no hook, and changes nothing."""
        return await self._step(self._calls.plan)

    async def compact(self, focus: str | None = None) -> Outcome:
        """Compacts now, whether it is due or not."""
        try:
            outcome = await self._run(self._calls.compaction(focus), now=True)
        except SessionBusyError:
            return await self._step(self._calls.in_flight)
        self._learning.start()
        return outcome

    async def fork(self, session_id: str, *, prompt: str = "") -> Self:
        """A new session that begins with a copy of this one."""
        from siltstone.session.forking import fitted, forked

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
            return await self._run(self._calls.resummarizing(focus), now=True)
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
        call = self._core.calls.begin("offload", (result, tokens, usage))
        return await _answered(call, self._run(self._calls.offload(call, result, tokens, usage)))

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
        from siltstone.session.threads import in_thread

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
        from siltstone.session.threads import in_thread

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
        said = tool, arguments, reason, goal
        call = self._core.calls.begin("record_denial", said)
        return await _answered(call, self._step(partial(self._calls.record_denial, call, *said)))

    async def learn(self) -> Learned:
        """Asks the model now for facts in discarded messages that it has not read yet."""
        return await self._learning.run()

    async def log(self, start: int = 0, end: int | None = None) -> list[dict[str, Any]]:
        """Messages as they were appended, in order, read back from the store."""
        return await self._step(partial(self._core.log, start, end))

    async def compactions(self, *, undone: bool = False) -> list[CompactionRecord]:
        """The compactions and branches that led to the current view, oldest first."""
        return await self._step(partial(compactions.records, self._core, undone=undone))

    async def recalls(self, limit: int = 100) -> list[RecallRecord]:
        """Records of the session's recalls, newest first: the entries in each block, and those left out."""
        from siltstone.session.recalls import recalls  # for who looks back

        return await self._step(partial(recalls, self._core, limit))

    async def view_at(self, n: int) -> list[Any]:
        """The view right after the *n*-th of :meth:`compactions`, without messages appended later."""
        return await self._step(partial(compactions.view_at, self._core, n))

    async def undo_compaction(self, *, compaction_id: int | None = None) -> CompactionRecord | None:
        """Undoes the last compaction or branch, in one transaction. None if there is none.

        With *compaction_id*, it undoes that one alone, as ``Session.undo_compaction``.
        """
        call = self._core.calls.begin("undo", () if compaction_id is None else (compaction_id,))
        return await _answered(call, self._run(self._calls.undo(call)))

    async def expand(self, summary_id: int) -> list[dict[str, Any]]:
        """The original messages that a compaction's summary replaces."""
        return await self._step(partial(compactions.expand, self._core, summary_id))

    async def close(self) -> None:
        """Writes pending changes, and closes the store if the session opened it."""
        if not self._core.origin.is_here:
            return
        self._background.end()
        await self._step(self._calls.end_background)
        await self._learning.end()
        await self._step(partial(self._core.close, self._owns_store))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    @property
    def _queue(self) -> Queue:
        if self._made_queue is None:
            from siltstone.session.threads import Queue  # asyncio takes longer to import than all of this

            self._made_queue = Queue()
        return self._made_queue

    async def _step(self, step: Callable[[], T]) -> T:
        self._core.origin.check()  # before any lock
        return await self._queue.step(step)

    async def _run(self, flow: Steps[T], *, now: bool = False) -> T:
        self._core.origin.check()  # before any lock
        seconds = 0.0 if now else self._timeout
        done = await self._queue.flow(flow, self._model, self._core.slot, seconds)
        if done is None:
            raise self._calls.busy(seconds)
        return done.result


async def _answered(call: Call, answer: Awaitable[T]) -> T:
    """Awaits *answer*, and marks *call* as over: a caller that was cancelled may make the same call again."""
    try:
        found = await answer
    except BaseException:
        call.is_over = True
        raise
    call.is_answered = call.is_over = True
    return found


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
        from siltstone.session.threads import in_thread

        return await in_thread(self._opening)
