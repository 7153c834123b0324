"""A closed session is freed when its last reference goes: it leaves nothing to the garbage collector.

A view has two objects for each message. In a circle of references they would stay in memory until a full run
of the collector, and that run stops every thread of the process.
"""

import asyncio
import gc
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from siltstone import AsyncSession, Session

WORDS = "It holds {} bar, and all is well with it. "


def said(number: int) -> tuple[dict[str, str], dict[str, str]]:
    return (
        {"role": "user", "content": f"And valve {number}? " * 5},
        {"role": "assistant", "content": WORDS.format(number * 3) * 5},
    )


def append_and_compact(path: Path, **options: Any) -> None:
    """Everything that a session keeps between calls: a view, a compaction, its tools, a search, an undo."""
    with Session.open(path, "a", context_window=2_000, **options) as session:
        for number in range(60):
            for message in said(number):
                session.append(message)
            session.prepare()
        assert session.compactions()
        session.search("valve 17")
        assert next(tool.name for tool in session.tools) == "memory_search"
        assert session.memory_search is session.memory_search
        session.memory_search.call({"query": "valve 17"})
        session.plan()
        session.undo_compaction()


def observe(path: Path, **options: Any) -> None:
    messages: list[dict[str, str]] = []
    with Session.open(path, "a", context_window=2_000, **options) as session:
        for number in range(60):
            messages += said(number)
            session.observe(messages)
            session.prepare()


def fork(path: Path, **options: Any) -> None:
    with Session.open(path, "a", **options) as session:
        session.append(*said(0))
        session.fork("b").close()


def drop(path: Path, **options: Any) -> None:
    session = Session.open(path, "a", **options)
    session.append(*said(0))
    session.prepare()


def use_async(path: Path, **options: Any) -> None:

    async def use() -> None:
        async with await AsyncSession.open(path, "a", context_window=2_000, **options) as session:
            for number in range(60):
                for message in said(number):
                    await session.append(message)
                await session.prepare()
            await session.search("valve 17")

    asyncio.run(use())


def left_by(use: Callable[[], None]) -> Counter[str]:
    """The project's objects that only the collector would free after *use*, by type."""
    use()  # what is made once for a process is not counted
    gc.collect()
    gc.disable()
    try:
        use()
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        return Counter(type(each).__name__ for each in gc.garbage if _is_ours(each))
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


def _is_ours(thing: object) -> bool:
    return type(thing).__module__.partition(".")[0] == "siltstone"


@pytest.mark.parametrize("use", [append_and_compact, observe, fork, drop, use_async])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"recall": True},
        {"namespace": "n", "recall": True},
        {"preset": "meerkat"},
        {"preset": "rustant"},
        {"preset": "waterfall"},
    ],
    ids=["default", "recall", "namespace", "meerkat", "rustant", "waterfall"],
)
def test_a_session_is_freed_with_its_last_reference(tmp_path, use, options):
    paths = iter(range(2))
    assert left_by(lambda: use(tmp_path / str(next(paths)), **options)) == {}
