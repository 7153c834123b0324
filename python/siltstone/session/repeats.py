"""Calls that must not be done twice: an interrupted one may be repeated by its caller."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["Call", "Calls"]

MOST_CALLS = 64  #: calls that are remembered, until their callers have the answers


@dataclass(slots=True, eq=False)
class Call:
    """A call that must not be done twice, as an interrupted one may be repeated.

    Attributes:
        what: ``append`` or ``undo``.
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
            what: ``append`` or ``undo``.
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
