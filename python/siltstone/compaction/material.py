"""Discarded messages as a summariser reads them: in pieces, and every character exactly once.

The material is a queue of segments. A segment is a stretch of messages that belongs together, as items: no
group reaches over its borders. A piece takes whole segments, oldest first, while their lines fit. A segment
that no piece can hold is parted between its messages, then its items, and an item that none can hold inside,
on a character of its line. The rest goes on in the next piece, indented, so it never passes for an item.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import Any, Final, TypeVar, overload

from siltstone import messages as chat
from siltstone.compaction.base import Range
from siltstone.compaction.prompts import near_end, unframed
from siltstone.compaction.rewrite import covered, joined
from siltstone.messages import Message, Part, Role
from siltstone.messages.material import spoken
from siltstone.messages.message import SAID
from siltstone.tokens import TokenRule

# Discarded messages as items, and as the plain lines of those items, which a summariser reads.

_SUMMARY: Final = "compaction_summary"

_ROLES: Final[dict[str, Role]] = {
    "system": "system",
    "developer": "developer",
    "user": "user",
    "assistant": "assistant",
}


def excerpt_of(messages: Sequence[Message]) -> chat.Excerpt:
    """All of *messages*, in outline."""
    if isinstance(messages, chat.Excerpt):
        return messages
    return chat.Excerpt(chat.as_history(messages), [(0, len(messages))])


def render(messages: Sequence[Message], summary_prefix: str) -> str:
    """All of *messages* as lines, earlier summaries first. A message with only reasoning gives no line."""
    return "\n".join(_lines(excerpt_of(messages), summary_prefix))


def items_of(messages: Sequence[Message], summary_prefix: str) -> list[chat.MaterialItem]:
    """The items of *messages* in the order of their lines."""
    return list(_items(excerpt_of(messages), summary_prefix))


def lines(items: Iterable[chat.MaterialItem]) -> str:
    """The text that shows *items*."""
    return "\n".join(item.line for item in items)


def earlier_summary(covers: Sequence[tuple[int, int]], text: str) -> chat.MaterialItem:
    """The item of a summary that stands for *covers*."""
    return chat.MaterialItem("summary", text, covers=tuple(covers))


def _items(messages: chat.Excerpt, prefix: str) -> Iterator[chat.MaterialItem]:
    """The items of messages that nobody has looked at yet: no :class:`Message` is made of most."""
    history = messages.history
    for message in messages.summaries:
        yield _summary(message, prefix)
    for piece in messages.pieces:
        if isinstance(piece, Message):
            yield from _of_one(piece)
            continue
        at, end = piece
        while at < end:
            rows, stop = chat.message_items(history.shown, at, end)
            seqs = [seq for span in history.numbers(at, stop) for seq in range(*span)]
            for position, kind, role, call_id, name, text, failed in rows:
                of = _ROLES.get(role or "", "assistant" if kind == "tool_call" else "tool")
                yield chat.MaterialItem(
                    kind, text, of, name or "", call_id or "", failed, seqs[position - at]
                )
            at = stop
            if at < end:  # a message that the core does not read
                yield from _of_one(history[at])
                at += 1


def _lines(messages: chat.Excerpt, prefix: str) -> Iterator[str]:
    """The lines of the same items, which the core writes for the messages that it reads."""
    for message in messages.summaries:
        yield _summary(message, prefix).line
    for piece in messages.pieces:
        if isinstance(piece, Message):
            yield from _lines_of(piece)
            continue
        at, end = piece
        while at < end:
            text, at = chat.render_messages(messages.history.shown, at, end)
            if text:
                yield text
            if at < end:  # a message that the core does not read
                yield from _lines_of(messages.history[at])
                at += 1


def _summary(message: Message, prefix: str) -> chat.MaterialItem:
    return earlier_summary(message.covers, unframed(message.text, prefix))


def _lines_of(message: Message) -> Iterable[str]:
    """The lines of the items of a message. Most messages are one text, and need no item for its line."""
    said = message.said
    if said is None:
        return (item.line for item in _of_one(message))
    return (spoken(message.role, said),) if said else ()


def _of_one(message: Message) -> Iterator[chat.MaterialItem]:
    """The items of a message; a summary has none here, since summaries come first."""
    if message.provenance == _SUMMARY:
        return
    role, seq = message.role, message.seq
    for part, media in _with_media(message.parts):
        name, call_id = part.name or "", part.call_id or ""
        match part.kind:
            case "reasoning":
                continue
            case "tool_call":
                yield chat.MaterialItem("tool_call", part.arguments or "", role, name, call_id, seq=seq)
            case "tool_result":
                text = _with_lines(part.text, media)
                yield chat.MaterialItem("tool_result", text, role, name, call_id, bool(part.is_error), seq)
            case _:
                if part.text:
                    said = message.provenance in SAID
                    yield chat.MaterialItem("text" if said else "context", part.text, role, seq=seq)


def _with_lines(text: str, lines: Iterable[str]) -> str:
    """*text* with *lines* behind it. A carriage return at its end is a line end, and stays one of its own."""
    behind = "\n".join(filter(None, lines))
    between = "\n" if text and behind and not text.endswith("\r") else ""
    return text + between + behind


def _with_media(parts: Iterable[Part]) -> list[tuple[Part, list[str]]]:
    """The parts, each with the placeholders of the media in it.

    The media of a result belong to it: in some dialects its message has the role of the user.
    """
    found: list[tuple[Part, list[str]]] = []
    results: dict[str, list[str]] = {}
    for part in parts:
        media: list[str] = []
        if part.call_id is not None:
            if part.kind == "blob" and part.call_id in results:
                results[part.call_id].append(part.text)
                continue
            if part.kind == "tool_result":
                results[part.call_id] = media
        found.append((part, media))
    return found


L = TypeVar("L")


class Lazy(Sequence[L]):
    """A part of a summary request, made when it is first read: a model that reads text needs no items."""

    __slots__ = ("_found", "_make")

    def __init__(self, make: Callable[[], Sequence[L]]) -> None:
        self._make = make
        self._found: Sequence[L] | None = None

    def __len__(self) -> int:
        return len(self._made())

    @overload
    def __getitem__(self, index: int) -> L: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[L]: ...
    def __getitem__(self, index: int | slice) -> L | Sequence[L]:
        return self._made()[index]

    def __iter__(self) -> Iterator[L]:
        return iter(self._made())

    def __repr__(self) -> str:
        return "<items>" if self._found is None else repr(self._found)

    def _made(self) -> Sequence[L]:
        if self._found is None:
            self._found = self._make()
        return self._found


class RequestMessages(Lazy[dict[str, Any]]):
    """The messages of a summary request, rendered when they are first read, so that planning is free."""

    __slots__ = ("_count",)

    def __init__(self, count: int, material: Callable[[], str], instruction: str) -> None:
        super().__init__(lambda: [{"role": "user", "content": each} for each in (material(), instruction)])
        self._count = count

    def __len__(self) -> int:
        return 2

    def __repr__(self) -> str:
        return f"<{self._count} messages to summarise, and the instruction>"


# A queue of messages that are not rendered yet, taken by size.
#
# A stretch is the smallest run of messages that splits no group. The core counts the tokens of its lines
# without rendering them. So a piece of a thousand stretches is found by sums, and a message is rendered
# only when a model reads it.


@dataclass(frozen=True, slots=True)
class Segment:
    """Items that belong together, and the messages they show."""

    items: tuple[chat.MaterialItem, ...]
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
    def messages(self) -> chat.Excerpt:
        """The messages of the stretches."""
        return self.source.messages(self.first, self.end)

    @property
    def text(self) -> str:
        """The rendered lines of the messages."""
        return render(self.messages, "")

    @property
    def items(self) -> Sequence[chat.MaterialItem]:
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
        token_rule: The rule that counts lines.
    """

    def __init__(self, messages: chat.Excerpt, token_rule: TokenRule) -> None:
        self._messages = messages
        self._ends = messages.history.outline.breaks(messages.spans)
        sums = list(accumulate(chain.from_iterable(_tokens(messages, token_rule)), initial=0))
        self._sums = [0, *map(sums.__getitem__, self._ends)]
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

    def messages(self, first: int, end: int) -> chat.Excerpt:
        """The messages of the stretches from *first* to before *end*."""
        start = self._ends[first - 1] if first else 0
        return self._messages.between(start, self._ends[end - 1] if end else 0)

    def tokens(self, first: int, end: int) -> int:
        """The tokens of the stretches from *first* to before *end*."""
        return self._sums[end] - self._sums[first]


