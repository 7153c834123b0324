"""The slot of a session: a lock for calls that may compact, which a dead call never holds."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextvars import ContextVar
from threading import Lock, RLock
from types import GeneratorType
from typing import Any, Final
from weakref import ref

__all__ = ["POLL_SECONDS", "Claim", "Slot"]

POLL_SECONDS: Final = 0.02  #: seconds after which a waiting call notices that the holder died silently


#: The claims of the calls around the current code. Threads and tasks that a call starts inherit them.
_ACTIVE: Final[ContextVar[tuple[Claim, ...]]] = ContextVar("siltstone-session-calls", default=())


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
        import asyncio

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
