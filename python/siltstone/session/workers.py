"""Threads that make short calls for an event loop: started when none is idle, and kept."""

from __future__ import annotations

import atexit
import os
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Final

__all__ = ["THREADS", "Workers", "workers"]

THREADS: Final = 32  #: the maximum number of worker threads, shared by all sessions of the process


class Workers:
    """Threads around one queue. A call costs an event loop half of what ``ThreadPoolExecutor`` takes.

    There is no lock that an interrupt could leave held: shared values are changed in one step each.

    Args:
        most: The maximum number of threads. Further calls wait.
        name: The beginning of the names of the threads.
    """

    def __init__(self, most: int, name: str) -> None:
        self._name = name
        self._numbers = deque(range(most))  # of the threads that may still be started
        self._calls: SimpleQueue[tuple[Callable[..., object], tuple[Any, ...]] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        # One for each thread that waits for a call. After a time with more calls than threads it may have too
        # many. Then no thread is started, but all of them have been started by that time.
        self._idle = deque[None](maxlen=most)

    def submit(self, work: Callable[..., object], *arguments: Any) -> None:
        """Calls ``work(*arguments)`` in one of the threads. *work* must not raise.

        Raises:
            RuntimeError: no thread could be started, and there is none.
        """
        try:
            self._idle.pop()
        except IndexError:
            self._start()
        self._calls.put((work, arguments))

    def finish(self) -> None:
        """Waits for the calls under way and those that were submitted, and ends the threads."""
        for _ in self._threads:
            self._calls.put(None)
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()

    def _start(self) -> None:
        try:
            number = self._numbers.popleft()
        except IndexError:
            return
        # A daemon, because Python waits for other threads before it tells anybody that the process ends.
        thread = threading.Thread(target=self._serve, name=f"{self._name}_{number}", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the process has too many threads
            self._numbers.append(number)
            if not self._threads:
                raise
        else:
            self._threads.append(thread)

    def _serve(self) -> None:
        idle, following = self._idle, self._calls.get
        while (call := following()) is not None:
            work, arguments = call
            work(*arguments)
            del call, work, arguments  # nothing keeps the values of a call
            idle.append(None)


_workers = Workers(THREADS, "siltstone")


def workers() -> Workers:
    """The workers of this process."""
    return _workers


def _begin_anew() -> None:
    global _workers  # a forked child has none of the threads
    _workers = Workers(THREADS, "siltstone")


def _finish() -> None:
    _workers.finish()


atexit.register(_finish)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)
