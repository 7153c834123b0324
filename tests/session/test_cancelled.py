"""A task is cancelled at each await of each call: the session has its old state or its new one."""

from __future__ import annotations

import asyncio
import json
import types
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from conversations import small, user
from interrupting import CALLS, bound
from siltstone import AsyncSession, MemoryStore, Session, SimpleMemoryStore
from siltstone.memory.base import Store

POLICY = small(300)

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


async def model(request: Any) -> str:
    await asyncio.sleep(0)
    return "What was said."


def plain(messages: Any) -> Any:
    return json.loads(json.dumps(messages))


async def judged(session: AsyncSession, store: Store, again: Callable[[], Any], wanted: Any) -> str:
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
@pytest.mark.parametrize("name", sorted(CALLS.keys() - {"resummarize", "recover"}))
async def test_a_call_that_is_cancelled_at_any_await_can_be_made_again(store: Store, name: str) -> None:
    """Twice as well: in the clean-up of the first cancellation."""
    before, call = CALLS[name]

    def opened(session_id: str) -> Any:
        return AsyncSession.open(
            None, session_id, memory=store, policy=POLICY, model=model, context_window=1_500
        )

    async def begun(session: AsyncSession) -> Callable[[], Any]:
        for each in before:
            await bound(session, each)()
        return bound(session, call)

    async with opened("whole") as session:
        was_cancelled, awaits = await cancelled_at((await begun(session))(), ())
        assert not was_cancelled
        assert awaits > 0
        wanted = plain(session.history()), await session.log(), len(await session.compactions())
    found = Counter[str]()
    for place in range(1, awaits + 1):
        for gap in GAPS:
            async with opened(f"{place} {gap}") as session:
                act = await begun(session)
                was_cancelled, _ = await cancelled_at(act(), {place, place + gap})
                if name == "compact" and not was_cancelled:
                    continue  # the last await is behind the commit
                again = act if was_cancelled else nothing
                if name in ("compact", "undo") and len(await session.compactions()) == wanted[2]:
                    again = nothing if name == "compact" else act
                found[await judged(session, store, again, wanted)] += 1
    assert set(found) == {""}, found
    assert sum(found.values()) >= awaits


async def nothing() -> None:
    """In the place of a call that was done."""
