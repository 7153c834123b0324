"""A process forks with sessions open and at work: in the child every call is refused, and none waits."""

import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from conversations import assistant, conversation, small, user
from forking import in_child
from gates import Gate
from servers.account import wait_until
from siltstone import AsyncSession, Session, TieredCompactor, hooks
from siltstone.knowledge import KnowledgeConfig
from siltstone.memory.base import Store

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")

RESULT = {"role": "tool", "tool_call_id": "c", "content": "x" * 9_000}
REFUSED = "context_length_exceeded"

CALLS: dict[str, Callable[[Any], Any]] = {
    "append": lambda s: s.append(user("new")),
    "ask": lambda s: s.ask(lambda messages: "answer"),
    "checkpoints": lambda s: s.checkpoints(),
    "chronicle_tool": lambda s: s.chronicle_tool,
    "compact": lambda s: s.compact(),
    "compact_memories": lambda s: s.compact(),
    "compact_tool": lambda s: s.compact_tool.call({}),
    "compactions": lambda s: s.compactions(),
    "expand": lambda s: s.expand(1),
    "fact_history": lambda s: s.fact_history("1"),
    "facts": lambda s: s.facts(),
    "standing": lambda s: s.standing(),
    "forget": lambda s: s.forget(text="question"),
    "fork": lambda s: s.fork("other"),
    "history": lambda s: s.history(),
    "learn": lambda s: s.learn(),
    "log": lambda s: s.log(),
    "memory_forget": lambda s: s.memory_forget.call({"ids": ["1"]}),
    "memory_get": lambda s: s.memory_get.call({"handle": "msg-0"}),
    "memory_instructions": lambda s: s.memory_instructions,
    "memory_save": lambda s: s.memory_save.call({"content": "Use tabs", "memory_type": "preference"}),
    "memory_search": lambda s: s.memory_search.call({"query": "question"}),
    "memory_status": lambda s: s.memory_status(),
    "new_run": lambda s: s.new_run(),
    "observe": lambda s: s.observe([user("new")]),
    "offload": lambda s: s.offload(RESULT),
    "pin": lambda s: s.pin(0),
    "plan": lambda s: s.plan(),
    "prepare": lambda s: s.prepare(),
    "recall": lambda s: s.recall("question"),
    "recalls": lambda s: s.recalls(),
    "record_denial": lambda s: s.record_denial("shell", "rm"),
    "reset_limits": lambda s: s.reset_limits(),
    "recover": lambda s: s.recover(ValueError(REFUSED)),
    "reload": lambda s: s.reload(),
    "resummarize": lambda s: s.resummarize(),
    "restore": lambda s: s.restore("1"),
    "retract": lambda s: s.retract("1"),
    "rules": lambda s: s.rules,
    "save": lambda s: s.save("Use tabs", "preference"),
    "search": lambda s: s.search("question"),
    "tools": lambda s: s.tools,
    "undo_compaction": lambda s: s.undo_compaction(),
    "unpin": lambda s: s.unpin(0),
    "view_at": lambda s: s.view_at(0),
    "wait_for_compaction": lambda s: s.wait_for_compaction(),
}
#: Properties of a session that need no store and no lock; ``close`` leaves the session to the parent.
TOLD = {
    "agent_model", "close", "context_window", "estimate_error", "limits", "open", "session_id", "store",
    "usage", "withhold_tools",
}  # fmt: skip


def refusals(session: Any, run: Callable[[Any], Any] = lambda answer: answer) -> str:
    """Which calls do anything else than to say by name whose the session is; empty for none."""
    found = []
    for name, call in CALLS.items():
        try:
            found.append(f"{name}: {run(call(session))!r}"[:200])
        except Exception as error:
            if type(error).__name__ != "StoreForkedError":
                found.append(f"{name}: {error!r}"[:200])
    return "\n".join(found)


@contextmanager
def held(*locks: Any) -> Iterator[None]:
    """Another thread has *locks*."""
    is_held, may_end = threading.Event(), threading.Event()

    def hold() -> None:
        with ExitStack() as stack:
            for lock in locks:
                stack.enter_context(lock)
            is_held.set()
            may_end.wait(600)

    holds = threading.Thread(target=hold)
    holds.start()
    try:
        assert is_held.wait(300)
        yield
    finally:
        may_end.set()
        holds.join()


@pytest.fixture
def session(store: Store) -> Iterator[Session]:
    """A session that another thread compacts, and waits for its model."""
    model = Gate()
    session = Session.open(
        None, "s", memory=store, policy=small(300), model=model, knowledge=KnowledgeConfig(min_entries=1),
        recall=True, allow_forget=True, context_window=3_000,
    )  # fmt: skip
    session.append(*conversation(6))
    compacts = threading.Thread(target=session.compact)
    compacts.start()
    assert model.reached.wait(300)
    yield session
    model.open.set()
    compacts.join()
    session.close()


