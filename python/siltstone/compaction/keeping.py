"""Separates a history into kept and discarded messages, and puts summaries into the gaps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from siltstone.compaction.base import Compaction, State, Substitute, Trigger, rules_in_force
from siltstone.compaction.rewrite import covered
from siltstone.compaction.select import Selection
from siltstone.events import UsageRecord
from siltstone.messages import Excerpt, History, Message, summary_level
from siltstone.messages.outline import Span

__all__ = ["composed", "end_of", "kept_apart", "layered", "originals", "summaries_of", "superseded"]


def kept_apart(history: Sequence[Message], read: History, kept: Iterable[int]) -> Selection:
    """A selection that retains the whole groups of the positions *kept*. *read* is *history* in outline."""
    spans = read.outline.closed(sorted(kept))
    starts, ends = [0, *(end for _, end in spans)], [*(start for start, _ in spans), len(read)]
    gaps = [(start, end) for start, end in zip(starts, ends, strict=True) if start < end]
    if read is history:
        return Selection(Excerpt(read, spans), Excerpt(read, gaps))
    return Selection(
        *(tuple(each for span in both for each in history[slice(*span)]) for both in (spans, gaps))
    )


def originals(read: History) -> list[int]:
    """The positions of all messages that are neither rules nor summaries."""
    apart = {*read.rules, *read.summaries}
    return [at for at in range(len(read)) if at not in apart]


def superseded(read: History, trigger: Trigger) -> set[int]:
    """The positions of rules that a later version has replaced, without pinned ones."""
    return set(read.rules) - rules_in_force(read) - set(read.positions_of(trigger.pins))


def summaries_of(read: History) -> list[Message]:
    """The summaries of a view, in order."""
    return [read[at] for at in read.summaries]


def end_of(read: History) -> int:
    """The number of messages ever appended: one more than the highest sequence number in *read*."""
    ends = (span[1] for span in read.numbers(0, len(read)))
    return max(ends, default=0)


def layered(
    history: Sequence[Message],
    selection: Selection,
    made: Sequence[Message],
    summary: str,
    *,
    state: State | None = None,
    asides: tuple[Message, ...] = (),
    usage: tuple[UsageRecord, ...] = (),
    degraded: bool = False,
) -> Compaction:
    """A layered rewrite: each summary in *made* takes the place of the first message that it covers."""
    return Compaction(
        messages=_view(history, selection, made),
        retained=selection.retained,
        discarded=selection.discarded,
        summary=summary,
        covers=covered(selection.discarded),
        level=max((summary_level(message) for message in made), default=0),
        usage=usage,
        degraded=degraded,
        layered=True,
        state=state,
        asides=asides,
    )


def composed(history: Sequence[Message], done: Sequence[Compaction], state: State | None) -> Compaction:
    """All rewrites in *done* as one rewrite of *history*. Each began with the view of the one before."""
    origin: dict[int, Message] = {}
    for each in done:
        for substitute in each.substitutes:
            original = origin.get(id(substitute.original), substitute.original)
            origin[id(substitute.message)] = original
    view = tuple(done[-1].messages)
    stays = {id(origin.get(id(message), message)) for message in view}
    retained = tuple(message for message in history if id(message) in stays)
    discarded = tuple(message for message in history if id(message) not in stays)
    known = {id(message) for message in history}
    made = [m for m in view if m.provenance == "compaction_summary" and id(m) not in known]
    last = [each for each in done if made and each.new_summaries and each.new_summaries[-1] is made[-1]]
    return Compaction(
        messages=view,
        retained=retained,
        discarded=discarded,
        summary=last[-1].summary if last else "",
        covers=covered(discarded),
        level=max((summary_level(message) for message in made), default=0),
        usage=tuple(record for each in done for record in each.usage),
        degraded=any(each.degraded for each in done),
        suspect=any(each.suspect for each in done),
        layered=True,
        state=state,
        asides=tuple(message for each in done for message in each.asides),
        substitutes=tuple(
            Substitute(origin[id(message)], message) for message in view if id(message) in origin
        ),
    )


def _view(history: Sequence[Message], selection: Selection, made: Sequence[Message]) -> Sequence[Message]:
    if not made:
        return selection.retained
    retained, discarded = selection.retained, selection.discarded
    if isinstance(retained, Excerpt) and isinstance(discarded, Excerpt):
        placed = dict(_placed(zip(discarded.positions, discarded, strict=True), made))
        both: dict[int, Span | Message] = {span[0]: span for span in retained.spans}
        both.update(placed)
        return Excerpt(retained.history, [both[at] for at in sorted(both)])
    gone = {id(message) for message in discarded}
    placed = dict(_placed(((at, each) for at, each in enumerate(history) if id(each) in gone), made))
    view = ((placed.get(at) if id(each) in gone else each) for at, each in enumerate(history))
    return tuple(each for each in view if each is not None)


def _placed(
    discarded: Iterable[tuple[int, Message]], made: Sequence[Message]
) -> Iterator[tuple[int, Message]]:
    """The new place of each summary in *made*: the place of the first discarded message that it covers."""
    waiting = list(made)
    for at, message in discarded:
        for summary in waiting:
            if any(start <= message.seq < end for start, end in summary.covers):
                yield at, summary
                waiting.remove(summary)
                break
