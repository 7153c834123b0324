"""Steps of an ``AsyncSession`` in worker threads."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import subprocess
import sys
import threading
import time
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from siltstone.session.aio import in_thread

pytestmark = pytest.mark.anyio


async def test_a_cancelled_caller_waits_for_the_end_of_its_step() -> None:
    begun, go_on, done = threading.Event(), threading.Event(), list[str]()

    def step() -> None:
        begun.set()
        go_on.wait(300)
        done.append("to the end")

    task = asyncio.create_task(in_thread(step))
    while not begun.is_set():
        await asyncio.sleep(0)
    for _ in range(3):
        task.cancel()
        await asyncio.sleep(0)
    assert not task.done()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert done == ["to the end"]


async def test_a_step_that_fails_after_its_caller_was_cancelled_is_told_to_nobody() -> None:
    begun, go_on = threading.Event(), threading.Event()
    told = list[dict[str, Any]]()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))

    def step() -> None:
        begun.set()
        go_on.wait(300)
        raise ValueError("too late")

    task = asyncio.create_task(in_thread(step))
    while not begun.is_set():
        await asyncio.sleep(0)
    task.cancel()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not told


@pytest.mark.parametrize("error", [ValueError("no"), StopIteration(3)])
async def test_the_error_of_a_step_comes_to_its_caller(error: Exception) -> None:
    def step() -> None:
        raise error

    with pytest.raises((ValueError, RuntimeError)) as raised:
        await in_thread(step)
    assert error in (raised.value, raised.value.__cause__)


async def test_a_step_that_failed_keeps_no_frame_of_its_caller() -> None:
    class Held:
        pass

    def step() -> None:
        raise ValueError("no")

    async def caller() -> weakref.ref[Held]:
        held = Held()
        with suppress(ValueError):
            await in_thread(step)
        return weakref.ref(held)

    gc.collect()
    gc.disable()
    try:
        held = await caller()
        until = time.monotonic() + 5
        while held() is not None and time.monotonic() < until:  # its thread lets go of the error last
            await asyncio.sleep(0.001)
        assert held() is None
    finally:
        gc.enable()


async def test_a_step_sees_the_context_of_its_caller() -> None:
    name = contextvars.ContextVar("name", default="nobody")
    name.set("somebody")
    assert await in_thread(name.get) == "somebody"


async def test_a_caller_goes_on_in_its_own_context() -> None:
    """What a host has bound, such as the trace of a request, is there after the call too."""
    name = contextvars.ContextVar("name", default="nobody")

    async def caller(own: str) -> str:
        name.set(own)
        await in_thread(lambda: None)
        return name.get()

    names = ["one", "other"]
    assert await asyncio.gather(*map(caller, names)) == names


def test_the_end_of_a_process_waits_for_the_step_under_way(tmp_path: Path) -> None:
    """Nobody awaits it any more: its loop has ended."""
    program = """
import asyncio, sys, time
from pathlib import Path
from siltstone.session.aio import in_thread

def step():
    begun.append(1)
    time.sleep(0.3)
    Path(sys.argv[1]).write_text("to the end")

begun = []
loop = asyncio.new_event_loop()
task = loop.create_task(in_thread(step))
while not begun:
    loop.run_until_complete(asyncio.sleep(0))
"""
    path = tmp_path / "written"
    command = [sys.executable, "-W", "ignore", "-c", program, str(path)]
    done = subprocess.run(command, check=True, timeout=60, capture_output=True, text=True)
    assert "Traceback" not in done.stderr
    assert path.read_text() == "to the end"
