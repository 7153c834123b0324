"""Short calls of an ``AsyncSession`` that the event loop makes by itself, and those that it must not make."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conversations import assistant, small, turns, user
from siltstone import (
    AsyncSession,
    Chain,
    MemoryStore,
    Session,
    SimpleMemoryStore,
    SmartTrim,
    SmartTrimConfig,
    _native,
)
from siltstone.errors import InvalidMessageError, StoreConflictError
from siltstone.memory.at_once import are_short, run_if_free
from siltstone.memory.base import Store
from siltstone.memory.limits import DEFAULTS
from siltstone.session.workers import workers
from siltstone.stores.database import DatabaseStore
from siltstone.testing import RecordingHook, ScriptedModel

pytestmark = pytest.mark.anyio

Calls = list[Any]


def conversation_of(count: int) -> list[dict[str, Any]]:
    return [message for turn in turns(count) for message in turn]


@pytest.fixture
def hops(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """The steps that are given to a worker thread."""
    steps, submit = Calls(), workers().submit

    def noted(work: Callable[..., None], *arguments: Any) -> Any:
        steps.append(arguments[-1])
        return submit(work, *arguments)

    monkeypatch.setattr(workers(), "submit", noted)
    return steps


@pytest.fixture(params=["memory", "file"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    with SimpleMemoryStore() if request.param == "memory" else MemoryStore.open(tmp_path) as opened:
        yield opened


@contextlib.asynccontextmanager
async def opened(store: Store, name: str = "s", **options: Any) -> AsyncIterator[AsyncSession]:
    """A session that has appended and prepared once."""
    given = {"policy": small(), "model": ScriptedModel(), "context_window": 100_000, **options}
    async with AsyncSession.open(None, name, memory=store, **given) as session:
        await session.append(user("one"), assistant("two"))
        await session.prepare()
        yield session


async def test_how_often_each_call_goes_to_a_thread(store: Store, hops: Calls) -> None:
    async with opened(store, recall=False) as session:
        counted = dict[str, int]()

        async def count(name: str, call: Any) -> Any:
            hops.clear()
            answer = await call
            counted[name] = len(hops)
            return answer

        await count("append", session.append(user("three")))
        await count("prepare", session.prepare())
        await count("prepare again", session.prepare())
        await count("observe", session.observe(session.history()))
        await count("plan", session.plan())
        await count("pin", session.pin(0))
        await count("unpin", session.unpin(0))
        fact = await count("save", session.save("The river carries silt."))
        await count("facts", session.facts())
        await count("fact_history", session.fact_history(fact.id))
        await count("retract", session.retract(fact.id))
        await count("record_denial", session.record_denial("run", {}, "no"))
        await count("search", session.search("silt"))
        await count("log", session.log())
        await count("compactions", session.compactions())
        await count("recalls", session.recalls())
        await count("view_at", session.view_at(0))
        await count("undo_compaction", session.undo_compaction())
        await count("reload", session.reload())
        await count("offload", session.offload({"role": "tool", "tool_call_id": "a", "content": "x"}))
        await count("forget", session.forget(text="three"))
        await count("compact", session.compact())
        await count("resummarize", session.resummarize())
        await count("wait_for_compaction", session.wait_for_compaction())
    once = [name for name, number in counted.items() if number == 1]
    none = [name for name, number in counted.items() if number == 0]
    in_memory = isinstance(store, SimpleMemoryStore)
    assert none == [*(["append"] if in_memory else []), "prepare", "prepare again", "wait_for_compaction"]
    assert sorted(once + none) == sorted(counted)


async def test_calls_on_the_loop_do_what_a_session_does(store: Store, hops: Calls) -> None:
    """Over compactions, alerts, notes and counts of a provider."""
    hook, twin_hook = RecordingHook(), RecordingHook()
    options: dict[str, Any] = {"warn_at": (0.3, 0.6), "reserved_tokens": 50, "context_window": 800}
    async with opened(store, "async", hooks=[hook], **options) as session:
        given: dict[str, Any] = {"policy": small(), "model": ScriptedModel(), **options}
        with Session.open(None, "sync", memory=store, hooks=[twin_hook], **given) as twin:
            twin.append(user("one"), assistant("two"))
            twin.prepare()
            for number, message in enumerate(conversation_of(15)):
                usage = {"input_tokens": 100 + number} if number % 5 == 0 else None
                assert await session.append(message, usage=usage) == twin.append(message, usage=usage)
                prepared, expected = await session.prepare(), twin.prepare()
                assert prepared.messages == expected.messages
                assert (prepared.tokens, prepared.is_noted) == (expected.tokens, expected.is_noted)
                assert type(prepared.compaction) is type(expected.compaction)
                ours, theirs = session._core.clock, twin._core.clock
                assert (ours.boundary, ours.band, ours.noted) == (theirs.boundary, theirs.band, theirs.noted)
            assert hook.names == twin_hook.names
            assert {"CompactionCompleted", "ContextWarning"} <= set(hook.names)
            assert await session.log() == twin.log()
            assert await session.plan() == twin.plan()
    assert 0 < len(hops) < 150


async def test_a_long_or_unknown_message_is_appended_in_a_thread(hops: Calls) -> None:
    class Text(str):
        __slots__ = ()

    with SimpleMemoryStore() as store:
        async with opened(store, policy=None) as session:
            for messages in (
                [user("x" * 20_000)],
                [user("and then?")] * 300,
                [user("and then?") | {"extra": list(range(300))}],
            ):
                hops.clear()
                await session.append(*messages)
                assert len(hops) == 1
            hops.clear()
            await session.append(user("and then?"), {"role": "user", "content": Text("so")})
            assert not hops


def test_messages_are_short_by_their_values_too() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    assert are_short([user("and then?"), {"n": [1, 2.5, None, True]}])
    for large in (
        [object()],
        [{"n": 1 << 100_000}],
        [{1: "a"}],
        [{"k" * 20_000: 1}],
        [deep],
        [user("x")] * 200,
    ):
        assert not are_short(large)


@pytest.mark.parametrize(
    ("before", "came"),
    [
        (1, [user("and then?")] * 40),
        (1, [user("silt " * 20_000)]),
        (1_100, [assistant("so")]),
    ],
    ids=["many", "long", "a long turn"],
)
async def test_a_boundary_with_much_to_look_at_is_made_in_a_thread(
    hops: Calls, before: int, came: list[Any]
) -> None:
    """Nothing is due, but the loop would stand still for it."""
    with SimpleMemoryStore() as store:
        async with opened(store, policy=None, context_window=1_000_000, recall=False) as session:
            await session.append(*[assistant("one")] * before)
            await session.prepare()
            hops.clear()
            await session.append(*came)
            appended = len(hops)
            prepared = await session.prepare()
            assert len(hops) == appended + 1
            assert prepared.messages == session.history()


async def test_hooks_hear_in_a_thread_how_full_the_window_is_with_what_comes_beside_the_history() -> None:
    """No policy is there, which would compare the sizes by itself."""
    told = list[int]()
    options: dict[str, Any] = {"policy": None, "context_window": 2_000, "reserved_tokens": 1_000}
    with SimpleMemoryStore() as store:
        async with opened(
            store, recall=False, hooks=[lambda _: told.append(threading.get_ident())], **options
        ) as session:
            for message in conversation_of(30):
                await session.append(message)
                await session.prepare()
    assert told
    assert threading.get_ident() not in told


async def test_other_tasks_go_on_while_one_appends_without_a_pause() -> None:
    with SimpleMemoryStore() as store:
        async with opened(store) as session:
            turns = list[int]()

            async def other() -> None:
                for turn in range(10):
                    turns.append(turn)
                    await asyncio.sleep(0)

            task = asyncio.create_task(other())
            for _ in range(11):
                await session.append(user("again"))
            assert turns == [*range(10)]
            await task


async def waited_by_a_worker(
    session: AsyncSession, call: str, hops: Calls, let_go: Callable[[], None]
) -> None:
    """Makes the call, which has to wait until *let_go* is called: a worker waits, and the loop goes on."""
    hops.clear()
    task = asyncio.create_task(
        session.append(user("three")) if call == "append" else session.prepare()  # type: ignore[arg-type]
    )
    for _ in range(20):
        await asyncio.sleep(0)
    assert len(hops) == 1
    assert not task.done()
    let_go()
    await task


@pytest.mark.parametrize("call", ["append", "prepare"])
async def test_the_loop_never_waits_for_a_thread_that_holds_the_session(
    store: Store, call: str, hops: Calls
) -> None:
    async with opened(store) as session:
        held, let_go = threading.Event(), threading.Event()

        def hold() -> None:
            with session._core._lock:
                held.set()
                let_go.wait(300)

        if call == "prepare":
            await session.append(user("three"))
        thread = threading.Thread(target=hold)
        thread.start()
        held.wait(300)
        await waited_by_a_worker(session, call, hops, let_go.set)
        thread.join()
        assert session.history()[-1] == user("three")


@pytest.mark.parametrize("call", ["append", "prepare"])
async def test_the_loop_never_waits_for_a_thread_that_writes_to_the_store(call: str, hops: Calls) -> None:
    """The keeper of a mirror is called in the middle of a write, so the other thread stands still there."""
    held, let_go, is_held = threading.Event(), threading.Event(), list[bool]()

    def keep(*_: Any) -> None:
        if is_held:
            held.set()
            let_go.wait(300)

    class Mirror(DatabaseStore):
        _is_in_memory = True
        search = SimpleMemoryStore.search

    with Mirror(_native.open_mirror("xxh3", keep), DEFAULTS) as store:
        async with opened(store) as session:
            other = Session.open(None, "other", memory=store, policy=None)
            if call == "prepare":
                await session.append(user("three"))
            is_held.append(True)
            thread = threading.Thread(target=other.append, args=(user("slowly"),))
            thread.start()
            held.wait(300)

            def go_on() -> None:
                is_held.clear()
                let_go.set()

            await waited_by_a_worker(session, call, hops, go_on)
            thread.join()
            assert session.history()[-1] == user("three")
            other.close()


async def test_what_another_worker_did_is_read_in_a_thread(store: Store, hops: Calls) -> None:
    async with opened(store) as session:
        with Session.open(None, "s", memory=store, policy=small(), model=ScriptedModel()) as other:
            other.append(user("from the other"))
            hops.clear()
            assert (await session.prepare()).messages[-1] == user("from the other")
            assert hops
            with pytest.raises(StoreConflictError, match=r"reload\(\)"):
                await session.append(user("mine"))
            await session.reload()
            assert await session.append(user("mine")) == range(3, 4)
            assert other.history() == session.history()


async def test_an_append_after_a_compaction_of_another_worker_follows_it() -> None:
    with SimpleMemoryStore() as store:
        async with opened(store) as session:
            await session.append(*conversation_of(12))
            with Session.open(None, "s", memory=store, policy=small(), model=ScriptedModel()) as other:
                other.compact()
                end = session._core.next_seq
                assert await session.append(user("mine")) == range(end, end + 1)
                assert session.history() == other.history()
                assert len(other.history()) < end


async def test_a_cancelled_append_on_the_loop_is_whole_and_its_repetition_appends_nothing(
    hops: Calls,
) -> None:
    with SimpleMemoryStore() as store:
        async with opened(store) as session:
            hops.clear()
            task = asyncio.create_task(session.append(user("three")))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert not hops
            assert await session.append(user("three")) == range(2, 3)
            assert await session.append(user("three")) == range(3, 4)
            assert len(await session.log()) == 4


async def test_an_error_on_the_loop_comes_to_its_caller(hops: Calls) -> None:
    with SimpleMemoryStore() as store:
        async with opened(store) as session:
            hops.clear()
            with pytest.raises(InvalidMessageError):
                await session.append({"role": "user"}, {"neither": "role nor content"})
            assert not hops
            assert await session.append(user("three")) == range(2, 3)


async def test_code_of_the_caller_decides_and_reads_in_a_thread(store: Store, hops: Calls) -> None:
    loop = threading.get_ident()
    used = list[str]()

    class Own(type(small())):  # type: ignore[misc]
        def should_compact(self, context: Any) -> None:
            assert threading.get_ident() != loop
            used.append("policy")

    def heard(_: Any) -> None:
        assert threading.get_ident() != loop
        used.append("hook")

    async with opened(store, policy=Own(small().config)) as session:
        await session.append(user("three"))
        await session.prepare()
        assert used == ["policy", "policy"]
    async with opened(
        store, "chain", policy=Chain(SmartTrim(SmartTrimConfig(trim_scope="history")), Own(small().config))
    ) as session:
        used.clear()
        await session.append(user("three"))
        await session.prepare()
        assert used == ["policy"]
    async with opened(store, "other", policy=small(390), context_window=400, hooks=[heard]) as session:
        used.clear()
        await session.append(user("word " * 250))
        await session.prepare()
        assert "hook" in used


def test_a_step_runs_under_a_free_lock_alone_and_leaves_it_free() -> None:
    lock, seen = threading.RLock(), list[Any]()

    def other() -> None:
        seen.append(run_if_free(lock, lambda: "done"))

    def in_a_thread() -> Any:
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        return seen.pop()

    def interrupted() -> None:
        raise KeyboardInterrupt

    assert in_a_thread() == "done"
    assert run_if_free(lock, in_a_thread) is None
    with pytest.raises(KeyboardInterrupt):
        run_if_free(lock, interrupted)
    assert in_a_thread() == "done"
