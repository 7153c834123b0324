"""Names that are imported when they are first used: those of a room, and classes of a higher room.

An import of one name of a room loads only the file of that name, not the room's other files: see
:func:`names_of`.

``Session.open(path)`` makes a store, and ``store.session(id)`` makes a session: one of them has to find the
other late. A session knows the contract of a store alone, so the stores are what is found late. The package
says where, before any of its rooms is imported.
"""

from __future__ import annotations

import sys
from types import ModuleType

TYPE_CHECKING = False  # this is read by ``import siltstone``, which does without typing
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["STORES", "names_of"]

STORES: dict[str, Callable[[], Any]] = {}  #: by the name of its class, how a store's class is imported


def names_of(room: str, homes: dict[str, str]) -> Callable[[str], object]:
    """The ``__getattr__`` of a room, which imports a name from its file when it is first asked for.

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
        from importlib import import_module

        value = getattr(import_module(f"{room}.{home}"), name)
        setattr(sys.modules[room], name, value)
        return value

    return __getattr__


class _Room(ModuleType):
    """A package with a file that is called as a name of it.

    An import of such a file would put the file where the name belongs.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if not (isinstance(value, ModuleType) and name in self.__all__):
            super().__setattr__(name, value)
