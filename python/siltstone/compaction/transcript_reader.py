"""Messages that are not rendered yet, handed out by their size.

A stretch is as few messages as can be parted from the rest without parting a group. The core knows what
each would be as lines, so a piece of a thousand stretches is found by its sum, and nothing is rendered
before a model asks for it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate

from siltstone.compaction.render import items_of, lines, render
from siltstone.messages import Excerpt, MaterialItem, Message, rendered_tokens
from siltstone.tokens import TokenRule
from siltstone.values import dataclass

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
    """Stretches that follow one another, and are rendered when somebody reads them.

    Attributes:
        source: Where they are of.
        first: The first of them.
        end: One past the last.
    """

    source: Unread
    first: int
    end: int

    @property
    def messages(self) -> Excerpt:
        """What they show."""
        return self.source.messages(self.first, self.end)

    @property
    def text(self) -> str:
        """The lines as they are shown."""
        return render(self.messages, "")

    @property
    def items(self) -> Sequence[MaterialItem]:
        """The items of those lines."""
        return items_of(self.messages, "")

    @property
    def tokens(self) -> int:
        """All lines together, each with its line break."""
        return self.source.tokens(self.first, self.end)

    def stretches(self) -> list[Run]:
        """Each by itself; those without a line are left out."""
        each = (Run(self.source, number, number + 1) for number in range(self.first, self.end))
        return [run for run in each if run.tokens]


class Unread:
    """Messages of a history without the summaries among them, as a queue of stretches.

    Args:
        messages: What is handed out.
        token_rule: How lines are counted; one that the core knows.
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
        """The next stretches, as many as have at most *tokens*; None where not even one has."""
        first = self._at
        self._at = bisect_right(self._sums, self._sums[first] + tokens) - 1
        run = Run(self, first, self._at)
        return run if run.tokens else None

    def next(self) -> Run:
        """The next stretch, whatever it has."""
        self._at += 1
        return Run(self, self._at - 1, self._at)

    def messages(self, first: int, end: int) -> Excerpt:
        """The messages of some of the stretches."""
        start = self._ends[first - 1] if first else 0
        return self._messages.between(start, self._ends[end - 1] if end else 0)

    def tokens(self, first: int, end: int) -> int:
        """What some of the stretches have."""
        return self._sums[end] - self._sums[first]


def _tokens(messages: Excerpt, token_rule: TokenRule) -> Iterator[int]:
    """What the lines of each message have, each with its line break."""
    for at, end in messages.spans:
        while at < end:
            counts, at = rendered_tokens(messages.history.raws, at, end, token_rule.measure or "")
            yield from counts
            if at < end:  # a message that the core does not read
                items = items_of([messages.history[at]], "")
                yield sum(token_rule.count_text(item.line) + 1 for item in items)
                at += 1
