"""Reads a history without creating an object for each message.

Reading a message in Python takes as long as writing ten of them as JSON, and a policy reads few messages. So
the core walks over the caller's dicts once, and keeps a line for each message: its role, its ties to other
messages, its sizes by every rule. Messages that the core does not know are read in Python at once: media,
unknown blocks, SDK objects, subclasses, and messages with errors.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate, islice, pairwise
from operator import attrgetter, sub
from typing import Any, Protocol, TypeAlias, overload

from siltstone._native import Outline
from siltstone.messages.groups import Group, Turn, is_reasoning_only, is_request, opens_turn
from siltstone.messages.message import REFERENCE, Message, Part, RawMessage, RequestRule
from siltstone.messages.own_messages import Numbers, SummaryReader
from siltstone.messages.read import read_message

Span: TypeAlias = tuple[int, int]
"""A half-open range of positions in a history."""

TieRow: TypeAlias = tuple[str, str | None, str | None]
CoreUnits: TypeAlias = tuple[str, list[int]]
"""The name of a measure of the core, and the units of each message that it does not read."""

LineRow: TypeAlias = tuple[str, str, bool, bool, bool, int, list[TieRow]]

_RAW, _SEQ, _ORIGIN = attrgetter("raw"), attrgetter("seq"), attrgetter("provenance")
_POSITIONS = attrgetter("positions")


class Measure(Protocol):
    """A rule that counts messages in units that add up."""

    @property
    def measure(self) -> str | None:
        """The name of the core's size that gives its units; None for the caller's own rule."""

    def units(self, message: Message) -> int:
        """The units that *message* adds to the sum."""

    def units_of_each(self, raws: list[Any], read: Callable[[int], Message]) -> Iterable[int]:
        """The units of each of *raws*; *read* gives one as a message."""


class History(Sequence[Message]):
    """The messages of a list, as :func:`read_history` reads them. Each is made when it is first read.

    The same position always gives the same object. The list is copied, its messages are not. So do not change
    a message meanwhile: its parts would be new, but its sizes old.

    Args:
        raws: The caller's messages.
        first_seq: The number of the first message.
        rule: Decides which text beside tool results is a request.

    Attributes:
        raws: The same messages, in a new list.
        shown: The same as the core may read them: no message that siltstone has made or changed.
        outline: The core's description of the messages.
        kept: What a policy keeps of the messages, for longer histories that begin with them.
        rule: Decides which text beside tool results is a request.

    Raises:
        InvalidMessageError: one of *raws* is not a message; carries ``index``, its place in the list.
        MessageTooLargeError: a message is over the size limit.
    """

    def __init__(
        self, raws: Iterable[RawMessage], *, first_seq: int = 0, rule: RequestRule = is_request
    ) -> None:
        self.raws: list[RawMessage] = list(raws)
        self.rule = rule
        self.kept: dict[Any, Any] = {}
        self._made: dict[int, Message] = {}
        self._whole: list[Message] | None = None  # all messages, where they were given
        self._sums: dict[int, tuple[Measure, Sequence[int]]] = {}  # by id; the rule is kept alive
        self._numbers = Numbers(first_seq)
        self._reader = SummaryReader(self.raws, self._numbers)
        self._numbered = 0  # the number of positions that have their sequence numbers
        self._runs: list[tuple[int, int]] = []  # for each run of numbers: its first position and first number
        self.shown: list[Any] = self.raws
        self.outline = Outline(self.raws, self._describe, self._is_request)
        self._number(len(self.raws))

    @classmethod
    def of(cls, messages: Sequence[Message], rule: RequestRule = is_request) -> History:
        """A history of messages that are already read."""
        return cls((), rule=rule).extended(messages)

    def extended(
        self, messages: Sequence[Message], measured: tuple[Measure, Iterable[int]] | None = None
    ) -> History:
        """This history with *messages* after it, which alone are looked at.

        *measured* is a rule of the caller, and the units of *messages* by it.
        """
        grown, start = History.__new__(History), len(self)
        grown.rule, grown.kept, grown._made, grown._sums = self.rule, self.kept, {}, {}
        grown._whole = whole = [*self, *messages]
        raws, seqs = list(map(_RAW, messages)), list(map(_SEQ, messages))
        grown.raws, grown._runs, due = self.raws + raws, self._runs.copy(), -1
        if start and not whole[start - 1].covers:
            due = self._runs[-1][1] + start - self._runs[-1][0]
        is_said = {"original"}.issuperset(map(_ORIGIN, messages))
        if is_said and seqs and seqs == list(range(seqs[0], seqs[0] + len(seqs))):
            grown._runs += [(start, seqs[0])] if seqs[0] != due else []
        else:
            for position, message in enumerate(messages, start):
                if message.seq != due or message.covers:
                    grown._runs.append((position, message.seq))
                due = -1 if message.covers else message.seq + 1
        # The core reads the raws of original messages. Other messages know more than their raws tell.
        shown = (
            raws if is_said else [each.raw if each.provenance == "original" else each for each in messages]
        )
        grown.shown = grown.raws if is_said and self.shown is self.raws else self.shown + shown
        if measured is not None:
            sums = list(self.sums(measured[0]))
            sums += accumulate(measured[1], initial=sums.pop())
            grown._sums[id(measured[0])] = measured[0], sums
        grown.outline = Outline(
            shown, lambda position: _line(whole[position], self.rule), self._is_request, self.outline
        )
        return grown

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
        return iter(self.span(0, len(self.raws)))

    def __repr__(self) -> str:
        return f"<a history of {len(self.raws)} messages>"

    @property
    def first_number(self) -> int | None:
        """The number of the first message, if all follow it without a gap and none is a summary."""
        return self._runs[0][1] if len(self._runs) == 1 and not self.summaries else None

    @cached_property
    def rules(self) -> list[int]:
        """The positions of system and developer messages."""
        return self.outline.rules

    @cached_property
    def summaries(self) -> list[int]:
        """The positions of summaries."""
        return self.outline.summaries

    @cached_property
    def unoriginal(self) -> list[int]:
        """The positions of messages from siltstone or a hook: summaries, injected context, repairs."""
        return self.outline.unoriginal

    def sums(self, rule: Measure) -> Sequence[int]:
        """The sums of units of the first 0, 1, 2 … messages, by *rule*; they are computed once."""
        known = self._sums.get(id(rule))
        if known is not None:
            return known[1]
        units = self.units_of_each(rule)
        sums = self.outline.sums(*units) if isinstance(units, tuple) else units
        self._sums[id(rule)] = rule, sums
        return sums

    def units(self, rule: Measure) -> int:
        """The units of the whole history, by *rule*."""
        known = self._sums.get(id(rule))
        if known is not None:
            return known[1][-1]
        if rule.measure is None:
            return self.sums(rule)[-1]
        return self.outline.total(rule.measure, self._odd_units(rule))

    def largest(self, rule: Measure) -> int:
        """The units of the largest message, by *rule*; 0 if there is none."""
        if rule.measure is None or self.outline.others:
            sums = self.sums(rule)
            return max(map(sub, islice(sums, 1, None), sums), default=0)
        return self.outline.largest(rule.measure, [])

    def units_of_each(self, rule: Measure) -> CoreUnits | list[int]:
        """The units of each message by *rule*, in the form that the core takes.

        For a rule of the core: its name, and the units of the messages that the core does not read. For the
        caller's own rule: the sums.
        """
        if rule.measure is None:
            known = self._sums.get(id(rule))
            made = None if known is None else known[1]
            return list(made or accumulate(rule.units_of_each(self.shown, self._at), initial=0))
        return rule.measure, self._odd_units(rule)

    def _odd_units(self, rule: Measure) -> list[int]:
        return [rule.units(self._at(position)) for position in self.outline.others]

    def positions_of(self, seqs: Iterable[int]) -> list[int]:
        """The positions of the messages with the numbers *seqs*, without summaries."""
        wanted = frozenset(seqs)
        if not wanted:
            return []
        summaries = set(self.summaries)
        numbered = enumerate(self._seqs())
        return [position for position, seq in numbered if seq in wanted and position not in summaries]

    def numbers(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """The numbers of the messages at positions *start* to *end*, as half-open ranges in their order.

        A summary has the ranges that it covers.
        """
        run = bisect_right(self._runs, start, key=_position) - 1
        while start < end:
            position, seq = self._runs[run]
            run += 1
            stop = min(end, self._runs[run][0]) if run < len(self._runs) else end
            if count_between(self.summaries, start, stop):  # a summary is a run of its own
                yield from self._at(start).covers
                start = stop
                continue
            yield seq + start - position, seq + stop - position
            start = stop

    def _seqs(self) -> Iterator[int]:
        for (position, seq), (end, _) in pairwise([*self._runs, (len(self.raws), 0)]):
            yield from range(seq, seq + end - position)

    def span(self, start: int, end: int) -> Iterable[Message]:
        """The messages at positions *start* to *end*. Each is made when it is reached, if not before."""
        return map(self._at, range(start, end)) if self._whole is None else self._whole[start:end]

    def _at(self, position: int) -> Message:
        if self._whole is not None:
            return self._whole[position]
        made = self._made.get(position)
        if made is None:
            run_start, seq = self._runs[bisect_right(self._runs, position, key=_position) - 1]
            made = read_message(self.raws[position], position).numbered(seq + position - run_start)
            made = self._made.setdefault(position, made)  # two threads get the same object
        return made

    def _describe(self, position: int) -> LineRow:
        """The line for a message that the core cannot read."""
        self._number(position)
        message = self._reader.read(position)
        self._made[position] = message
        self._runs.append((position, message.seq))
        self._numbered = position + 1
        return _line(message, self.rule)

    def _is_request(self, text: str) -> bool:
        """Whether a text beside results is a request, as ``opens_turn`` decides it for the whole message."""
        return bool(text.strip() and self.rule(text))

    def _number(self, position: int) -> None:
        """Numbers the messages up to *position* that have no number yet."""
        for seq, count in self._numbers.take(position - self._numbered):
            self._runs.append((self._numbered, seq))
            self._numbered += count


def as_history(messages: Sequence[Message], rule: RequestRule | None = None) -> History:
    """*messages* as a history in outline; the same object, if it is already one.

    Args:
        messages: Messages that are already read.
        rule: Decides which text beside tool results is a request. Give it if you need the turns.
    """
    if isinstance(messages, History) and (rule is None or rule is messages.rule):
        return messages
    return History.of(messages, rule or is_request)


def groups(history: Sequence[Message]) -> list[Group]:
    """The groups of a history, in the order of their first messages; every message is in exactly one.

    A call, all its results and the reasoning bound to it are one group. A result belongs to the latest call
    before it with its id, so an id may be used again. A result without a call belongs to the latest reference
    before it, which may stand for its call. These join groups: a message with several calls, unknown parts
    with the same id or with the id of a call, and adjacent items with calls. An assistant message with only
    reasoning is bound to the assistant messages directly after it. Any other message is a group of its own.
    Time is linear.
    """
    outline = as_history(history).outline
    waiting = set(outline.pending)
    found = [outline.group_ending_at(at) for at in range(len(history))]
    return sorted((Group(tuple(each), each[0] in waiting) for each in found if each), key=_POSITIONS)


def turns(history: Sequence[Message], rule: RequestRule = is_request) -> list[Turn]:
    """The turns of a history, in order. Messages before the first turn belong to none.

    Args:
        history: The messages.
        rule: Decides which text beside tool results is a request.
    """
    outline = as_history(history, rule).outline
    return [Turn(*outline.turn(number)) for number in range(outline.turn_count)]


def in_flight(history: Sequence[Message], rule: RequestRule = is_request) -> bool:
    """Whether the newest turn is still going on.

    A turn is over if the history ends with an assistant message without pending calls. Injected messages at
    the end do not count. A history without a turn has no turn in flight.
    """
    return as_history(history, rule).outline.in_flight


def count_between(positions: Sequence[int], start: int, end: int) -> int:
    """The number of ascending *positions* that lie in a range."""
    return bisect_left(positions, end) - bisect_left(positions, start)


def _position(run: tuple[int, int]) -> int:
    return run[0]


def _line(message: Message, rule: RequestRule) -> LineRow:
    """The line of a message, in the form that the core keeps."""
    ties = [tie for part in message.parts if (tie := _tie(part)) is not None]
    return (
        message.role,
        message.provenance,
        message.dialect == "openai.responses",
        is_reasoning_only(message),
        opens_turn(message, rule),
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
