"""Long calls let other threads take the interpreter, also where none of their values runs Python."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from siltstone import SimpleMemoryStore, _native
from siltstone.memory.convert import NewEntry
from siltstone.messages import History

MANY = 1_024
RAWS = [{"role": "user", "content": f"message {number}"} for number in range(MANY)]


def moments(call: Callable[[], object]) -> int:
    """The moments of *call* in which a thread that has waited for the interpreter gets it."""
    found = list[str]()

    def seen(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename == "<string>":
            found.append(frame.f_code.co_name)

    before = sys.getprofile()
    sys.setprofile(seen)
    try:
        call()
    finally:
        sys.setprofile(before)
    return len(found)


def inserted(count: int) -> Any:
    """A call that stores *count* entries, which a native iterator hands out."""
    entries = [NewEntry(f"text {number}", number, number + 1, "user", None, "", 1) for number in range(count)]
    store = SimpleMemoryStore()
    return lambda: store._native.insert_entries("s", iter(entries), 1)


CALLS: dict[str, Callable[[int], Callable[[], object]]] = {
    "entries are stored": inserted,
    "messages are outlined": lambda count: lambda: History(RAWS[:count]),
    "messages are written as lines": lambda count: lambda: _native.render_messages(RAWS, 0, count),
    "messages are written as items": lambda count: lambda: _native.message_items(RAWS, 0, count),
    "lines are counted": lambda count: lambda: _native.rendered_tokens(RAWS, 0, count, "blocks"),
    "digests are made": lambda count: lambda: _native.json_digests(RAWS[:count]),
    "lists are compared": lambda count: lambda: _native.begins_alike(RAWS[:count], RAWS),
}


@pytest.mark.parametrize("name", CALLS)
def test_others_may_take_the_interpreter_during_a_long_call(name: str) -> None:
    """A native loop is one step for Python: without such a moment a thread waits for all of it."""
    assert moments(CALLS[name](MANY)) - moments(CALLS[name](8)) >= MANY // 64


def test_what_a_moment_raises_ends_the_call_before_anything_is_written() -> None:
    """A handler of a signal runs in such a moment: an interrupt does not wait for the end of a long call."""
    store = SimpleMemoryStore()
    entries = [NewEntry(f"text {number}", number, number + 1, "user", None, "", 1) for number in range(MANY)]

    def interrupt(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename == "<string>":
            raise KeyboardInterrupt

    before = sys.getprofile()
    sys.setprofile(interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            store._native.insert_entries("s", iter(entries), 1)
    finally:
        sys.setprofile(before)
    assert store.stats("s").entries == 0
