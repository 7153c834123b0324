"""What an event loop may do by itself: steps that are short, and wait for no other thread."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from siltstone._native import run_if_free

__all__ = ["WouldWaitError", "are_short", "run_if_free"]

_ROOM: Final = 16 * 1024  #: characters of the messages of a short append
_EACH: Final = 64  #: characters that a value counts for beside its own


class WouldWaitError(Exception):
    """A step would have to wait for another thread. Nothing was done."""


def are_short(messages: Sequence[Any]) -> bool:
    """Whether *messages* are few and small. An object of an SDK counts as large: its size is not known."""
    return _left(messages, _ROOM) >= 0


def _left(value: Any, room: int) -> int:
    """What *value* leaves of *room*; negative if it is too large. It looks at 256 values at most."""
    room -= _EACH
    if room < 0 or value is None or isinstance(value, bool | float):
        return room
    if isinstance(value, str):
        return room - len(value)
    if isinstance(value, int):
        return room - value.bit_length()
    if type(value) is dict:
        for key, each in value.items():
            room = _left(each, room - len(key)) if type(key) is str else -1
            if room < 0:
                break
        return room
    if type(value) in {list, tuple}:
        for each in value:
            room = _left(each, room)
            if room < 0:
                break
        return room
    return -1
