"""The rewritten history: the retained messages, and one summary in the place of the first discarded one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from siltstone.compaction.base import Compaction, Range, Substitute, summaries
from siltstone.compaction.clamp import with_substitutes
from siltstone.compaction.prompts import framed
from siltstone.compaction.select import Selection
from siltstone.events import UsageRecord
from siltstone.messages import Excerpt, Message, SummaryMessage, read_summary, summary_level

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
    substitutes: Mapping[int, Substitute] | None = None,
    level: int | None = None,
) -> Compaction:
    """Replaces the discarded messages of *selection* by *summary*. At least one message must be discarded.

    *substitutes* are by position; the view shows those whose originals are retained. If *level* is None, the
    summary has one level more than the highest of the summaries that it replaces.
    """
    covers = covered(selection.discarded)
    if level is None:
        level = 1 + max((summary_level(message) for message in summaries(selection.discarded)), default=0)
    message = summary_message(framed(prefix, summary), covers, level)
    chosen = _of_retained(selection, substitutes or {})
    return Compaction(
        messages=with_substitutes(_spliced(history, selection, message), chosen),
        retained=selection.retained,
        discarded=selection.discarded,
        summary=summary,
        covers=covers,
        level=level,
        usage=usage,
        degraded=degraded,
        suspect=suspect,
        substitutes=chosen,
    )


def _of_retained(selection: Selection, substitutes: Mapping[int, Substitute]) -> tuple[Substitute, ...]:
    if not substitutes:
        return ()
    stays = {id(message) for message in selection.retained}
    return tuple(substitutes[at] for at in sorted(substitutes) if id(substitutes[at].original) in stays)


def _spliced(history: Sequence[Message], selection: Selection, message: Message) -> Sequence[Message]:
    """The retained messages, with *message* in the place of the first discarded one."""
    retained, discarded = selection.retained, selection.discarded
    if isinstance(retained, Excerpt) and isinstance(discarded, Excerpt):
        first = discarded.positions[0]
        before = [piece for piece in retained.spans if piece[0] < first]
        return Excerpt(retained.history, (*before, message, *retained.spans[len(before) :]))
    before_it = next(at for at, each in enumerate(history) if each is discarded[0])
    return (*retained[:before_it], message, *retained[before_it:])


def summary_message(content: str, covers: tuple[Range, ...], level: int = 1) -> Message:
    """A summary as a message of the history: a user message of *content*, and its mark."""
    return read_summary(SummaryMessage(content, covers, level), covers)


def covered(discarded: Sequence[Message]) -> tuple[Range, ...]:
    """The sequence numbers of *discarded*, including the numbers that its earlier summaries cover.

    The ranges ascend and are disjoint; adjacent ranges are joined.
    """
    if isinstance(discarded, Excerpt):
        return joined(discarded.numbers)
    ranges: list[Range] = []
    for message in discarded:
        if message.provenance == "compaction_summary":
            ranges += message.covers
        elif ranges and ranges[-1][1] == message.seq:  # most messages follow the one before
            ranges[-1] = (ranges[-1][0], message.seq + 1)
        else:
            ranges.append((message.seq, message.seq + 1))
    return joined(ranges)


def joined(ranges: Iterable[Range]) -> tuple[Range, ...]:
    """*ranges* in ascending order and disjoint; overlapping and adjacent ranges are joined."""
    merged: list[Range] = []
    for start, end in sorted(ranges):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return tuple(merged)