def test_the_table_has_every_public_call() -> None:
    for kind in (Session, AsyncSession):
        assert {name for name in dir(kind) if not name.startswith("_")} == CALLS.keys() | TOLD


def refused(session: Session) -> str:
    found = refusals(session)
    session.close()
    assert session.session_id in repr(session)
    return found or "all refused"


def test_every_call_is_refused_at_once_whoever_compacts_or_has_which_lock(session: Session) -> None:
    core = session._core
    with held(core._lock, core.knowing.facts.lock, core.slot._lock, core.knowing.slot._lock):
        assert in_child(lambda: refused(session)) == "all refused"


def test_every_call_is_refused_while_a_summary_is_written_in_the_background(store: Store) -> None:
    model = Gate()
    with Session.open(
        None, "s", memory=store, policy=TieredCompactor(), model=model, context_window=2_000, recall=True,
        allow_forget=True,
    ) as session:  # fmt: skip
        for number in range(16):
            session.append(user(f"question {number} " + "word " * 80), assistant("Answer."))
        session.prepare()
        assert model.reached.wait(300)
        job = session._core.background.job
        assert job is not None
        with held(job._lock):
            assert in_child(lambda: refused(session)) == "all refused"
        model.open.set()


def test_every_call_of_an_async_session_is_refused_in_a_loop_of_the_child(tmp_path: Path) -> None:
    async def begun() -> AsyncSession:
        session = await AsyncSession.open(
            tmp_path, "s", policy=small(300), recall=True, allow_forget=True, context_window=3_000
        )
        await session.append(*conversation(3))
        return session

    session = asyncio.run(begun())

    def child() -> str:
        async def awaited(answer: Any) -> Any:
            return await answer if asyncio.iscoroutine(answer) else answer

        found = refusals(session, lambda answer: asyncio.run(asyncio.wait_for(awaited(answer), 60)))
        asyncio.run(session.close())
        return found or "all refused"

    with held(session._core._lock, session._core.slot._lock):
        assert in_child(child) == "all refused"
    session.store.close()


def test_a_child_has_worker_threads_of_its_own(tmp_path: Path) -> None:
    async def appended(number: int) -> int:
        async with AsyncSession.open(tmp_path, "s") as session:
            await session.append(user(f"message {number}"))
            return len(await session.log())

    assert asyncio.run(appended(0)) == 1
    assert in_child(lambda: str(asyncio.run(asyncio.wait_for(appended(1), 60)))) == "2"


def test_a_child_leaves_the_block_of_its_parents_session_in_peace(tmp_path: Path) -> None:
    def child() -> str:
        with session:
            pass
        return "left"

    with Session.open(tmp_path, "s") as session:
        session.append(user("hello"))
        assert in_child(child) == "left"
        session.append(assistant("still here"))
        assert len(session.log()) == 2


@pytest.mark.parametrize("store", ["durable"], indirect=True)
def test_a_child_opens_the_session_anew_while_its_parents_model_writes(session: Session, tmp_path: Path):
    def child() -> int:
        with Session.open(tmp_path, "s", policy=small(300), context_window=3_000) as own:
            own.compact()
            own.append(user("from the child"))
            own.save("Use tabs", "preference")
            return len(own.log())

    assert in_child(child) == "25"


def test_calls_under_way_in_the_parent_are_none_in_the_child() -> None:
    release = threading.Event()
    wait_until(lambda: not hooks._under_way, "the calls that other tests gave up")
    try:
        futures = [hooks.started(release.wait, 600, "hangs") for _ in range(hooks.MOST_THREADS)]
        with pytest.raises(hooks.TooManyThreads):
            hooks.started(print, "", "one more")
        told = in_child(lambda: hooks.started(str.upper, "begun", "in the child").result(120))
        assert told == "BEGUN"
    finally:
        release.set()
    assert all(future.result(300) for future in futures)


def test_a_child_opens_the_folder_of_an_archive_whose_lock_was_held(tmp_path: Path) -> None:
    def child() -> str:
        policy = small(300)
        with Session.open(tmp_path, "child", archive=tmp_path / "archive", policy=policy) as own:
            own.append(*conversation(6))
            return type(own.compact()).__name__

    with Session.open(tmp_path, "s", archive=tmp_path / "archive") as session:
        archive = session._core.archive
        assert archive is not None
        with held(archive._lock, archive.segments._lock):
            assert in_child(child) == "Compacted"
