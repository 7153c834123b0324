"""Calls of somebody else's function in a thread of its own, so that nobody has to wait for its end."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from contextvars import copy_context
from typing import Any, Final

__all__ = ["MOST_THREADS", "TooManyThreads", "started"]

#: Calls under way at most, those that were given up included: a function that always hangs ends here.
MOST_THREADS: Final = 64

_places = threading.BoundedSemaphore(MOST_THREADS)


class TooManyThreads(RuntimeError):  # noqa: N818 - it is caught here, and never a user's
    """So many calls hang already that no further one is begun."""


def started(function: Callable[[Any], Any], argument: object, name: str) -> Future[Any]:
    """The answer to come of ``function(argument)``, with the caller's context variables.

    The thread is a daemon: no end of the process waits for it. Who gives the call up ignores the future; a
    late answer goes nowhere.

    Args:
        function: Any callable.
        argument: Its only argument.
        name: The thread's name.

    Raises:
        TooManyThreads: ``MOST_THREADS`` calls are under way.
    """
    if not _places.acquire(blocking=False):
        raise TooManyThreads(f"{MOST_THREADS} calls of models and hooks hang already; no further one is made")
    future: Future[Any] = Future()
    future.set_running_or_notify_cancel()
    context, held = copy_context(), [True]

    def leave() -> None:
        """Gives the place back, once: an interrupted start may leave a thread that runs, or none."""
        with suppress(IndexError):
            held.pop()
            _places.release()

    def run() -> None:
        try:
            answer = context.run(function, argument)
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(answer)
        finally:
            leave()

    try:
        threading.Thread(target=run, name=name, daemon=True).start()
    except BaseException:
        leave()
        raise
    return future
