"""Interrupts at every line of a call: the session has its old state or its new one, and goes on.

A tracer raises ``KeyboardInterrupt`` at the first, the second, the third … line that one call runs in the
rooms that handle a session's state, and again in the clean-up of the interrupted call. Afterwards the same
object must go on, and must send what a session opened anew on the same store would send.
"""

import asyncio
import itertools
import json
import types
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import PROFILE
from conversations import conversation, small, user
from interrupting import CALLS, bound, interrupted_at
from siltstone import (
    AsyncSession,
    CompactionConfig,
    MemoryStore,
    Session,
    SimpleMemoryStore,
    ThresholdCompactor,
    estimate_tokens,
)
from siltstone.memory.base import Store
from siltstone.messages import validate_history
from siltstone.testing import ScriptedModel

POLICY = ThresholdCompactor(CompactionConfig(auto_compact_threshold=300, max_summary_tokens=60))
TRACED = (
    "session/", "engine.py", "llm.py", "memory/log.py", "memory/database_log.py", "stores/memory.py",
    "postgres/",
)  # fmt: skip


def opened(store: Store, name: str) -> Session:
    return Session.open(None, name, memory=store, policy=POLICY, model=ScriptedModel(), context_window=1_500)


#: Every line in the slow profile; else every tenth, beginning at another one for each call.
STRIDE = 1 if PROFILE == "slow" else 10

LONG = [] if PROFILE == "slow" else ["resummarize", "recover"]  #: fewer lines of these, each is many
#: A call has three times as many lines over PostgreSQL, and each session there begins with a mirror.
OVER_POSTGRES = 15


