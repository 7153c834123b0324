"""An interrupt at any line of our own code, as Ctrl-C or a host's timer would raise it there."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import siltstone

OURS = str(Path(siltstone.__file__).parent)


class Interrupt(KeyboardInterrupt):
    """Raised at a line."""


def lines_of(call: Callable[[], object]) -> int:
    """How many lines of ours *call* runs in this thread."""
    return _run(call, -1)[0]


def interrupted_at(line: int, call: Callable[[], object]) -> bool:
    """Runs *call*, and interrupts it before its *line*-th line of ours; whether it got so far."""
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
    sys.settrace(trace)
    try:
        call()
    except Interrupt:
        return seen, True
    finally:
        sys.settrace(before)
    return seen, False


def is_with(frame: FrameType) -> bool:
    """Whether the line is the head of a ``with``, which is met again on the way out, before ``__exit__``.

    A tracer may raise there, and no signal can: the interpreter looks for signals after the call.
    """
    return linecache.getline(frame.f_code.co_filename, frame.f_lineno).lstrip().startswith("with ")
