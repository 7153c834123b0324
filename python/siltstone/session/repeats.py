"""Repeated calls and writes that must take effect once: after an interrupt, or after a conflict."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from siltstone.errors import StoreConflictError
from siltstone.memory.log import SessionVersion

T = TypeVar("T")

__all__ = ["TRIES", "Call", "Calls", "Write", "retried"]

TRIES = 12  #: attempts of a write, if each time another worker writes between its read and its write
MOST_CALLS = 64  #: remembered calls without an answer; beyond that the oldest is dropped


@dataclass(slots=True)
class Write:
    """A write under way: its id, and the messages it appends."""

    write_id: int
    items: Sequence[Any] = ()


def retried(step: Callable[[], T]) -> T:
    """Runs *step*, which reads the session and then writes it. Runs it again if another worker was faster.

    The caller holds the session's lock. A conflict other than a changed version is raised.
    """
    for _ in range(TRIES - 1):
        try:
            return step()
        except StoreConflictError as error:
            if not isinstance(vars(error).get("found"), SessionVersion):
                raise
    return step()


@dataclass(slots=True, eq=False)
class Call:
    """A call that must take effect only once, even if the caller repeats it after an interrupt.

    The call is made in a ``with`` block of this object, which ends with the answer in hand.

    Attributes:
        what: ``append``, ``offload``, ``undo`` or ``record_denial``.
        key: Its arguments.
        owner: The thread of a sync call; None for a call of an async session.
        write_id: The id of its write; 0 before the write.
        answer: Its answer, from the beginning of its write.
        is_answered: Whether the caller has the answer.
        is_over: Whether it has ended. Then another task may repeat it.
    """

    what: str
    key: tuple[object, ...]
    owner: int | None = None
    write_id: int = 0
    answer: Any = None
    is_answered: bool = False
    is_over: bool = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.is_over = True
        self.is_answered = kind is None


class Calls:
    """The last call of each thread, and calls of tasks that have no answer yet.

    There is no lock, since an interrupt could leave it held. Each step is one atomic operation on a dict.
    """

    def __init__(self) -> None:
        self._calls: dict[int, Call] = {}

    def begin(self, what: str, key: tuple[object, ...], owner: int | None = None) -> Call:
        """A new call, or an earlier equal call whose answer never reached the caller.

        Args:
            what: See :class:`Call`.
            key: Its arguments.
            owner: The thread of a sync call. The thread's last call has ended, since the thread makes another
                one. Without an owner only a call that is marked as over counts as repeated.
        """
        for name, before in list(self._calls.items()):
            if not before.is_over and (owner is None or before.owner != owner):
                continue
            if not before.is_answered and before.what == what and _same(before.key, key):
                return before
            self._calls.pop(name, None)
        call = Call(what, key, owner)
        self._calls[id(call) if owner is None else owner] = call
        if len(self._calls) > MOST_CALLS:
            for name in list(self._calls)[:-MOST_CALLS]:
                self._calls.pop(name, None)
        return call


def _same(one: tuple[object, ...], other: tuple[object, ...]) -> bool:
    """Whether two calls have the same arguments: the same objects, or equal ones."""
    return len(one) == len(other) and all(a is b or a == b for a, b in zip(one, other, strict=True))
