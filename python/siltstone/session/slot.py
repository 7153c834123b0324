"""The one place of a session for a call that may compact: one at a time, and never held by a dead one."""

from __future__ import annotations

import threading
import time
from _weakref import ref  # that of weakref, which takes longer to import than a session to open
from collections.abc import Generator
from contextlib import suppress
from contextvars import ContextVar
from types import GeneratorType
from typing import Any, Final

__all__ = ["POLL_SECONDS", "Claim", "Slot"]

POLL_SECONDS: Final = 0.05  #: how soon a waiting call notices that the one before it died without a word


#: The claims of the calls that led to this one. Threads and tasks that a call starts inherit them.
_ACTIVE: Final[ContextVar[tuple[Claim, ...]]] = ContextVar("siltstone-session-calls", default=())


class Claim:
    """A call that wants the slot, by its flow.

    A flow that has ended holds nothing, however it ended: so an interrupt at any line, in the clean-up
    too, leaves the slot free.
    """

    __slots__ = ("__weakref__", "_flow")

    def __init__(self, flow: Generator[Any, Any, Any]) -> None:
        self._flow = ref(flow)
        _ACTIVE.set((*(claim for claim in _ACTIVE.get() if claim.is_alive), self))

    @property
    def is_alive(self) -> bool:
        """Whether its flow can still go on."""
        flow = self._flow()
        return isinstance(flow, GeneratorType) and flow.gi_frame is not None


class Slot:
    """Holds one claim at most."""

    __slots__ = ("_bell", "_lock", "holder")

    def __init__(self) -> None:
        # Locks of the interpreter: a condition of Python is left locked by an interrupt at some moments.
        self._lock, self._bell = threading.RLock(), threading.Lock()
        self.holder: Claim | None = None

    @property
    def is_held(self) -> bool:
        """Whether a call that may compact is under way."""
        holder = self.holder
        return holder is not None and holder.is_alive

    @property
    def is_own(self) -> bool:
        """Whether this call comes out of the one that has the slot."""
        return self.is_held and self.holder in _ACTIVE.get()

    def take(self, claim: Claim, timeout: float | None = None) -> bool:
        """Takes the slot, and waits for whoever has it; False where that took longer than *timeout* s.

        A call that comes out of the call that has the slot (a model or a hook that calls its own session)
        does not wait: it would wait for itself.
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
        """Tells one who waits that the slot is free. All would find out by themselves, a little later."""
        with suppress(RuntimeError):  # nobody has waited since it was last rung
            self._bell.release()
