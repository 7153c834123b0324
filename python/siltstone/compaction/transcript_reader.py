"""A queue of messages that are not rendered yet, taken by size.

A stretch is the smallest run of messages that splits no group. The core counts the tokens of its lines
without rendering them. So a piece of a thousand stretches is found by sums, and a message is rendered only
when a model reads it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from siltstone.compaction.render import items_of, lines, render
from siltstone.messages import Excerpt, MaterialItem, Message, rendered_tokens
from siltstone.tokens import TokenRule

__all__ = ["Run", "Segment", "Unread"]


@dataclass(frozen=True, slots=True)
class Segment:
    """Items that belong together, and the messages they show."""

    items: tuple[MaterialItem, ...]
    messages: Sequence[Message]

    @property
    def text(self) -> str:
        """The lines as they are shown."""
        return lines(self.items)


@dataclass(frozen=True, slots=True)
class Run:
    """Consecutive stretches, which are rendered when their text is read.

    Attributes:
        source: The queue of the stretches.
        first: The number of the first stretch.
        end: The number after the last stretch.
    """

    source: Unread
    first: int
    end: int

    @property
    def messages(self) -> Excerpt:
        """The messages of the stretches."""
        return self.source.messages(self.first, self.end)

    @property
    def text(self) -> str:
        """The rendered lines of the messages."""
        return render(self.messages, "")

    @property
    def items(self) -> Sequence[MaterialItem]:
        """The items of those lines."""
        return items_of(self.messages, "")

    @property
    def tokens(self) -> int:
        """The tokens of all lines, each with its line break."""
        return self.source.tokens(self.first, self.end)

    def stretches(self) -> list[Run]:
        """Each stretch as a run of its own; stretches without a line are left out."""
        each = (Run(self.source, number, number + 1) for number in range(self.first, self.end))
        return [run for run in each if run.tokens]


class Unread:
    """Messages of a history, without its summaries, as a queue of stretches.

    Args:
        messages: The messages.
        token_rule: The rule that counts lines; the core must know it.
    """

    def __init__(self, messages: Excerpt, token_rule: TokenRule) -> None:
        self._messages = messages
        self._ends = messages.history.outline.breaks(messages.spans)
        sums = list(accumulate(_tokens(messages, token_rule), initial=0))
        self._sums = [0, *(sums[end] for end in self._ends)]
        self._at = 0

    def __bool__(self) -> bool:
        return self._sums[-1] > self._sums[self._at]

    def take(self, tokens: int) -> Run | None:
        """As many of the next stretches as fit *tokens*; None if not even one fits."""
        first = self._at
        self._at = bisect_right(self._sums, self._sums[first] + tokens) - 1
        run = Run(self, first, self._at)
        return run if run.tokens else None

    def next(self) -> Run:
        """The next stretch, of any size."""
        self._at += 1
        return Run(self, self._at - 1, self._at)

    def messages(self, first: int, end: int) -> Excerpt:
        """The messages of the stretches from *first* to before *end*."""
        start = self._ends[first - 1] if first else 0
        return self._messages.between(start, self._ends[end - 1] if end else 0)

    def tokens(self, first: int, end: int) -> int:
        """The tokens of the stretches from *first* to before *end*."""
        return self._sums[end] - self._sums[first]


def _tokens(messages: Excerpt, token_rule: TokenRule) -> Iterator[int]:
    """The tokens of the lines of each message, each line with its line break."""
    for at, end in messages.spans:
        while at < end:
            counts, at = rendered_tokens(messages.history.raws, at, end, token_rule.measure or "")
            yield from counts
            if at < end:  # a message that the core does not read
                items = items_of([messages.history[at]], "")
                yield sum(token_rule.count_text(item.line) + 1 for item in items)
                at += 1