def interrupted(
    store: Store, name: str, before: Any, call: Any, stride: int = STRIDE, gaps: tuple[int, ...] = (0,)
) -> Iterator[Any]:
    """A session whose *call* was interrupted, the call, and how often it was: at some lines, until it ends.

    It begins at another line for each call, and each of *gaps* is the way to a second interrupt.
    """
    step = stride * (3 if name in LONG else 1)
    step *= OVER_POSTGRES if getattr(store, "schema", None) else 1
    first = (7 * [*CALLS].index(name) % step or step // 3) if name in CALLS else step - 1
    for line in itertools.count(first + 1, step):  # a short call has few lines
        for gap in gaps:
            session = opened(store, f"{name}-{line}-{gap}")
            for each in before:
                bound(session, each)()
            act = bound(session, call)
            struck = interrupted_at(line, act, TRACED, gap)
            yield session, act, struck
            if not struck:
                return


def judged(session: Session, store: Store) -> str:
    """What is wrong with *session* after an interrupt; empty where it goes on as it must."""
    later = user("after")
    session.append(later)
    prepared = session.prepare()
    if estimate_tokens(prepared.messages, "blocks") > 1_500 or validate_history(prepared.messages):
        return "the request is too large or illegal"
    if prepared.messages[-1] is not later:
        return "the request lacks the message that came after"
    with opened(store, session.session_id) as anew:
        if session.history() != anew.history():
            return "it sends something else than a session opened anew"
    log = [message["content"] for message in session.log()]
    if log.count("after") != 1 or max(map(log.count, log)) > log.count(None):
        return "a message is in the log twice"
    outcome = session.compact()
    if getattr(outcome, "reason", "") in {"in_flight", "stale", "internal"}:
        return f"it cannot compact any more: {outcome}"
    return ""


@pytest.mark.parametrize("gaps", [(0,), (1, 2, 5)], ids=["once", "in the clean-up too"])
@pytest.mark.parametrize("name", sorted(CALLS.keys() - {"offload"}))
def test_an_interrupt_at_any_line_leaves_the_old_state_or_the_new_one(
    store: Store, name: str, gaps: tuple[int, ...]
) -> None:
    found, often = Counter[str](), Counter[int]()
    stride = STRIDE if gaps == (0,) else 3 * STRIDE
    for session, _, struck in interrupted(store, name, *CALLS[name], stride, gaps):
        often[struck] += 1
        if struck:
            found[judged(session, store)] += 1
    assert set(found) == {""}, found
    assert often[2] or gaps == (0,) or name != "compact", "most of its lines have something to clean up"


def test_an_interrupted_append_that_is_repeated_adds_nothing_twice(store: Store) -> None:
    repeated = 0
    before = [("append", *conversation(1)[:2])]
    for session, act, is_struck in interrupted(store, "again", before, ("append", user("NEW")), 1):
        if is_struck:
            logged = len(session.log())
            assert act() == range(2, 3)
            repeated += logged == 3
            assert [message["content"] for message in session.log()].count("NEW") == 1
            assert session.prepare().messages[-1] == user("NEW")
    assert repeated > 1, "some interrupts came after the message was durable"


def test_an_interrupted_offload_that_is_repeated_adds_its_result_once_and_cuts_it(store: Store) -> None:
    before, call = CALLS["offload"]
    for session, act, is_struck in interrupted(store, "offload", before, call):
        if is_struck:
            with opened(store, session.session_id) as anew:  # as after the end of the process
                view = anew.history()
                assert len(view) == 5 or "tokens cut" in view[5]["content"], "both are there, or none"
            assert act() == range(5, 6)
        assert session.log()[5:] == [call[1]]
        assert "tokens cut" in session.history()[5]["content"]


def test_an_interrupted_fork_is_whole_or_is_made_again(store: Store) -> None:
    before: list[Any] = [("append", *conversation(4)), ("compact",)]
    for session, _, _ in interrupted(store, "forked", before, ("fork", "fork"), 4 * STRIDE):
        if not store.stats("fork").messages:
            session.fork("fork").close()
        with opened(store, "fork") as fork:
            assert (fork.log(), fork.history()) == (session.log(), session.history())
            assert len(fork.compactions()) == 1
        store.delete_session("fork")
        store.revive("fork")
    assert store.check() == []


def test_an_interrupted_undo_that_is_repeated_undoes_one_compaction(store: Store) -> None:
    before: list[Any] = [("append", *conversation(4)), ("compact",)] * 2
    for session, act, is_struck in interrupted(store, "undone", before, ("undo_compaction",)):
        if is_struck:
            act()
        assert len(session.compactions()) == 1


DUE_SOON = small(300)

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
def either(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    with SimpleMemoryStore() if request.param == "simple" else MemoryStore.open(tmp_path) as opened_async:
        yield opened_async


async def model(request: Any) -> str:
    await asyncio.sleep(0)
    return "What was said."


def plain(messages: Any) -> Any:
    return json.loads(json.dumps(messages))


async def judge(session: AsyncSession, either: Store, again: Callable[[], Any], wanted: Any) -> str:
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
    with Session.open(None, session.session_id, memory=either, policy=DUE_SOON) as anew:
        if plain(session.history()) != plain(anew.history()):
            return "it sends something else than a session opened anew"
    if getattr(await session.compact(), "reason", "") in {"in_flight", "stale", "internal"}:
        return "it cannot compact any more"
    return ""


@pytest.mark.anyio
@pytest.mark.parametrize("name", sorted(CALLS.keys() - {"resummarize", "recover"}))
async def test_a_call_that_is_cancelled_at_any_await_can_be_made_again(either: Store, name: str) -> None:
    """Twice as well: in the clean-up of the first cancellation."""
    before, call = CALLS[name]

    def opened_async(session_id: str) -> Any:
        return AsyncSession.open(
            None, session_id, memory=either, policy=DUE_SOON, model=model, context_window=1_500
        )

    async def begun(session: AsyncSession) -> Callable[[], Any]:
        for each in before:
            await bound(session, each)()
        return bound(session, call)

    async with opened_async("whole") as session:
        was_cancelled, awaits = await cancelled_at((await begun(session))(), ())
        assert not was_cancelled
        assert awaits > 0
        wanted = plain(session.history()), await session.log(), len(await session.compactions())
    found = Counter[str]()
    for place in range(1, awaits + 1):
        for gap in GAPS:
            async with opened_async(f"{place} {gap}") as session:
                act = await begun(session)
                was_cancelled, _ = await cancelled_at(act(), {place, place + gap})
                if name == "compact" and not was_cancelled:
                    continue  # the last await is behind the commit
                again = act if was_cancelled else nothing
                if name in ("compact", "undo") and len(await session.compactions()) == wanted[2]:
                    again = nothing if name == "compact" else act
                found[await judge(session, either, again, wanted)] += 1
    assert set(found) == {""}, found
    assert sum(found.values()) >= awaits


async def nothing() -> None:
    """In the place of a call that was done."""
