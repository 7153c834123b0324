"""The reasons of a compaction: why it kept a message, or took it out. One short code for each stretch.

The reasons are known only at the commit, because pins come and go, and turns end. So the log has them beside
the compaction.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Literal, TypeAlias

from siltstone.compaction.base import Compaction, Trigger
from siltstone.messages import Message, opens_turn
from siltstone.messages.message import RULE_ROLES

__all__ = ["Rule", "RuleSpan", "rules_of"]

Rule: TypeAlias = Literal[
    "system", "pinned", "request", "recent", "chosen", "superseded", "older", "outranked"
]
"""Why a message was kept:

- ``system``: it has rules that are in force.
- ``pinned``: it is pinned, or stands beside a pinned message, as the result of a pinned call does.
- ``recent``: it is among the newest messages.
- ``request``: it is the last request, and its turn was cut.
- ``chosen``: the policy kept it by a rule of its own.

Why a message was taken out:

- ``superseded``: a later version of its rules is in force.
- ``older``: it is older than all that the policy kept by a rule of its own.
- ``outranked``: the policy kept an earlier message, and not this one.
"""

RuleSpan: TypeAlias = tuple[int, int, Rule]
"""A half-open range of sequence numbers, and the rule for all of them."""

_SUMMARY = "compaction_summary"
_OLDER: Rule = "older"


def rules_of(read: Sequence[Message], compaction: Compaction, trigger: Trigger) -> list[RuleSpan]:
    """The rule for each message of the view *read*, without summaries, in the order of the view."""
    gone, pins = {id(message) for message in compaction.discarded}, set(trigger.pins)
    tail = len(read)  # the messages that stay from here on are the newest without a gap
    while tail and id(read[tail - 1]) not in gone:
        tail -= 1
    request = next((each for each in reversed(read) if opens_turn(each)), None)
    found: list[RuleSpan] = []
    since, until, last = 0, -1, _OLDER  # the span that the next message may go on with
    is_chosen = False
    for is_gone, start, end in _stretches([id(message) in gone for message in read]):
        # One pinned message names the reason of its whole stretch: a pinned call keeps its result beside it.
        kept: Rule = "chosen" if is_gone or not _has_any(read[start:end], pins) else "pinned"
        for at in range(start, end):  # without an object for each message, which is work for the collector
            message = read[at]
            if message.provenance == _SUMMARY:
                continue
            rule: Rule
            if is_gone:
                rule = "superseded" if message.role in RULE_ROLES else "outranked" if is_chosen else "older"
            elif message.role in RULE_ROLES:
                rule = "system"
            elif message.seq in pins or at < tail:
                rule = "request" if message is request and message.seq not in pins else kept
            else:
                rule = "recent"
            is_chosen = is_chosen or rule == "chosen"
            seq = message.seq
            if seq != until or rule != last:
                if until >= 0:
                    found.append((since, until, last))
                since, last = seq, rule
            until = seq + 1
    return found if until < 0 else [*found, (since, until, last)]


def _has_any(messages: Sequence[Message], pins: Collection[int]) -> bool:
    """Whether one of *messages* is pinned."""
    return any(message.seq in pins and message.provenance != _SUMMARY for message in messages)


def _stretches(flags: list[bool]) -> Iterator[tuple[bool, int, int]]:
    """The runs of equal *flags*: the flag, and the half-open range of its places."""
    start = 0
    while start < len(flags):
        flag = flags[start]
        try:
            end = flags.index(not flag, start)
        except ValueError:
            end = len(flags)
        yield flag, start, end
        start = end
