"""The states and the summaries that a policy has left on the line of the current view."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator

from siltstone.compaction.base import State
from siltstone.memory.log import CompactionRow, SessionLog, ancestors
from siltstone.messages import Message

PAST = 64  #: the maximum number of earlier summaries that a policy receives


class PolicyLine:
    """The newest state and the summaries of each policy, on the line of a head.

    A line only grows, until an undo. So each row is read once, and its result is kept.
    """

    __slots__ = ("_brought", "_log", "_states")

    def __init__(self, log: SessionLog) -> None:
        self._log = log
        self._states: dict[str, tuple[int, State | None]] = {}
        self._brought: dict[str, tuple[int, list[int], int | None]] = {}

    def state(self, policy: str, head: CompactionRow | None) -> State | None:
        """The newest state of *policy* on the line of *head*; None if it stored none."""
        if head is None:
            return None
        known_id, known = self._states.get(policy, (None, None))
        found: State | None = None
        for row in ancestors(self._log, head):
            if row.compaction_id == known_id:
                found = known
                break
            if row.compaction.policy == policy and row.compaction.state:
                found = json.loads(row.compaction.state)
                break
        self._states[policy] = head.compaction_id, found
        return found

    def past_summaries(
        self, policy: str, head: CompactionRow | None, shown: Collection[int]
    ) -> tuple[Message, ...]:
        """The newest ``PAST`` summaries of *policy* on the line of *head*, oldest first.

        Summaries that the view shows (*shown* has their ids) and forgotten summaries are left out.
        """
        from siltstone.session import rows

        if head is None:
            return ()
        ids = self._not_shown(policy, head, shown)[:PAST]
        found = [each for each in self._log.derived(ids) if each.kind == "summary" and not each.redacted]
        return tuple(rows.derived_item(each) for each in reversed(found))

    def _not_shown(self, policy: str, head: CompactionRow, shown: Collection[int]) -> list[int]:
        """The ids of texts that *policy* wrote, newest first, without *shown*: all, or at least ``PAST``.

        The ids are kept together with the row at which the reading stopped. The next call reads only new
        rows.
        """
        known_head, known, rest = self._brought.get(policy, (None, [], None))
        ids: list[int] = []
        found: list[int] = []
        row: CompactionRow | None = head
        while row is not None and len(found) < PAST:
            if row.compaction_id == known_head:
                new, parent = known, rest
            else:
                is_its = row.compaction.policy == policy
                new, parent = list(reversed(row.derived_ids)) if is_its else [], row.parent
            ids += new
            found += (each for each in new if each not in shown)
            row = None if parent is None else self._log.compaction(parent)
        self._brought[policy] = head.compaction_id, ids, None if row is None else row.compaction_id
        return found


def written(log: SessionLog, policy: str, head: CompactionRow | None) -> Iterator[Message]:
    """Every summary of *policy* on the line of *head*, shown or not, newest first.

    Forgotten summaries are left out. Rows are read on demand.
    """
    for row in ancestors(log, head):
        if row.compaction.policy == policy:
            yield from reversed(_summaries(log, row))


def written_by_run(
    log: SessionLog, policy: str, head: CompactionRow | None
) -> list[tuple[State | None, list[Message]]]:
    """The state and the summaries of each compaction by *policy* on the line of *head*, oldest first."""
    found = [
        (json.loads(row.compaction.state) if row.compaction.state else None, _summaries(log, row))
        for row in ancestors(log, head)
        if row.compaction.policy == policy
    ]
    return found[::-1]


def _summaries(log: SessionLog, row: CompactionRow) -> list[Message]:
    """The summaries that *row* wrote, in order, without forgotten ones."""
    from siltstone.session import rows

    found = log.derived(row.derived_ids)
    return [rows.derived_item(each) for each in found if each.kind == "summary" and not each.redacted]
