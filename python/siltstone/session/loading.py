"""Reads a view back from the log: the view right after a compaction, and the messages after it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from siltstone.memory.log import CompactionRow, Derived, NewCompaction, NewRef, SessionLog
from siltstone.messages import Message
from siltstone.session.range_set import RangeSet, union
from siltstone.session.view import DERIVED, Item, View

__all__ = [
    "all_derived",
    "content_of",
    "covered",
    "line_of",
    "load",
    "originals",
    "shown",
    "shown_by",
    "with_live_objects",
]

_STRETCH = 1_000  # rows of one read; other threads run between two reads
_NOT_LIVE = frozenset({*DERIVED, "placeholder"})


def load(log: SessionLog, view: View, head: CompactionRow | None, end: int) -> list[Item]:
    """The view right after *head*, and the messages after it up to *end*, measured by the rule of *view*."""
    if head is None and not end:
        return []
    if head is None:
        return originals(log, view, [(0, end)])
    return shown(log, view, head.compaction) + originals(log, view, [(head.compaction.next_seq, end)])


def shown(log: SessionLog, view: View, row: NewCompaction) -> list[Item]:
    """The view right after *row*."""
    derived = {each.derived_id: each for each in log.derived(_ids(row))}
    items: list[Item] = []
    for is_derived, pieces in groupby(row.view, _is_id):
        if is_derived:
            items += [_derived(view, derived[piece]) for piece in pieces if isinstance(piece, int)]
        else:
            items += originals(log, view, [piece for piece in pieces if isinstance(piece, tuple)])
    return items


def originals(log: SessionLog, view: View, spans: Iterable[tuple[int, int]]) -> list[Item]:
    """The original messages of the log in *spans*."""
    return [view.measured(message, time) for span in spans for message, time in _read(log, span)]


def shown_by(log: SessionLog, row: NewCompaction) -> RangeSet:
    """The messages of the log that the view of *row* shows, verbatim or by a substitute."""
    derived = log.derived(_ids(row))
    seqs = [(each.seq, each.seq + 1) for each in derived if each.seq is not None]
    return union((piece for piece in row.view if isinstance(piece, tuple)), seqs)


def line_of(log: SessionLog, row: NewCompaction | None, end: int) -> RangeSet:
    """The line of *row*: messages that its view shows or its summaries replace, and later ones to *end*."""
    if row is None:
        return union([(0, end)])
    return union(shown_by(log, row), row.covers, [(row.next_seq, end)])


def all_derived(log: SessionLog) -> list[Derived]:
    """Every derived text (summary or substitute) of the session's rows, in order."""
    return log.derived([each for row in log.compactions() for each in row.derived_ids])


def content_of(row: CompactionRow | None) -> NewCompaction | None:
    """The content of *row*; None for None."""
    return None if row is None else row.compaction


def covered(log: SessionLog, spans: Iterable[tuple[int, int]]) -> list[Message]:
    """The messages in *spans*, without forgotten ones."""
    found = (message for span in spans for message, _ in _read(log, span))
    return [message for message in found if message.provenance != "placeholder"]


def with_live_objects(known: Iterable[Item], items: Sequence[Item]) -> list[Item]:
    """*items*, with the items of *known* in the place of equal ones, so that the caller's objects stay.

    A forgotten message is not replaced, because the caller's object still has the old text. A derived text is
    recognised by its id.
    """
    live: dict[tuple[bool, int], Item] = {}
    for item in known:
        if item.derived_id is not None:
            live[True, item.derived_id] = item
        elif item.message.provenance not in _NOT_LIVE:
            live[False, item.message.seq] = item
    return [_live(live, item) for item in items]


def _live(live: dict[tuple[bool, int], Item], item: Item) -> Item:
    if item.derived_id is not None:
        found = live.get((True, item.derived_id))
        return found if found is not None and found.message.raw == item.message.raw else item
    if item.message.provenance in _NOT_LIVE:
        return item
    return live.get((False, item.message.seq), item)


def _read(log: SessionLog, span: tuple[int, int]) -> Iterator[tuple[Message, int]]:
    """The messages of *span* and their times, read in pieces of ``_STRETCH`` rows.

    A forget between two reads changes the session's version, so the next comparison of versions notices it.
    """
    start, end = span
    for first in range(start, end, _STRETCH):
        yield from log.messages(first, min(first + _STRETCH, end))


def _derived(view: View, row: Derived) -> Item:
    from siltstone.session import rows

    return view.measured(rows.derived_item(row), row.created_at, row.derived_id)


def _ids(row: NewCompaction) -> list[int]:
    return [piece for piece in row.view if isinstance(piece, int)]


def _is_id(piece: tuple[int, int] | NewRef | int) -> bool:
    return isinstance(piece, int)
