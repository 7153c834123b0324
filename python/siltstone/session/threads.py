"""Drives a flow from asyncio: its steps in a worker thread, its model calls on the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from siltstone import llm
from siltstone.errors import ModelError
from siltstone.hooks import HookCall, HookError
from siltstone.llm import AsyncModels, CompletionRequest, Steps

__all__ = ["drive", "in_thread"]

T = TypeVar("T")


async def in_thread(step: Callable[[], T]) -> T:
    """Runs *step* in a worker thread.

    A step cannot be interrupted half way; a caller that is cancelled meanwhile waits for its end, so
    that what it wrote and what the session holds agree.
    """
    task = asyncio.ensure_future(asyncio.to_thread(step))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():
            try:
                await asyncio.shield(task)
            except asyncio.CancelledError:
                continue
            except Exception:  # told to nobody: the caller asked for the end
                break
        raise


async def drive(flow: Steps[T], model: AsyncModels | None) -> T:
    """Like ``llm.run_async``, but the flow's own work never holds the event loop."""
    try:
        step = await in_thread(partial(_step, partial(next, flow)))
        while isinstance(step, _Asked):
            try:
                said = await llm.answer_async(model, step.asked)
            except (ModelError, HookError) as error:
                step = await in_thread(partial(_step, partial(flow.throw, error)))
            else:
                step = await in_thread(partial(_step, partial(flow.send, said)))
        result: T = step.result
        return result
    finally:
        flow.close()


@dataclass(frozen=True, slots=True)
class _Asked:
    """The flow wants a completion, or a hook's word."""

    asked: CompletionRequest | HookCall


@dataclass(frozen=True, slots=True)
class _Done(Generic[T]):
    """The flow came to its end. A StopIteration cannot cross a future, so its value is carried here."""

    result: T


def _step(advance: Callable[[], CompletionRequest | HookCall]) -> _Asked | _Done[Any]:
    try:
        return _Asked(advance())
    except StopIteration as stop:
        return _Done(stop.value)
