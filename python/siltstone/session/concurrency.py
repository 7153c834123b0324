"""What keeps calls apart: of processes, of threads and tasks, and of one call that is made twice.

A session belongs to the process that opened it (:class:`Origin`). Calls that may compact stand in a line
(:class:`Slot`). A call that was interrupted and is repeated takes effect once (:class:`Call`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from threading import Lock, RLock
from types import GeneratorType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar
from weakref import ref

from siltstone.errors import ModelError, StoreConflictError, StoreForkedError
from siltstone.hooks import HookCall, HookError
from siltstone.llm import CompletionRequest, Landing, Steps
from siltstone.memory.log import SessionVersion
from siltstone.messages import Message, RawMessage

if TYPE_CHECKING:
    from siltstone.engine import Outcome
    from siltstone.events import CompactionFailed, Event

T = TypeVar("T")


POLL_SECONDS: Final = 0.02  #: seconds after which a waiting call notices that the holder died silently
TRIES: Final = 12  #: attempts of a write, if each time another worker writes between its read and its write
MOST_CALLS: Final = 64  #: remembered calls without an answer; beyond that the oldest is dropped

#: The claims of the calls around the current code. Threads and tasks that a call starts inherit them.
_ACTIVE: Final[ContextVar[tuple[Claim, ...]]] = ContextVar("siltstone-session-calls", default=())


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


class Claim:
    """A call that wants the slot, known by its flow.

    A claim dies with its flow. So an interrupt at any line, even in the clean-up, leaves the slot free.
    """

    __slots__ = ("__weakref__", "_flow", "bell")

    def __init__(self, flow: Generator[Any, Any, Any]) -> None:
        self._flow = ref(flow)
        self.bell = Lock()  # locked, except after a ring
        self.bell.acquire()
        around = _ACTIVE.get()
        _ACTIVE.set((*(claim for claim in around if claim.is_alive), self) if around else (self,))

    @property
    def is_alive(self) -> bool:
        """Whether its flow can still go on."""
        flow = self._flow()
        return isinstance(flow, GeneratorType) and flow.gi_frame is not None


class Slot:
    """A lock for one claim at a time, in the order in which the claims came. A dead claim does not count."""

    __slots__ = ("_line", "_lock")

    def __init__(self) -> None:
        self._lock = RLock()  # of the interpreter: an interrupt at a bad moment can leave a Condition locked
        self._line: list[Claim] = []

    @property
    def holder(self) -> Claim | None:
        """The claim that has the slot: the first of the line that is alive."""
        return next((claim for claim in self._line if claim.is_alive), None)

    @property
    def is_held(self) -> bool:
        """Whether a call that may compact is under way."""
        return self.holder is not None

    @property
    def is_own(self) -> bool:
        """Whether the current code runs inside the call that has the slot."""
        holder = self.holder
        return holder is not None and holder in _ACTIVE.get()

    def enter(self, claim: Claim) -> bool:
        """Puts *claim* at the end of the line, once. Returns whether it has the slot; it never waits."""
        with self._lock:
            line = [each for each in self._line if each.is_alive]
            self._line = line if claim in line else [*line, claim]
            return self._line[0] is claim

    def take(self, claim: Claim, timeout: float | None = None) -> bool:
        """Takes the slot, after waiting for the claims before it. False after *timeout* seconds.

        A call from inside the holder (a model or a hook that calls its own session) gets False at once,
        because it would wait for itself.
        """
        until = None if timeout is None else time.monotonic() + timeout
        while not self.enter(claim):
            if (left := self._left(until)) <= 0:
                return False
            claim.bell.acquire(timeout=left)
        return True

    async def take_async(self, claim: Claim, timeout: float | None = None) -> bool:
        """Like :meth:`take`, for an event loop."""
        import asyncio  # takes longer to import than a store to open

        until = None if timeout is None else time.monotonic() + timeout
        while not self.enter(claim):
            if (left := self._left(until)) <= 0:
                return False
            await asyncio.sleep(left)
        return True

    def wake(self) -> None:
        """Wakes the thread that has the slot now. Without this, it notices that after ``POLL_SECONDS``."""
        holder = self.holder
        if holder is not None:
            try:
                holder.bell.release()
            except RuntimeError:  # it was rung already
                return

    def _left(self, until: float | None) -> float:
        """The seconds until the next look at the line; 0 or less if there is none."""
        if self.is_own:
            return 0
        return POLL_SECONDS if until is None else min(POLL_SECONDS, until - time.monotonic())


@dataclass(slots=True)
class Write:
    """A write under way: its id, and the messages it appends."""

    write_id: int
    items: Sequence[Any] = ()


def retried(step: Callable[[], T]) -> T:
    """Runs *step*, which reads the session and then writes it. Runs it again if another worker was faster.

    The caller holds the session's lock. A conflict other than a changed version is raised.
    """
    for _ in range(TRIES - 1):
        try:
            return step()
        except StoreConflictError as error:
            if not isinstance(vars(error).get("found"), SessionVersion):
                raise
    return step()


@dataclass(slots=True, eq=False)
class Call:
    """A call that must take effect only once, even if the caller repeats it after an interrupt.

    The call is made in a ``with`` block of this object, which ends with the answer in hand.

    Attributes:
        what: ``append``, ``offload``, ``undo`` or ``record_denial``.
        key: Its arguments.
        owner: The thread of a sync call; None for a call of an async session.
        write_id: The id of its write; 0 before the write.
        answer: Its answer, from the beginning of its write.
        is_answered: Whether the caller has the answer.
        is_over: Whether it has ended. Then another task may repeat it.
    """

    what: str
    key: tuple[object, ...]
    owner: int | None = None
    write_id: int = 0
    answer: Any = None
    is_answered: bool = False
    is_over: bool = False

    def __enter__(self) -> Self:
        self.is_over = False
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.is_over = True
        self.is_answered = kind is None


class Calls:
    """The last call of each thread, and calls of tasks that have no answer yet.

    There is no lock, since an interrupt could leave it held. Each step is one atomic operation on a dict.
    """

    def __init__(self) -> None:
        self._calls: dict[int, Call] = {}

    def begin(self, what: str, key: tuple[object, ...], owner: int | None = None) -> Call:
        """A new call, or an earlier equal call whose answer never reached the caller.

        Args:
            what: See :class:`Call`.
            key: Its arguments.
            owner: The thread of a sync call. The thread's last call has ended, since the thread makes another
                one. Without an owner only a call that is marked as over counts as repeated.
        """
        for name, before in list(self._calls.items()):
            if not (before.is_over if owner is None else before.owner == owner):
                continue
            if not before.is_answered and before.what == what and _same(before.key, key):
                return before
            self._calls.pop(name, None)
        call = Call(what, key, owner)
        self._calls[id(call) if owner is None else owner] = call
        if len(self._calls) > MOST_CALLS:
            for name in list(self._calls)[:-MOST_CALLS]:
                self._calls.pop(name, None)
        return call


def _same(one: tuple[object, ...], other: tuple[object, ...]) -> bool:
    """Whether two calls have the same arguments: the same objects, or equal ones."""
    return len(one) == len(other) and all(a is b or a == b for a, b in zip(one, other, strict=True))


# A compaction in the background: the model writes while the conversation goes on.

MOST_UNPLACED = 8  #: summaries that are kept without a place in a view


class Job:
    """One attempt under way. A driver, one at a time, asks the model for it: it runs :meth:`steps`.

    Args:
        flow: The attempt; its outcome is None if it is no compaction. It stops at a :class:`Landing` before
            its commit.
        threshold: The threshold of its trigger, in tokens; None if the trigger has none.
        end: The number of messages in the log when the job began.
        kind: The ``kind`` of its policy. A boundary with a policy of another kind ends the job.
    """

    compacts = True  #: whether it is a compaction; a call of ``compact`` ends a job that is none

    def __init__(self, flow: Steps[Outcome | None], threshold: int | None, end: int, kind: str) -> None:
        self.threshold, self.end, self.kind = threshold, end, kind
        self._flow = flow
        self._lock = RLock()  # reentrant: a hook that closes the session runs inside a step
        self._asked: CompletionRequest | HookCall | None = None
        self._begun = self._lands = self._is_cancelled = False
        self._told: CompactionFailed | None = None
        self._outcome: Outcome | None = None
        self._error: BaseException | None = None
        self._driven = Lock()

    def hear(self, event: Event) -> None:
        """A hook that keeps the failure event, for a job that ends without an outcome."""
        from siltstone.events import CompactionFailed

        if isinstance(event, CompactionFailed):
            self._told = event

    @property
    def is_done(self) -> bool:
        """Whether the job asks no model any more: it may commit, or it is over."""
        return self._lands or self._is_over

    def steps(self) -> Steps[None]:
        """A flow with all that the job asks. Ends at once if another driver is at work.

        A driver that is broken off ends the job.
        """
        if not self._driven.acquire(blocking=False):
            return
        try:
            while (asked := self.asked()) is not None:
                try:
                    said = yield asked
                except (ModelError, HookError) as error:
                    self.refuse(error)
                else:
                    self.answer(said)
        except BaseException as error:
            self.refuse(error)
            self.cancel()
            raise
        finally:
            self._driven.release()

    def asked(self) -> CompletionRequest | HookCall | None:
        """The completion that the job waits for; None when it is done."""
        with self._lock:
            if not self._begun and not self._is_over:
                self._begun = True
                self._go(lambda: next(self._flow))
            return None if self.is_done else self._asked

    def answer(self, said: Any) -> None:
        """Goes on with the answer *said*. Does nothing after :meth:`cancel`."""
        with self._lock:
            if not self.is_done:
                self._go(lambda: self._flow.send(said))

    def refuse(self, error: BaseException) -> None:
        """Goes on after the model or hook that was asked has failed."""
        with self._lock:
            if not self.is_done:
                self._go(lambda: self._flow.throw(error))

    def land(self) -> None:
        """Lets the job commit, if it waits for that."""
        with self._lock:
            if self._lands and not self._is_over:
                self._go(lambda: self._flow.send(None))

    def withdraw(self, error: Exception) -> None:
        """Ends a job that waits to commit, with *error*: the session has changed too much for it."""
        with self._lock:
            if self._lands and not self._is_over:
                self._go(lambda: self._flow.throw(error))

    def cancel(self) -> None:
        """Ends the job in any state. Hooks hear of its end, as of the end of every attempt that began."""
        with self._lock:
            self._is_cancelled = True
            if not (isinstance(self._flow, GeneratorType) and self._flow.gi_running):
                self._flow.close()

    def outcome(self, view: list[RawMessage], tokens: int) -> Outcome | None:
        """The job's outcome; None if it never began. A broken-off attempt has failed, and leaves *view*."""
        if self._outcome is not None or self._told is None:
            return self._outcome
        from siltstone.engine import Failed

        told = self._told
        return Failed(
            view,
            tokens,
            tokens,
            usage=told.usage,
            reason=told.reason,
            message=told.message,
            cause=self._error,
            error_class=told.error_class,
        )

    @property
    def _is_over(self) -> bool:
        is_closed = isinstance(self._flow, GeneratorType) and self._flow.gi_frame is None
        return self._outcome is not None or is_closed

    def _go(self, step: Callable[[], CompletionRequest | HookCall | Landing]) -> None:
        """Takes the next step. Its exception is kept for the boundary, since no other call expects it."""
        try:
            asked = step()
            if isinstance(asked, Landing):
                self._lands = True
            else:
                self._asked = asked
        except StopIteration as stop:
            self._outcome = stop.value
        except Exception as error:
            self._error = error
        except BaseException as error:
            self._error = error
            if self._lands:  # the caller of ``prepare`` is interrupted, by Ctrl-C for example
                raise
        finally:
            if self._is_cancelled:
                self._flow.close()


