"""The state of a session as one value: its view, its ranges, its last request."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, islice
from operator import attrgetter, is_
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, overload

from siltstone.errors import IllegalHistoryError
from siltstone.memory.log import (
    CompactionRow,
    Derived,
    LogState,
    NewCompaction,
    NewRef,
    SessionLog,
    SessionVersion,
    ViewItem,
)
from siltstone.messages import History, Message, RawMessage, RequestRule, read_message, validate_history
from siltstone.messages.groups import call_key, opens_turn
from siltstone.messages.legality import sendable
from siltstone.messages.message import RULE_ROLES, SAID
from siltstone.session.counters import CompactionClock
from siltstone.tokens import TokenRule, message_bytes, request_bytes

if TYPE_CHECKING:
    from siltstone.session.host_list import HostList


# Sets of sequence numbers as half-open ranges: ascending, disjoint, and with touching ranges joined.

RangeSet: TypeAlias = tuple[tuple[int, int], ...]


def union(*parts: Iterable[tuple[int, int]]) -> RangeSet:
    """All numbers of *parts*. The ranges may overlap, and come in any order."""
    found: list[tuple[int, int]] = []
    for start, end in sorted(span for part in parts for span in part):
        if start >= end:
            continue
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return tuple(found)


def minus(spans: RangeSet, gone: RangeSet) -> RangeSet:
    """The numbers of *spans* that are not in *gone*."""
    found: list[tuple[int, int]] = []
    at = 0
    for start, end in spans:
        while at < len(gone) and gone[at][1] <= start:
            at += 1
        place = at
        while place < len(gone) and gone[place][0] < end:
            if start < gone[place][0]:
                found.append((start, gone[place][0]))
            start = max(start, gone[place][1])
            place += 1
        if start < end:
            found.append((start, end))
    return tuple(found)


def has(spans: RangeSet, start: int, end: int | None = None) -> bool:
    """Whether *spans* has every number from *start* to below *end*; without *end*, whether it has *start*.

    O(log n) in the number of ranges, so a caller may ask for each message of a view.
    """
    end = start + 1 if end is None else end
    place = bisect_left(spans, (start + 1,)) - 1
    return start >= end or (place >= 0 and end <= spans[place][1])


def common(one: RangeSet, other: RangeSet) -> RangeSet:
    """The numbers that both sets have."""
    return minus(one, minus(one, other))


def within(spans: Iterable[tuple[int, int]], start: int, end: int) -> RangeSet:
    """The numbers of *spans* from *start* to below *end*, in the order of *spans*."""
    cut = ((max(first, start), min(last, end)) for first, last in spans)
    return tuple(span for span in cut if span[0] < span[1])


def count(spans: RangeSet) -> int:
    """How many numbers *spans* has."""
    return sum(end - start for start, end in spans)


def numbers(spans: RangeSet) -> list[int]:
    """All numbers of *spans*, ascending."""
    return [number for span in spans for number in range(*span)]


# The current view of a session as a value, with its running totals.

#: Provenances of messages that replace others. The log has them as derived texts, not as messages.
DERIVED = frozenset({"compaction_summary", "substitute"})


@dataclass(frozen=True, slots=True)
class Item:
    """A message of the view.

    Attributes:
        message: The message.
        units: Its size in units of the view's token rule.
        created_at: Its time, in milliseconds since 1970.
        derived_id: The id of a summary or a substitute in the log; None for an original message, or for a
            derived text that is not in the log yet.
    """

    message: Message
    units: int
    created_at: int
    derived_id: int | None = None


#: Rules whose repair needs no message before: a call cannot be answered by what was said before it.
_WITHOUT_CONTEXT = frozenset({"unanswered-call", "reasoning-alone"})

#: What to do about a result that answers no call, by the rule of the finding.
_REMEDIES = {
    "orphan-result": "append the assistant's message with the call before it, or leave the result out",
    "duplicate-result": "append one result for each call",
    "result-type": "append the output that belongs to the type of the call",
}


class View:
    """Messages in order, and their sums. A view never changes: appending gives a new view.

    Views that grew out of one another share one list, which only grows. Each view knows its own length. So an
    append takes time for the new messages alone, and an older view stays valid.
    """

    __slots__ = (
        "_asked", "_fixed", "_history", "_items", "_length", "_of_log", "_origin", "_raws", "_rule",
        "_sendable", "_units", "_weighed",
    )  # fmt: skip

    def __init__(self, rule: TokenRule, items: Sequence[Item] = ()) -> None:
        self._rule, self._origin = rule, object()
        self._items = list(items)
        self._raws = [item.message.raw for item in self._items]
        self._length = len(self._items)
        self._units = sum(item.units for item in self._items)
        self._sendable: tuple[int, View | None] = (0, None)  # cache of ``sendable``: messages, their form
        self._weighed = (0, 0, 0)  # cache: number of messages weighed, their bytes, and those of media
        self._fixed = (0, 0)  # cache: number of messages checked, how many of them are fixed
        self._of_log: tuple[int, RangeSet] = (0, ())  # cache: number of messages, ranges of those of the log
        # Cache: messages looked at; the place of the newest request, and the units before it.
        self._asked = (0, -1, 0)
        self._history: History | None = None  # cache: the messages in outline, or the first of them

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Item]:
        return iter(self.items())

    @property
    def rule(self) -> TokenRule:
        """The token rule of this view."""
        return self._rule

    @property
    def tokens(self) -> int:
        """The tokens of the whole view, by its rule."""
        return self._rule.tokens(self._units)

    @property
    def bytes(self) -> int:
        """The size of the whole view in a request, in bytes. Each message is weighed once, on demand."""
        weighed, size, media = self._weighed
        for item in self._items[weighed : self._length]:
            size += message_bytes(item.message)
            if item.message.said is None:
                media += sum(part.size for part in item.message.parts if part.kind == "blob")
        self._weighed = (self._length, size, media)
        return request_bytes(size)

    def is_mostly_media(self) -> bool:
        """Whether more than half of the bytes are those of media."""
        return self.bytes < 2 * request_bytes(self._weighed[2])

    def items(self, start: int = 0) -> list[Item]:
        """The items from position *start* on, in a new list."""
        return self._items[start : self._length]

    def tokens_since(self, seq: int) -> int:
        """The tokens of the messages from *seq* on, in time linear in their number."""
        units = 0
        for place in range(self._length - 1, -1, -1):
            item = self._items[place]
            if item.message.seq < seq:
                break
            units += item.units
        return self._rule.tokens(units)

    def last(self) -> Message | None:
        """The last message; None of an empty view."""
        return self._items[self._length - 1].message if self._length else None

    def newest_request(self) -> tuple[Message, int] | None:
        """The newest user request, and the tokens before it; None if there is none.

        Each message is checked once at most, on demand, and none before a request.
        """
        (seen, place, before), units = self._asked, self._units
        for at in range(self._length - 1, seen - 1, -1):
            item = self._items[at]
            units -= item.units
            if _opens_turn(item.message):
                place, before = at, units
                break
        self._asked = (self._length, place, before)
        return None if place < 0 else (self._items[place].message, self._rule.tokens(before))

    def fixed(self, pins: Container[int]) -> int:
        """The number of messages that no policy discards: summaries, system prompts, and *pins*.

        Without pins each message is checked once, on demand; with pins, all messages at each call.
        """
        seen, count = (0, 0) if pins else self._fixed
        for item in self._items[seen : self._length]:
            message = item.message
            count += (
                message.role in RULE_ROLES
                or message.provenance == "compaction_summary"
                or message.seq in pins
            )
        if not pins:
            self._fixed = (self._length, count)
        return count

    def of_log(self) -> RangeSet:
        """The ranges of its messages that are originals of the log. Each is looked at once, on demand."""
        seen, known = self._of_log
        new = [item.message for item in self._items[seen : self._length]]
        own = ((each.seq, each.seq + 1) for each in new if each.provenance not in DERIVED)
        self._of_log = self._length, union(known, own)
        return self._of_log[1]

    def messages(self) -> list[Message]:
        """The messages of the view, in a new list, for a policy."""
        return [item.message for item in self._items[: self._length]]

    def history(self, request_rule: RequestRule) -> History:
        """The messages of the view as a history in outline, with the sizes that are known."""
        known = self._history
        if known is None or known.rule != request_rule:
            known = History((), rule=request_rule)
        if len(known) < self._length:
            new = self._items[len(known) : self._length]
            measured = None if self._rule.measure else (self._rule, [item.units for item in new])
            known = known.extended([item.message for item in new], measured)
        self._history = known
        return known

    def read(self) -> Sequence[Message]:
        """The messages without a copy of the list, for a caller that looks at a few of many."""
        return _Messages(self._items, self._length)

    def raws(self) -> list[RawMessage]:
        """The view for a model: the caller's own objects, in a new list."""
        return self._raws[: self._length]

    def sendable(self) -> View:
        """The view as its provider takes it: this view itself, if no message needs a repair.

        A call without a result has one that says that it was interrupted, and a result without a call is left
        out. Log and view keep both as they came: with its real result, the call is sent as any other.

        Only the messages since the last time are checked. If they need a repair, all messages are read.
        """
        seen, known = self._sendable
        new = self.items(seen)
        repaired = sendable([item.message for item in new])
        if repaired is not None:
            if seen and not all(each.rule in _WITHOUT_CONTEXT for each in repaired.findings):
                seen, known, new = 0, None, self.items()
                repaired = sendable([item.message for item in new])
            before = self._items[:seen] if known is None else known.items()
            if repaired is not None:
                known = View(self._rule, before + self._mended(repaired.messages, new))
                if sendable(self._last_exchange()) is not None:
                    return known  # what is said next may settle it in another way
            new = []
        if known is not None and new:
            known = known.extended(new)
        self._sendable = (self._length, known)
        return self if known is None else known

    def _last_exchange(self) -> list[Message]:
        """The messages from the newest request on, or from the beginning of the newest answer."""
        self.newest_request()
        place, least = self._length - 1, max(self._asked[1], 0)
        while place > least and not (
            self._items[place].message.role == "assistant"
            and self._items[place - 1].message.role != "assistant"
        ):
            place -= 1
        return [item.message for item in self.items(max(place, least))]

    def _mended(self, raws: Sequence[RawMessage], items: Sequence[Item]) -> list[Item]:
        """*raws* as items: those of *items*, and those that a repair wrote."""
        known = {id(item.message.raw): item for item in items}
        mended = list[Item]()
        for raw in raws:
            item = known.get(id(raw))
            if item is None:
                last = mended[-1] if mended else items[0]
                item = self.measured(read_message(raw, last.message.seq), last.created_at)
            mended.append(item)
        return mended

    def check_answers(self, items: Sequence[Item]) -> None:
        """Checks that results at the end of *items*, which are to follow this view, answer calls that wait.

        Results before the end had a life elsewhere: they are taken as they came, and requests leave them out.
        A result that comes late, after other messages, is taken too: a log that lacks it would be worse.

        Raises:
            IllegalHistoryError: a result has no call that waits for it. Carries ``findings``, whose positions
                are those in *items*.
        """
        start = len(items)
        while start and _answers(items[start - 1].message):
            start -= 1
        if start == len(items):
            return

        results = [
            part for item in items[start:] for part in item.message.parts if part.kind == "tool_result"
        ]
        said = [item.message for item in items]
        lacking, place = {call_key(part) for part in results}, self._length
        lacking -= {call_key(part) for each in said for part in each.parts if part.kind == "tool_call"}
        while lacking and place:
            place -= 1
            parts = self._items[place].message.parts
            lacking -= {call_key(part) for part in parts if part.kind == "tool_call"}
        before = [item.message for item in self._items[place : self._length]]
        found = tuple(
            replace(each, position=each.position - len(before))
            for each in validate_history([*before, *said])
            if each.position >= len(before) + start and each.rule in _REMEDIES
        )
        if found:
            raise IllegalHistoryError(
                f"message {found[0].position} cannot be appended: {found[0].sentence} ({found[0].rule}); "
                f"nothing was written: {_REMEDIES[found[0].rule]}",
                findings=found,
            )

    def begins(self, other: View) -> bool:
        """Whether *other* is this view, or grew out of it by appending. Messages may have a newer form."""
        return self._origin is other._origin and self._length <= other._length

    def extended(self, items: Sequence[Item]) -> View:
        """This view with *items* after it."""
        grown = View.__new__(View)
        grown._rule, grown._origin, grown._weighed = self._rule, self._origin, self._weighed
        grown._fixed, grown._asked, grown._sendable = self._fixed, self._asked, self._sendable
        grown._of_log, grown._history = self._of_log, self._history
        own, raws, length, units = self._items, self._raws, self._length, self._units
        if len(own) != length or len(raws) != length:
            # The shared list has more messages, of another view: a failed write, for example. Copy it.
            own, raws, grown._origin = own[:length], raws[:length], object()
        own += items
        for item in items:
            raws.append(item.message.raw)
            units += item.units
        grown._items, grown._raws = own, raws
        grown._length, grown._units = length + len(items), units
        return grown

    def showing(self, items: Sequence[Item]) -> View:
        """This view with *items* in the place of its own: the current form of the same messages."""
        own = self.items()
        if len(items) == len(own) and all(map(is_, items, own)):
            return self
        view = View(self._rule, items)
        if [_name(item) for item in items] == [_name(item) for item in own]:
            view._origin = self._origin
            if self._sendable[1] is None:  # another form of the same calls and results
                view._sendable = self._sendable
        return view

    def measured(self, message: Message, created_at: int, derived_id: int | None = None) -> Item:
        """*message* as an item of this view."""
        return Item(message, self._rule.units(message), created_at, derived_id)

    def recounted(self, rule: TokenRule) -> View:
        """The same view, measured by another rule."""
        if rule.name == self._rule.name:
            return self
        return View(rule, [replace(item, units=rule.units(item.message)) for item in self.items()])

    def rewritten(self, messages: Sequence[Message], read: int, created_at: int) -> View:
        """The view after a compaction: *messages*, then the items after the first *read* ones.

        Messages that stay keep their measured size. New summaries and substitutes get the time *created_at*.
        """
        known = {id(item.message): item for item in self._items[:read]}
        of_log: dict[Any, Item] = {}
        items = list[Item]()
        for message in messages:
            item = known.get(id(message))
            if item is None and message.provenance == "original":
                of_log = of_log or {_name(item): item for item in self._items[:read]}  # in their current form
                item = of_log.get((message.seq, "original", None))
            items.append(item or self.measured(message, created_at))
        return View(self._rule, items + self.items(read))

    def named(self, derived_ids: Sequence[int]) -> View:
        """The same view, in which new derived texts get the ids *derived_ids*, in order."""
        ids = iter(derived_ids)
        items = [replace(item, derived_id=next(ids)) if _is_new(item) else item for item in self.items()]
        return View(self._rule, items)


