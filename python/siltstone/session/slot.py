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

POLL_SECONDS: Final = 0.05  #: seconds after which a waiting call notices that the holder died silently


#: The claims of the calls around the current code. Threads and tasks that a call starts inherit them.
_ACTIVE: Final[ContextVar[tuple[Claim, ...]]] = ContextVar("siltstone-session-calls", default=())


class Claim:
    """A call that wants the slot, known by its flow.

    A claim dies with its flow. So an interrupt at any line, even in the clean-up, leaves the slot free.
    """

    __slots__ = ("__weakref__", "_flow")

    def __init__(self, flow: Generator[Any, Any, Any]) -> None:
        self._flow = ref(flow)
        around = _ACTIVE.get()
        _ACTIVE.set((*(claim for claim in around if claim.is_alive), self) if around else (self,))

    @property
    def is_alive(self) -> bool:
        """Whether its flow can still go on."""
        flow = self._flow()
        return isinstance(flow, GeneratorType) and flow.gi_frame is not None


class Slot:
    """A lock for one claim. A dead claim does not count."""

    __slots__ = ("_bell", "_lock", "holder")

    def __init__(self) -> None:
        # Plain locks of the interpreter: an interrupt at a bad moment can leave a Condition locked.
        self._lock, self._bell = RLock(), Lock()
        self.holder: Claim | None = None

    @property
    def is_held(self) -> bool:
        """Whether a call that may compact is under way."""
        holder = self.holder
        return holder is not None and holder.is_alive

    @property
    def is_own(self) -> bool:
        """Whether the current code runs inside the call that has the slot."""
        return self.is_held and self.holder in _ACTIVE.get()

    def take(self, claim: Claim, timeout: float | None = None) -> bool:
        """Takes the slot, after waiting for its holder. False after *timeout* seconds.

        A call from inside the holder (a model or a hook that calls its own session) gets False at once,
        because it would wait for itself.
        """
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            with self._lock:
                holder = self.holder
                if holder is None or not holder.is_alive:
                    self.holder = claim
                    return True
            left = POLL_SECONDS if until is None else min(POLL_SECONDS, until - time.monotonic())
            if left <= 0 or holder in _ACTIVE.get():
                return False
            self._bell.acquire(timeout=left)

    def wake(self) -> None:
        """Wakes one waiting call. Without this, waiting calls notice the free slot after ``POLL_SECONDS``."""
        if not self._bell.locked():  # no call has waited since the last wake
            return
        try:
            self._bell.release()
        except RuntimeError:  # another call was faster
            return
