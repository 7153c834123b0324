"""The watcher of the package's work, for traces and metrics. By default there is none.

``siltstone.telemetry`` puts its watcher here. Without one, each function of this module looks at one name
and gives :data:`UNWATCHED`, on which nothing has an effect.
"""

from __future__ import annotations

TYPE_CHECKING = False  # this is read by everything; it does without typing
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Protocol, Self

    class Watcher(Protocol):
        """Makes the spans."""

        def operation(self, name: str, store: object, session_id: str, query: str) -> Watched:
            """A span around an operation on records."""

        def model_call(self, model: object, request: Any) -> Watched:
            """A span around a call of *model*."""

        def compaction(self, session_id: str, policy: str, cause: str, seconds: float) -> Watched:
            """The span of a compaction."""

        def event(self, event: object) -> None:
            """Records what an event has of figures."""


__all__ = [
    "UNWATCHED",
    "Watched",
    "Watcher",
    "compaction",
    "event",
    "is_watched",
    "model_call",
    "operation",
    "watch",
]


class Watched:
    """Work under way. Each method receives one fact about it; in this class all of them do nothing."""

    __slots__ = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        return None

    def during(self) -> Watched:
        """Around a step that is a part of this work, where the work itself is not one call."""
        return self

    def records(self, records: Sequence[Any]) -> None:
        """Records found or written: objects with ``content``, and some with ``entry_id`` and ``score``."""

    def count(self, number: int, record_id: str = "") -> None:
        """How many records it was about, and the id where it was one."""

    def completed(self, completion: Any) -> None:
        """The answer of the model."""

    def ended(self, event: Any) -> None:
        """The terminal event of a compaction."""


UNWATCHED = Watched()
_watcher: Watcher | None = None


def watch(watcher: Watcher | None) -> None:
    """Makes *watcher* the one of this process; None for nobody."""
    global _watcher
    _watcher = watcher


def is_watched() -> bool:
    """Whether there is a watcher."""
    return _watcher is not None


def operation(name: str, store: object, session_id: str, query: str = "") -> Watched:
    """A context manager around an operation on records of memory, such as ``search_memory``."""
    watcher = _watcher
    return UNWATCHED if watcher is None else watcher.operation(name, store, session_id, query)


def model_call(model: object, request: Any) -> Watched:
    """A context manager around a call of *model*."""
    watcher = _watcher
    return UNWATCHED if watcher is None else watcher.model_call(model, request)


def compaction(session_id: str, policy: str, cause: str, seconds: float) -> Watched:
    """A compaction that began *seconds* ago. It ends with ``ended``."""
    watcher = _watcher
    return UNWATCHED if watcher is None else watcher.compaction(session_id, policy, cause, seconds)


def event(told: object) -> None:
    """An event of a session, or of a store."""
    watcher = _watcher
    if watcher is not None:
        watcher.event(told)
