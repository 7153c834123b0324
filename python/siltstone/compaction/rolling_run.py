"""Rolling tiered compaction: a summary replaces the oldest messages, and joins the stack of summaries."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from siltstone.compaction.base import Compaction, CompactionError, Skip, Trigger, check_shrunk
from siltstone.compaction.calls import Calls
from siltstone.compaction.chronicle_state import chronicle_in
from siltstone.compaction.keeping import kept_apart, layered
from siltstone.compaction.prompts import framed
from siltstone.compaction.rewrite import covered, joined, summary_message
from siltstone.compaction.tiered_prompts import META_NOTE
from siltstone.compaction.tiered_run import TieredRun, TieredWorker
from siltstone.compaction.tiered_stack import Layer, Stack
from siltstone.llm import Flow
from siltstone.messages import Message, summary_level

__all__ = ["RollingRun"]

_log = logging.getLogger("siltstone")

SUSPECT: Final = (1_000, 16)  # tokens: a summary of >= 1,000 is suspect if it has fewer than 16


@dataclass(frozen=True, slots=True)
class _Cut:
    """The cut of a run: the position *end*, the first and last turn that it removes, and the turns begun."""

    end: int
    turns: tuple[int, int]
    turns_begun: int


class RollingRun(TieredRun):
    """One run over a history whose summaries stack before its live messages."""

    def __init__(self, policy: TieredWorker, history: Sequence[Message], trigger: Trigger) -> None:
        super().__init__(policy, history, trigger)
        self.stack = Stack.of(self.read, trigger, self.config.summary_heading)

    def heading(self, numbers: tuple[int, int], turns: tuple[int, int]) -> str:
        """The first line of a summary."""
        number = f"{numbers[0]}-{numbers[1]}" if numbers[0] != numbers[1] else str(numbers[0])
        return self.config.summary_heading.format(n=number, first=turns[0], last=turns[1])

    def summarised(self) -> Flow[Compaction | Skip]:
        """Replaces the oldest messages after the stack by a summary, which becomes the last of the stack."""
        config = self.config
        gentle = self.trigger.action == "background"
        fraction = config.background_fraction if gentle else config.aggressive_fraction
        end = self.cut(fraction, config.retain_floor)
        if end is None:
            return self.no_cut()
        cut = self._cut_at(end)
        selection = self.selection(cut.end)
        if not selection.is_worthwhile:
            return self.no_cut()
        calls = self.calls()
        told = selection.told
        text = yield from self.written(told, calls, offers_tools=True)
        yield from self.extracted(told)
        number = self.stack.number + 1
        covers = covered(selection.discarded)
        layer = Layer(covers[0][0], (number, number), cut.turns)
        made = summary_message(framed(self.heading(layer.numbers, layer.turns), text), covers)
        stack = replace(self.stack, layers=(*self.stack.layers, layer), number=number, turns=cut.turns_begun)
        compaction = layered(
            self.history,
            selection,
            [made],
            text,
            state=self._state(stack, self.first_live(cut.end)),
            usage=tuple(calls.usage),
            degraded=calls.degraded,
        )
        check_shrunk(self.rule, self.history, compaction)
        suspect = self.rule.count(told) >= SUSPECT[0] and self.rule.count_text(text) < SUSPECT[1]
        folded = yield from self._folded(cut, made, text, stack, calls)
        return replace(
            folded or compaction,
            suspect=suspect,
            usage=tuple(calls.usage),
            tool_calls=tuple(calls.tool_calls),
        )

    def marked(self, end: int, marker: str) -> Compaction | Skip:
        """Discards all before position *end*; *marker* tells the number of these messages."""
        cut = self._cut_at(end)
        selection = self.selection(cut.end)
        if not selection.is_worthwhile:
            return self.no_cut()
        count = sum(message.provenance != "compaction_summary" for message in selection.discarded)
        covers = covered(selection.discarded)
        text = marker.format(n=count)
        made = summary_message(text, covers)
        if self.rule.count(selection.discarded) <= self.rule.count([made]):
            return Skip("nothing_to_discard", f"{count} messages are smaller than the line that would say so")
        stack = replace(
            self.stack,
            layers=(*self.stack.layers, Layer(covers[0][0], turns=cut.turns)),
            turns=cut.turns_begun,
        )
        return layered(
            self.history,
            selection,
            [made],
            text,
            state=self._state(stack, self.first_live(cut.end)),
            degraded=True,
        )

    def folded_alone(self) -> Flow[Compaction | Skip]:
        """Replaces all summaries by one new summary of the first level; no other message leaves."""
        if not self.stack.positions:
            return Skip("nothing_to_discard", f"there is no summary among {len(self.history)} messages")
        calls = self.calls()
        selection = kept_apart(
            self.history, self.read, set(range(len(self.history))) - set(self.folding(self.stack.positions))
        )
        text = yield from self.written(self._sources(selection.discarded), calls, META_NOTE)
        covers = covered(selection.discarded)
        layer = self._joined(self.stack.layers, covers[0][0])
        made = summary_message(framed(self.heading(layer.numbers, layer.turns), text), covers)
        stack = replace(self.stack, layers=(layer,))
        end = self.first_live(self.stack.start)
        usage = tuple(calls.usage)
        return layered(self.history, selection, [made], text, state=self._state(stack, end), usage=usage)

    def _cut_at(self, end: int) -> _Cut:
        start = self.stack.start
        begun = sum(1 for at in self.read.outline.requests if start <= at < end)
        last = self.stack.turns + begun
        first = self.stack.turns + 1 if begun else max(1, self.stack.turns)
        return _Cut(end, (first, max(first, last)), last)

    def _state(self, stack: Stack, end: int) -> dict[str, object]:
        """The state to keep: the stack, and the chronicle of a session that had one."""
        chronicle = chronicle_in(self.trigger.policy_state)
        kept = stack.state(end=end)
        return kept if chronicle is None else {**kept, "chronicle": chronicle}

    def _folded(
        self, cut: _Cut, made: Message, text: str, stack: Stack, calls: Calls
    ) -> Flow[Compaction | None]:
        """The same rewrite, with the oldest summaries folded into one because the stack is too large.

        None if the stack is not too large, if no model call is left, if the model failed, or if the fold is
        not possible. Then the next run tries again.
        """
        count = self._outgrown(made)
        if count == 0 or calls.left == 0:
            return None
        oldest, layers = self.stack.positions[:count], self.stack.layers[:count]
        selection = self.selection(cut.end, oldest)
        gone = [self.read[at] for at in self.folding(oldest)]
        covers = covered(gone)
        if covers[-1][1] > made.covers[0][0]:
            return None  # a message that was pinned before lies among them, so the two ranges would overlap
        try:
            meta = yield from self.written(self._sources(gone), calls, META_NOTE)
        except CompactionError as error:
            _log.warning("the summaries of a session could not be made one: %s", error)
            return None
        layer = self._joined(layers, covers[0][0])
        level = 1 + max(summary_level(self.read[at]) for at in oldest)
        heading = self.heading(layer.numbers, layer.turns)
        above = summary_message(framed(heading, meta), covers, level)
        stack = replace(stack, layers=(layer, *stack.layers[count:]))
        compaction = layered(
            self.history,
            selection,
            [above, made],
            text,
            state=self._state(stack, self.first_live(cut.end)),
            degraded=calls.degraded,
        )
        before, after = self.rule.count(self.history), self.rule.count(compaction.messages)
        return compaction if after < before else None

    def _outgrown(self, made: Message) -> int:
        """The number of oldest summaries to fold into one, now that *made* is added; 0 for none."""
        budget = self.config.stack_budget(self.window)
        stack = self.stack
        rules = set(self.read.rules)
        sizes = [0] * len(stack.positions)
        place = 0
        for at in range(stack.start):
            if at in rules or at in self.held:
                continue
            sizes[place] += self.rule.count([self.read[at]])
            place += at in stack.positions
        new = self.rule.count([made])
        if not sizes or sum(sizes) + new <= budget:
            return 0
        cap = self.config.summary_cap(self.window)
        for count in range(min(2, len(sizes)), len(sizes)):
            if cap + sum(sizes[count:]) + new <= budget * 3 // 4:
                return count
        return len(sizes)

    def _sources(self, gone: Sequence[Message]) -> Sequence[Message]:
        """The source messages of a summary of summaries.

        They are the summaries. Behind a marker they are summaries that found no place in a view, and the
        messages that no model has read. On request they are the messages behind all summaries.
        """
        if self.trigger.originals is None:
            return gone
        markers = {layer.seq for layer in self.stack.layers if layer.is_marker}
        read, unread = list[Message](), set[int]()
        for message in gone:
            if message.provenance == "compaction_summary" and (self.trigger.fold or message.seq in markers):
                unread |= _numbers(message)
            else:
                read.append(message)
        for summary in () if self.trigger.fold else self.trigger.unplaced:
            if _numbers(summary) <= unread:
                unread -= _numbers(summary)
                read.append(summary)
        read += self.trigger.originals(joined((seq, seq + 1) for seq in unread))
        return sorted(read, key=lambda message: message.seq) or gone

    def _joined(self, layers: Sequence[Layer], seq: int) -> Layer:
        """The layer of the summary that replaces *layers*; it begins with message *seq*."""
        numbers = [number for layer in layers for number in layer.numbers if number]
        turns = [turn for layer in layers for turn in layer.turns if turn]
        return Layer(
            seq,
            (min(numbers, default=1), max(numbers, default=1)),
            (min(turns, default=1), max(turns, default=max(1, self.stack.turns))),
        )


def _numbers(summary: Message) -> set[int]:
    """The sequence numbers that *summary* covers."""
    return {seq for span in summary.covers for seq in range(*span)}
