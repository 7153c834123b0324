"""The boundary at which nothing is due, for an event loop: it waits for no other thread."""

from __future__ import annotations

from typing import Final

from siltstone.compaction.base import Compactor
from siltstone.compaction.breakdown import band_of
from siltstone.session.boundary import context_of, passed, prepared
from siltstone.session.core import SessionCore
from siltstone.session.prepared import Prepared
from siltstone.session.state import SessionState

__all__ = ["brief_boundary"]

_MESSAGES: Final = 32  #: messages that may have been appended since the last boundary
_TOKENS: Final = 16_384  #: their tokens
_LENGTH: Final = 1_000  #: messages of a view of which each is looked at


def brief_boundary(
    core: SessionCore, policy: Compactor | None, before: SessionState, request_bytes: int | None
) -> tuple[SessionState, Prepared] | None:
    """What a boundary gives, if little came since the state *before* and nothing is due.

    None, with nothing done, if a compaction, a hook or much work is due, if code of the caller would have to
    decide, or if it would have to wait. The caller holds the lock of *core*.
    """
    state, window = core.state, core.context_window
    view = state.view
    if core.background.job is not None or core.slot.is_held or core.compaction_hooks.check:
        return None
    if not _is_soon_after(state, before) or not core.is_current(state):
        return None
    if policy is not None and not (_is_own(policy) and policy.token_rule.name == view.rule.name):
        return None
    if window is not None:
        tokens = view.tokens + core.reserved_tokens
        if tokens > window or band_of(tokens, window) > state.clock.band:
            return None  # a compaction, or hooks that are told
    if (
        policy is not None
        and policy.should_compact(context_of(core, state, policy, request_bytes)) is not None
    ):
        return None
    state, is_noted = passed(core, policy)
    return state, prepared(core, state, [], policy, is_noted=is_noted)


def _is_soon_after(state: SessionState, before: SessionState) -> bool:
    """Whether *state* came from *before* by a short append, and no long look at the view is needed."""
    view, clock = state.view, state.clock
    grown = len(view) - len(before.view)
    is_grown = state.head is before.head and before.view.begins(view) and grown <= _MESSAGES
    is_long = len(view) > _LENGTH and (bool(clock.pins) or state.end - clock.last_input_seq > _LENGTH)
    return is_grown and view.tokens - before.view.tokens <= _TOKENS and not is_long


def _is_own(policy: Compactor) -> bool:
    """Whether code of siltstone alone decides if a compaction of *policy* is due."""
    steps = getattr(policy, "steps", (policy,))
    return all(type(step).__module__.startswith("siltstone.compaction.") for step in (policy, *steps))
