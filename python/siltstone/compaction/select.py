"""Selects the messages that a compaction retains: newest turns first, in whole groups, within a budget.

The messages that :func:`must_stay` names always stay. An earlier summary always leaves. The newest groups of
the turn in flight stay if they fit, and at least the newest group. If the whole turn in flight fits, the
newest complete turns that still fit stay too, but never the oldest turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from siltstone.compaction.base import Substitute, rules_in_force
from siltstone.messages import Excerpt, History, Message, RequestRule, as_history, is_request
from siltstone.messages.message import RULE_ROLES, SAID
from siltstone.tokens import TokenRule

__all__ = ["Room", "Selection", "must_stay", "parted", "select"]


@dataclass(frozen=True, slots=True)
class Selection:
    """A history separated in two parts. Both are in order and have the same message objects."""

    retained: Sequence[Message]
    discarded: Sequence[Message]

    @property
    def is_worthwhile(self) -> bool:
        """Something that was said is discarded, whole or cut: a summary written again would gain nothing."""
        told = self.told
        if isinstance(told, Excerpt):
            return told.has_original
        return any(message.provenance in SAID for message in told)

    @property
    def told(self) -> Sequence[Message]:
        """The messages for the summariser: all discarded messages except superseded rules."""
        if isinstance(self.discarded, Excerpt):
            return self.discarded.without(self.discarded.history.rules)
        return tuple(message for message in self.discarded if message.role not in RULE_ROLES)


def must_stay(read: History, pins: Iterable[int] = (), *, task: bool = False) -> set[int]:
    """The positions of the messages that may never leave a request, whatever the policy.

    They are the rules in force, pinned messages, groups with a pending call, and the user's newest request as
    long as it is not answered. Whoever lets messages leave keeps the whole groups of these.

    Args:
        read: The history in outline; its rule decides which text beside tool results is a request.
        pins: Sequence numbers of pinned messages.
        task: Whether the first request stays too: the task of a worker.
    """
    kept = {*rules_in_force(read), *read.outline.pending, *read.positions_of(pins)}
    if read.outline.in_flight:
        kept.add(read.outline.requests[-1])
    if task:
        kept.update(read.outline.requests[:1])
    return kept


class Room:
    """The room for retained messages. Each limit is a token rule and the maximum tokens by that rule."""

    def __init__(
        self,
        history: History,
        limits: Iterable[tuple[TokenRule, int]],
        substitutes: Mapping[int, Substitute] | None = None,
    ) -> None:
        self._limits = [(token_rule, most, history.sums(token_rule)) for token_rule, most in limits]
        self._units = [0] * len(self._limits)
        self._substitutes = substitutes or {}

    def take(self, positions: Iterable[int], *, anyway: bool = False, cut: bool = False) -> bool:
        """Takes room for the messages at *positions* if they all fit, or *anyway*. Returns whether they fit.

        With *cut* a message that has a substitute is measured by the substitute.
        """
        positions = tuple(positions)
        units = [
            taken + sum([sums[at + 1] - sums[at] for at in positions])
            for taken, (_, _, sums) in zip(self._units, self._limits, strict=True)
        ]
        for at in self._substitutes.keys() & positions if cut else ():
            each = self._substitutes[at]
            for place, (token_rule, _, _) in enumerate(self._limits):
                units[place] -= token_rule.units(each.original) - token_rule.units(each.message)
        fits = all(
            token_rule.tokens(needed) <= most
            for needed, (token_rule, most, _) in zip(units, self._limits, strict=True)
        )
        if fits or anyway:
            self._units = units
        return fits


def select(
    history: Sequence[Message],
    turn_budget: int,
    limits: Iterable[tuple[TokenRule, int]],
    pins: Iterable[int] = (),
    *,
    request_limits: Iterable[tuple[TokenRule, int]] | None = None,
    request_rule: RequestRule = is_request,
    substitutes: Mapping[int, Substitute] | None = None,
) -> Selection:
    """Separates *history*: at most *turn_budget* complete turns stay, as far as the room allows.

    Args:
        history: The history. If it is in outline, no messages are made from it.
        turn_budget: The maximum number of complete turns that stay.
        limits: The room: token rules, each with its maximum tokens.
        pins: Sequence numbers of messages that stay, with their groups. They take no room if their turn
            leaves.
        request_limits: The room of the messages that open turns: the newest that fit stay, even if their
            turns leave. None: they leave with their turns.
        request_rule: Decides which text beside tool results opens a turn.
        substitutes: The substitutes of messages that stay, by position. The turn in flight is measured with
            them; a finished turn is measured as it is.
    """
    read = as_history(history, request_rule)
    choice = _Choice(read, Room(read, limits, substitutes or {}), must_stay(read, pins))
    if request_limits is not None:
        choice.kept.update(_newest_that_fit(read.outline.requests, Room(read, request_limits)))
    complete = range(read.outline.turn_count)
    whole = True
    if read.outline.in_flight:
        start, _, request = read.outline.turn(complete[-1])
        whole = choice.retain_newest_groups(start, request)
        complete = complete[:-1]
    elif not complete:  # a history without a request is treated like a turn in flight
        whole = choice.retain_newest_groups(0, None)
    if whole and turn_budget:
        choice.retain_turns(complete[1:][-turn_budget:])
    selection = _excerpts(read, read.outline.closed(list(choice.kept)))
    if read is history:
        return selection
    return Selection(tuple(selection.retained), tuple(selection.discarded))


def _newest_that_fit(positions: Sequence[int], room: Room) -> Iterator[int]:
    """The newest of *positions*, up to the first whose message does not fit."""
    for at in reversed(positions):
        if not room.take([at]):
            return
        yield at


class _Choice:
    """The positions that stay, as they are chosen."""

    def __init__(self, history: History, room: Room, kept: set[int]) -> None:
        self._outline, self._room, self.kept = history.outline, room, kept
        self._unoriginal = frozenset(history.unoriginal)
        self._fixed = frozenset(history.rules) | frozenset(history.summaries)  # decided without the room

    def retain_newest_groups(self, start: int, request: int | None) -> bool:
        """Adds the groups of the turn in flight, from *start* on, that stay. Returns whether all stay."""
        if request is not None:
            self._room.take([request], anyway=True, cut=True)
        newest_stays = False
        for last in range(len(self._outline) - 1, start - 1, -1):
            group = self._outline.group_ending_at(last)
            positions = [at for at in group or () if at not in self._fixed and at != request]
            if not positions:
                continue
            if not self._room.take(positions, anyway=not newest_stays, cut=True) and newest_stays:
                return False
            self.kept.update(positions)
            newest_stays = newest_stays or not self._unoriginal.issuperset(positions)
        return True

    def retain_turns(self, numbers: Sequence[int]) -> None:
        """Adds the newest of the turns *numbers* that fit, up to the first that does not."""
        for number in reversed(numbers):
            start, end, _ = self._outline.turn(number)
            positions = [at for at in range(start, end) if at not in self._fixed]
            if not self._room.take(positions):
                break
            self.kept.update(positions)


def _excerpts(history: History, kept: Sequence[tuple[int, int]]) -> Selection:
    """A selection that retains the ranges *kept* of positions, and discards the gaps between them."""
    starts, ends = [0, *(end for _, end in kept)], [*(start for start, _ in kept), len(history)]
    gaps = [(start, end) for start, end in zip(starts, ends, strict=True) if start < end]
    return Selection(Excerpt(history, kept), Excerpt(history, gaps))


def parted(history: Sequence[Message], kept: set[int]) -> Selection:
    """A selection that retains exactly the positions *kept*."""
    retained = tuple(message for at, message in enumerate(history) if at in kept)
    return Selection(retained, tuple(message for at, message in enumerate(history) if at not in kept))
