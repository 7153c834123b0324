"""The mirrors of a store, up to a limit of memory. The least recently used are dropped, and read again."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, TypeAlias

from siltstone.postgres.listing import Place
from siltstone.postgres.mirror import Mirror

__all__ = ["ROUTES", "Mirrors"]

CALLS: Final = 64  # calls between two checks of the memory: mirrors grow with every write
ROUTES: Final = 65_536  #: sessions whose mirror is remembered; for others PostgreSQL is asked again

Make: TypeAlias = Callable[[str, bool], Mirror]


class Mirrors:
    """Mirrors by their places, and the places of sessions. For any number of threads.

    Args:
        make: Makes the mirror of a place.
        most: The approximate limit of their bytes together. Mirrors that run a call stay, even above it.
    """

    def __init__(self, make: Make, most: int) -> None:
        self._make = make
        self._most = most
        self._held: OrderedDict[Place, Mirror] = OrderedDict()  # the most recently used at the end
        self._calls = 0
        self._routes: dict[str, Place] = {}
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

    def route(self, session_id: str) -> Place | None:
        """The place of a session, if it is known."""
        return self._routes.get(session_id)

    def settle(self, session_id: str, place: Place) -> None:
        """Remembers the place of a session that was written. The place never changes."""
        with self._lock:
            if len(self._routes) >= ROUTES:
                del self._routes[next(iter(self._routes))]
            self._routes[session_id] = place

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
