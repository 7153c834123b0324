"""Converts a session's messages, compactions, reasons and recalls to rows of its log, and back."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

from siltstone import messages as chat
from siltstone.compaction.base import Compaction, Trigger
from siltstone.llm import UsageRecord
from siltstone.memory import log
from siltstone.memory.convert import NewEntry
from siltstone.memory.database_log import entry_of
from siltstone.messages import Message
from siltstone.messages.message import RULE_ROLES
from siltstone.recall.base import RecallBlock
from siltstone.session.host_list import unmarked_text
from siltstone.session.redaction import Redacting
from siltstone.session.state import Item

# The reasons of a compaction: why it kept a message, or took it out. One short code for each stretch.
#
# The reasons are known only at the commit, because pins come and go, and turns end. So the log has them
# beside the compaction.

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
    request = next((each for each in reversed(read) if chat.opens_turn(each)), None)
    found: list[RuleSpan] = []
    since, until, last = 0, -1, _OLDER  # the span that the next message may go on with
    is_chosen = False
    for is_gone, start, end in _stretches([id(message) in gone for message in read]):
        # A stretch with one pinned message is pinned: a pinned call keeps its result.
        kept: Rule = "chosen" if is_gone or not _has_any(read[start:end], pins) else "pinned"
        for at in range(start, end):  # by place: no object for each message
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


def derived_row(item: Item, *, degraded: bool) -> log.NewDerived:
    """A summary or a substitute as a new row of the log, which has no cache marks: a host moves them."""
    message = item.message
    if message.provenance == "compaction_summary":
        level = message.raw.level if isinstance(message.raw, chat.SummaryMessage) else 1
        return log.NewDerived("summary", message.text, covers=message.covers, level=level, degraded=degraded)
    return log.NewDerived(
        "substitute", unmarked_text(chat.encode(message.raw)), seq=message.seq, dialect=message.dialect
    )


def derived_item(row: log.Derived) -> Message:
    """A summary or a substitute read back from the log."""
    if row.kind == "summary":
        return chat.read_summary(chat.SummaryMessage(row.raw, row.covers, row.level), row.covers)
    raw = chat.SubstituteMessage(chat.decode(row.raw), "stored")
    return chat.read_message(raw, row.seq or 0, dialect=row.dialect, provenance="substitute")


@dataclass(frozen=True, slots=True)
class Entries:
    """The entries of *items* as rows, in order. Each pass makes one at a time, and keeps none.

    *within* are messages in order, including *items*, by default *items* alone. A call of siltstone's own
    tools among them tells which results belong to these tools. *redacting* removes secrets from the texts.
    With *whole*, system messages and readable reasoning have entries, too.
    """

    items: Sequence[Item]
    index_tools: bool
    within: Iterable[Item] | None = None
    redacting: Redacting | None = None
    whole: bool = False

    def __iter__(self) -> Iterator[NewEntry]:
        tools, redacting = chat.OwnTools(), self.redacting
        own = {
            id(item): tools.parts_of(item.message)
            for item in (self.items if self.within is None else self.within)
            if item.message.said is None  # one text is no call and no result
        }
        how = {"index_tools": self.index_tools, "whole": self.whole}
        for item in self.items:
            places: Collection[int] | None = own.get(id(item))
            if redacting is not None:
                item, places = redacting.entry_of(item, places)
            row = entry_of(item.message, item.created_at, own=places, **how)
            if row is not None:
                yield row if redacting is None else row._replace(content=redacting.text(row.content))


class UnwrittenRecall(NamedTuple):
    """A recall that is not in the log yet: time (ms since 1970), block, cap in tokens, seconds taken.

    *before* is the message behind the block, *standing* the tokens of the standing wishes.
    """

    created_at: int
    block: RecallBlock
    cap: int
    seconds: float
    before: int
    standing: int


def recall_rows(recalls: Mapping[int, UnwrittenRecall]) -> list[log.NewRecall]:
    """The rows of *recalls*. The key of each is the length of the log at that time."""
    return [log.NewRecall(end, each.created_at, _recall_body(each)) for end, each in recalls.items()]


def _recall_body(recall: UnwrittenRecall) -> str:
    """A recall as JSON, as ``siltstone.memory.database_log`` reads it."""
    block = recall.block
    return (
        f'{{"q":[{",".join(map(str, block.query))}],"e":{block.considered},"f":{block.knowledge_count},'
        f'"b":{block.below},"t":{block.tokens},"c":{recall.cap},"u":{recall.seconds * 1e6:.0f},'
        f'"r":"{block.reason}","p":{recall.before},"s":{recall.standing}}}'
    )


def committed(row: log.NewCompaction, derived_ids: Sequence[int]) -> log.NewCompaction:
    """*row* as the log has it, after its new derived texts got the ids *derived_ids*."""
    view = tuple(derived_ids[piece.place] if isinstance(piece, log.NewRef) else piece for piece in row.view)
    return row._replace(view=view, derived=())


def notes_to(
    seconds: float | None, rules: Sequence[RuleSpan], trigger: Trigger, sizes: Sequence[int], *, suspect: bool
) -> str:
    """How a compaction was made, as :func:`notes_of` reads it. *sizes* are the tokens of its new texts."""
    notes = {
        "ms": None if seconds is None else round(seconds * 1e3, 1),
        "rules": rules,
        "due": _reached(trigger),
        "window": trigger.context_window,
        "sizes": sizes,
        "suspect": suspect or None,
    }
    told = {name: each for name, each in notes.items() if each not in (None, [])}
    return json.dumps(told, separators=(",", ":"))


def _reached(trigger: Trigger) -> tuple[int, int] | None:
    """The threshold that a figure in tokens had reached, and what counts against it beside the history."""
    if trigger.threshold is None or trigger.tokens < trigger.threshold:
        return None
    return trigger.threshold, trigger.reserved_tokens


def notes_of(row: log.NewCompaction) -> dict[str, Any]:
    """How a compaction was made; empty where nobody noted it.

    ``ms`` is the time that it took up to its commit; ``rules`` tell why a message was kept or left; ``due``
    is the threshold in tokens, and the tokens beside the history that count against it; ``window`` is the
    model's window; ``sizes`` are the tokens of the texts that it brought, in order.
    """
    return dict(json.loads(row.notes)) if row.notes else {}


def usage_of(row: log.NewCompaction) -> list[UsageRecord]:
    """The model calls of a compaction."""
    return [UsageRecord(**record) for record in json.loads(row.usage)]
