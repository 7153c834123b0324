"""``AsyncSession`` is the twin of ``Session``, and stays whole under cancellation; its steps in threads."""

import asyncio
import contextvars
import copy
import gc
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from conversations import assistant, conversation, exchange, small, user
from siltstone import (
    AsyncSession,
    CompactionConfig,
    CompletionRequest,
    MemoryStore,
    Session,
    SimpleMemoryStore,
    ThresholdCompactor,
    TieredCompactor,
)
from siltstone.compaction.material import RequestMessages
from siltstone.errors import SessionBusyError
from siltstone.llm import Steps
from siltstone.session.aio import in_thread
from siltstone.session.boundary import Prepared
from siltstone.testing import RecordingHook, ScriptedModel

pytestmark = pytest.mark.anyio

POLICY = ThresholdCompactor(CompactionConfig(auto_compact_threshold=600, max_summary_tokens=50))


def told(answer: Any) -> Any:
    """What two sessions tell alike: no clock, and no object of a session's own."""
    if isinstance(answer, list | tuple):
        return [told(each) for each in answer]
    if isinstance(answer, Prepared):
        return answer.messages, answer.recalled
    return answer if isinstance(answer, str | int | range | dict) else type(answer)


async def test_every_call_gives_what_that_of_its_twin_gives(tmp_path: Path) -> None:
    said = conversation(8)
    calls: list[tuple[Any, ...]] = [
        ("observe", said), ("observe", [*said[:4], user("Changed.")]), ("undo_compaction",), ("pin", 0),
        ("plan",), ("compact",), ("compactions",), ("view_at", 0), ("expand", 3), ("unpin", 0),
        ("append", user("topic1?"), *exchange(9)[:1]), ("offload", exchange(9, "silt\n" * 900)[1], 64),
        ("recover", ValueError("context_length_exceeded")), ("prepare",), ("recall", "topic1"), ("recalls",),
        ("save", "The door code is 4711."), ("facts",), ("record_denial", "shell", "rm", "no"), ("learn",),
        ("search", "topic1"), ("standing",), ("resummarize",), ("forget",),
        ("reload",), ("log",), ("fork", "t"), ("prepare",),
    ]  # fmt: skip
    options: dict[str, Any] = {"policy": POLICY, "context_window": 4_000, "recall": True, "namespace": "team"}
    sync, asynchronous = tmp_path / "sync", tmp_path / "async"
    with Session.open(sync, "s", model=ScriptedModel(), **options) as twin:
        async with AsyncSession.open(asynchronous, "s", model=ScriptedModel(), **options) as session:
            for name, *given in calls:
                named = {"text": "topic2"} if name == "forget" else {}
                expected = getattr(twin, name)(*given, **named)
                answer = await getattr(session, name)(*copy.deepcopy(given), **named)
                if name == "fork":
                    assert await answer.log() == expected.log()
                    await answer.close()
                    expected.close()
                else:
                    assert told(answer) == told(expected), name
                assert session.history() == twin.history(), name


async def goes_on_meanwhile(call: Awaitable[Any], let_go: Callable[[], None]) -> None:
    """The loop goes on while *call* waits for what *let_go* lets go."""
    task = asyncio.ensure_future(call)
    for _ in range(20):
        await asyncio.sleep(0)
    assert not task.done()
    let_go()
    await task


@pytest.mark.parametrize("call", ["append", "prepare"])
async def test_the_loop_never_waits_for_a_thread_that_has_the_session(tmp_path: Path, call: str) -> None:
    async with AsyncSession.open(tmp_path, "s", policy=POLICY, context_window=9_000) as session:
        await session.append(user("one"), assistant("two"))
        await session.prepare()
        await session.append(user("three"))
        has_it, let_go = threading.Event(), threading.Event()

        def hold() -> None:
            has_it.set()
            let_go.wait(300)

        thread = threading.Thread(target=session._core.locked, args=(hold,))
        thread.start()
        has_it.wait(300)
        waiting = session.append(user("four")) if call == "append" else session.prepare()
        await goes_on_meanwhile(waiting, let_go.set)
        thread.join()
        assert session.history()[-1] == user("four" if call == "append" else "three")


async def test_code_of_the_caller_never_runs_on_the_event_loop(tmp_path: Path) -> None:
    loop, used = threading.get_ident(), set[str]()

    def seen(what: str) -> None:
        assert threading.get_ident() != loop
        used.add(what)

    class Own(ThresholdCompactor):
        def should_compact(self, context: Any) -> Any:
            seen("policy")
            return super().should_compact(context)

    def model(_: Any) -> str:
        seen("model")
        return "A summary."

    async with AsyncSession.open(
        tmp_path, "s", policy=Own(small(390).config), model=model, hooks=[lambda _: seen("hook")]
    ) as session:
        await session.append(user("one"), assistant("two"))
        await session.prepare()
        await session.append(*conversation(6))
        await session.prepare()
        assert await session.compactions()
    assert used == {"policy", "hook", "model"}