class _Messages(Sequence[Message]):
    """The messages of the first items of a list that only grows."""

    __slots__ = ("_items", "_length")

    def __init__(self, items: list[Item], length: int) -> None:
        self._items, self._length = items, length

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Message]:
        return (item.message for item in islice(self._items, self._length))

    def __reversed__(self) -> Iterator[Message]:
        items = self._items
        return (items[place].message for place in range(self._length - 1, -1, -1))

    @overload
    def __getitem__(self, place: int) -> Message: ...
    @overload
    def __getitem__(self, place: slice) -> list[Message]: ...
    def __getitem__(self, place: int | slice) -> Message | list[Message]:
        if isinstance(place, int) and 0 <= place < self._length:
            return self._items[place].message
        places = range(self._length)[place]
        if isinstance(places, int):
            return self._items[places].message
        return [self._items[each].message for each in places]


def view_items(items: Sequence[Item]) -> tuple[tuple[ViewItem, ...], list[Item]]:
    """The stored form of a view, and its derived texts that the log does not have yet.

    Messages of the log are stored as ranges of sequence numbers, derived texts as their ids. A new derived
    text is stored as its place among the new ones.
    """
    stored: list[ViewItem] = []
    new: list[Item] = []
    for item in items:
        seq, last = item.message.seq, stored[-1] if stored else None
        if item.derived_id is not None:
            stored.append(item.derived_id)
        elif _is_new(item):
            stored.append(NewRef(len(new)))
            new.append(item)
        elif isinstance(last, tuple) and not isinstance(last, NewRef) and last[1] == seq:
            stored[-1] = (last[0], seq + 1)
        else:
            stored.append((seq, seq + 1))
    return tuple(stored), new