def _tokens(messages: chat.Excerpt, token_rule: TokenRule) -> Iterator[Sequence[int]]:
    """The tokens of the lines of each message, each line with its line break; those of many at once."""
    for at, end in messages.spans:
        while at < end:
            if token_rule.measure is not None:
                counts, at = chat.rendered_tokens(messages.history.shown, at, end, token_rule.measure)
                yield counts
            if at < end:  # a message that the core does not read, or a rule of the caller
                yield [sum(token_rule.count_text(line) + 1 for line in _lines_of(messages.history[at]))]
                at += 1


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
        # The lines of one message share one tuple.
        shown = {id(segment.messages): len(segment.messages) for segment in self.segments}
        return sum(shown.values())

    @property
    def text(self) -> str:
        """The material of the request."""
        return "\n".join(segment.text for segment in self.segments)

    @property
    def items(self) -> list[chat.MaterialItem]:
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
        messages = excerpt_of(discarded)
        self._waiting: deque[Segment | Run] = deque(
            Segment((_summary(each, summary_prefix),), (each,)) for each in messages.summaries
        )
        self._unread = Unread(messages.without_summaries, token_rule)

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
        if run := self._unread.take(tokens - used):
            taken.append(run)
        return Piece(tuple(taken))

    def give_back(self, piece: Piece) -> None:
        """Puts *piece* back at the front of the queue, to be taken in smaller pieces."""
        self._waiting.extendleft(reversed(piece.segments))

    def _first(self, tokens: int) -> Segment | Run:
        """The next segment, or as much of it as fits."""
        if not self._waiting:
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
        if isinstance(segment, Run):
            shown = ((message, tuple(_of_one(message))) for message in segment.messages)
            return [Segment(items, (message,)) for message, items in shown if items]
        items = segment.items if len(segment.items) > 1 else self._cut(segment.items[0], tokens)
        return [Segment((item,), segment.messages) for item in items]

    def _cut(self, item: chat.MaterialItem, tokens: int) -> tuple[chat.MaterialItem, chat.MaterialItem]:
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
    return GROWTH * token_rule.count(discarded) + TOKENS_PER_PART * excerpt_of(discarded).parts
