"""Where a history can be cut without parting what belongs together."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from siltstone.compaction.share import share_of
from siltstone.messages import Group, Message, groups

__all__ = ["aligned_cut", "cut_positions"]


def aligned_cut(messages: Sequence[Message], fraction: float, floor: int, *, or_earlier: bool = False) -> int:
    """How many of the oldest *messages* may leave; 0 where no cut is possible.

    ``min(max(1, floor(n * fraction)), n - floor)``, and from there on to the first place where no group lies
    on both sides and no call before it waits for its result. A place beyond ``n - floor`` is none.

    Args:
        messages: What may leave, oldest first, without rules and summaries before it.
        fraction: The share that shall leave, above 0 and below 1.
        floor: Messages that stay.
        or_earlier: Where there is no such place, the largest cut before it.
    """
    return cut_positions(len(messages), groups(messages), fraction, floor, or_earlier=or_earlier)


def cut_positions(
    count: int, found: Sequence[Group], fraction: float, floor: int, *, or_earlier: bool = False
) -> int:
    """:func:`aligned_cut` of *count* messages whose groups were *found* before."""
    most = count - floor
    if most < 1:
        return 0
    wanted = min(max(1, share_of(count, fraction)), most)
    splits = [0] * (count + 2)
    latest = count
    for group in found:
        first, last = group.positions[0], group.positions[-1]
        if group.pending:
            latest = min(latest, first)
        splits[first + 1] += 1
        splits[last + 1] -= 1
    depth = list(accumulate(splits))
    after = range(wanted, min(most, latest) + 1)
    before = range(min(wanted - 1, latest), 0, -1) if or_earlier else range(0)
    return next((cut for places in (after, before) for cut in places if not depth[cut]), 0)