def _opens_turn(message: Message) -> bool:
    """``opens_turn``, whose module is imported for a message with parts alone."""
    if message.role != "user" or message.provenance not in SAID:
        return False
    return message.said is not None or opens_turn(message)


#: The identity of the message of an item, whatever form it has.
_name: Final = attrgetter("message.seq", "message.provenance", "derived_id")


def _answers(message: Message) -> bool:
    """Whether *message* carries results that a host gives: not those of a tool that the provider ran."""
    if message.said is not None or message.role == "assistant":
        return False
    return any(part.kind == "tool_result" for part in message.parts)


def _is_new(item: Item) -> bool:
    return item.derived_id is None and item.message.provenance in DERIVED


# Reads a view back from the log: the view right after a compaction, and the messages after it.

_STRETCH = 1_000  # rows of one read; other threads run between two reads
_NOT_LIVE = frozenset({*DERIVED, "placeholder"})


def load(log: SessionLog, view: View, head: CompactionRow | None, end: int) -> list[Item]:
    """The view right after *head*, and the messages after it up to *end*, measured by the rule of *view*."""
    if head is None and not end:
        return []
    if head is None:
        return originals(log, view, [(0, end)])
    return shown(log, view, head.compaction) + originals(log, view, [(head.compaction.next_seq, end)])


