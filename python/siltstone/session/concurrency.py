"""What keeps calls apart: of processes, of threads and tasks, and of one call that is made twice.

A session belongs to the process that opened it (:class:`Origin`). Calls that may compact stand in a line
(:class:`Slot`). A call that was interrupted and is repeated takes effect once (:class:`Call`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from threading import Lock, RLock
from types import GeneratorType
from typing import Any, Final, Self, TypeVar
from weakref import ref

from siltstone.errors import StoreConflictError, StoreForkedError

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
            if not isinstance(vars(error).get("found"), tuple):
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
