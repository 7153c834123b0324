"""The mirrors of a store, within a bound: those used longest ago go, and are read again when asked for."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, TypeAlias

from siltstone.postgres.listing import Place
from siltstone.postgres.mirror import Mirror

__all__ = ["ROUTES", "Mirrors"]

CALLS: Final = 64  # between two looks at what they take: each grows by what is written
ROUTES: Final = 65_536  #: sessions whose place is remembered: of another one it is asked again

Make: TypeAlias = Callable[[str, bool], Mirror]


class Mirrors:
    """Mirrors by their places, and the places of sessions. For any number of threads.

    Args:
        make: Makes the mirror of a place.
        most: About how many bytes they may take together, beside those at work: these stay, however large.
    """

    def __init__(self, make: Make, most: int) -> None:
        self._make = make
        self._most = most
        self._held: OrderedDict[Place, Mirror] = OrderedDict()  # the one used last at the end
        self._calls = 0
        self._routes: dict[str, Place] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._held)

    @property
    def size(self) -> int:
        """About how many bytes they take."""
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
        """Those in memory."""
        with self._lock:
            return list(self._held.values())

    def clear(self) -> list[Mirror]:
        """Lets go of all of them, and says which there were."""
        with self._lock:
            there = list(self._held.values())
            self._held.clear()
            return there

    def route(self, session_id: str) -> Place | None:
        """Where the session is known to be."""
        return self._routes.get(session_id)

    def settle(self, session_id: str, place: Place) -> None:
        """Remembers where a session is that was written: it stays there."""
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