def shown(log: SessionLog, view: View, row: NewCompaction) -> list[Item]:
    """The view right after *row*."""
    derived = {each.derived_id: each for each in derived_of(log, row)}
    items: list[Item] = []
    for is_derived, pieces in groupby(row.view, _is_id):
        if is_derived:
            items += [_derived(view, derived[piece]) for piece in pieces if isinstance(piece, int)]
        else:
            items += originals(log, view, [piece for piece in pieces if isinstance(piece, tuple)])
    return items


def derived_of(log: SessionLog, row: NewCompaction) -> list[Derived]:
    """The derived texts in the view of *row*, in its order."""
    return log.derived([piece for piece in row.view if isinstance(piece, int)])


def originals(log: SessionLog, view: View, spans: Iterable[tuple[int, int]]) -> list[Item]:
    """The original messages of the log in *spans*."""
    return [view.measured(message, time) for message, time in messages_in(log, spans)]


def shown_by(log: SessionLog, row: NewCompaction) -> RangeSet:
    """The messages of the log that the view of *row* shows, verbatim or by a substitute."""
    seqs = [(each.seq, each.seq + 1) for each in derived_of(log, row) if each.seq is not None]
    return union((piece for piece in row.view if isinstance(piece, tuple)), seqs)


def line_of(log: SessionLog, row: NewCompaction | None, end: int) -> RangeSet:
    """The line of *row*: messages that its view shows or its summaries replace, and later ones to *end*."""
    if row is None:
        return union([(0, end)])
    return union(shown_by(log, row), row.covers, [(row.next_seq, end)])


