"""A task is cancelled at each await of each call: the session has its old state or its new one."""

from __future__ import annotations

import asyncio
import copy
import json
import types
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Generator, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from conversations import exchange, small, turns, user
from siltstone import AsyncSession, MemoryStore, Session, SimpleMemoryStore
from siltstone.memory.base import Store

POLICY = small(300)
Call: TypeAlias = Callable[[], Awaitable[Any]]

GAPS = (0, 1, 2, 3)  #: awaits between the first cancellation and a second one; 0 for none


@types.coroutine
def cancelled_at(call: Awaitable[Any], places: Collection[int]) -> Generator[Any, Any, tuple[bool, int]]:
    """Awaits *call*, and cancels its task at those of its awaits that *places* name, from 1 on.

    Returns:
        Whether it was cancelled, and how many awaits there were.
    """
    steps, seen, raised = call.__await__(), 0, None
    task = asyncio.current_task()
    assert task is not None
    while True:
        try:
            future = steps.send(None) if raised is None else steps.throw(raised)
        except StopIteration:
            return False, seen
        except asyncio.CancelledError:
            while task.cancelling():
                task.uncancel()
            return True, seen
        seen += 1
        if seen in places:
            task.cancel()
        raised = None
        try:
            yield future
        except BaseException as error:
            raised = error


@pytest.fixture(params=["simple", "durable"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    with SimpleMemoryStore() if request.param == "simple" else MemoryStore.open(tmp_path) as opened:
        yield opened


def said(count: int) -> list[dict[str, Any]]:
    return [message for turn in turns(count) for message in turn]


async def model(request: Any) -> str:
    await asyncio.sleep(0)
    return "What was said."


async def appending(session: AsyncSession) -> Call:
    await session.append(*said(1))
    new = user("NEW")
    return lambda: session.append(new)


async def preparing(session: AsyncSession) -> Call:
    await session.append(*said(1))
    await session.prepare()
    await session.append(*said(5))
    return session.prepare


async def compacting(session: AsyncSession) -> Call:
    await session.append(*said(5))
    return session.compact


async def undoing(session: AsyncSession) -> Call:
    await session.append(*said(5))
    await session.compact()
    return session.undo_compaction


async def observing(session: AsyncSession) -> Call:
    await session.observe(said(3))
    longer = [*said(3), user("NEW")]
    return lambda: session.observe(copy.deepcopy(longer))


async def branching(session: AsyncSession) -> Call:
    await session.observe(said(3))
    other = [*said(2), user("NEW")]
    return lambda: session.observe(copy.deepcopy(other))


async def pinning(session: AsyncSession) -> Call:
    await session.append(*said(3))
    return lambda: session.pin(2)


async def forgetting(session: AsyncSession) -> Call:
    await session.append(*said(5))
    await session.compact()
    return lambda: session.forget(text="question 1")


async def offloading(session: AsyncSession) -> Call:
    call, result = exchange(7, "a line of output\n" * 300)
    await session.append(*said(1), call)
    return lambda: session.offload(result, 100)


CALLS = [
    appending, preparing, compacting, undoing, observing, branching, pinning, forgetting, offloading,
]  # fmt: skip


def plain(messages: Any) -> Any:
    return json.loads(json.dumps(messages))


async def judged(session: AsyncSession, store: Store, again: Call, wanted: Any) -> str:
    """What is wrong with *session* after a cancellation; empty where it goes on as it must."""
    if session._core.slot.is_held:
        return "the place for a compaction is held"
    await again()  # what was cancelled is called once more
    if (plain(session.history()), await session.log(), len(await session.compactions())) != wanted:
        return "the call made again comes to something else"
    later = user("after")
    await session.append(later)
    prepared = await session.prepare()
    if prepared.messages[-1] is not later:
        return "the request lacks the message that came after"
    with Session.open(None, session.session_id, memory=store, policy=POLICY) as anew:
        if plain(session.history()) != plain(anew.history()):
            return "it sends something else than a session opened anew"
    if getattr(await session.compact(), "reason", "") in {"in_flight", "stale", "internal"}:
        return "it cannot compact any more"
    return ""


@pytest.mark.anyio
@pytest.mark.parametrize("call", CALLS)
async def test_a_call_that_is_cancelled_at_any_await_can_be_made_again(
    store: Store, call: Callable[[AsyncSession], Awaitable[Call]]
) -> None:
    """Twice as well: in the clean-up of the first cancellation."""

    def opened(name: str) -> Any:
        return AsyncSession.open(None, name, memory=store, policy=POLICY, model=model, context_window=1_500)

    async with opened("whole") as session:
        was_cancelled, awaits = await cancelled_at((await call(session))(), ())
        assert not was_cancelled
        assert awaits > 0
        wanted = plain(session.history()), await session.log(), len(await session.compactions())
    found = Counter[str]()
    for place in range(1, awaits + 1):
        for gap in GAPS:
            async with opened(f"{place} {gap}") as session:
                act = await call(session)
                was_cancelled, _ = await cancelled_at(act(), {place, place + gap})
                if call is compacting and not was_cancelled:
                    continue  # the last await is behind the commit
                again = act if was_cancelled else nothing
                if call in (compacting, undoing) and len(await session.compactions()) == wanted[2]:
                    again = nothing if call is compacting else act
                found[await judged(session, store, again, wanted)] += 1
    assert set(found) == {""}, found
    assert sum(found.values()) >= awaits


async def nothing() -> None:
    """In the place of a call that was done."""
