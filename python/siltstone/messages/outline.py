"""How is a history read without making its messages?

Reading a message in Python takes as long as writing ten of them as JSON, and a policy looks at few. So the
core walks over the caller's dicts once and keeps a line for each: who speaks, what belongs together, the
sizes by every rule. What it does not know (media, unknown blocks, SDK objects, subclasses, whatever is an
error) is read in Python at once.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Protocol, TypeAlias, overload

from siltstone._native import Outline, render_messages, rendered_tokens
from siltstone.messages.groups import is_reasoning_only
from siltstone.messages.history import Numbers
from siltstone.messages.message import (
    REFERENCE,
    Message,
    Part,
    RawMessage,
    SummaryMessage,
)
from siltstone.messages.read import read_message, read_summary

__all__ = ["Excerpt", "History", "Measure", "as_history", "render_messages", "rendered_tokens"]

Span: TypeAlias = tuple[int, int]
"""A half-open range of positions in a history."""

TieRow: TypeAlias = tuple[str, str | None, str | None]
LineRow: TypeAlias = tuple[str, str, bool, bool, int, list[TieRow]]


class Measure(Protocol):
    """A rule that counts messages in units that add up."""

    @property
    def measure(self) -> str | None:
        """Which of the core's sizes its units are; None for a rule of one's own."""

    def units(self, message: Message) -> int:
        """What *message* adds to the sum."""


class History(Sequence[Message]):
    """The messages of a list, as :func:`read_history` reads them, each made when it is first asked for.

    What was asked for stays: the same position gives the same object. The list is copied, its messages are
    not: who changes a message meanwhile gets a projection of what it is then, beside sizes of what it was.

    Args:
        raws: The caller's messages.
        first_seq: The number of the first.

    Attributes:
        raws: The same, in a list of its own.
        outline: What is known of them without making any.

    Raises:
        InvalidMessageError: one of *raws* is not a message; carries ``index``, its place in the list.
        MessageTooLargeError: one is over the limit.
    """

    def __init__(self, raws: Iterable[RawMessage], *, first_seq: int = 0) -> None:
        self.raws: list[RawMessage] = list(raws)
        self._made: dict[int, Message] = {}
        self._sums: dict[int, tuple[Measure, Sequence[int]]] = {}  # by identity; the rule is held with them
        self._numbers = Numbers(first_seq)
        self._numbered = 0  # positions that have their numbers
        self._runs: list[tuple[int, int]] = []  # the position where a run of numbers begins, and its first
        self.outline = Outline(self.raws, self._describe)
        self._number(len(self.raws))

    @classmethod
    def of(cls, messages: Sequence[Message]) -> History:
        """Messages that were read before, in the form that a policy asks."""
        history = cls.__new__(cls)
        history.raws = [message.raw for message in messages]
        history._made = dict(enumerate(messages))
        history._sums = {}
        history._runs = []
        history.outline = Outline(list(messages), lambda position: _line(messages[position]))
        return history

    def __len__(self) -> int:
        return len(self.raws)

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> list[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | list[Message]:
        if isinstance(index, slice):
            return [self._at(position) for position in range(*index.indices(len(self.raws)))]
        position = index + len(self.raws) if index < 0 else index
        if not 0 <= position < len(self.raws):
            raise IndexError(f"a history of {len(self.raws)} messages has no message {index}")
        return self._at(position)

    def __iter__(self) -> Iterator[Message]:
        return map(self._at, range(len(self.raws)))

    def __repr__(self) -> str:
        return f"<a history of {len(self.raws)} messages>"

    @cached_property
    def rules(self) -> list[int]:
        """Where system and developer messages stand."""
        return self.outline.rules

    @cached_property
    def summaries(self) -> list[int]:
        """Where summaries stand."""
        return self.outline.summaries

    @cached_property
    def unoriginal(self) -> list[int]:
        """Where messages stand that nobody said: summaries, injected context, repairs."""
        return self.outline.unoriginal

    def sums(self, rule: Measure) -> Sequence[int]:
        """The units of the first 0, 1, 2 … messages by *rule*; counted once."""
        known = self._sums.get(id(rule))
        if known is not None:
            return known[1]
        sums: Sequence[int]
        if rule.measure is None:
            sums = list(accumulate(map(rule.units, self), initial=0))
        else:
            odd = [rule.units(self._at(position)) for position in self.outline.odd]
            sums = self.outline.sums(rule.measure, odd)
        self._sums[id(rule)] = rule, sums
        return sums

    def units(self, rule: Measure) -> int:
        """All of it, by *rule*."""
        return self.sums(rule)[-1]

    def positions_of(self, seqs: Iterable[int]) -> list[int]:
        """Where the messages with the numbers *seqs* stand, summaries left out."""
        wanted = frozenset(seqs)
        if not wanted:
            return []
        summaries = set(self.summaries)
        numbered = enumerate(self._seqs())
        return [position for position, seq in numbered if seq in wanted and position not in summaries]

    def numbers(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """The numbers of the messages from *start* up to *end*, as half-open ranges in their order.

        A summary has the ranges that it covers.
        """
        if not self._runs:  # they were read before, and know their own
            for message in self[start:end]:
                yield from message.covers or ((message.seq, message.seq + 1),)
            return
        run = bisect_right(self._runs, start, key=_position) - 1
        while start < end:
            position, seq = self._runs[run]
            run += 1
            stop = min(end, self._runs[run][0]) if run < len(self._runs) else end
            if _count(self.summaries, start, stop):  # a run of its own
                yield from self._at(start).covers
                start = stop
                continue
            yield seq + start - position, seq + stop - position
            start = stop

    def _seqs(self) -> Iterator[int]:
        if not self._runs:
            yield from (message.seq for message in self)
            return
        ends = [*(position for position, _ in self._runs[1:]), len(self.raws)]
        for (position, seq), end in zip(self._runs, ends, strict=True):
            yield from range(seq, seq + end - position)

    def _at(self, position: int) -> Message:
        made = self._made.get(position)
        if made is None:
            run_start, seq = self._runs[bisect_right(self._runs, position, key=_position) - 1]
            made = read_message(self.raws[position], position)
            made = _numbered(made, seq + position - run_start)
            made = self._made.setdefault(position, made)  # two threads see one object
        return made

    def _describe(self, position: int) -> LineRow:
        """The line of a message that the core does not read."""
        self._number(position)
        raw = self.raws[position]
        if isinstance(raw, SummaryMessage):
            covers = self._numbers.cover(raw.covers, position) if raw.covers else ()
            seq = covers[0][0] if covers else self._numbers.next()
            message = read_summary(raw, seq, covers, position)
        else:
            message = read_message(raw, position)
            seq = self._numbers.next()
            message = _numbered(message, seq)
        self._made[position] = message
        self._runs.append((position, seq))
        self._numbered = position + 1
        return _line(message)

    def _number(self, position: int) -> None:
        """Numbers what lies before *position* and has no number yet."""
        for seq, count in self._numbers.take(position - self._numbered):
            self._runs.append((self._numbered, seq))
            self._numbered += count


class Excerpt(Sequence[Message]):
    """Messages of a history in their order, and perhaps one that is not of it: a summary.

    It compares like a tuple of the same messages.

    Attributes:
        history: Where they stand.
        pieces: Ranges of its positions, and messages that are not of it.
    """

    __slots__ = ("_ends", "history", "pieces")
    __hash__ = None  # type: ignore[assignment]  # messages hold what can change

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
        for piece in self.pieces:
            if isinstance(piece, Message):
                yield piece
            else:
                for position in range(*piece):
                    yield self.history[position]

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
        """Where each message stands in the history; -1 for one that is not of it."""
        found: list[int] = []
        for piece in self.pieces:
            if isinstance(piece, Message):
                found.append(-1)
            else:
                found.extend(range(*piece))
        return found

    @property
    def raws(self) -> list[RawMessage]:
        """The caller's own objects, and what is not of the history as it is sent."""
        raws: list[RawMessage] = []
        for piece in self.pieces:
            if isinstance(piece, Message):
                raws.append(piece.raw)
            else:
                raws += self.history.raws[slice(*piece)]
        return raws

    @property
    def summaries(self) -> list[Message]:
        """The summaries among them, in order."""
        known, found = self.history.summaries, list[Message]()
        for piece in self.pieces:
            if not isinstance(piece, Message):
                among = known[bisect_left(known, piece[0]) : bisect_left(known, piece[1])]
                found += [self.history[at] for at in among]
            elif piece.provenance == "compaction_summary":
                found.append(piece)
        return found

    def without(self, positions: Sequence[int]) -> Excerpt:
        """The same without what stands at *positions* of the history, which ascend."""
        pieces: list[Span | Message] = []
        for piece in self.pieces:
            if isinstance(piece, Message):
                pieces.append(piece)
                continue
            start, end = piece
            for at in positions[bisect_left(positions, start) : bisect_left(positions, end)]:
                if start < at:
                    pieces.append((start, at))
                start = at + 1
            if start < end:
                pieces.append((start, end))
        return Excerpt(self.history, pieces)

    @property
    def without_summaries(self) -> Excerpt:
        """The others of the history's own messages."""
        known, spans = self.history.summaries, list[Span]()
        for start, end in self.spans:
            for at in known[bisect_left(known, start) : bisect_left(known, end)]:
                spans += [(start, at)] if start < at else []
                start = at + 1
            spans += [(start, end)] if start < end else []
        return Excerpt(self.history, spans)

    @property
    def numbers(self) -> Iterator[Span]:
        """The sequence numbers they stand for, as half-open ranges in their order."""
        for piece in self.pieces:
            if not isinstance(piece, Message):
                yield from self.history.numbers(*piece)
            elif piece.provenance == "compaction_summary":
                yield from piece.covers
            else:
                yield piece.seq, piece.seq + 1

    @property
    def parts(self) -> int:
        """How many parts they have together."""
        return sum(
            len(piece.parts) if isinstance(piece, Message) else self.history.outline.parts(*piece)
            for piece in self.pieces
        )

    @property
    def has_original(self) -> bool:
        """Whether anything among them was said, and not written by us."""
        others = self.history.unoriginal
        return any(
            piece.provenance == "original"
            if isinstance(piece, Message)
            else _count(others, *piece) < piece[1] - piece[0]
            for piece in self.pieces
        )

    def between(self, start: int, end: int) -> Excerpt:
        """Those from the one at *start* up to the one at *end*, counted from 0."""
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
        """All of them, by *rule*."""
        sums = self.history.sums(rule)
        return sum(
            rule.units(piece) if isinstance(piece, Message) else sums[piece[1]] - sums[piece[0]]
            for piece in self.pieces
        )


