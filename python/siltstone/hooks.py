"""The hooks of a host and the watcher that makes traces; calls that a caller can stop waiting for."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import Future
from contextvars import copy_context
from dataclasses import dataclass
from inspect import isawaitable, iscoroutinefunction
from math import inf
from types import CoroutineType
from typing import Any, Final, NamedTuple, Protocol, Self, TypeVar

from siltstone.errors import SiltstoneError, refuse

Hook = TypeVar("Hook", bound=Callable[..., Any])
Event = TypeVar("Event")

_log = logging.getLogger("siltstone")

HOOK_TIMEOUT: Final = 60.0  #: seconds that a hook may take

#: Calls under way at most, those that were given up included: a function that always hangs ends here.
MOST_THREADS: Final = 128

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


def checked_hooks(hooks: Iterable[Hook]) -> tuple[Hook, ...]:
    """*hooks*, the functions that a host gives to hear of events.

    Raises:
        ConfigError: it is no list, or one of them is not callable.
    """
    listed = tuple(hooks) if isinstance(hooks, Iterable) else ()
    if callable(hooks) or not isinstance(hooks, Iterable) or not all(map(callable, listed)):
        refuse("hooks", "a list of functions that take an event, such as [print]", hooks)
    return listed


@dataclass(frozen=True, slots=True)
class Guidance:
    """The answer of ``on_before_compact``; None means "go on".

    Attributes:
        veto: True, or a sentence with the reason: nothing is compacted this time.
        instructions: Further instructions for the model that writes the summary.
        pins: Sequence numbers of messages that stay, each with its group, in this compaction alone.

    Raises:
        ConfigError: one of them is of another type.
    """

    veto: bool | str = False
    instructions: str = ""
    pins: Collection[int] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.veto, bool | str):
            refuse("veto", "True, False or a sentence", self.veto)
        if not isinstance(self.instructions, str):
            refuse("instructions", "a text", self.instructions)
        if isinstance(self.pins, str) or not isinstance(self.pins, Collection):
            refuse("pins", "sequence numbers", self.pins)
        for seq in self.pins:
            if type(seq) is not int or seq < 0:
                refuse("pins", "sequence numbers", self.pins)


@dataclass(frozen=True, slots=True)
class CompactionHooks:
    """The hooks and checks around every compaction.

    Attributes:
        before: ``on_before_compact``.
        after: ``on_after_compact``.
        timeout: Seconds that each may take; None for no limit.
        check: Whether a history that its provider would refuse is an error.

    Raises:
        ConfigError: a hook that is not callable, or an invalid timeout.
    """

    before: Callable[[Any], Any] | None = None
    after: Callable[[Any], Any] | None = None
    timeout: float | None = HOOK_TIMEOUT
    check: bool = False

    def __post_init__(self) -> None:
        for name, hook in (("on_before_compact", self.before), ("on_after_compact", self.after)):
            if hook is not None and not callable(hook):
                refuse(name, "None or a callable", hook)
        seconds = self.timeout
        is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
        if seconds is not None and (not is_number or not 0 < seconds < inf):
            refuse("hook_timeout", "None or a number of seconds > 0", seconds)
        if not isinstance(self.check, bool):
            refuse("check", "True or False", self.check)


NO_COMPACTION_HOOKS: Final = CompactionHooks()


class HookCall(NamedTuple):
    """A hook to be called by the driver of a flow: its argument, and its time limit."""

    name: str
    hook: Callable[[Any], Any]
    told: object
    timeout: float | None


class HookError(SiltstoneError, RuntimeError):
    """A hook raised, took too long, or gave an invalid answer. Its compaction fails."""


def ask(call: HookCall) -> Any:
    """The answer of the hook.

    With a timeout the hook runs in a thread of its own, so that the caller can stop waiting. The thread of a
    hook that hangs is left running.

    Raises:
        HookError: it raised, took too long, or is async.
    """
    try:
        waits = call.timeout is not None
        answer = _started(call).result(call.timeout) if waits else call.hook(call.told)
    except TimeoutError as error:
        raise _too_long(call, error) from error
    except Exception as error:
        raise _raised(call, error) from error
    if isawaitable(answer):
        if isinstance(answer, CoroutineType):
            answer.close()
        raise HookError(f"{call.name} is async: it needs acompact or AsyncSession")
    return answer


async def ask_async(call: HookCall) -> Any:
    """Like :func:`ask`; an async hook is awaited, and a sync hook does not block the event loop."""
    import asyncio  # takes longer to import than all of siltstone; whoever awaits has it already

    limit = asyncio.timeout(call.timeout)
    try:
        async with limit:
            if gives_coroutine(call.hook):
                answer = call.hook(call.told)
            else:
                answer = await asyncio.wrap_future(_started(call))
            return await answer if isawaitable(answer) else answer
    except TimeoutError as error:
        raise (_too_long(call, error) if limit.expired() else _raised(call, error)) from error
    except Exception as error:
        raise _raised(call, error) from error


def gives_coroutine(function: object) -> bool:
    """Whether a call of *function* gives a coroutine: it, or its ``__call__``, is an ``async def``."""
    if not callable(function):
        return False
    return iscoroutinefunction(function) or iscoroutinefunction(type(function).__call__)


def _started(call: HookCall) -> Future[Any]:
    return started(call.hook, call.told, f"siltstone-{call.name}")


def _too_long(call: HookCall, error: TimeoutError) -> HookError:
    if str(error):  # its own, not ours
        return _raised(call, error)
    return HookError(f"{call.name} gave no answer within {call.timeout:g} s")


def _raised(call: HookCall, error: Exception) -> HookError:
    return HookError(f"{call.name} raised {type(error).__name__}: {error}")


# Events, and the work under way, for the hooks of a host and for traces.


def notify(hooks: Iterable[Callable[[Event], Any]], event: Event) -> None:
    """Passes *event* to every hook, and logs it. A hook that raises is logged, and never breaks a turn."""
    _log.debug("%s", type(event).__name__, extra={"event": event})
    if (watcher := _watcher) is not None:
        watcher.event(event)
    for hook in hooks:
        try:
            hook(event)
        except Exception:
            _log.exception("a hook failed on %s", type(event).__name__)


class Watched:
    """Work under way, for traces and metrics. Each method receives one fact about it.

    In this class all of them do nothing: there is no watcher until ``siltstone.telemetry`` sets its own.
    """

    __slots__ = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        return None

    def during(self) -> Watched:
        """Around a step that is a part of this work, where the work itself is not one call."""
        return self

    def records(self, records: Sequence[Any]) -> None:
        """Records found or written: objects with ``content``, and some with ``entry_id`` and ``score``."""

    def count(self, number: int, record_id: str = "") -> None:
        """The number of records that the work was about, and the id where it was one."""

    def completed(self, completion: Any) -> None:
        """The answer of the model."""

    def ended(self, event: Any) -> None:
        """The terminal event of a compaction."""


class Watcher(Protocol):
    """Makes the spans."""

    def operation(self, name: str, store: object, session_id: str, query: str) -> Watched:
        """A span around an operation on records."""

    def model_call(self, model: object, request: Any) -> Watched:
        """A span around a call of *model*."""

    def compaction(self, session_id: str, policy: str, cause: str, seconds: float) -> Watched:
        """The span of a compaction."""

    def event(self, event: Any) -> None:
        """Records the figures of an event."""


UNWATCHED = Watched()
_watcher: Watcher | None = None


def watch(watcher: Watcher | None) -> None:
    """Makes *watcher* the one of this process; None for no watcher."""
    global _watcher
    _watcher = watcher


def is_watched() -> bool:
    """Whether there is a watcher."""
    return _watcher is not None


def watch_operation(name: str, store: object, session_id: str, query: str = "") -> Watched:
    """A context manager around an operation on records of memory, such as ``search_memory``."""
    watcher = _watcher
    return UNWATCHED if watcher is None else watcher.operation(name, store, session_id, query)


def watch_model_call(model: object, request: Any) -> Watched:
    """A context manager around a call of *model*."""
    watcher = _watcher
    return UNWATCHED if watcher is None else watcher.model_call(model, request)


def watch_compaction(session_id: str, policy: str, cause: str, seconds: float) -> Watched:
    """A compaction that began *seconds* ago. It ends with ``ended``."""
    watcher = _watcher
    return UNWATCHED if watcher is None else watcher.compaction(session_id, policy, cause, seconds)
