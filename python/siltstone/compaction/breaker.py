"""The breaker: after attempts that came to nothing, a model is asked less and less often."""

from __future__ import annotations

from typing import Final

from siltstone.compaction.base import CompactionContext

__all__ = ["BREAKER_ATTEMPTS", "breaker_pauses"]

#: Attempts in a row of low yield after which the breaker opens.
BREAKER_ATTEMPTS: Final = 3
#: Boundaries between two attempts while it is open, and how often that is doubled: 10, 20, 40, and then 40.
BREAKER_PAUSE: Final = 10
MOST_DOUBLINGS: Final = 2


def breaker_pauses(context: CompactionContext) -> bool:
    """Whether the breaker is open and it is too early to ask a model again.

    What did without a model is no attempt, and does not count.
    """
    if context.low_yield_attempts < BREAKER_ATTEMPTS or context.last_attempt_boundary is None:
        return False
    doublings = min(context.low_yield_attempts - BREAKER_ATTEMPTS, MOST_DOUBLINGS)
    return context.boundary - context.last_attempt_boundary < BREAKER_PAUSE << doublings
