"""Raises an interrupt at any line of siltstone's code, as Ctrl-C or a host's timer could."""

from __future__ import annotations

import copy
import gc
import linecache
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import siltstone
from conversations import conversation, exchange, user

#: Calls of a session that a test disturbs: what is called before, and the call.
CALLS: dict[str, tuple[list[tuple[Any, ...]], tuple[Any, ...]]] = {
    "append": ([("append", *conversation(1))], ("append", user("NEW"))),
    "prepare": ([("append", *conversation(1)), ("prepare",), ("append", *conversation(5))], ("prepare",)),
    "compact": ([("append", *conversation(5))], ("compact",)),
    "undo": ([("append", *conversation(5)), ("compact",)], ("undo_compaction",)),
    "observe": ([("observe", conversation(3))], ("observe", [*conversation(3), user("NEW")])),
    "branch": ([("observe", conversation(3))], ("observe", [*conversation(2), user("NEW")])),
    "pin": ([("append", *conversation(3))], ("pin", 2)),
    "forget": ([("append", *conversation(5)), ("compact",)], ("forget", {"text": "question 1"})),
    "offload": (
        [("append", *conversation(1), *exchange(7)[:1])],
        ("offload", exchange(7, "a line of output\n" * 300)[1], 100),
    ),
    "resummarize": ([("append", *conversation(4)), ("compact",)] * 2, ("resummarize",)),
    "recover": (
        [("append", *conversation(5)), ("prepare",)],
        ("recover", ValueError("context_length_exceeded")),
    ),
}
OURS = str(Path(siltstone.__file__).parent)


def bound(session: Any, call: tuple[Any, ...]) -> Callable[[], Any]:
    """*call* of *session* with objects of its own; a dict is the options of ``forget``."""
    name, *given = copy.deepcopy(call)
    options = given.pop() if name == "forget" else {}
    return lambda: getattr(session, name)(*given, **options)


class Interrupt(KeyboardInterrupt):
    """Raised at a line."""


def lines_of(call: Callable[[], object]) -> int:
    """How many lines of siltstone *call* runs in this thread."""
    return _run(call, -1)[0]


def interrupted_at(line: int, call: Callable[[], object]) -> bool:
    """Runs *call*, and interrupts it before its *line*-th line of siltstone. Returns whether it did."""
    return _run(call, line)[1]


def _run(call: Callable[[], object], line: int) -> tuple[int, bool]:
    seen = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal seen
        if not frame.f_code.co_filename.startswith(OURS):
            return None
        if event == "line" and not is_with(frame):
            seen += 1
            if seen == line:
                sys.settrace(None)
                raise Interrupt
        return trace

    before = sys.gettrace()
    gc.disable()  # what is collected may be another test's, whose lines are none of this call
    sys.settrace(trace)
    try:
        call()
    except Interrupt:
        return seen, True
    finally:
        sys.settrace(before)
        gc.enable()
    return seen, False


def is_with(frame: FrameType) -> bool:
    """Whether the line is the head of a ``with``. It is traced again at the block's end, before ``__exit__``.

    A tracer can raise there, but no signal can: the interpreter checks for signals after the call.
    """
    return linecache.getline(frame.f_code.co_filename, frame.f_lineno).lstrip().startswith("with ")
