"""The names of ``typing`` that classes and calls need when they run, without ``typing``.

``typing`` takes a quarter of the time until a process has its first session, nearly all of it for what only
type checkers read. So the files of a first session name it for type checkers alone, and the few names that do
something when the code runs are here. A type checker sees those of ``typing``.
"""

from __future__ import annotations

from abc import ABCMeta

__all__ = ["Protocol", "cast", "overload", "runtime_checkable"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol, cast, overload, runtime_checkable
else:
    _MISSING = object()

    class _Shape(ABCMeta):
        """The class of protocols: an object is an instance if it has all their names."""

        def __instancecheck__(cls, value: object) -> bool:
            """Is *value* of a class that derives from *cls*, or has it what *cls* asks for?"""
            return super().__instancecheck__(value) or _has_all(value, cls)

        def __subclasscheck__(cls, kind: type) -> bool:
            """Does *kind* derive from *cls*, or has it what *cls* asks for?"""
            return super().__subclasscheck__(kind) or _has_all(kind, cls)

    def _has_all(found: object, cls: type) -> bool:
        """Has *found* what *cls* asks for? A method that is None is none. No, if *cls* is for types alone."""
        asked = cls.__dict__.get("_asked", ())
        for name in asked:
            there = getattr(found, name, _MISSING)
            if there is _MISSING or (there is None and callable(getattr(cls, name))):
                return False
        return bool(asked)

    class Protocol(metaclass=_Shape):
        """A class that says what others must have."""

    def runtime_checkable(cls: Any) -> Any:
        """*cls*, for ``isinstance``."""
        said = {name for base in cls.__mro__ if type(base) is _Shape for name in base.__dict__}
        cls._asked = tuple(sorted(name for name in said if not name.startswith("_")))
        return cls

    def overload(function: Any) -> Any:
        """*function*, of which the next one with its name is what runs."""
        return function

    def cast(_kind: Any, value: Any) -> Any:
        """*value*."""
        return value
