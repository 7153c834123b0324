"""The messages to summarise, in pieces: whole groups while they fit, and every character exactly once.

The material is a queue of segments. A segment is a stretch of messages that belongs together, as items: no
group reaches over its borders. A piece takes whole segments, oldest first, while their lines fit. A segment
that no piece can hold is parted between its messages, then its items, and an item that none can hold inside,
on a character of its line. The rest goes on in the next piece, indented, so it never passes for an item.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from siltstone.compaction.base import Range
from siltstone.compaction.clip import near_end
from siltstone.compaction.render import items_of
from siltstone.compaction.rewrite import covered, joined
from siltstone.compaction.transcript_reader import Run, Segment, Unread
from siltstone.messages import Excerpt, MaterialItem, Message, groups
from siltstone.tokens import TokenRule

__all__ = ["Material", "Piece", "at_most"]

# Bounds of a rendering. Lines are indented, so a message of line breaks only grows threefold. Each part gets
# a label.
GROWTH = 3
TOKENS_PER_PART = 16
CHARACTERS_PER_TOKEN = 4  # no token rule has more code points in a token

SMALLEST_PIECE = 16  # tokens: in a smaller piece the indent of a split line would take most of the room


@dataclass(frozen=True, slots=True)
class Piece:
    """The content of one request.

    Attributes:
        segments: In order, oldest first.
    """

    segments: tuple[Segment | Run, ...]

    def __len__(self) -> int:
        """The number of messages that it shows, wholly or in part."""
        shown = {
            id(segment.messages): len(segment.messages) for segment in self.segments
        }  # the lines of one message share one tuple
        return sum(shown.values())

    @property
    def text(self) -> str:
        """The material of the request."""
        return "\n".join(segment.text for segment in self.segments)

    @property
    def items(self) -> list[MaterialItem]:
        """The items of that text."""
        return [item for segment in self.segments for item in segment.items]

    @property
    def covers(self) -> tuple[Range, ...]:
        """The sequence numbers of the messages that it shows, wholly or in part."""
        return joined(span for messages in self._shown() for span in covered(messages))

    @property
    def has_summary(self) -> bool:
        """Whether it shows an earlier summary."""
        return any(
            message.provenance == "compaction_summary"
            for segment in self.segments
            if isinstance(segment, Segment)
            for message in segment.messages
        )

    def _shown(self) -> list[Sequence[Message]]:
        """The messages of each segment; lines that share one message give it once."""
        held = [segment.messages for segment in self.segments]  # all at once: else an id() may be used again
        return list({id(messages): messages for messages in held}.values())


class Material:
    """Discarded messages as a queue of segments, earlier summaries first.

    Args:
        discarded: The messages to summarise, in order.
        summary_prefix: The frame of earlier summaries, which is left out.
        token_rule: The rule that measures a piece.
    """

    def __init__(self, discarded: Sequence[Message], summary_prefix: str, token_rule: TokenRule) -> None:
        self._rule = token_rule
        self._unread: Unread | None = None
        self._waiting: deque[Segment | Run]
        if isinstance(discarded, Excerpt) and token_rule.measure is not None:
            self._waiting = deque(_segments(discarded.summaries, summary_prefix))
            self._unread = Unread(discarded.without_summaries, token_rule)
        else:
            self._waiting = deque(_segments(discarded, summary_prefix))

    def __bool__(self) -> bool:
        return bool(self._waiting) or bool(self._unread)

    def take(self, tokens: int) -> Piece:
        """The next piece, of at most *tokens*, or of ``SMALLEST_PIECE`` if that is more."""
        tokens = max(tokens, SMALLEST_PIECE)
        taken = [self._first(tokens)]
        used = self._tokens(taken[0])
        while self._waiting:
            used += self._tokens(self._waiting[0])
            if used > tokens:
                return Piece(tuple(taken))
            taken.append(self._waiting.popleft())
        if self._unread and (run := self._unread.take(tokens - used)):
            taken.append(run)
        return Piece(tuple(taken))

    def give_back(self, piece: Piece) -> None:
        """Puts *piece* back at the front of the queue, to be taken in smaller pieces."""
        self._waiting.extendleft(reversed(piece.segments))

    def _first(self, tokens: int) -> Segment | Run:
        """The next segment, or as much of it as fits."""
        if not self._waiting and self._unread is not None:
            self._waiting.append(self._unread.take(tokens) or self._unread.next())
        segment = self._waiting.popleft()
        while self._tokens(segment) > tokens:
            self._waiting.extendleft(reversed(self._parted(segment, tokens)))
            segment = self._waiting.popleft()
        return segment

    def _parted(self, segment: Segment | Run, tokens: int) -> Sequence[Segment | Run]:
        """Splits a segment one step: into its stretches, else its messages, else its lines, else its line."""
        if isinstance(segment, Run) and segment.end - segment.first > 1:
            return segment.stretches()
        if isinstance(segment, Run) or len(segment.messages) > 1:
            shown = ((message, tuple(items_of([message], ""))) for message in segment.messages)
            return [Segment(items, (message,)) for message, items in shown if items]
        items = segment.items if len(segment.items) > 1 else self._cut(segment.items[0], tokens)
        return [Segment((item,), segment.messages) for item in items]

    def _cut(self, item: MaterialItem, tokens: int) -> tuple[MaterialItem, MaterialItem]:
        """*item* in two: as much of its line as fits, and the rest, indented."""
        line = item.line
        low, high = 1, min(len(line) - 1, CHARACTERS_PER_TOKEN * (tokens + 1))
        while low < high:
            middle = (low + high + 1) // 2
            if self._size(line[:middle]) <= tokens:
                low = middle
            else:
                high = middle - 1
        return item.cut(near_end(line, low))

    def _tokens(self, segment: Segment | Run) -> int:
        if isinstance(segment, Run):
            return segment.tokens
        return sum(self._size(item.line) for item in segment.items)

    def _size(self, line: str) -> int:
        return self._rule.count_text(line) + 1  # with its line break


def at_most(discarded: Sequence[Message], token_rule: TokenRule) -> int:
    """An upper bound for the tokens of the rendering of *discarded*, without rendering it.

    So a plan costs no rendering.
    """
    if isinstance(discarded, Excerpt):
        parts = discarded.parts
    else:
        parts = sum(1 if message.said is not None else len(message.parts) for message in discarded)
    return GROWTH * token_rule.count(discarded) + TOKENS_PER_PART * parts


def _segments(discarded: Sequence[Message], prefix: str) -> Iterator[Segment]:
    summaries = [message for message in discarded if message.provenance == "compaction_summary"]
    others = [message for message in discarded if message.provenance != "compaction_summary"]
    stretches = [*((summary,) for summary in summaries), *_stretches(others)]
    for messages in stretches:
        items = tuple(item for message in messages for item in items_of([message], prefix))
        if items:
            yield Segment(items, messages)


def _stretches(messages: Sequence[Message]) -> Iterator[tuple[Message, ...]]:
    """*messages* in the smallest stretches that split no group."""
    last = {group.positions[0]: group.positions[-1] for group in groups(messages)}
    start = end = 0
    for at in range(len(messages)):
        end = max(end, last.get(at, at))
        if at == end:
            yield tuple(messages[start : at + 1])
            start = end = at + 1
