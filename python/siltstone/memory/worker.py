"""A thread that makes calls for other threads, so that a caller can stop waiting for a slow call."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeGuard

if TYPE_CHECKING:
    import asyncio


__all__ = ["EventLoop", "Worker", "WorkerClosed", "WorkerTimeout", "runs"]


class WorkerTimeout(Exception):  # noqa: N818 - it is caught here, and never a user's
    """The call, or a call before it, takes longer than its time limit."""


class WorkerClosed(Exception):  # noqa: N818
    """The worker is closed: it makes no more calls."""


def runs(thread: threading.Thread | None) -> TypeGuard[threading.Thread]:
    """Whether *thread* was started. An interrupt may have come between its creation and its start."""
    return thread is not None and thread.ident is not None


class EventLoop:
    """One event loop for async calls, in a thread of its own; started with the first such call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    def run(self, answer: Awaitable[object], task: Task) -> object:
        """Awaits *answer*, and gives its result. Giving *task* up cancels it."""
        import asyncio

        async def wait() -> object:
            return await answer

        with self._lock:
            if self._closed:
                raise WorkerClosed
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                thread = threading.Thread(
                    target=_serve, args=(self._loop,), name="siltstone-embed-async", daemon=True
                )
                thread.start()
            future = asyncio.run_coroutine_threadsafe(wait(), self._loop)
        task.cancel = future.cancel
        if task.given_up:
            future.cancel()
        return future.result()

    def close(self) -> None:
        """Stops the loop; calls that still run in it are dropped."""
        with self._lock:
            if self._loop is not None and not self._closed:
                self._loop.call_soon_threadsafe(self._loop.stop)
            self._closed = True


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    import asyncio

    async def end() -> None:
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    loop.run_forever()
    loop.run_until_complete(end())
    loop.close()


class Task:
    """A call and its result."""

    def __init__(self, function: Callable[[Any], object], argument: object) -> None:
        self.function = function
        self.argument = argument
        self.done = threading.Event()
        self.given_up = False
        self.cancel: Callable[[], object] = lambda: None
        self.answer: object = None
        self.error: BaseException | None = None


class Worker:
    """A thread that makes one call at a time, started with the first.

    A call that hangs cannot be ended from outside. Its caller stops waiting after the timeout. As long as the
    call hangs, further calls fail at once.
    """

    def __init__(self, name: str, loop: EventLoop) -> None:
        self._name = name
        self._loop = loop
        self._lock = threading.Lock()
        self._queue: SimpleQueue[Task | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._stuck: Task | None = None
        self._closed = False

    def call(self, function: Callable[[Any], object], argument: object, timeout: float) -> object:
        """Calls ``function(argument)`` and gives its result; an awaitable result is awaited.

        Raises:
            WorkerTimeout: no answer within *timeout* seconds.
            WorkerClosed: the worker is closed.
        """
        task = Task(function, argument)
        with self._lock:
            if self._closed:
                raise WorkerClosed
            if self._stuck is not None and not self._stuck.done.is_set():
                raise WorkerTimeout
            if not runs(self._thread):
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
            self._queue.put(task)
        answered = False
        try:
            answered = task.done.wait(timeout)
        finally:
            if not answered:  # time is up, or the caller was interrupted
                with self._lock:
                    self._stuck = task
                task.given_up = True
                task.cancel()
        if not answered:
            raise WorkerTimeout
        if task.error is None:
            return task.answer
        if isinstance(task.error, Exception):
            raise task.error
        # A sys.exit() in the caller's code ends that call, not this thread.
        raise RuntimeError(f"{type(task.error).__name__}: {task.error}") from task.error

    def close(self) -> None:
        """Makes no more calls. A call under way ends by itself."""
        with self._lock:
            self._closed = True
            self._queue.put(None)

    def _run(self) -> None:
        while (task := self._queue.get()) is not None:
            if not task.given_up and not self._closed:
                self._make(task)
            elif self._closed:
                task.error = WorkerClosed()
            task.done.set()

    def _make(self, task: Task) -> None:
        from inspect import isawaitable  # takes longer to import than a store to open

        try:
            answer = task.function(task.argument)
            task.answer = self._loop.run(answer, task) if isawaitable(answer) else answer
        except BaseException as error:  # every exception of the caller's code goes back to the caller
            task.error = error
