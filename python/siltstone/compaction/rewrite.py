"""The rewritten history: which messages it retains, what is cut, and where summaries stand."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

from siltstone import messages as chat
from siltstone.compaction import base
from siltstone.compaction.prompts import framed, near_end
from siltstone.llm import Flow, UsageRecord
from siltstone.messages import History, Message
from siltstone.messages.message import SAID
from siltstone.messages.outline import Span
from siltstone.messages.text import without_control
from siltstone.tokens import TokenRule

# Selects the messages that a compaction retains: newest turns first, in whole groups, within a budget.
#
# The messages that :func:`must_stay` names always stay. An earlier summary always leaves. The newest groups
# of the turn in flight stay if they fit, and at least the newest group. If the whole turn in flight fits,
# the newest complete turns that still fit stay too, but never the oldest turn.


@dataclass(frozen=True, slots=True)
class Selection:
    """A history separated in two parts. Both are in order and have the same message objects."""

    retained: chat.Excerpt
    discarded: chat.Excerpt

    @property
    def is_worthwhile(self) -> bool:
        """Something that was said is discarded, whole or cut: a summary written again would gain nothing."""
        return self.told.has_original

    @property
    def told(self) -> chat.Excerpt:
        """The messages for the summariser: all discarded messages except superseded rules."""
        return self.discarded.without(self.discarded.history.rules)


def must_stay(read: History, pins: Iterable[int] = (), *, task: bool = False) -> set[int]:
    """The positions of the messages that may never leave a request, whatever the policy.

    They are the rules in force, pinned messages, groups with a pending call, and the user's newest request as
    long as it is not answered. Whoever lets messages leave keeps the whole groups of these.

    Args:
        read: The history in outline; its rule decides which text beside tool results is a request.
        pins: Sequence numbers of pinned messages.
        task: Whether the first request stays too: the task of a worker.
    """
    kept = {*base.rules_in_force(read), *read.outline.pending, *read.positions_of(pins)}
    if read.outline.in_flight:
        kept.add(read.outline.requests[-1])
    if task:
        kept.update(read.outline.requests[:1])
    return kept


class Room:
    """The room for retained messages. Each limit is a token rule and the maximum tokens by that rule."""

    def __init__(
        self,
        history: History,
        limits: Iterable[tuple[TokenRule, int]],
        substitutes: Mapping[int, base.Substitute] | None = None,
    ) -> None:
        self._limits = [(token_rule, most, history.sums(token_rule)) for token_rule, most in limits]
        self._units = [0] * len(self._limits)
        self._substitutes = substitutes or {}

    def take(self, positions: Iterable[int], *, anyway: bool = False, cut: bool = False) -> bool:
        """Takes room for the messages at *positions* if they all fit, or *anyway*. Returns whether they fit.

        With *cut* a message that has a substitute is measured by the substitute.
        """
        positions = tuple(positions)
        units = [
            taken + sum([sums[at + 1] - sums[at] for at in positions])
            for taken, (_, _, sums) in zip(self._units, self._limits, strict=True)
        ]
        for at in self._substitutes.keys() & positions if cut else ():
            each = self._substitutes[at]
            for place, (token_rule, _, _) in enumerate(self._limits):
                units[place] -= token_rule.units(each.original) - token_rule.units(each.message)
        return self._fit(units, takes=True, anyway=anyway)

    def take_span(self, start: int, end: int, without: Iterable[int], *, takes: bool) -> bool:
        """Whether the messages at ``start..end`` but *without* fit; with *takes* they take their room."""
        apart = [at for at in without if start <= at < end]
        units = [
            taken + sums[end] - sums[start] - sum([sums[at + 1] - sums[at] for at in apart])
            for taken, (_, _, sums) in zip(self._units, self._limits, strict=True)
        ]
        return self._fit(units, takes=takes)

    def _fit(self, units: list[int], *, takes: bool, anyway: bool = False) -> bool:
        fits = all(
            token_rule.tokens(needed) <= most
            for needed, (token_rule, most, _) in zip(units, self._limits, strict=True)
        )
        if (fits and takes) or anyway:
            self._units = units
        return fits


def select(
    history: Sequence[Message],
    turn_budget: int | None,
    limits: Iterable[tuple[TokenRule, int]],
    pins: Iterable[int] = (),
    *,
    request_limits: Iterable[tuple[TokenRule, int]] | None = None,
    request_rule: chat.RequestRule = chat.is_request,
    substitutes: Mapping[int, base.Substitute] | None = None,
) -> Selection:
    """Separates *history*: the newest complete turns stay, as far as the room allows.

    Args:
        history: The history. If it is in outline, no messages are made from it.
        turn_budget: The maximum number of complete turns that stay. None: no maximum, and of the turn that
            does not fit, its request and its newest groups stay.
        limits: The room: token rules, each with its maximum tokens.
        pins: Sequence numbers of messages that stay, with their groups. They take no room if their turn
            leaves.
        request_limits: The room of the messages that open turns: the newest that fit stay, even if their
            turns leave. None: they leave with their turns.
        request_rule: Decides which text beside tool results opens a turn.
        substitutes: The substitutes of messages that stay, by position. The turn in flight is measured with
            them; a finished turn is measured as it is.
    """
    read = chat.as_history(history, request_rule)
    choice = _Choice(read, Room(read, limits, substitutes or {}), must_stay(read, pins))
    if request_limits is not None:
        room = Room(read, request_limits)  # for the newest, up to the first that does not fit
        choice.kept.update(takewhile(lambda at: room.take([at]), reversed(read.outline.requests)))
    complete = range(read.outline.turn_count)
    whole = True
    if read.outline.in_flight:
        start, _, request = read.outline.turn(complete[-1])
        whole = choice.retain_newest_groups(start, request, len(read))
        complete = complete[:-1]
    elif not complete:  # a history without a request is treated like a turn in flight
        whole = choice.retain_newest_groups(0, None, len(read))
    if whole and complete and turn_budget is None:
        choice.retain_newest(complete)
    elif whole and turn_budget:
        choice.retain_turns(complete[1:][-turn_budget:])
    return kept_apart(read, choice.kept)


class _Choice:
    """The positions that stay, as they are chosen."""

    def __init__(self, history: History, room: Room, kept: set[int]) -> None:
        self._outline, self._room, self.kept = history.outline, room, kept
        self._unoriginal = frozenset(history.unoriginal)
        self._fixed = frozenset(history.rules) | frozenset(history.summaries)  # decided without the room

    def retain_newest_groups(
        self, start: int, request: int | None, end: int, *, newest_stays: bool = False
    ) -> bool:
        """Adds the newest groups of the turn ``start..end`` that fit. Returns whether all of them do.

        The newest group stays in any case, unless *newest_stays*, and a request takes room in any case.
        """
        if request is not None:
            self._room.take([request], anyway=True, cut=True)
        for last in range(end - 1, start - 1, -1):
            group = self._outline.group_ending_at(last)
            positions = [at for at in group or () if at not in self._fixed and at not in self.kept]
            if not positions:
                continue
            if not self._room.take(positions, anyway=not newest_stays, cut=True) and newest_stays:
                return False
            self.kept.update(positions)
            newest_stays = newest_stays or not self._unoriginal.issuperset(positions)
        return True

    def retain_turns(self, numbers: Sequence[int]) -> int | None:
        """Adds the newest of the turns *numbers* that fit, up to the first that does not: it is returned."""
        if not numbers:
            return None
        end, turn, take = self._outline.turn(numbers[-1])[1], self._outline.turn, self._room.take_span
        fewest, most = 0, len(numbers)
        while fewest < most:
            middle = (fewest + most + 1) // 2
            if take(turn(numbers[-middle])[0], end, self._fixed, takes=False):
                fewest = middle
            else:
                most = middle - 1
        if fewest:
            start = turn(numbers[-fewest])[0]
            take(start, end, self._fixed, takes=True)
            self.kept.update(at for at in range(start, end) if at not in self._fixed)
        return None if fewest == len(numbers) else numbers[-1 - fewest]

    def retain_newest(self, numbers: Sequence[int]) -> None:
        """Adds the newest of the turns *numbers* that fit; of the next one, its request and newest groups.

        If all fit, the oldest leaves as a whole: something has to.
        """
        number = self.retain_turns(numbers[1:])
        start, end, request = self._outline.turn(numbers[0] if number is None else number)
        positions = [at for at in range(start, end) if at not in self._fixed]
        if not self._room.take(positions) and self._room.take([request]):
            self.kept.add(request)
            self.retain_newest_groups(start, None, end, newest_stays=True)


def parted(history: Sequence[Message], kept: set[int]) -> Selection:
    """A selection that retains exactly the positions *kept*."""
    return _divided(chat.as_history(history), joined((at, at + 1) for at in kept))


# Cuts tool results that are too large.
#
# A cut result keeps its head and its tail. A line between them tells the number of tokens that were cut,
# and how to read them.

CLAMPED = "clamped"  #: the kind of a substitute that is a cut result

SHORTEST_TEXT = 40  # code points: the minimum part of each text that is kept

# As the note is written, and no longer: a tool may print anything that looks like one.
_CUT = re.compile(r"^\[… ([0-9]{1,3}(?:,[0-9]{3}){0,4}) tokens cut\b", re.MULTILINE)


def clamp(
    history: Iterable[tuple[int, Message]], tokens: int, token_rule: TokenRule, trigger: base.Trigger
) -> dict[int, base.Substitute]:
    """Substitutes for the messages with results that are larger than *tokens*, by position.

    Args:
        history: Messages with their positions.
        tokens: The maximum tokens of one message with results.
        token_rule: The token rule.
        trigger: Its pinned messages are not cut. Its ``reader`` is named as the tool that reads the cut
            part. If its caller keeps no substitutes, the result is empty.
    """
    found: dict[int, base.Substitute] = {}
    if not trigger.keeps_substitutes:
        return found
    for at, message in history:
        if message.said is None and message.provenance in SAID and not trigger.holds(message):
            cut = clamp_result(message, tokens, token_rule, trigger.reader)
            if cut is not None:
                found[at] = base.Substitute(message, cut)
    return found


def clamp_result(message: Message, tokens: int, token_rule: TokenRule, reader: str = "") -> Message | None:
    """*message* with its results cut, so that it has at most *tokens*; None if it needs no cut.

    None also if no cut makes it smaller. Each text keeps at least ``SHORTEST_TEXT`` code points, and words
    and media beside the results are not cut. So the message may stay larger than *tokens*.
    """
    if message.said is not None or not any(part.kind == "tool_result" for part in message.parts):
        return None  # true for most messages, so the tokens are not counted
    before = token_rule.count([message])
    if before <= tokens:
        return None
    texts: list[str] = []

    def seen(text: str) -> str:
        texts.append(text)
        return ""

    if chat.with_result_texts(message, seen) is None or not texts:
        return None
    low, high = SHORTEST_TEXT, max(map(len, texts))
    cut = _cut_to(message, low, token_rule, reader)
    while low + 1 < high:
        middle = (low + high) // 2
        longer = _cut_to(message, middle, token_rule, reader)
        if longer is not None and token_rule.count([longer]) <= tokens:
            low, cut = middle, longer
        else:
            high = middle
    return cut if cut is not None and token_rule.count([cut]) < before else None


def tokens_cut(text: str) -> int:
    """The tokens that earlier cuts took out of *text*, by the notes in it; a new cut adds to them."""
    return sum(int(earlier[1].replace(",", "")) for earlier in _CUT.finditer(text))


def clamped_alone(history: Sequence[Message], substitutes: Mapping[int, base.Substitute]) -> base.Compaction:
    """A rewrite that discards nothing: the *substitutes* replace their originals, by position."""
    retained = chat.Excerpt(chat.as_history(history), [(0, len(history))])
    return base.Compaction(
        messages=with_substitutes(retained, substitutes.values()),
        retained=retained,
        discarded=(),
        summary="",
        covers=(),
        level=0,
        substitutes=tuple(substitutes[at] for at in sorted(substitutes)),
    )


def with_substitutes(messages: chat.Excerpt, substitutes: Iterable[base.Substitute]) -> chat.Excerpt:
    """*messages* with each original replaced by its substitute."""
    by_original = {id(each.original): each.message for each in substitutes}
    if not by_original:
        return messages
    pieces: list[tuple[int, int] | Message] = []
    history = messages.history
    seqs = {message.seq for message in by_original.values()}
    places = [at for at in history.positions_of(seqs) if id(history[at]) in by_original]
    for piece in messages.pieces:
        if isinstance(piece, Message):
            pieces.append(piece)
            continue
        start, end = piece
        for at in places:
            if start <= at < end:
                pieces += [(start, at)] if start < at else []
                pieces.append(by_original[id(history[at])])
                start = at + 1
        pieces += [(start, end)] if start < end else []
    return chat.Excerpt(history, pieces)


def _cut_to(message: Message, length: int, token_rule: TokenRule, reader: str) -> Message | None:
    """*message* with each text of its results cut to about *length* code points."""
    handle = f'; {reader}("m{message.seq}") reads them' if reader else ""
    fields = chat.with_result_texts(message, lambda text: _cut_text(text, length, token_rule, handle))
    return None if fields is None else chat.read_substitute(message, fields, CLAMPED)


def _cut_text(text: str, length: int, token_rule: TokenRule, handle: str) -> str:
    """The head of *text* (two thirds of *length*), a line about the cut part, and the tail (one third)."""
    if len(text) <= length:
        return text
    head = near_end(text, length * 2 // 3)
    tail = _line_start(text, len(text) - (length - length * 2 // 3))
    middle = text[head:tail]
    tokens = token_rule.count_text(middle) + tokens_cut(middle)
    note = f"[… {tokens:,} tokens cut{handle} …]"
    cut = f"{text[:head].rstrip()}\n{note}\n{text[tail:]}"
    return cut if len(cut) < len(text) else text


def _line_start(text: str, start: int) -> int:
    """The first beginning of a line in the first quarter of the text after *start*; else *start*."""
    end = start + (len(text) - start) // 4
    found = text.find("\n", start, end)
    return start if found < 0 else found + 1


# Offloads one tool result: its head and tail stay in the view, and the log keeps all of it.


class Offload(base.Compactor):
    """Cuts the results of one message to *tokens*, and changes nothing else. It asks no model.

    Args:
        seq: The message's sequence number.
        tokens: The maximum tokens of the message that stay in view.
        token_rule: The token rule.
    """

    name = "offload"

    def __init__(self, seq: int, tokens: int, token_rule: TokenRule) -> None:
        self._seq, self._tokens, self._token_rule = seq, tokens, token_rule

    @property
    def token_rule(self) -> TokenRule:
        """The given token rule."""
        return self._token_rule

    def should_compact(self, context: base.CompactionContext) -> base.Trigger | None:  # noqa: ARG002
        """None: it is never due by itself, only by a call."""
        return None

    def flow(self, history: Sequence[Message], trigger: base.Trigger) -> Flow[base.Compaction | base.Skip]:
        """Cuts the message. It yields no request."""
        yield from ()
        found = clamp(
            ((at, message) for at, message in enumerate(history) if message.seq == self._seq),
            self._tokens,
            self._token_rule,
            trigger,
        )
        if not found:
            return base.Skip(
                "nothing_to_discard", f"message {self._seq} has no result over {self._tokens} tokens"
            )
        return clamped_alone(history, found)


def rewrite(
    selection: Selection,
    summary: str,
    prefix: str,
    *,
    usage: tuple[UsageRecord, ...] = (),
    degraded: bool = False,
    suspect: bool = False,
    substitutes: Mapping[int, base.Substitute] | None = None,
    level: int | None = None,
) -> base.Compaction:
    """Replaces the discarded messages of *selection* by *summary*. At least one message must be discarded.

    *substitutes* are by position; the view shows those whose originals are retained. If *level* is None, the
    summary has one level more than the highest of the summaries that it replaces.
    """
    covers, summary = covered(selection.discarded), without_control(summary)
    if level is None:
        level = 1 + max(
            (chat.summary_level(message) for message in base.summaries(selection.discarded)), default=0
        )
    message = summary_message(framed(prefix, summary), covers, level)
    chosen: tuple[base.Substitute, ...] = ()
    if substitutes:
        stays = {id(message) for message in selection.retained}
        chosen = tuple(each for _, each in sorted(substitutes.items()) if id(each.original) in stays)
    return base.Compaction(
        messages=with_substitutes(_view(selection, [message]), chosen),
        retained=selection.retained,
        discarded=selection.discarded,
        summary=summary,
        covers=covers,
        level=level,
        usage=usage,
        degraded=degraded,
        suspect=suspect,
        substitutes=chosen,
    )


def summary_message(
    content: str, covers: tuple[base.Range, ...], level: int = 1, role: chat.SummaryRole = "user"
) -> Message:
    """A summary as a message of the history: *content*, and its mark.

    Control tokens of chat templates in it are written as text.
    """
    return chat.read_summary(chat.SummaryMessage(without_control(content), covers, level, role), covers)


def covered(discarded: Sequence[Message]) -> tuple[base.Range, ...]:
    """The sequence numbers of *discarded*, including the numbers that its earlier summaries cover.

    The ranges ascend and are disjoint; adjacent ranges are joined.
    """
    if isinstance(discarded, chat.Excerpt):
        return joined(discarded.numbers)
    ranges: list[base.Range] = []
    for message in discarded:
        if message.provenance == "compaction_summary":
            ranges += message.covers
        elif ranges and ranges[-1][1] == message.seq:  # most messages follow the one before
            ranges[-1] = (ranges[-1][0], message.seq + 1)
        else:
            ranges.append((message.seq, message.seq + 1))
    return joined(ranges)


def joined(ranges: Iterable[base.Range]) -> tuple[base.Range, ...]:
    """*ranges* in ascending order and disjoint; overlapping and adjacent ranges are joined."""
    merged: list[base.Range] = []
    for start, end in sorted(ranges):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return tuple(merged)


# Separates a history into kept and discarded messages, and puts summaries into the gaps.


def kept_apart(read: History, kept: Iterable[int]) -> Selection:
    """A selection of *read* that retains the whole groups of the positions *kept*."""
    return _divided(read, read.outline.closed(sorted(kept)))


def _divided(read: History, spans: Sequence[Span]) -> Selection:
    """A selection that retains the positions of *spans*, which ascend and do not touch."""
    return Selection(chat.Excerpt(read, spans), chat.Excerpt(read, left_out(spans, len(read))))


def left_out(spans: Sequence[Span], count: int) -> list[Span]:
    """The ranges of the positions below *count* that are in none of *spans*, which ascend."""
    starts, ends = [0, *(end for _, end in spans)], [*(start for start, _ in spans), count]
    return [(start, end) for start, end in zip(starts, ends, strict=True) if start < end]


def originals(read: History) -> list[int]:
    """The positions of all messages that are neither rules nor summaries."""
    apart = {*read.rules, *read.summaries}
    return [at for at in range(len(read)) if at not in apart]


def superseded(read: History, trigger: base.Trigger) -> set[int]:
    """The positions of rules that a later version has replaced, without pinned ones."""
    return set(read.rules) - base.rules_in_force(read) - set(read.positions_of(trigger.pins))


def summaries_of(read: History) -> list[Message]:
    """The summaries of a view, in order."""
    return [read[at] for at in read.summaries]


def end_of(read: History) -> int:
    """The number of messages ever appended: one more than the highest sequence number in *read*."""
    ends = (span[1] for span in read.numbers(0, len(read)))
    return max(ends, default=0)


def layered(
    selection: Selection,
    made: Sequence[Message],
    summary: str,
    *,
    state: base.State | None = None,
    asides: tuple[Message, ...] = (),
    usage: tuple[UsageRecord, ...] = (),
    degraded: bool = False,
) -> base.Compaction:
    """A layered rewrite: each summary in *made* takes the place of the first message that it covers."""
    return base.Compaction(
        messages=_view(selection, made),
        retained=selection.retained,
        discarded=selection.discarded,
        summary=without_control(summary),
        covers=covered(selection.discarded),
        level=max((chat.summary_level(message) for message in made), default=0),
        usage=usage,
        degraded=degraded,
        layered=True,
        state=state,
        asides=asides,
    )


def composed(
    history: Sequence[Message], done: Sequence[base.Compaction], state: base.State | None
) -> base.Compaction:
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
    return base.Compaction(
        messages=view,
        retained=retained,
        discarded=discarded,
        summary=last[-1].summary if last else "",
        covers=covered(discarded),
        level=max((chat.summary_level(message) for message in made), default=0),
        usage=tuple(record for each in done for record in each.usage),
        degraded=any(each.degraded for each in done),
        suspect=any(each.suspect for each in done),
        layered=True,
        state=state,
        asides=tuple(message for each in done for message in each.asides),
        substitutes=tuple(
            base.Substitute(origin[id(message)], message) for message in view if id(message) in origin
        ),
    )


def _view(selection: Selection, made: Sequence[Message]) -> chat.Excerpt:
    retained, discarded = selection.retained, selection.discarded
    placed = _placed(zip(discarded.positions, discarded, strict=True), made) if made else ()
    both: dict[int, Span | Message] = {**{span[0]: span for span in retained.spans}, **dict(placed)}
    return chat.Excerpt(retained.history, [both[at] for at in sorted(both)])


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
        if not waiting:
            return
