"""The circuit breaker: after several attempts of low yield in a row, the pauses between attempts grow."""

from __future__ import annotations

from typing import Final

from siltstone.compaction.base import CompactionContext

__all__ = ["BREAKER_ATTEMPTS", "breaker_pauses"]

#: Attempts in a row of low yield after which the breaker opens.
BREAKER_ATTEMPTS: Final = 3
#: Boundaries between two attempts while it is open, and the doublings of that number: 10, 20, 40, 40 ...
BREAKER_PAUSE: Final = 10
MOST_DOUBLINGS: Final = 2


def breaker_pauses(context: CompactionContext) -> bool:
    """Whether the breaker is open and it is too early to ask a model again.

    A compaction without a model is not an attempt, and does not count.
    """
    if context.low_yield_attempts < BREAKER_ATTEMPTS or context.last_attempt_boundary is None:
        return False
    doublings = min(context.low_yield_attempts - BREAKER_ATTEMPTS, MOST_DOUBLINGS)
    return context.boundary - context.last_attempt_boundary < BREAKER_PAUSE << doublings
