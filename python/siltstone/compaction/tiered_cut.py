"""Finds places to cut a history that do not split a group."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from siltstone.compaction.share import share_of
from siltstone.messages import Group, Message, groups

__all__ = ["aligned_cut", "cut_positions"]


def aligned_cut(messages: Sequence[Message], fraction: float, floor: int, *, or_earlier: bool = False) -> int:
    """The number of the oldest *messages* that may leave; 0 if no cut is possible.

    The wanted cut is ``min(max(1, floor(n * fraction)), n - floor)``. The result is the first place from
    there on, up to ``n - floor``, at which no group lies on both sides and no call before it is pending.

    Args:
        messages: The messages that may leave, oldest first, without the rules and summaries before them.
        fraction: The wanted share, above 0 and below 1.
        floor: The minimum number of messages that stay.
        or_earlier: Whether the largest possible cut below the wanted one is taken if there is no other.
    """
    return cut_positions(len(messages), groups(messages), fraction, floor, or_earlier=or_earlier)


def cut_positions(
    count: int, found: Sequence[Group], fraction: float, floor: int, *, or_earlier: bool = False
) -> int:
    """The cut of :func:`aligned_cut` for *count* messages, whose groups *found* are known."""
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
