"""The sessions of an agent with many conversations: opened once, off the event loop, and closed again."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

import siltstone
from siltstone.adapters.base import at_once
from siltstone.adapters.pool import Pool

NO_DIALECT = cast("Any", None)  # no message is read here


@pytest.fixture
def store() -> Iterator[siltstone.SimpleMemoryStore]:
    with siltstone.SimpleMemoryStore() as kept:
        yield kept


def pool_of(source: Any, most_open: int = 2) -> Pool[Any]:
    return Pool(source, NO_DIALECT, most_open=most_open)


def test_a_conversation_that_cannot_be_opened_leaves_nothing_behind() -> None:
    def open_session(name: str) -> siltstone.Session:
        raise OSError(f"{name} is on a disk that is gone")

    async def open_async(name: str) -> siltstone.AsyncSession:
        raise OSError(f"{name} is on a disk that is gone")

    async def enter(pool: Pool[Any], name: str, *, waits: bool = True) -> None:
        async with pool.door(name, waits=waits):
            pass

    failing, awaited = pool_of(open_session), pool_of(open_async)
    for name in map(str, range(3)):
        with pytest.raises(OSError, match="gone"):
            at_once(enter(failing, name, waits=False))
        with pytest.raises(OSError, match="gone"):
            asyncio.run(enter(failing, name))
        with pytest.raises(OSError, match="gone"):
            asyncio.run(enter(awaited, name))
        with pytest.raises(siltstone.ConfigError, match="called a synchronous hook"):
            at_once(enter(awaited, name, waits=False))
    assert not failing._opening
    assert not awaited._opening


def test_an_awaited_hook_opens_and_closes_files_off_the_event_loop(
    store: siltstone.SimpleMemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    at: dict[str, set[int]] = {"open": set(), "close": set()}
    close = siltstone.Session.close

    def noted(session: siltstone.Session) -> None:
        at["close"].add(threading.get_ident())
        close(session)

    def open_session(name: str) -> siltstone.Session:
        at["open"].add(threading.get_ident())
        return store.session(name, context_window=10_000)

    monkeypatch.setattr(siltstone.Session, "close", noted)

    async def work() -> None:
        pool = pool_of(open_session, most_open=1)
        for name in ("ann", "ben"):
            async with pool.door(name) as door:
                assert door.session.session_id == name
        await pool.aclose()

    asyncio.run(work())
    assert at["open"]
    assert at["close"]
    assert threading.get_ident() not in at["open"] | at["close"]


@pytest.mark.parametrize("is_async", [False, True])
def test_tasks_that_come_at_once_open_a_conversation_once(
    store: siltstone.SimpleMemoryStore, tmp_path: Path, is_async: bool
) -> None:
    opened_for: list[str] = []

    def open_session(name: str) -> siltstone.Session:
        opened_for.append(name)
        return store.session(name, context_window=10_000)

    async def open_async(name: str) -> siltstone.AsyncSession:
        opened_for.append(name)
        return await siltstone.AsyncSession.open(tmp_path / name, name, context_window=10_000)

    async def enter(pool: Pool[Any], name: str) -> Any:
        async with pool.door(name) as door:
            await asyncio.sleep(0)
            return door.session

    async def work() -> None:
        pool = pool_of(open_async if is_async else open_session)
        found = await asyncio.gather(*(enter(pool, name) for name in ("ann", "ben") * 4))
        assert len({id(session) for session in found}) == 2
        await pool.aclose()
        assert not pool._opening

    asyncio.run(work())
    assert sorted(opened_for) == ["ann", "ben"]


def test_a_task_that_is_cancelled_while_it_opens_keeps_the_session_for_the_next(
    store: siltstone.SimpleMemoryStore,
) -> None:
    opened_for: list[str] = []
    begun, may_go = threading.Event(), threading.Event()

    def open_session(name: str) -> siltstone.Session:
        opened_for.append(name)
        begun.set()
        assert may_go.wait(300)
        return store.session(name, context_window=10_000)

    async def enter(pool: Pool[Any]) -> None:
        async with pool.door("ann"):
            pass

    async def work() -> None:
        pool = pool_of(open_session)
        task = asyncio.create_task(enter(pool))
        await asyncio.to_thread(begun.wait, 300)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        may_go.set()
        await enter(pool)
        await pool.aclose()

    asyncio.run(work())
    assert opened_for == ["ann"]


def test_the_sessions_of_a_pool_without_tools_name_none(store: siltstone.SimpleMemoryStore) -> None:
    async def names(*, tools: bool) -> bool:
        async with Pool(store, NO_DIALECT, tools=tools).door(f"chat-{tools}", waits=False) as door:
            return "memory_search" in door.session.memory_instructions

    assert [at_once(names(tools=each)) for each in (True, False)] == [True, False]