@pytest.mark.parametrize("policy", [POLICY, TieredCompactor()], ids=["threshold", "tiered"])
async def test_a_request_is_written_off_the_event_loop(
    policy: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thousands of messages take tens of milliseconds to write: nobody else of the loop may wait for them."""
    written, write = list[int](), RequestMessages._made

    def noted(request: RequestMessages) -> Any:
        if request._found is None:
            written.append(threading.get_ident())
        return write(request)

    monkeypatch.setattr(RequestMessages, "_made", noted)
    model = ScriptedModel(["They talked."] * 9)
    async with AsyncSession.open(tmp_path, "s", policy=policy, model=model, context_window=2_000) as session:
        for number in range(16):
            await session.append(user(f"Question {number}. " + "word " * 80), assistant("Answer."))
        await session.prepare()
        await session.wait_for_compaction()
        if policy is POLICY:
            await session.compact()
        await session.prepare()
        assert await session.compactions()
    assert written
    assert threading.get_ident() not in written


async def test_mk_57_cancelled_while_the_model_writes_changes_nothing(tmp_path: Path) -> None:
    hook = RecordingHook()
    asked = asyncio.Event()

    async def model(request: CompletionRequest) -> str:
        asked.set()
        await asyncio.sleep(60)
        return "never"

    async with await AsyncSession.open(tmp_path, "s", policy=POLICY, model=model, hooks=[hook]) as session:
        await session.append(*conversation(6))
        before = session.history()
        task = asyncio.create_task(session.compact())
        await asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert session.history() == before
        assert hook.names == ["CompactionStarted", "CompactionFailed"]
        assert all(hit.in_context for hit in await session.search("topic0"))
    with MemoryStore.open(tmp_path) as store:
        assert store.entries("s").entries == ()
    with Session.open(tmp_path, "s") as again:
        assert again.history() == before
        assert again.compactions(undone=True) == []


def steps(result: Any, *, asks: bool = False, waits: Callable[[], object] = list) -> Steps[Any]:
    """A flow that may ask for a summary, then waits in its thread, and ends."""
    if asks:
        yield CompletionRequest(messages=(user("what was said"),), max_tokens=10, purpose="summary")
    waits()
    return result


async def turns_of_the_loop(until: Callable[[], object]) -> None:
    while not until():
        await asyncio.sleep(0)


@asynccontextmanager
async def asking(**options: Any) -> AsyncIterator[tuple[AsyncSession, asyncio.Task[Any], asyncio.Event]]:
    """A session, its first flow, which waits for the model, and what lets that answer."""
    said = asyncio.Event()

    async def model(_: CompletionRequest) -> str:
        await said.wait()
        return "a summary"

    async with AsyncSession.open(None, "s", memory=SimpleMemoryStore(), model=model) as session:
        first = asyncio.create_task(session._run(steps(1, asks=True, **options)))
        await turns_of_the_loop(lambda: session._core.slot.is_held and not session._turn.locked())
        yield session, first, said


async def test_a_call_that_is_cancelled_as_it_waits_keeps_no_other_waiting() -> None:
    """It is the next that may compact, and waits for a step of another call to end."""
    began, go = threading.Event(), threading.Event()

    def busy() -> None:
        began.set()
        go.wait(10)

    async with asking() as (session, first, said):
        second = asyncio.create_task(session._run(steps(2)))
        await asyncio.sleep(0)
        said.set()
        await first
        other = asyncio.create_task(session._step(busy))
        await turns_of_the_loop(began.is_set)
        second.cancel()
        go.set()
        with pytest.raises(asyncio.CancelledError):
            await second
        await other
        assert not session._core.slot.is_held
        assert await session._run(steps(3), timeout=0) == 3


async def test_a_call_that_comes_as_a_compaction_ends_goes_behind_those_that_wait() -> None:
    """The next one may begin and has not noticed yet. Two calls once waited for one another there."""
    last, go, begun = threading.Event(), threading.Event(), list[int]()

    def end() -> None:
        last.set()
        go.wait(10)

    async with asking(waits=end) as (session, first, said):
        second = asyncio.create_task(session._run(steps(2, waits=lambda: begun.append(2))))
        await asyncio.sleep(0)
        said.set()
        await turns_of_the_loop(last.is_set)
        third = asyncio.create_task(session._run(steps(3, waits=lambda: begun.append(3))))
        await asyncio.sleep(0)
        go.set()
        assert await asyncio.wait_for(asyncio.gather(first, second, third), 20) == [1, 2, 3]
        assert begun == [2, 3]


async def test_a_call_that_waits_in_vain_leaves_the_slot_to_its_holder() -> None:
    """A call from inside the holder must still be refused: it would wait for itself."""
    said, inside = asyncio.Event(), list[str]()

    async def model(_: CompletionRequest) -> str:
        await said.wait()
        with pytest.raises(SessionBusyError):
            await session._run(steps("inside"))
        inside.append("refused")
        return "a summary"

    async with AsyncSession.open(None, "s", memory=SimpleMemoryStore(), model=model) as session:
        first = asyncio.create_task(session._run(steps(1, asks=True)))
        await turns_of_the_loop(lambda: session._core.slot.is_held and not session._turn.locked())
        for seconds in (0.0, 0.01):
            with pytest.raises(SessionBusyError):
                await session._run(steps(2), timeout=seconds)
        assert session._core.slot.is_held
        said.set()
        assert await asyncio.wait_for(first, 20) == 1
        assert inside == ["refused"]
        assert not session._core.slot.is_held


async def test_a_call_waits_until_those_before_it_on_the_loop_have_ended() -> None:
    async with AsyncSession.open(None, "s", memory=SimpleMemoryStore()) as session:
        async with session._turn:
            later = asyncio.create_task(session.append(user("second")))
            await asyncio.wait([later], timeout=0.2)
            assert not later.done()
        assert await later == range(1)


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
