"""Calls a function of the host in a thread of its own, so that a caller can stop waiting for it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from concurrent.futures import Future


__all__ = ["MOST_THREADS", "TooManyThreads", "started"]

#: Calls under way at most, those that were given up included: a function that always hangs ends here.
MOST_THREADS: Final = 64

#: The calls under way. A semaphore of Python is left locked by an interrupt at some moments. A set adds
#: or discards an item in one step, and an item may be discarded twice.
_under_way: Final = set[object]()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_under_way.clear)  # a fork has none of the threads


class TooManyThreads(RuntimeError):  # noqa: N818 - it is caught here, and never a user's
    """Too many calls hang already, so no further one begins."""


def started(function: Callable[[Any], Any], argument: object, name: str) -> Future[Any]:
    """The future of ``function(argument)``, called with the caller's context variables.

    The thread is a daemon: the end of the process does not wait for it. A caller that gives up ignores the
    future, and a late answer is dropped.

    Args:
        function: Any callable.
        argument: Its only argument.
        name: The thread's name.

    Raises:
        TooManyThreads: ``MOST_THREADS`` calls are under way.
    """
    from concurrent.futures import Future  # with logging, which takes a tenth of a start

    future: Future[Any] = Future()
    future.set_running_or_notify_cancel()
    context = copy_context()

    def run() -> None:
        try:
            answer = context.run(function, argument)
        except BaseException as error:
            _under_way.discard(future)  # first: whoever waited for the future may have left it locked
            future.set_exception(error)
        else:
            _under_way.discard(future)
            future.set_result(answer)

    try:
        _under_way.add(future)
        if len(_under_way) > MOST_THREADS:
            raise TooManyThreads(
                f"{MOST_THREADS} calls of models and hooks hang already; no further one is made"
            )
        threading.Thread(target=run, name=name, daemon=True).start()
    except BaseException:
        _under_way.discard(future)  # an interrupted start may leave a thread that runs, or none
        raise
    return future
