"""The state of a session as one value. Every change makes another value."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from siltstone.memory.log import CompactionRow, LogState, SessionLog, SessionVersion
from siltstone.session.clock import CompactionClock
from siltstone.session.loading import load, originals, with_live_objects
from siltstone.session.view import Item, View
from siltstone.tokens import TokenRule

if TYPE_CHECKING:
    from siltstone.session.host_list import HostList


__all__ = ["SessionState", "first_state", "next_state"]


@dataclass(frozen=True, slots=True)
class SessionState:
    """The state of a session in memory.

    Attributes:
        version: The version of the session in the store that this state was read from.
        view: The current view.
        head: The newest of the compactions that led to the view; None before the first.
        clock: The counters between two compactions.
        stored: The clock in the store. The boundaries counted in *clock* may be ahead of it.
        own_end: The end of the log after this worker's own last write. Later messages are from other workers.
        host: Digests of the host's list; None before the session has seen one.
        estimate_error: See ``Session.estimate_error``.
        deleted: Whether another worker deleted the session. Writes are then accepted, and nothing is kept.
    """

    version: SessionVersion
    view: View
    head: CompactionRow | None
    clock: CompactionClock
    stored: CompactionClock
    own_end: int
    host: HostList | None = None
    estimate_error: float | None = None
    deleted: bool = False

    @property
    def end(self) -> int:
        """The number of messages that were ever appended."""
        return self.version.next_seq

    def appended(
        self, items: list[Item], version: SessionVersion | None, clock: CompactionClock
    ) -> SessionState:
        """The state after *items* were appended to the log. A *version* of None: the session was deleted."""
        is_deleted = version is None
        if version is None:
            version = replace(self.version, next_seq=self.end + len(items))
        return replace(
            self,
            deleted=is_deleted,
            version=version,
            view=self.view.extended(items),
            clock=clock,
            stored=clock,
            own_end=version.next_seq,
        )

    def ticked(self, version: SessionVersion | None, clock: CompactionClock) -> SessionState:
        """The state after *clock* alone was written."""
        is_deleted = version is None
        return replace(self, deleted=is_deleted, version=version or self.version, clock=clock, stored=clock)


def first_state(log: SessionLog, stored: LogState, session_id: str, rule: TokenRule) -> SessionState:
    """The state of a session that is opened."""
    clock = CompactionClock.from_json(stored.clock, session_id)
    view = View(rule)
    view = View(rule, load(log, view, stored.head, stored.next_seq))
    return SessionState(stored.version, view, stored.head, clock, clock, stored.next_seq)


def next_state(
    log: SessionLog, state: SessionState, stored: LogState, session_id: str, written: Iterable[Item] = ()
) -> SessionState:
    """*state* after reading *stored*: with the changes of other workers, and of our own interrupted write.

    Messages keep the caller's own objects, also the messages *written* by the interrupted write.
    """
    if stored.deleted:  # this process goes on with its messages in memory, and none of them is kept
        return replace(state, deleted=True)
    clock, known_clock = state.clock, state.stored
    if stored.version.counter != state.version.counter:
        known_clock = CompactionClock.from_json(stored.clock, session_id)
        clock = known_clock.after(state.clock)
    head_id = None if stored.head is None else stored.head.compaction_id
    if (head_id, stored.redactions) == (state.version.head, state.version.redactions):
        new = originals(log, state.view, [(state.end, stored.next_seq)])
        view, host = state.view.extended(with_live_objects(written, new)), state.host
    else:
        items = load(log, state.view, stored.head, stored.next_seq)
        known = [*state.view.items(), *written]
        view = View(state.view.rule, with_live_objects(known, items))
        host = state.host
        if host is not None and stored.redactions != state.version.redactions:
            host = host.outdated()
    return replace(
        state,
        version=stored.version,
        view=view,
        head=stored.head,
        clock=clock,
        stored=known_clock,
        host=host,
        deleted=False,
    )
