"""Parts of messages as a summariser gets them, and selections of the messages of a history."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain
from typing import Final, Literal, TypeAlias, overload

from siltstone.messages.message import SAID, Message, RawMessage, Role, ranges_in_words
from siltstone.messages.outline import History, Measure, Span, count_between

# A part of a message as a summariser gets it, and the line that shows it in a text.
#
# One item for each part of a message, in order, an earlier summary first::
#
#     [Earlier summary of messages 1-40: …]
#     User: …
#     Assistant: …
#     [Tool call <id>: name(arguments)]
#     [Tool result <id>: …]
#     [Tool result <id>, error: …]
#     [Injected context: …]
#
# An item begins at the start of a line, and its further lines are indented by two spaces. So no text can
# pass for an item of its own. A line ends where any reader may see an end: at each of the line ends that
# ``str.splitlines`` knows, from a carriage return to U+2029.
#
# Media stand as their placeholders; reasoning is left out. Nothing else is.

ItemKind: TypeAlias = Literal["text", "tool_call", "tool_result", "context", "summary"]

INDENT: Final = "  "

SPEAKERS: Final[dict[Role, str]] = {
    "system": "System",
    "developer": "System",
    "user": "User",
    "assistant": "Assistant",
    "tool": "Tool",
}

_INDENTED = re.compile("(\r\n|[\n\v\f\r\x1c-\x1e\x85\u2028\u2029])" + INDENT)


@dataclass(frozen=True, slots=True)
class MaterialItem:
    """A part of a message that is to be summarised.

    Attributes:
        kind: ``text`` is said by the role; ``context`` is a text that siltstone has added; ``summary`` stands
            for messages of before.
        text: The whole text; of a call its arguments.
        role: The role of the message.
        name: The name of the tool; "" where the part does not have it.
        call_id: The id of a call, or of the call that a result answers; "" if it has none.
        is_error: Whether the result is of a call that failed.
        seq: The sequence number of the message; None for a summary.
        covers: The numbers that a summary stands for, as half-open ranges; () if they are not known.
        shown: The line, where this is one piece of an item that was cut in two; None for a whole item.
    """

    kind: ItemKind
    text: str
    role: Role = "user"
    name: str = ""
    call_id: str = ""
    is_error: bool = False
    seq: int | None = None
    covers: tuple[tuple[int, int], ...] = ()
    shown: str | None = None

    @property
    def line(self) -> str:
        """The item as a text shows it: on a line of its own, its further lines indented."""
        if self.shown is not None:
            return self.shown
        return indented(f"{self._head}{self.text}{self._tail}")

    @property
    def continues(self) -> bool:
        """Whether it is the rest of an item whose beginning is elsewhere."""
        return self.shown is not None and self.shown.startswith(INDENT)

    def cut(self, end: int) -> tuple[MaterialItem, MaterialItem]:
        """The item in two: the first *end* characters of its line, more than an indent has, and the rest."""
        line = self.line
        head = len(INDENT) if self.continues else len(indented(f"{self._head}.")) - 1
        said = len(_INDENTED.sub(r"\1", line[head:end])) if end > head else 0
        first = replace(self, text=self.text[:said], shown=line[:end])
        return first, replace(self, text=self.text[said:], shown=f"{INDENT}{line[end:]}")

    def cut_text(self, end: int) -> tuple[MaterialItem, MaterialItem]:
        """The same after the first *end* characters of its text."""
        head = INDENT if self.continues else self._head
        return self.cut(len(indented(f"{head}{self.text[:end]}.")) - 1)

    @property
    def _head(self) -> str:
        match self.kind:
            case "tool_call":
                return f"[Tool call {self.call_id or '-'}: {self.name or '-'}("
            case "tool_result":
                return f"[Tool result {self.call_id or '-'}{', error' if self.is_error else ''}: "
            case "context":
                return "[Injected context: "
            case "summary":
                return f"[Earlier summary of messages {ranges_in_words(self.covers) or 'so far'}: "
            case "text":
                return _spoken_by(self.role)

    @property
    def _tail(self) -> str:
        return ")]" if self.kind == "tool_call" else "" if self.kind == "text" else "]"


def spoken(role: Role, text: str) -> str:
    """The line of an item of the kind ``text``."""
    return indented(f"{_spoken_by(role)}{text}")


def _spoken_by(role: Role) -> str:
    return f"{SPEAKERS[role]}: "


def indented(item: str) -> str:
    """*item* with every line after its first indented, whichever character ends a line."""
    lines = f"{item}.".splitlines(keepends=True)  # so the text behind a line end is a line, at the end too
    return item if len(lines) == 1 else INDENT.join(lines)[:-1]


# A selection of messages of a history. A message is created only when it is read.


class Excerpt(Sequence[Message]):
    """Messages of a history in their order, and possibly new messages, such as a summary.

    It compares like a tuple of the same messages.

    Attributes:
        history: The history.
        pieces: Ranges of its positions, and messages that are not in it.
    """

    __slots__ = ("_ends", "history", "pieces")
    __hash__ = None  # type: ignore[assignment]  # messages have mutable raws

    def __init__(self, history: History, pieces: Iterable[Span | Message]) -> None:
        self.history = history
        self.pieces = tuple(pieces)
        lengths = (1 if isinstance(each, Message) else each[1] - each[0] for each in self.pieces)
        self._ends = list(accumulate(lengths))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Message, ...]: ...
    def __getitem__(self, index: int | slice) -> Message | tuple[Message, ...]:
        if isinstance(index, slice):
            return tuple(self)[index]
        place = index + len(self) if index < 0 else index
        if not 0 <= place < len(self):
            raise IndexError(f"an excerpt of {len(self)} messages has no message {index}")
        number = bisect_right(self._ends, place)
        piece = self.pieces[number]
        return piece if isinstance(piece, Message) else self.history[piece[1] + place - self._ends[number]]

    def __iter__(self) -> Iterator[Message]:
        return chain.from_iterable(
            (piece,) if isinstance(piece, Message) else self.history.span(*piece) for piece in self.pieces
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (Excerpt, tuple)):
            return NotImplemented
        return len(self) == len(other) and all(one == two for one, two in zip(self, other, strict=True))

    def __repr__(self) -> str:
        return f"<{len(self)} messages of {self.history!r}>"

    @property
    def spans(self) -> list[Span]:
        """The ranges of the history's positions, in order."""
        return [piece for piece in self.pieces if not isinstance(piece, Message)]

    @property
    def positions(self) -> list[int]:
        """The position of each message in the history; -1 for a message that is not in it."""
        found: list[int] = []
        for piece in self.pieces:
            if isinstance(piece, Message):
                found.append(-1)
            else:
                found.extend(range(*piece))
        return found

    @property
    def raws(self) -> list[RawMessage]:
        """The caller's own objects, and the raw form of messages that are not in the history."""
        raws: list[RawMessage] = []
        for piece in self.pieces:
            if isinstance(piece, Message):
                raws.append(piece.raw)
            else:
                raws += self.history.raws[slice(*piece)]
        return raws

    @property
    def summaries(self) -> list[Message]:
        """The summaries in the excerpt, in order."""
        known, found = self.history.summaries, list[Message]()
        for piece in self.pieces:
            if isinstance(piece, Message):
                found += [piece] if piece.provenance == "compaction_summary" else []
            elif known:
                among = known[bisect_left(known, piece[0]) : bisect_left(known, piece[1])]
                found += [self.history[at] for at in among]
        return found

    def without(self, positions: Sequence[int]) -> Excerpt:
        """The excerpt without the messages at the ascending *positions* of the history."""
        pieces: list[Span | Message] = []
        for piece in self.pieces:
            if isinstance(piece, Message):
                pieces.append(piece)
                continue
            start, end = piece
            for at in positions[bisect_left(positions, start) : bisect_left(positions, end)]:
                pieces += [(start, at)] if start < at else []
                start = at + 1
            pieces += [(start, end)] if start < end else []
        return Excerpt(self.history, pieces)

    @property
    def without_summaries(self) -> Excerpt:
        """The excerpt without summaries and without messages that are not in the history."""
        return Excerpt(self.history, self.spans).without(self.history.summaries)

    @property
    def numbers(self) -> Iterator[Span]:
        """The sequence numbers, as half-open ranges in order; a summary has the ranges that it covers."""
        first = self.history.first_number
        for piece in self.pieces:
            if isinstance(piece, Message):
                is_summary = piece.provenance == "compaction_summary"
                yield from piece.covers if is_summary else ((piece.seq, piece.seq + 1),)
            elif first is None:
                yield from self.history.numbers(*piece)
            else:
                yield first + piece[0], first + piece[1]

    @property
    def parts(self) -> int:
        """The total number of parts of the messages."""
        return sum(
            len(piece.parts) if isinstance(piece, Message) else self.history.outline.parts(*piece)
            for piece in self.pieces
        )

    @property
    def has_original(self) -> bool:
        """Whether the excerpt has a message of the conversation, whole or cut."""
        others = self.history.unoriginal
        return any(
            piece.provenance in SAID
            if isinstance(piece, Message)
            else count_between(others, *piece) < piece[1] - piece[0]
            for piece in self.pieces
        )

    def between(self, start: int, end: int) -> Excerpt:
        """The messages from place *start* up to place *end* of the excerpt, from 0."""
        pieces: list[Span | Message] = []
        for number in range(bisect_right(self._ends, start), len(self.pieces)):
            piece, after = self.pieces[number], self._ends[number]
            if isinstance(piece, Message):
                pieces.append(piece)
            else:
                pieces.append(
                    (max(piece[0], piece[1] + start - after), min(piece[1], piece[1] + end - after))
                )
            if after >= end:
                break
        return Excerpt(self.history, pieces if start < end else ())

    def units(self, rule: Measure) -> int:
        """The units of all messages, by *rule*."""
        sums = self.history.sums(rule)
        return sum(
            rule.units(piece) if isinstance(piece, Message) else sums[piece[1]] - sums[piece[0]]
            for piece in self.pieces
        )