def as_history(messages: Sequence[Message]) -> History:
    """*messages* as a history in outline: the same object, if they are one."""
    return messages if isinstance(messages, History) else History.of(messages)


def _numbered(message: Message, seq: int) -> Message:
    """*message* with its number, which is not its place once there was a summary."""
    if message.seq == seq:
        return message
    return Message(
        seq, message.role, message.parts, message.raw, message.dialect, message.provenance, message.covers
    )


def _count(positions: Sequence[int], start: int, end: int) -> int:
    """How many of *positions*, which ascend, lie in a range."""
    return bisect_left(positions, end) - bisect_left(positions, start)


def _position(run: tuple[int, int]) -> int:
    return run[0]


def _line(message: Message) -> LineRow:
    """What the core keeps of a message."""
    ties = [tie for part in message.parts if (tie := _tie(part)) is not None]
    return (
        message.role,
        message.provenance,
        message.dialect == "openai.responses",
        is_reasoning_only(message),
        len(message.parts),
        ties,
    )


def _tie(part: Part) -> TieRow | None:
    if part.kind == "tool_call" or part.kind == "tool_result":
        return part.kind, part.call_id, part.name
    if part.kind != "other":
        return None
    if part.call_id is not None:
        return "other", part.call_id, None
    return ("reference", None, None) if part.name == REFERENCE else None
