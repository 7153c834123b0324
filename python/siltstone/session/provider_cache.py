"""Tells what a rewrite of the view costs in the provider's cache."""

from __future__ import annotations

from siltstone.events import CacheBroken
from siltstone.session.clock import CompactionClock
from siltstone.session.core import SessionCore
from siltstone.session.view import View

__all__ = ["broken", "unchanged"]


def unchanged(core: SessionCore, before: View, after: View) -> int:
    """The tokens at the beginning of a request of *before* that one of *after* begins with too."""
    units = 0
    for one, other in zip(before, after, strict=False):
        if one.message is not other.message:
            break
        units += one.units
    return before.rule.tokens(units) + core.reserved_tokens


def broken(core: SessionCore, clock: CompactionClock, by: str, whole: int, now: int) -> CacheBroken | None:
    """The event of a rewrite at *now* (milliseconds) that left the first *whole* tokens as they were.

    *clock* is the clock before the rewrite. None if nothing beyond these tokens was in the cache.
    """
    cached = clock.cached(now, core.cache_ttl)
    return CacheBroken(core.session_id, by, cached - whole, cached) if cached > whole else None
