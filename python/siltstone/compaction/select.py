"""What a compaction retains: newest turns first, groups whole, within its room.

System and developer messages, pinned ones, pending groups and the request of the turn in flight always
stay; an earlier summary always goes. Of the turn in flight the newest groups that fit stay too, at least the
newest one; and only if all of it fits, the newest complete turns that still fit, never the oldest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from siltstone.compaction.base import RULE_ROLES, rules_in_force
from siltstone.messages import Group, Message, groups, in_flight, turns
from siltstone.tokens import TokenRule

__all__ = ["Room", "Selection", "closed", "parted", "select"]


@dataclass(frozen=True, slots=True)
class Selection:
    """A history parted in two, each in order, the same objects."""

    retained: tuple[Message, ...]
    discarded: tuple[Message, ...]

    @property
    def is_worthwhile(self) -> bool:
        """Something original is discarded: rewriting an earlier summary alone would gain nothing."""
        return any(
            message.provenance == "original" and message.role not in RULE_ROLES for message in self.discarded
        )

    @property
    def told(self) -> tuple[Message, ...]:
        """What a summariser is told of: all that is discarded, but for superseded rules."""
        return tuple(message for message in self.discarded if message.role not in RULE_ROLES)


class Room:
    """What may still be retained: each limit is a rule to count by and the most tokens by it."""

    def __init__(self, *limits: tuple[TokenRule, int]) -> None:
        self._limits = limits
        self._units = [0] * len(limits)

    def take(self, messages: Iterable[Message], *, anyway: bool = False) -> bool:
        """Takes room for *messages* if all of them fit, or *anyway*; whether they did fit."""
        messages = tuple(messages)
        units = [
            taken + sum(map(token_rule.units, messages))
            for taken, (token_rule, _) in zip(self._units, self._limits, strict=True)
        ]
        fits = all(
            token_rule.tokens(needed) <= most
            for needed, (token_rule, most) in zip(units, self._limits, strict=True)
        )
        if fits or anyway:
            self._units = units
        return fits


def select(
    history: Sequence[Message],
    turn_budget: int,
    room: Room,
    stays: Callable[[Message], bool] | None = None,
) -> Selection:
    """Parts *history*: at most *turn_budget* complete turns stay, as far as *room* allows.

    What *stays* says of stays with its group, and takes no room where its turn goes.
    """
    grouped, spans = groups(history), turns(history)
    kept = rules_in_force(history)
    if stays is not None:
        kept.update(at for at, message in enumerate(history) if stays(message))
    kept.update(position for group in grouped if group.pending for position in group.positions)
    whole = True
    if in_flight(history):
        turn = spans.pop()
        whole = _retain_newest_groups(history, grouped, turn.start, turn.request, room, kept)
    elif not spans:  # an agent that nobody asked anything: what it does is like a turn in flight
        whole = _retain_newest_groups(history, grouped, 0, None, room, kept)
    candidates = spans[1:][-turn_budget:] if whole and turn_budget else []
    for span in reversed(candidates):
        positions = [at for at in range(span.start, span.end) if _is_live(history[at])]
        if not room.take(history[at] for at in positions):
            break
        kept.update(positions)
    return parted(history, closed(grouped, kept))


def _retain_newest_groups(
    history: Sequence[Message],
    grouped: Sequence[Group],
    start: int,
    request: int | None,
    room: Room,
    kept: set[int],
) -> bool:
    """Adds to *kept* what stays of the turn in flight from *start* on; whether all of it does."""
    if request is not None:
        room.take([history[request]], anyway=True)
        kept.add(request)
    newest_stays = False
    for group in sorted(grouped, key=lambda group: group.positions[-1], reverse=True):
        positions = [at for at in group.positions if _is_live(history[at]) and at != request]
        if group.positions[-1] < start:
            break
        if not positions:
            continue
        if not room.take((history[at] for at in positions), anyway=not newest_stays) and newest_stays:
            return False
        kept.update(positions)
        newest_stays |= any(history[at].provenance == "original" for at in positions)
    return True


def _is_live(message: Message) -> bool:
    return message.role not in RULE_ROLES and message.provenance != "compaction_summary"


def closed(grouped: Sequence[Group], kept: set[int]) -> set[int]:
    """*kept* with every group whole that has a part of it, so that no call loses its result."""
    for group in grouped:
        if len(group.positions) > 1 and not kept.isdisjoint(group.positions):
            kept.update(group.positions)
    return kept


def parted(history: Sequence[Message], kept: set[int]) -> Selection:
    """*history* in what stands at the positions of *kept*, and the rest."""
    retained = tuple(message for at, message in enumerate(history) if at in kept)
    return Selection(retained, tuple(message for at, message in enumerate(history) if at not in kept))
