"""The mirrors of a store, up to a limit of memory, and the places of sessions and batches among them."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, TypeAlias

from siltstone.postgres.listing import Place
from siltstone.postgres.mirror import Mirror

__all__ = ["ROUTES", "Mirrors", "Routes"]

CALLS: Final = 64  # calls between two checks of the memory: mirrors grow with every write
ROUTES: Final = 65_536  #: names whose mirror is remembered; for others PostgreSQL is asked again

Make: TypeAlias = Callable[[str, bool], Mirror]


class Routes:
    """The places of names, up to a bound. The place of a name never changes. For any number of threads."""

    def __init__(self) -> None:
        self._places: dict[str, Place] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._places)

    def get(self, name: str) -> Place | None:
        """The place of *name*, if it is remembered."""
        return self._places.get(name)

    def settle(self, name: str, place: Place) -> None:
        """Remembers a place that was written."""
        with self._lock:
            if len(self._places) >= ROUTES:
                del self._places[next(iter(self._places))]
            self._places[name] = place


class Mirrors:
    """Mirrors by their places. The least recently used are dropped, and read again. For any threads.

    Args:
        make: Makes the mirror of a place.
        most: The approximate limit of their bytes together. Mirrors that run a call stay, even above it.
    """

    def __init__(self, make: Make, most: int) -> None:
        self._make = make
        self._most = most
        self._held: OrderedDict[Place, Mirror] = OrderedDict()  # the most recently used at the end
        self._calls = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._held)

    @property
    def size(self) -> int:
        """The approximate number of bytes that they take."""
        with self._lock:
            return self._taken()

    def at(self, place: Place) -> Mirror:
        """The mirror of a place."""
        with self._lock:
            mirror = self._held.get(place)
            self._calls += 1
            if mirror is None or self._calls % CALLS == 0:
                self._make_room(mirror)
            if mirror is None:
                mirror = self._held[place] = self._make(*place)
            self._held.move_to_end(place)
            return mirror

    def all(self) -> list[Mirror]:
        """The mirrors in memory."""
        with self._lock:
            return list(self._held.values())

    def clear(self) -> list[Mirror]:
        """Removes all mirrors, and returns them."""
        with self._lock:
            there = list(self._held.values())
            self._held.clear()
            return there

    def _taken(self) -> int:
        return sum(each.size for each in self._held.values())

    def _make_room(self, kept: Mirror | None) -> None:
        left = self._taken() - self._most
        for place, mirror in list(self._held.items()):
            if left <= 0:
                return
            size = mirror.size
            if mirror is not kept and mirror.is_idle():
                del self._held[place]
                left -= size