def all_derived(log: SessionLog) -> list[Derived]:
    """Every derived text (summary or substitute) of the session's rows, in order."""
    return log.derived([each for row in log.compactions() for each in row.derived_ids])


def content_of(row: CompactionRow | None) -> NewCompaction | None:
    """The content of *row*; None for None."""
    return None if row is None else row.compaction


def covered(log: SessionLog, spans: Iterable[tuple[int, int]]) -> list[Message]:
    """The messages in *spans*, without forgotten ones."""
    found = messages_in(log, spans)
    return [message for message, _ in found if message.provenance != "placeholder"]


def with_live_objects(known: Iterable[Item], items: Sequence[Item]) -> list[Item]:
    """*items*, with the items of *known* in the place of equal ones, so that the caller's objects stay.

    A forgotten message is not replaced, because the caller's object still has the old text. A derived text is
    recognised by its id.
    """
    live: dict[tuple[bool, int], Item] = {}
    for item in known:
        if item.derived_id is not None:
            live[True, item.derived_id] = item
        elif item.message.provenance not in _NOT_LIVE:
            live[False, item.message.seq] = item
    return [_live(live, item) for item in items]


def _live(live: dict[tuple[bool, int], Item], item: Item) -> Item:
    if item.derived_id is not None:
        found = live.get((True, item.derived_id))
        return found if found is not None and found.message.raw == item.message.raw else item
    if item.message.provenance in _NOT_LIVE:
        return item
    return live.get((False, item.message.seq), item)


def messages_in(log: SessionLog, spans: Iterable[tuple[int, int]]) -> Iterator[tuple[Message, int]]:
    """The messages of *spans* of the log, each with its time in milliseconds since 1970, read in pieces.

    A forget between two reads changes the session's version, so the next comparison of versions notices it.
    """
    for start, end in spans:
        for first in range(start, end, _STRETCH):
            yield from log.messages(first, min(first + _STRETCH, end))


def _derived(view: View, row: Derived) -> Item:
    from siltstone.session import rows

    return view.measured(rows.derived_item(row), row.created_at, row.derived_id)


def _is_id(piece: tuple[int, int] | NewRef | int) -> bool:
    return isinstance(piece, int)


