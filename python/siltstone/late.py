"""The names of a room, each imported from its file when it is first asked for.

A room of many files does so, as most processes use a few of its names: ``import siltstone`` takes a
millisecond, and a policy is imported by who uses it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from types import ModuleType

__all__ = ["names_of"]


def names_of(
    room: str, homes: dict[str, str]
) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """The ``__getattr__``, the ``__dir__`` and the ``__all__`` of a room.

    A file may be called as a name that it has: the room has the name then, however the file was imported.

    Args:
        room: The full name of the package.
        homes: By the name of a file of the room, the names that it has, with spaces between them.
    """
    home_of = {name: home for home, names in homes.items() for name in names.split()}
    if not homes.keys().isdisjoint(home_of):
        sys.modules[room].__class__ = _Room

    def __getattr__(name: str) -> object:  # noqa: N807 - it becomes that of the module
        home = home_of.get(name)
        if home is None:
            raise AttributeError(f"module {room!r} has no attribute {name!r}")
        value = getattr(import_module(f"{room}.{home}"), name)
        setattr(sys.modules[room], name, value)
        return value

    return __getattr__, lambda: sorted({*vars(sys.modules[room]), *home_of}), sorted(home_of)


class _Room(ModuleType):
    """A package with a file that is called as a name of it.

    An import of such a file would put the file where the name belongs.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if not (isinstance(value, ModuleType) and name in self.__all__):
            super().__setattr__(name, value)
