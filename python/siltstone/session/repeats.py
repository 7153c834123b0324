"""Calls and writes that are repeated, and must take effect once: after an interrupt, or after a conflict."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from siltstone.errors import StoreConflictError
from siltstone.memory.log import SessionVersion
from siltstone.values import dataclass

__all__ = ["TRIES", "Call", "Calls", "Write", "retried"]

TRIES = 12  #: of a write that others' writes overtake, each between its reading and its writing
MOST_CALLS = 64  #: calls that are remembered, until their callers have the answers


T = TypeVar("T")


@dataclass(slots=True)
class Write:
    """A write under way: its id, and the messages it appends."""

    write_id: int
    items: Sequence[Any] = ()


def retried(step: Callable[[], T]) -> T:
    """Runs *step*, which reads the session and then writes; again if another worker was faster.

    By whoever has the session's lock. A conflict that is more than a version that has moved is raised.
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
    """A call that must not be done twice, as an interrupted one may be repeated.

    Attributes:
        what: ``append``, ``offload``, ``undo`` or ``record_denial``.
        key: Its arguments.
        owner: The thread of a sync call.
        write_id: The id of its write; 0 before that.
        answer: Its answer, from the moment its write was begun.
        is_answered: The caller has the answer.
        is_over: It has ended: another task may be the one that repeats it.
    """

    what: str
    key: tuple[object, ...]
    owner: int | None = None
    write_id: int = 0
    answer: Any = None
    is_answered: bool = False
    is_over: bool = False


class Calls:
    """The last call of each thread, and tasks' calls whose callers have no answer yet.

    It needs no lock, which an interrupt could leave held: each step is one operation on a dict.
    """

    def __init__(self) -> None:
        self._calls: dict[int, Call] = {}

    def begin(self, what: str, key: tuple[object, ...], owner: int | None = None) -> Call:
        """The call that is made now, or the same one as it was made before, where its answer never came.

        Args:
            what: As of :class:`Call`.
            key: Its arguments.
            owner: The thread of a sync call: its last call has ended, since it makes another one. Without
                it only a call that is known to be over may be repeated.
        """
        for name, before in list(self._calls.items()):
            if not before.is_over and (owner is None or before.owner != owner):
                continue
            if not before.is_answered and before.what == what and _same(before.key, key):
                return before
            self._calls.pop(name, None)
        call = Call(what, key, owner)
        self._calls[id(call) if owner is None else owner] = call
        for name in list(self._calls)[:-MOST_CALLS]:
            self._calls.pop(name, None)
        return call


def _same(one: tuple[object, ...], other: tuple[object, ...]) -> bool:
    """Whether two calls have the same arguments: the same objects, or equal ones."""
    return len(one) == len(other) and all(a is b or a == b for a, b in zip(one, other, strict=True))