class Background:
    """The one job of a session, if there is one.

    A job whose flow has ended holds no resource. If a caller is interrupted between two lines, the next call
    drives the job on, or takes it away.
    """

    def __init__(self, *, is_on: bool) -> None:
        self.is_on = is_on
        self.job: Job | None = None
        self.looked: tuple[int | None, int] = (None, 0)  # head and redactions, of the last look for summaries
        self._unplaced: tuple[tuple[Message, ...], int] = ((), 0)

    @property
    def is_running(self) -> bool:
        """Whether the job asks a model. Meanwhile only an emergency compaction may begin."""
        return self.job is not None and not self.job.is_done

    @property
    def is_due(self) -> bool:
        """Whether a job waits for the next boundary."""
        return self.job is not None and self.job.is_done

    def keep(self, summaries: Iterable[Message], redactions: int) -> None:
        """Keeps *summaries* that could not be committed, so that no model reads their messages again.

        They were written when the session had that count of *redactions*.
        """
        self._unplaced = (*self.unplaced(redactions), *summaries)[-MOST_UNPLACED:], redactions

    def unplaced(self, redactions: int) -> tuple[Message, ...]:
        """The kept summaries, oldest first; none if something was forgotten since."""
        return self._unplaced[0] if self._unplaced[1] == redactions else ()

    def take(self) -> Job | None:
        """Gives the job that is done to the caller, and forgets it; None if no job is done."""
        job, self.job = (self.job, None) if self.is_due else (None, self.job)
        return job

    def cancel(self) -> Job | None:
        """Ends the job in any state, and gives it; None if there is none."""
        job, self.job = self.job, None
        if job is not None:
            job.cancel()
        return job
