"""Drives the calls of an ``AsyncSession``: steps in worker threads, model calls on the event loop.

A call is made of steps. Each step works on the session's state in a worker thread, so it never blocks the
event loop. Steps run one at a time, in the order of the requests. Between two steps a call may wait for a
model; other calls go on meanwhile. Short calls that need no thread do not come here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import suppress
from contextvars import Context, copy_context
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar, cast

from siltstone import llm
from siltstone.errors import ModelError
from siltstone.hooks import HookCall, HookError
from siltstone.llm import AsyncModels, CompletionRequest, Landing, Steps
from siltstone.session.slot import Claim, Slot
from siltstone.session.workers import workers

__all__ = ["Done", "Queue", "alone", "in_thread"]

T = TypeVar("T")


async def in_thread(step: Callable[[], T]) -> T:
    """Runs *step* in a worker thread, with the caller's context variables.

    A step cannot be interrupted half way. A cancelled caller waits for its end, so that the store and the
    session's memory agree.
    """
    ended: _Ended[T] = _Ended(asyncio.get_running_loop())
    workers().submit(ended.work, copy_context(), step)
    return await ended


class _Ended(Generic[T]):
    """The end of a step. It refuses to be cancelled, so a cancelled task ends only after the step.

    It has what a task asks of a future. A future of ``asyncio`` wakes its tasks in the next turn of the loop,
    after the loop has emptied its pipe and looked for events. This one has a single task, and goes on with it
    in the turn in which the end of the step is told.
    """

    __slots__ = ("_asyncio_future_blocking", "_context", "_error", "_loop", "_result", "_wake")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._asyncio_future_blocking = False  # by this a task knows a future
        self._result: T | None = None
        self._error: BaseException | None = None
        self._wake: Callable[[_Ended[T]], object] | None = None
        self._context: Context | None = None

    def __await__(self) -> Generator[_Ended[T], None, T]:
        self._asyncio_future_blocking = True
        yield self  # the task throws an error in here
        return cast(T, self._result)

    def get_loop(self) -> asyncio.AbstractEventLoop:
        """The loop of the task."""
        return self._loop

    def add_done_callback(self, wake: Callable[[_Ended[T]], object], *, context: Context) -> None:
        """Notes how the task goes on. The end is told later, in the thread of the loop."""
        self._wake, self._context = wake, context

    def cancel(self, msg: Any = None) -> bool:  # noqa: ARG002 - asyncio calls it so
        """Refuses: the step goes on to its end."""
        return False

    def result(self) -> T:
        """The result of the step, or its error. A task asks once."""
        error, self._error = self._error, None
        if error is None:
            return cast(T, self._result)
        try:
            raise error
        finally:
            del error  # it keeps this frame

    def told(self) -> None:
        """Goes on with the task, in the thread of the loop."""
        wake, context = self._wake, self._context
        if wake is not None and context is not None:
            self._wake = self._context = None
            context.run(wake, self)

    def work(self, context: Context, step: Callable[[], T]) -> None:
        """Runs *step* in a worker thread, and tells the loop of its end."""
        try:
            self._result = context.run(step)
        except StopIteration as raised:  # a task cannot be given a StopIteration
            self._error = RuntimeError("a step raised StopIteration")
            self._error.__cause__ = raised
        except BaseException as raised:
            self._error = raised
        with suppress(RuntimeError):  # the loop was closed: no task waits any more
            self._loop.call_soon_threadsafe(self.told)


class Queue:
    """The calls of one session on one event loop, in the order in which they were made.

    The order holds because ``asyncio.Lock`` serves its waiters first in, first out.
    """

    def __init__(self) -> None:
        self._steps = asyncio.Lock()
        self._flows = asyncio.Lock()
        self._calls = 0  # under way or waiting
        self._waiting = 0  # flows that wait for ``_flows``

    @property
    def is_idle(self) -> bool:
        """Whether no call is under way or waiting."""
        return self._calls == 0  # the locks do not tell: one that its next waiter has not yet taken is free

    async def step(self, step: Callable[[], T]) -> T:
        """Runs *step* after all steps that were requested before it."""
        self._calls += 1
        try:
            async with self._steps:
                return await in_thread(step)
        finally:
            self._calls -= 1

    async def flow(
        self, flow: Steps[T], model: AsyncModels | None, slot: Slot, timeout: float | None
    ) -> Done[T] | None:
        """Drives *flow* when no other call may compact. None after *timeout* seconds of waiting."""
        if slot.is_own:
            return None
        claim = Claim(flow)
        self._calls += 1
        try:
            async with self._steps:  # calls begin in order
                step = None
                # A lock that was let go and not yet taken by its next waiter says that it is not locked.
                # Who waited for it here would hold the steps, for which that waiter waits next.
                if not self._waiting and not self._flows.locked():
                    await self._flows.acquire()
                    step = await self._begin(flow, claim, slot)
            if step is None:  # an earlier call waits for a model: steps of other calls may run meanwhile
                self._waiting += 1
                try:
                    async with asyncio.timeout(timeout):
                        await self._flows.acquire()
                except TimeoutError:
                    return None
                finally:
                    self._waiting -= 1
                try:
                    await self._steps.acquire()
                except BaseException:  # a task that is cancelled here must not keep the others waiting
                    self._flows.release()
                    raise
                try:
                    step = await self._begin(flow, claim, slot)
                finally:
                    self._steps.release()
            return await self._drive(flow, model, step)
        finally:
            self._calls -= 1
            slot.holder = None if slot.holder is claim else slot.holder
            flow.close()

    async def _begin(self, flow: Steps[T], claim: Claim, slot: Slot) -> _Asked | Done[T]:
        """The first step of *flow*. A flow that ends with it lets the next flow begin."""
        goes_on = False
        try:
            slot.take(claim, 0)  # always free here: ``_flows`` is held
            step: _Asked | Done[T] = await in_thread(partial(_step, partial(next, flow)))
            goes_on = isinstance(step, _Asked)
            return step
        finally:
            if not goes_on:
                self._flows.release()

    async def _drive(self, flow: Steps[T], model: AsyncModels | None, step: _Asked | Done[T]) -> Done[T]:
        """Drives *flow* after its first step, up to its end."""
        if not isinstance(step, _Asked):
            return step
        try:
            while isinstance(step, _Asked):
                try:
                    said = await llm.answer_async(model, step.asked)
                except (ModelError, HookError) as error:
                    step = await self.step(partial(_step, partial(flow.throw, error)))
                else:
                    step = await self.step(partial(_step, partial(flow.send, said)))
            return step
        finally:
            self._flows.release()


async def alone(flow: Steps[T], model: AsyncModels | None) -> T:
    """Drives *flow* independently of the session's calls: neither waits for the other."""
    step: _Asked | Done[T] = await in_thread(partial(_step, partial(next, flow)))
    try:
        while isinstance(step, _Asked):
            try:
                said = await llm.answer_async(model, step.asked)
            except (ModelError, HookError) as error:
                step = await in_thread(partial(_step, partial(flow.throw, error)))
            else:
                step = await in_thread(partial(_step, partial(flow.send, said)))
        return step.result
    finally:
        flow.close()


@dataclass(frozen=True, slots=True)
class _Asked:
    """The flow waits for a completion, or for the answer of a hook."""

    asked: CompletionRequest | HookCall | Landing


@dataclass(frozen=True, slots=True)
class Done(Generic[T]):
    """The flow came to its end. A StopIteration cannot cross a future, so its value is carried here."""

    result: T


def _step(advance: Callable[[], CompletionRequest | HookCall | Landing]) -> _Asked | Done[Any]:
    try:
        return _Asked(llm.rendered(advance()))
    except StopIteration as stop:
        return Done(stop.value)
