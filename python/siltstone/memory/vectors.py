"""The vectors of entries, made in the background by one worker for each store, and used by searches."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Literal, TypeGuard

from siltstone import _native
from siltstone.embedding.base import Embedder, as_row, as_rows
from siltstone.errors import EmbeddingError, StoreClosedError, StoreConflictError, StoreError
from siltstone.events import EmbeddingFailed, StoreHook
from siltstone.hooks import notify

if TYPE_CHECKING:
    import asyncio


# A thread that makes calls for other threads, so that a caller can stop waiting for a slow call.


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


BATCH = 16  # texts of one call, if the embedder has no max_batch
DOCUMENT_SECONDS = 120.0  # the time limit of one such call
CLOSE_SECONDS = 2.0  # seconds that ``close`` waits for a call to end
RETRY_SECONDS = (1.0, 5.0, 30.0, 60.0)  # pauses after the first, second, ... failed pass in a row
FAILURES = 3  # after so many failed texts in a row a pass ends: the embedder has failed, not the texts
KNOWN = 256  # queries whose vectors are remembered
PIECE, SHARED = 2_000, 200  # characters of a piece of a text, and the overlap of two pieces
MOST_PIECES = 64  # pieces of one entry; the rest of its text is found by its words alone

Reason = Literal["raised", "invalid", "timeout", "stale"]


def pieces(text: str, role: str, name: str | None) -> list[str]:
    """The texts of an entry to embed: ``name: text`` or ``role: text``; a long text in overlapping pieces."""
    step = PIECE - SHARED
    starts = range(0, max(len(text) - SHARED, 1), step)[:MOST_PIECES]
    return [f"{name or role}: {text[start : start + PIECE]}" for start in starts]


class Vectors:
    """The vectors of one store by one embedder.

    The worker starts with the first text to embed, and embeds no text twice. A failure only gives an event:
    entries without a vector are found by their words, and are embedded later.
    """

    def __init__(
        self,
        native: _native.Store,
        embedder: Embedder,
        key: int,
        query_seconds: float,
        hooks: Iterable[StoreHook],
    ) -> None:
        self.key = key
        self._native = native
        self._embedder = embedder
        self._query_seconds = query_seconds
        self._hooks = tuple(hooks)
        self._process = os.getpid()
        self._batch = int(getattr(embedder, "max_batch", BATCH))
        self._loop = EventLoop()
        self._documents = Worker("siltstone-embed-documents", self._loop)
        self._queries = Worker("siltstone-embed-queries", self._loop)
        self._known: OrderedDict[str, bytes] = OrderedDict()
        # A lock of its own: an interrupt inside a Condition's own methods would leave its lock held for ever.
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._thread: threading.Thread | None = None
        self._closed = False
        self._stale = False  # another embedder has replaced this one
        self._asked = 0  # number of the newest requested pass
        self._done = 0  # number of the newest finished pass
        self._failures = 0  # failed passes in a row
        self._hurry = False  # a caller waits: skip the pause
        self._anew = False  # vectors were deleted: begin with the first entry
        self._after = 0  # entries up to this id have vectors, or are damaged

    def wake(self, *, anew: bool = False) -> None:
        """Tells the worker that entries may lack vectors; with *anew*, also entries that had some."""
        if os.getpid() == self._process:
            with self._lock:
                self._anew = self._anew or anew
                self._ask()

    def flush(self, timeout: float | None) -> bool:
        """Waits until every entry has been tried. Returns whether all have vectors now."""
        if os.getpid() != self._process:
            return False
        with self._lock:
            wanted = self._ask()
            self._hurry = True
            self._changed.notify_all()
            over = self._changed.wait_for(
                lambda: self._closed or self._stale or self._done >= wanted, timeout
            )
            return over and not self._closed and not self._stale and self._failures == 0

    def query(self, text: str) -> bytes | None:
        """The vector of a query, as the core takes it; None if there is none in time."""
        if os.getpid() != self._process or self._stale:
            return None
        with self._lock:
            if text in self._known:
                self._known.move_to_end(text)
                return self._known[text]
        try:
            answer = self._queries.call(self._embedder.embed_query, text, self._query_seconds)
            row = as_row(answer, self._embedder).astype("<f4").tobytes()
        except WorkerClosed:
            return None
        except Exception as error:
            self._tell("query", error, 1)
            return None
        with self._lock:
            self._known[text] = row
            if len(self._known) > KNOWN:
                self._known.popitem(last=False)
        return row

    def close(self) -> None:
        """Stops the worker. Entries without vectors are embedded when the store is next opened."""
        if os.getpid() != self._process:
            return  # a forked child: the threads, and the holders of the locks, are in the parent
        with self._lock:
            self._closed = True
            self._changed.notify_all()
        self._documents.close()
        self._queries.close()
        thread = self._thread
        if runs(thread) and thread is not threading.current_thread():
            thread.join(CLOSE_SECONDS)
        self._loop.close()

    def _ask(self) -> int:
        """Requests a pass that begins after this call. Returns its number."""
        self._asked += 1
        if not self._closed and not runs(self._thread):
            self._thread = threading.Thread(target=self._run, name="siltstone-vectors", daemon=True)
            self._thread.start()
        self._changed.notify_all()
        return self._asked

    def _run(self) -> None:
        own = threading.current_thread()
        while True:
            with self._lock:
                self._changed.wait_for(
                    lambda: self._closed or self._asked > self._done or self._thread is not own
                )
                if self._thread is not own:
                    return  # the starting thread was interrupted, and a later call started another worker
                if self._closed or self._stale:
                    self._done = self._asked
                    self._changed.notify_all()
                    return
                asked, self._hurry = self._asked, False
                if self._anew:
                    self._after, self._anew = 0, False
            whole = self._pass()
            with self._lock:
                self._done = asked
                self._failures = 0 if whole else self._failures + 1
                self._changed.notify_all()
                if not whole:
                    self._asked += 1  # the failed texts are tried again
                    pause = RETRY_SECONDS[min(self._failures, len(RETRY_SECONDS)) - 1]
                    self._changed.wait_for(lambda: self._closed or self._hurry, pause)

    def _pass(self) -> bool:
        """Embeds entries without vectors, as far as possible. Returns whether none is left."""
        try:
            if self._after == 0 and self._native.embedded()[1] == 0:
                return True
            return self._walk()
        except (StoreClosedError, WorkerClosed):
            return True
        except StoreConflictError as error:
            self._stale = True
            self._tell("documents", error, 0)
            return True
        except StoreError as error:
            self._tell("documents", error, 0)
            return False

    def _walk(self) -> bool:
        after, alone, failed, told, whole = self._after, 0, 0, False, True
        while not self._closed:
            rows, looked = self._native.missing_vectors(after, 1 if alone else self._batch)
            if not rows and looked == after:
                break
            try:
                if rows:
                    self._native.store_vectors(self.key, self._embed(rows))
                failed = 0
            except (StoreError, WorkerClosed):
                raise
            except Exception as error:
                if not told:
                    self._tell("documents", error, len(rows))
                told = True
                if len(rows) > 1:
                    alone = len(rows)  # one of them may be the cause: try each alone
                    continue
                whole, failed = False, failed + 1
                if failed == FAILURES:
                    break
            alone = max(0, alone - len(rows))
            after = looked
            if whole:
                self._after = after
        return whole

    def _embed(self, rows: list[tuple[int, str, str, str | None]]) -> list[tuple[int, bytes]]:
        texts = [(row[0], each) for row in rows for each in pieces(*row[1:])]
        found = {row[0]: bytearray() for row in rows}
        for start in range(0, len(texts), self._batch):
            some = texts[start : start + self._batch]
            given = [text for _, text in some]
            answer = self._documents.call(self._embedder.embed_documents, given, DOCUMENT_SECONDS)
            vectors = as_rows(answer, self._embedder, len(some)).astype("<f4")
            for (entry_id, _), vector in zip(some, vectors, strict=True):
                found[entry_id] += vector.tobytes()
        return [(entry_id, bytes(numbers)) for entry_id, numbers in found.items()]

    def _tell(self, purpose: Literal["documents", "query"], error: BaseException, texts: int) -> None:
        reason: Reason = "raised"
        message = f"{type(error).__name__}: {error}"
        if isinstance(error, WorkerTimeout):
            seconds = self._query_seconds if purpose == "query" else DOCUMENT_SECONDS
            reason, message = "timeout", f"embedder {self._embedder.id!r} gave no answer in {seconds} seconds"
        elif isinstance(error, EmbeddingError):
            reason, message = "invalid", str(error)
        elif isinstance(error, StoreConflictError):
            reason, message = "stale", str(error)
        notify(self._hooks, EmbeddingFailed(self._embedder.id, purpose, reason, message, texts))
