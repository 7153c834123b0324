"""Threads that run calls apart from their callers: an interrupt of a caller does not reach its call."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, Final, TypeVar

from siltstone.errors import StoreClosedError

__all__ = ["Apart", "NotInTimeError", "is_main"]

T = TypeVar("T")

GRACE: Final = 1.0  #: seconds that a call has to end by itself after its time is over
CLOSED: Final = "the store was closed before the call began"


def is_main() -> bool:
    """Whether this is the main thread, which alone gets interrupts."""
    return threading.get_ident() == threading.main_thread().ident


class NotInTimeError(Exception):
    """A call did not end in time.

    Attributes:
        thread: The thread that still runs it; None if the call was not begun, and never will be.
    """

    def __init__(self, thread: int | None) -> None:
        super().__init__(thread)
        self.thread = thread


class Apart:
    """Threads for the calls of a store. The main thread has one of its own; other callers share idle ones.

    An interrupt of the main thread leaves its call behind, and does not end it. The next call of the main
    thread waits for that one, because the same thread runs both: so a write is found whole or not at all.
    """

    # A pool of `concurrent.futures` would do the same, and takes 30 us more of each call.

    def __init__(self) -> None:
        self._of_main: _Worker | None = None
        self._idle: list[_Worker] = []
        self._workers: list[_Worker] = []
        self._is_closed = False

    def run(self, work: Callable[[], T], seconds: float) -> T:
        """Calls *work* in a thread, and returns its answer or raises its error.

        Raises:
            NotInTimeError: *work* did not end within *seconds* and a second of grace.
            StoreClosedError: the threads were ended before *work* was begun.
        """
        if self._is_closed:
            raise StoreClosedError(CLOSED)
        call = _Call(work)
        if is_main():
            if self._of_main is None:
                self._of_main = self._new(None)
            worker = self._of_main
        else:
            try:
                worker = self._idle.pop()
            except IndexError:
                worker = self._new(self._idle)
        worker.calls.put(call)
        if not call.done.acquire(timeout=max(0.0, seconds) + GRACE):
            raise NotInTimeError(None if call.taken.acquire(blocking=False) else worker.thread.ident)
        if call.error is None:
            return call.answer  # type: ignore[no-any-return]
        try:
            raise call.error
        finally:
            del call  # it holds the error, which holds this frame

    def close(self, seconds: float, hang_up: Callable[[], object]) -> None:
        """Ends the threads. Waits up to *seconds* for calls that were left behind, and then hangs up."""
        self._is_closed = True
        workers = list(self._workers)
        for worker in workers:
            worker.calls.put(None)
        others = [worker.thread for worker in workers if worker.thread is not threading.current_thread()]
        until = time.monotonic() + seconds
        for thread in others:
            thread.join(max(0.0, until - time.monotonic()))
        if any(thread.is_alive() for thread in others):
            hang_up()
            for thread in others:
                thread.join()

    def _new(self, idle: list[_Worker] | None) -> _Worker:
        worker = _Worker(idle)
        self._workers.append(worker)
        worker.thread.start()
        return worker


class _Call:
    __slots__ = ("answer", "done", "error", "taken", "work")

    def __init__(self, work: Callable[[], Any]) -> None:
        self.work = work
        self.taken = threading.Lock()  # by the thread that begins it, or by its caller, who gives it up
        self.done = threading.Lock()
        self.done.acquire()
        self.answer: Any = None
        self.error: BaseException | None = None


class _Worker:
    """A thread with its queue of calls. It is put among the idle after each call, if it is shared."""

    def __init__(self, idle: list[_Worker] | None) -> None:
        self.calls: SimpleQueue[_Call | None] = SimpleQueue()
        self.thread = threading.Thread(target=self._serve, name="siltstone-postgres", daemon=True)
        self._idle = idle

    def _serve(self) -> None:
        while (call := self.calls.get()) is not None:
            if call.taken.acquire(blocking=False):
                try:
                    call.answer = call.work()
                except BaseException as error:
                    call.error = error
                if self._idle is not None:
                    self._idle.append(self)
                call.done.release()
            del call  # an idle thread holds nothing
        while True:
            try:
                call = self.calls.get_nowait()
            except Empty:
                return
            if call is not None and call.taken.acquire(blocking=False):
                call.error = StoreClosedError(CLOSED)
                call.done.release()
