"""Raises an interrupt at any line of siltstone's code, as Ctrl-C or a host's timer could."""

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
    return _run(call, ())[0]


def interrupted_at(
    line: int, call: Callable[[], object], rooms: tuple[str, ...] = ("",), again: int = 0
) -> int:
    """Runs *call*, and interrupts it before its *line*-th line of siltstone. Returns how often it did.

    Args:
        line: Counted from 1.
        call: It is 0 if this ended in spite of the interrupt.
        rooms: Lines of files whose paths in the package begin as one of these count.
        again: So many lines later, in the clean-up, comes a second interrupt; 0 for none.
    """
    return _run(call, (line, line + again), rooms)[1]


def _run(call: Callable[[], object], at: tuple[int, ...], rooms: tuple[str, ...] = ("",)) -> tuple[int, int]:
    seen = struck = 0

    def is_counted(frame: FrameType) -> bool:
        name = frame.f_code.co_filename
        return name.startswith(OURS) and name[len(OURS) + 1 :].startswith(rooms)

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal seen, struck
        if not is_counted(frame):
            return None
        if event == "line" and not is_with(frame):
            seen += 1
            if seen in at:
                struck += 1
                raise Interrupt  # which takes the tracer away
        return trace

    def trace_again(frame: FrameType | None, event: str, argument: Any) -> None:
        if struck and seen < at[-1] and sys.gettrace() is None:
            while frame is not None:
                frame.f_trace = trace if is_counted(frame) else None
                frame = frame.f_back
            sys.settrace(trace)

    before = sys.gettrace()
    gc.disable()  # what is collected may be another test's, whose lines are none of this call
    sys.setprofile(trace_again if len({*at}) > 1 else None)
    sys.settrace(trace)
    try:
        call()
    except Interrupt:
        return seen, struck
    finally:
        sys.setprofile(None)
        sys.settrace(before)
        gc.enable()
    return seen, 0


def is_with(frame: FrameType) -> bool:
    """Whether the line is the head of a ``with``. It is traced again at the block's end, before ``__exit__``.

    A tracer can raise there, but no signal can: the interpreter checks for signals after the call.
    """
    return linecache.getline(frame.f_code.co_filename, frame.f_lineno).lstrip().startswith("with ")
