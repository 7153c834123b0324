"""Whether a rewrite is one: refuses every rewrite that loses, changes, splits or invents something."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from siltstone.compaction.base import (
    Compaction,
    CompactionError,
    Trigger,
    rules_in_force,
)
from siltstone.compaction.rewrite import covered
from siltstone.messages import Excerpt, History, Message, SummaryMessage, as_history, groups

__all__ = ["validate"]


def validate(
    history: Sequence[Message], compaction: Compaction, content: str, trigger: Trigger | None = None
) -> None:
    """Checks *compaction* against the *history* it rewrites; *content* is the summary's framed text.

    What *trigger* holds must be retained.

    Messages are told apart by identity, so equal ones are never confused.

    Raises:
        CompactionError: with reason ``rewrite_invalid``, for the first fault found.
    """
    fault = next(_faults(history, compaction, content, trigger), None)
    if fault is not None:
        raise CompactionError(
            f"the rewrite is not valid: {fault}", reason="rewrite_invalid", usage=compaction.usage
        )


def _faults(
    history: Sequence[Message], compaction: Compaction, content: str, trigger: Trigger | None
) -> Iterator[str]:
    """Every check in turn. A later one may rest on the earlier ones, so only the first fault counts."""
    places = _Places(history)
    yield from _strangers(places, compaction)
    retained, discarded = places.of(compaction.retained), places.of(compaction.discarded)
    yield from _disorder(retained, discarded)
    yield from _holes(len(history), retained, discarded)
    read, stays = as_history(history), set(retained)
    yield from _losses(read, stays)
    pinned = read.positions_of(trigger.pins) if trigger is not None else []
    yield from _outdated(read, stays, pinned)
    for at in pinned:
        if at not in stays:
            yield f"message {history[at].seq} is pinned and is discarded"
    yield from _misplaced(places, compaction, retained, discarded[0])
    yield from _false_summary(compaction, discarded[0], content)


class _Places:
    """Where messages stand in a history: they are told apart by identity."""

    def __init__(self, history: Sequence[Message]) -> None:
        self._history = history
        self._known: dict[int, int] | None = None

    def of(self, messages: Sequence[Message]) -> list[int]:
        """The position of each; -1 for one that is not of the history."""
        if isinstance(messages, Excerpt) and messages.history is self._history:
            return messages.positions
        if self._known is None:
            self._known = {id(message): at for at, message in enumerate(self._history)}
        return [self._known.get(id(message), -1) for message in messages]


def _strangers(places: _Places, compaction: Compaction) -> Iterator[str]:
    for messages in (compaction.retained, compaction.discarded):
        positions = places.of(messages)
        if -1 in positions:
            yield f"message {messages[positions.index(-1)].seq} is not one of the history"


def _disorder(retained: list[int], discarded: list[int]) -> Iterator[str]:
    for what, positions in (("retained", retained), ("discarded", discarded)):
        if positions == sorted(set(positions)):
            continue
        for one, following in pairwise(positions):
            if following <= one:
                yield f"position {following} follows position {one} in what is {what}"


def _holes(length: int, retained: list[int], discarded: list[int]) -> Iterator[str]:
    if not discarded:
        yield "nothing is discarded"
    if sorted(retained + discarded) == list(range(length)):
        return
    for position in sorted(set(retained) & set(discarded)):
        yield f"position {position} is both retained and discarded"
    for position in sorted(set(range(length)) - set(retained) - set(discarded)):
        yield f"position {position} is neither retained nor discarded"


def _losses(history: History, stays: set[int]) -> Iterator[str]:
    for at in history.summaries:
        if at in stays:
            yield f"the earlier summary at position {at} is retained"
    for at in sorted(rules_in_force(history)):
        if at not in stays:
            yield f"the {history[at].role} message at position {at} is discarded"
    for start, end in history.outline.closed(list(stays)):
        for at in range(start, end):
            if at not in stays:
                yield f"the group of positions {_group_of(history, at)} is split"
    for at in history.outline.pending:
        if at not in stays:
            yield f"the group of positions {_group_of(history, at)} has a pending call and is discarded"


def _outdated(history: History, stays: set[int], pinned: Sequence[int]) -> Iterator[str]:
    for at in sorted(stays.intersection(history.rules) - rules_in_force(history) - set(pinned)):
        yield f"the superseded {history[at].role} message at position {at} is retained"


def _group_of(history: History, position: int) -> tuple[int, ...]:
    return next(group.positions for group in groups(history) if position in group.positions)


def _misplaced(places: _Places, compaction: Compaction, retained: list[int], place: int) -> Iterator[str]:
    """All that stands before *place*, where the first discarded message stood, is retained."""
    view = places.of(compaction.messages)
    if len(view) != len(retained) + 1:
        yield f"{len(view)} messages are not the {len(retained)} retained and one summary"
    if view[:place] + view[place + 1 :] != retained:
        yield f"the view is not what is retained with one summary at position {place}"


def _false_summary(compaction: Compaction, place: int, content: str) -> Iterator[str]:
    summary, covers = compaction.messages[place], covered(compaction.discarded)
    if not isinstance(summary.raw, SummaryMessage):
        yield f"the summary is a {type(summary.raw).__name__}, not a SummaryMessage"
        return
    if summary.role != "user" or summary.raw.get("role") != "user":
        yield f"the summary's role is {summary.role!r}, not 'user'"
    if summary.provenance != "compaction_summary":
        yield f"the summary's provenance is {summary.provenance!r}"
    if not compaction.summary.strip() or not content.endswith(compaction.summary):
        yield "the summary is blank, or not what its frame holds"
    if summary.text != content or summary.raw.get("content") != content:
        yield "the summary message does not hold the framed summary"
    if compaction.covers != covers or summary.covers != covers or summary.seq != covers[0][0]:
        yield f"the summary covers {summary.covers}, what is discarded is {covers}"