@dataclass(frozen=True, slots=True)
class SessionState:
    """The state of a session in memory.

    Attributes:
        version: The version of the session in the store that this state was read from.
        view: The current view.
        head: The newest of the compactions that led to the view; None before the first.
        clock: The counters between two compactions.
        stored: The clock in the store. The boundaries counted in *clock* may be ahead of it.
        own_end: The end of the log after this worker's own last write. Later messages are from other workers.
        host: Digests of the host's list; None before the session has seen one.
        estimate_error: See ``Session.estimate_error``.
        deleted: Whether another worker deleted the session. Writes are then accepted, and nothing is kept.
    """

    version: SessionVersion
    view: View
    head: CompactionRow | None
    clock: CompactionClock
    stored: CompactionClock
    own_end: int
    host: HostList | None = None
    estimate_error: float | None = None
    deleted: bool = False

    @property
    def end(self) -> int:
        """The number of messages that were ever appended."""
        return self.version.next_seq

    def appended(
        self, items: list[Item], version: SessionVersion | None, clock: CompactionClock
    ) -> SessionState:
        """The state after *items* were appended to the log. A *version* of None: the session was deleted."""
        is_deleted = version is None
        if version is None:
            version = self.version._replace(next_seq=self.end + len(items))
        return replace(
            self,
            deleted=is_deleted,
            version=version,
            view=self.view.extended(items),
            clock=clock,
            stored=clock,
            own_end=version.next_seq,
        )

    def ticked(self, version: SessionVersion | None, clock: CompactionClock) -> SessionState:
        """The state after *clock* alone was written."""
        is_deleted = version is None
        return replace(self, deleted=is_deleted, version=version or self.version, clock=clock, stored=clock)


def first_state(log: SessionLog, stored: LogState, session_id: str, rule: TokenRule) -> SessionState:
    """The state of a session that is opened."""
    clock = CompactionClock.from_json(stored.clock, session_id)
    view = View(rule)
    view = View(rule, load(log, view, stored.head, stored.next_seq))
    return SessionState(stored.version, view, stored.head, clock, clock, stored.next_seq)


def next_state(
    log: SessionLog, state: SessionState, stored: LogState, session_id: str, written: Iterable[Item] = ()
) -> SessionState:
    """*state* after reading *stored*: with the changes of other workers, and of our own interrupted write.

    Messages keep the caller's own objects, also the messages *written* by the interrupted write.
    """
    if stored.deleted:  # this process goes on with its messages in memory, and none of them is kept
        return replace(state, deleted=True)
    clock, known_clock = state.clock, state.stored
    if stored.version.counter != state.version.counter:
        known_clock = CompactionClock.from_json(stored.clock, session_id)
        clock = known_clock.after(state.clock)
    head_id = None if stored.head is None else stored.head.compaction_id
    if (head_id, stored.redactions) == (state.version.head, state.version.redactions):
        new = originals(log, state.view, [(state.end, stored.next_seq)])
        view, host = state.view.extended(with_live_objects(written, new)), state.host
    else:
        items = load(log, state.view, stored.head, stored.next_seq)
        known = [*state.view.items(), *written]
        view = View(state.view.rule, with_live_objects(known, items))
        host = state.host
        if host is not None and stored.redactions != state.version.redactions:
            host = host.outdated()
    return replace(
        state,
        version=stored.version,
        view=view,
        head=stored.head,
        clock=clock,
        stored=known_clock,
        host=host,
        deleted=False,
    )


# The last request that a session prepared: the messages that it showed and left out.


class Request(NamedTuple):
    """A prepared request; empty before the first.

    Attributes:
        shown: The messages of the log that it showed verbatim.
        tokens: Its tokens by the policy's rule, without recalled context.
    """

    shown: RangeSet = ()
    tokens: int = 0


class Requests:
    """The requests that this process prepared for a session.

    Attributes:
        last: The last request; None if the policy shapes no requests, so that the view is sent.
    """

    def __init__(self) -> None:
        self.last: Request | None = None
        self._redactions = 0
        self._aside: RangeSet = ()

    def sent_tokens(self, view: View) -> int:
        """The tokens of the last request: the tokens of *view*, or fewer if the policy shaped the request."""
        return self.last.tokens if self.last is not None and self.last.tokens else view.tokens

    def aside(self, redactions: int) -> RangeSet:
        """The findable messages that requests left out; empty if *redactions* has changed since."""
        return self._aside if redactions == self._redactions else ()

    def set_aside(self, redactions: int, spans: RangeSet) -> None:
        """Notes *spans* as the findable messages, at the session's count of *redactions*."""
        self._redactions, self._aside = redactions, spans
