"""The rewritten history: what is retained, and one summary where the first discarded message stood."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from siltstone.compaction.base import Compaction, Range
from siltstone.compaction.prompts import framed
from siltstone.compaction.select import Selection
from siltstone.messages import Message, Part, SummaryMessage
from siltstone.usage import UsageRecord

__all__ = ["covered", "joined", "rewrite", "summary_message"]


def rewrite(
    history: Sequence[Message],
    selection: Selection,
    summary: str,
    prefix: str,
    *,
    usage: tuple[UsageRecord, ...] = (),
    degraded: bool = False,
    suspect: bool = False,
) -> Compaction:
    """Puts *summary* in the place of what *selection* discards; something must be discarded."""
    covers = covered(selection.discarded)
    level = 1 + max((_level(message) for message in selection.discarded), default=0)
    first = selection.discarded[0]
    before = next(at for at, message in enumerate(history) if message is first)
    message = summary_message(framed(prefix, summary), covers, level)
    return Compaction(
        messages=(*selection.retained[:before], message, *selection.retained[before:]),
        retained=selection.retained,
        discarded=selection.discarded,
        summary=summary,
        covers=covers,
        level=level,
        usage=usage,
        degraded=degraded,
        suspect=suspect,
    )


def summary_message(content: str, covers: tuple[Range, ...], level: int = 1) -> Message:
    """A summary as a message of the history: a user message that is known by its provenance."""
    raw = SummaryMessage(content, covers, level)
    return Message(
        seq=covers[0][0],
        role="user",
        parts=(Part("text", content),),
        raw=raw,
        provenance="compaction_summary",
        covers=covers,
    )


def covered(discarded: Sequence[Message]) -> tuple[Range, ...]:
    """The sequence numbers of *discarded*, those that earlier summaries stand for included.

    Ascending, disjoint, and touching ranges as one.
    """
    ranges: list[Range] = []
    for message in discarded:
        if message.provenance == "compaction_summary":
            ranges += message.covers
        else:
            ranges.append((message.seq, message.seq + 1))
    return joined(ranges)


def joined(ranges: Iterable[Range]) -> tuple[Range, ...]:
    """*ranges* ascending and disjoint, touching ones as one."""
    merged: list[Range] = []
    for start, end in sorted(ranges):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return tuple(merged)


def _level(message: Message) -> int:
    return message.raw.level if isinstance(message.raw, SummaryMessage) else 0
