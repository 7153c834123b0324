"""The work of a policy on the line of the current view: its states and its summaries."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator

from siltstone.compaction.base import State
from siltstone.memory.log import CompactionRow, SessionLog
from siltstone.messages import Message
from siltstone.session import rows

__all__ = ["PAST", "PolicyStates", "past_summaries", "written", "written_by_run"]

PAST = 64  #: the most earlier summaries that a policy is given


class PolicyStates:
    """The newest state of each policy, worked out once a row: a line only grows, until an undo."""

    __slots__ = ("_known", "_log")

    def __init__(self, log: SessionLog) -> None:
        self._log = log
        self._known: dict[str, tuple[int, State | None]] = {}

    def of(self, policy: str, head: CompactionRow | None) -> State | None:
        """The state that *policy* kept last on the line of *head*; None where it kept nothing."""
        if head is None:
            return None
        known_id, known = self._known.get(policy, (None, None))
        found: State | None = None
        for row in _line(self._log, head):
            if row.compaction_id == known_id:
                found = known
                break
            if row.compaction.policy == policy and row.compaction.state:
                found = json.loads(row.compaction.state)
                break
        self._known[policy] = head.compaction_id, found
        return found


def past_summaries(
    log: SessionLog, policy: str, head: CompactionRow | None, shown: Collection[int]
) -> tuple[Message, ...]:
    """The newest ``PAST`` summaries that *policy* brought on the line of *head*, oldest first.

    Those that the view shows, whose ids are *shown*, are left out, and those that were forgotten.
    """
    ids: list[int] = []  # the newest first
    for row in _line(log, head):
        if row.compaction.policy == policy:
            ids += [each for each in reversed(row.derived_ids) if each not in shown]
        if len(ids) >= PAST:
            break
    found = [each for each in log.derived(ids) if each.kind == "summary" and not each.redacted]
    return tuple(rows.derived_item(each) for each in reversed(found[:PAST]))


def written(log: SessionLog, policy: str, head: CompactionRow | None) -> Iterator[Message]:
    """Every summary that *policy* brought on the line of *head*, shown or not, the newest first.

    Those that were forgotten are left out. A row is read when somebody asks for what it brought.
    """
    for row in _line(log, head):
        if row.compaction.policy == policy:
            yield from reversed(_summaries(log, row))


def written_by_run(
    log: SessionLog, policy: str, head: CompactionRow | None
) -> list[tuple[State | None, list[Message]]]:
    """The state and the summaries of each compaction by *policy* on the line of *head*, oldest first."""
    found = [
        (json.loads(row.compaction.state) if row.compaction.state else None, _summaries(log, row))
        for row in _line(log, head)
        if row.compaction.policy == policy
    ]
    return found[::-1]


def _summaries(log: SessionLog, row: CompactionRow) -> list[Message]:
    """The summaries that *row* brought, in order, but for those that were forgotten."""
    found = log.derived(row.derived_ids)
    return [rows.derived_item(each) for each in found if each.kind == "summary" and not each.redacted]


def _line(log: SessionLog, head: CompactionRow | None) -> Iterator[CompactionRow]:
    row = head
    while row is not None:
        yield row
        row = None if row.parent is None else log.compaction(row.parent)
