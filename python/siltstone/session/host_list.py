"""Compares a host's own message list with the session: which messages are new, and where the past differs.

A host that owns its list passes its list each time. A message is recognised by the identity of its object if
that was seen before, else by a digest of its content. The session's **line** is every message that the
current view shows, or that its summaries replace. A **run** is a life of the host: a process that begins
with an empty list begins a run, and the line goes on.

System messages are not compared, and neither is what a host places before its first request, such as a
greeting. A list continues the line in one of these forms, each with new messages at its end: the whole line,
or the whole run; a view that the session gave; the end of one of these, if the beginning was left out; or one
of these with messages left out in the middle. Any other list begins a run, or has rewritten the past.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import islice, pairwise, takewhile
from typing import Any, NamedTuple

from siltstone import messages as chat
from siltstone.memory.log import Derived, LogRow
from siltstone.messages import RawMessage
from siltstone.messages.message import RULE_ROLES
from siltstone.session.state import RangeSet, numbers, union, within

_SUMMARY_MARK = "[Context compacted]"  # the first words of the summaries of most policies, whoever wrote them
_CACHE_MARK = "cache_control"  # a field of messages, of blocks, and of blocks in a tool result


def digest(text: str) -> bytes:
    """A digest of *text*, 16 bytes."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def message_digest(text: str) -> bytes:
    """A digest of the JSON text of a message, without its cache marks.

    A host that uses a provider's cache moves these marks from turn to turn, and has not changed the message.
    """
    return digest(unmarked_text(chat.without_own_key(text)))


def unmarked_text(text: str) -> str:
    """The JSON *text* of a message without cache marks."""
    return chat.encode(without_cache_marks(chat.decode(text))) if f'"{_CACHE_MARK}"' in text else text


class Seen(NamedTuple):
    """A message of a host's list.

    Attributes:
        place: Its place in the list.
        raw: The host's own object.
        digest: Its digest when it was first seen.
        stands_for: The digest of its message in the log. This differs from *digest* for a substitute, or for
            a text that was forgotten.
        is_request: Whether it is a user's request; the results of tools in role ``user`` are none.
        was: Numbers of the log's messages that had this text before it was forgotten.
        is_tied: Whether a forgotten message has ties, as a call has with its result. It then leaves a
            tombstone.
    """

    place: int
    raw: RawMessage
    digest: bytes
    stands_for: bytes
    is_request: bool = False
    was: tuple[int, ...] = ()
    is_tied: bool = False


@dataclass(frozen=True, slots=True)
class LastList:
    """A host's list that is wholly in the log, and the state of the session at that time.

    Attributes:
        raws: The host's own objects. They are kept alive, so that no new object gets the same ``id()``.
        digests: The digests of the logged texts, in order, joined to one ``bytes``; None if a message cannot
            be written as JSON, such as a mapping type of the host's own.
        seen: The messages of the list that are in the log, in order.
        head: The id of the compaction that made the session's view; None before the first.
        end: One past the last message of the log.
    """

    raws: list[RawMessage]
    digests: bytes | None
    seen: list[Seen]
    head: int | None
    end: int

    @classmethod
    def of(
        cls,
        raws: Sequence[RawMessage],
        fresh: int,
        before: LastList | None,
        seen: list[Seen],
        head: int | None,
        end: int,
    ) -> LastList:
        """The list *raws*. *seen* are its messages in the log; those from place *fresh* on were just logged.

        *before* is the list before, if there is one. Objects known from there keep the digests of their
        logged texts, even if the objects were changed since.
        """
        held = list(raws)
        return cls(held, _digests_of(held, fresh, before), seen, head, end)

    def begins(self, raws: list[RawMessage], head: int | None, end: int) -> bool:
        """Whether *raws* is this list with more messages at its end, and the session has not changed since.

        System messages before the first other message may have changed. The same object counts as the same
        message, even if it was changed in place. Another object is compared by its text.
        """
        if (self.head, self.end) != (head, end) or len(raws) < len(self.raws):
            return False
        first = raws[0] if raws else None
        if self.raws and first is not self.raws[0] and any(first is raw for raw in self.raws):
            return False  # its beginning was left out, even if the texts are equal
        rules = leading(self.raws)
        if rules == len(self.raws) or leading(raws) != rules:
            return False
        digests = None if self.digests is None else self.digests[rules * chat.DIGEST :]
        return chat.begins_alike(raws[rules:], self.raws[rules:], digests)

    def grown(self, raws: list[RawMessage], more: Sequence[Seen], end: int) -> LastList:
        """The list *raws*: this list, and the messages *more* after it, which were just appended."""
        added = chat.text_digests(raws[len(self.raws) :])
        digests = None if self.digests is None or added is None else self.digests + added
        return replace(self, raws=raws.copy(), digests=digests, seen=[*self.seen, *more], end=end)

    def with_its_objects(self) -> list[Seen]:
        """The messages of the list, each with the host's own object."""
        raws: list[Any] = self.raws
        return [each._replace(raw=raws[each.place]) for each in self.seen]


@dataclass(frozen=True, slots=True)
class HostList:
    """Digests of a session's log and of its host's list. A change gives a new value.

    Values that grew out of one another share their lists, sets and dicts, which only grow. What one value
    learns of a text is right for the others. ``length`` tells how many digests of the log a value has.

    Attributes:
        length: The number of known messages of the log.
        is_outdated: Whether the log must be read first: it was never read, or a message was forgotten since.
        last: The last list, if all of it is in the log.
        clean: The function that redacts a message, if the session redacts. The host's messages are compared
            in their redacted form, as the log has them.
    """

    length: int = 0
    is_outdated: bool = True
    clean: Callable[[RawMessage], RawMessage] | None = None
    last: LastList | None = None
    _digests: list[bytes] = field(default_factory=list)  # of the messages of the log, in order
    _roles: list[str] = field(default_factory=list)  # of the messages: "rule", "request" or ""
    _known: set[bytes] = field(default_factory=set)  # the digests as a set
    _injected: set[bytes] = field(default_factory=set)  # messages from hooks: a list may lack them
    _substitutes: dict[bytes, int] = field(default_factory=dict)  # shorter texts, to the message they replace
    # Forgotten messages, by salted digest of the former text.
    _former: dict[bytes, tuple[int, ...]] = field(default_factory=dict)
    _forgotten: dict[bytes, RangeSet] = field(default_factory=dict)  # forgotten summaries, to their messages
    _salt: bytes = b""
    _reported: frozenset[tuple[bytes, int]] = frozenset()  # forgotten messages that hooks were told of
    _summaries: dict[str, RangeSet] = field(default_factory=dict)  # known summary texts, to their messages
    shown_of: int | None = None  # the compaction up to which ``_shown`` has the views
    _shown: Sequence[Sequence[tuple[str, RangeSet]]] = ()  # their summaries without marks, newest view first
    _bare: Mapping[str, RangeSet] = field(
        default_factory=dict
    )  # each such text, to the newest one's messages
    _asked: set[bytes] = field(default_factory=set)  # digests of texts that were looked up in the log already
    _before: Sequence[Seen] = ()  # the list before, in which an object may stand more than once
    _seen: dict[int, Seen] = field(default_factory=dict)  # by id() of the object, which Seen keeps alive
    _texts: dict[int, str] = field(default_factory=dict)  # the JSON of the list at hand, by id()

    def learned(self, rows: Iterable[LogRow]) -> HostList:
        """The value with the next messages of the log."""
        is_newest = len(self._digests) == self.length
        log, roles = self._digests, self._roles
        if not is_newest:
            log, roles = log[: self.length], roles[: self.length]
        for row in rows:
            log.append(message_digest(row.raw))
            roles.append(_kind(row.role, row.raw))
            self._known.add(log[-1])
            if row.provenance == "injected_context":
                self._injected.add(log[-1])
        return replace(self, length=len(log), _digests=log, _roles=roles)

    def unknown(self, raws: Sequence[RawMessage]) -> list[str]:
        """The texts in *raws* that may be a summary or a substitute, and were not looked up yet.

        A message of the log is looked up only if it begins like a summary, since a user may quote one.
        """
        self._texts.clear()
        new = (raw for raw in raws if id(raw) not in self._seen)
        texts = dict.fromkeys(text for raw in new for text in self._derived_texts(raw))
        return [text for text in texts if text and digest(text) not in self._asked]

    def looked_up(self, texts: Sequence[str], found: Sequence[Sequence[Derived]]) -> HostList:
        """The value after *texts* were looked up: *found* has the derived rows of each text, newest first.

        Of several rows with equal text, the row that the text's mark names counts, else the newest.
        """
        for text, rows in zip(texts, found, strict=True):
            mark = chat.read_mark(text)
            if mark is not None or not rows or rows[0].kind != "summary":
                self._asked.add(digest(text))  # without a mark the next summary may have the same text
            wanted = None if mark is None else union(mark.covers)
            same = [row for row in rows if wanted is None or union(row.covers) == wanted]
            if not same:
                continue
            newest = same[0]
            if newest.kind == "summary":
                self._summaries[text] = union(newest.covers)
            elif newest.seq is not None:
                self._substitutes[message_digest(text)] = newest.seq
        return self

    def showing(self, head: int | None, views: Sequence[Sequence[Derived]]) -> HostList:
        """The value that knows the derived texts of the *views*, newest first; *head* made the first."""
        shown = [
            [(chat.unmarked(row.raw), union(row.covers)) for row in rows if row.kind == "summary"]
            for rows in views
        ]
        bare = {text: covers for view in reversed(shown) for text, covers in view}
        return replace(self, shown_of=head, _shown=shown, _bare=bare)

    def outdated(self) -> HostList:
        """The value after messages of the log were forgotten: the log is read again before the next use."""
        return replace(self, is_outdated=True)

    def relearned(
        self,
        rows: Iterable[LogRow],
        messages: Iterable[tuple[int, bytes]],
        summaries: Iterable[tuple[RangeSet, bytes]],
        salt: bytes,
    ) -> HostList:
        """The list after the whole log was read again.

        Args:
            rows: All messages of the log.
            messages: Forgotten messages in the order of the log: number, and digest of the former text.
            summaries: Forgotten summaries: the messages that each replaced, and digest of the former text.
            salt: The salt of these digests.
        """
        former = dict[bytes, tuple[int, ...]]()
        for seq, each in messages:
            former[each] = (*former.get(each, ()), seq)
        gone = {each: covers for covers, each in summaries}
        anew = HostList(
            is_outdated=False,
            clean=self.clean,
            _former=former,
            _forgotten=gone,
            _salt=salt,
            _reported=self._reported,
        )
        return anew.learned(rows)

    def summaries(self, raws: Sequence[RawMessage]) -> dict[int, RangeSet]:
        """The places in *raws* of summaries from this session, and the messages that each replaces.

        A real summary comes before all messages later than the first one it replaces. A summary after such a
        message is a quotation, and so is the second of two equal ones. A ``SummaryMessage`` from another
        session replaces no messages here.
        """
        found: dict[int, RangeSet] = {}
        shown = self._as_shown(raws)
        for place, raw in enumerate(raws):
            text = _summary_text(raw)
            covers = shown.get(place, self._covers_of(text))
            if covers is None and text:
                covers = self._covers_of_forgotten(raw)
            if covers is not None:
                if covers not in found.values() and not self._is_behind(raws[:place], covers):
                    found[place] = covers
            elif isinstance(raw, chat.SummaryMessage):
                found[place] = ()
        return found

    def _as_shown(self, raws: Sequence[RawMessage]) -> dict[int, RangeSet]:
        """The places in *raws* of summaries without a mark, if a view had the same summaries in this order.

        Several views may have had the same texts. The view counts whose summaries replace the fewest messages
        that are in *raws*; of equal ones the newest.
        """
        texts = {place: _summary_text(raw) for place, raw in enumerate(raws)}
        texts = {place: text for place, text in texts.items() if self._covers_of(text) is not None}
        bare = [place for place, text in texts.items() if chat.read_mark(text) is None]
        wanted = [chat.unmarked(text) for text in texts.values()]
        alike = [view for view in self._shown if [text for text, _ in view] == wanted] if bare else []
        if not alike:
            return {}
        others = [self._sighted(at, raw).stands_for for at, raw in enumerate(raws) if at not in texts]

        def replaced(view: Sequence[tuple[str, RangeSet]]) -> int:
            digests = {self._digests[seq] for _, covers in view for seq in numbers(covers)}
            return sum(each in digests for each in others)

        covers = [covers for _, covers in min(alike, key=replaced)]
        return {place: each for place, each in zip(texts, covers, strict=True) if place in bare}

    def gone(self, raws: Sequence[RawMessage], summaries: Iterable[int]) -> list[Seen]:
        """The summaries in *raws*, at the places *summaries*, that still have a forgotten text."""
        found = [self._sighted(place, raws[place]) for place in summaries]
        return [each for each in found if self._covers_of_forgotten(each.raw) is not None]

    def _covers_of(self, text: str) -> RangeSet | None:
        """The messages that a known summary with *text* replaces, with or without its mark; else None."""
        return self._bare.get(text, self._summaries.get(text))

    def _covers_of_forgotten(self, raw: RawMessage) -> RangeSet | None:
        """The messages that *raw* replaces, if it is a summary whose text was forgotten since; else None."""
        if not self._forgotten or chat.read_mark(_summary_text(raw)) is None:
            return None
        return self._forgotten.get(chat.canonical_digest(raw, self._salt))

    def _is_behind(self, before: Sequence[RawMessage], covers: RangeSet) -> bool:
        """Whether *before* has a message of the log that is the first of *covers*, or later."""
        first = covers[0][0] if covers else 0
        earlier = set(self._digests[:first])
        digests = (self._sighted(0, raw).stands_for for raw in before if not is_rule(raw))
        return any(each in self._known and each not in earlier for each in digests)

    def originals(self, raws: Sequence[RawMessage], left_out: Container[int]) -> list[Seen]:
        """The messages of *raws* that are compared: without system messages, and what hooks added.

        The places *left_out*, of summaries for example, are left out too.
        """
        seen = [
            self._sighted(place, raw)
            for place, raw in enumerate(raws)
            if place not in left_out and not is_rule(raw)
        ]
        self._texts.clear()  # a later object may have the same id()
        return [each for each in seen if each.digest not in self._injected]

    def said(self, line: RangeSet, start: int = 0) -> list[int]:
        """The messages of *line* from *start* on that are compared: no system messages, none from hooks."""
        return [
            seq
            for seq in numbers(within(line, start, self.length))
            if self._roles[seq] != "rule" and self._digests[seq] not in self._injected
        ]

    def is_injected(self, raw: RawMessage) -> bool:
        """Whether a hook added *raw*."""
        return bool(self._injected) and self._sighted(0, raw).digest in self._injected

    def place_of(self, raw: RawMessage, seqs: Iterable[int]) -> int | None:
        """The first message of the log among *seqs* with the text of *raw*; None if there is none."""
        digest = self._sighted(0, raw).stands_for
        return next((seq for seq in seqs if self._digests[seq] == digest), None)

    def is_alike(self, each: Seen, seq: int) -> bool:
        """Whether *each* has the text of message *seq* of the log, not a substitute or a forgotten text."""
        return each.digest == each.stands_for == self._digests[seq] and not each.was

    def followed(
        self, host: Sequence[Seen], said: Sequence[int], in_view: Sequence[int], run: int
    ) -> list[int] | None:
        """The messages of the log that *host* begins with; None if *host* continues nothing.

        All later messages of *host* are new. Of several answers the longest list counts first: all of *said*
        (the line), all of *in_view* (what the view shows of it), all of the run that begins at message *run*.
        Then come the end of the line, and at last lists with gaps in the middle.
        """
        of_run = said[bisect_left(said, run) :]
        for known in (said, in_view, of_run):
            if self.common(host, known) == len(known):
                return list(known)
        if (greeted := self._with_another_greeting(host, of_run)) is not None:
            return greeted
        if shared := self._end_as_before(host, said):
            return list(said[-shared:])
        begins = self.common(host, of_run)
        if begins == len(host):
            return None  # it was set back
        shared = self._end_of(host, said)
        if shared and not self._begins_as_before(host, begins, shared, len(of_run)):
            return list(said[-shared:])
        if not begins:
            return None
        shared = self._end_of(host[begins:], of_run[begins:])
        if shared > 1:
            return [*of_run[:begins], *of_run[-shared:]]
        return self._with_gaps(host, of_run, begins)

    def _with_another_greeting(self, host: Sequence[Seen], said: Sequence[int]) -> list[int] | None:
        """:meth:`followed`, if only what is before the first request differs from *said*.

        What the host still has of it keeps its message; the rest is the newest form of messages between.
        """
        first = next((place for place, each in enumerate(host) if each.is_request), None)
        known = next((place for place, seq in enumerate(said) if self._roles[seq] == "request"), None)
        if first is None or not known or self.common(host[first:], said[known:]) < len(said) - known:
            return None
        found, at = list[int](), 0
        for number, each in enumerate(host[:first]):
            same = next((place for place in range(at, known) if self.stands_at(each, said[place])), at)
            if same >= known - (first - number - 1):
                return None  # more is before the request than was
            found.append(said[same])
            at = same + 1
        return [*found, *said[known:]]

    def _begins_as_before(self, host: Sequence[Seen], begins: int, ends: int, length: int) -> bool:
        """Whether *host* is a whole list that was edited, and no list whose beginning was left out.

        Its first *begins* messages are the first of the run, which has *length* messages, and its first
        *ends* messages are the last of the line, since texts are repeated. The list before decides.
        """
        if not self._before:
            return begins >= ends
        before = [each.digest for each in self._before]
        if len(before) > ends and [each.digest for each in host[: len(before)]] == before:
            return True  # the line has changed since the list before, by an undo
        return host[0].raw is self._before[0].raw or (begins > 0 and len(before) >= length)

    def _end_as_before(self, host: Sequence[Seen], said: Sequence[int]) -> int:
        """:meth:`_end_of`, if *host* begins with the list before, or has its last object: the rest is new."""
        before = self._before
        if not before:
            return 0
        if [each.digest for each in host[: len(before)]] == [each.digest for each in before]:
            end = len(before)
        else:
            end = next((place for place, each in enumerate(host, 1) if each.raw is before[-1].raw), 0)
        alike = all(map(self.stands_at, host[:end], said[len(said) - end :])) if end <= len(said) else False
        return end if alike else 0

    def _end_of(self, host: Sequence[Seen], said: Sequence[int]) -> int:
        """The number of messages at the beginning of *host* that *said* ends with, the most; 0 for none."""
        wanted = [each.stands_for for each in host]
        end = [self._digests[seq] for seq in said[max(0, len(said) - len(wanted)) :]]
        for start, run in enumerate(_runs(wanted, end)):
            pairs = zip(host[:run], said[len(said) - run :], strict=True)  # tombstones may be equal
            if run == len(end) - start and all(not each.was or seq in each.was for each, seq in pairs):
                return run
        return 0

    def _with_gaps(self, host: Sequence[Seen], said: Sequence[int], begins: int) -> list[int] | None:
        """The messages of *said* that *host* has in their order, up to the last one of *said*.

        After the gap at least two known messages must follow: a single one may be a new message with an old
        text.
        """
        found, rest = list[int](), iter(said)
        for each in host:
            seq = next((seq for seq in rest if self.stands_at(each, seq)), None)
            if seq is None:
                break
            found.append(seq)
        for end in range(len(found), begins + 1, -1):
            if self.stands_at(host[end - 1], said[-1]):
                return found[:end]
        return None

    def common(self, host: Sequence[Seen], said: Sequence[int]) -> int:
        """The number of equal messages at the beginning of *host* and *said*."""
        pairs = zip(host, said, strict=False)
        return sum(1 for _ in takewhile(lambda pair: self.stands_at(*pair), pairs))

    def is_unrelated(self, host: Sequence[Seen], said: Sequence[int]) -> bool:
        """Whether *host* looks like the first list of a new run.

        It shares no request with *said*, or it has one request where *said* has more.
        """
        asked = {each.stands_for for each in host if each.is_request}
        requests = [self._digests[seq] for seq in said if self._roles[seq] == "request"]
        count = sum(each.is_request for each in host)
        return asked.isdisjoint(requests) or (count == 1 and len(requests) > 1)

    def goes_on_before(self, host: Sequence[Seen], said: Sequence[int]) -> bool:
        """Whether *said* has the first two messages of *host* in a row."""
        wanted = [each.stands_for for each in host]
        return max(_runs(wanted, [self._digests[seq] for seq in said]), default=0) > 1

    def neighbours(self, host: Sequence[Seen], said: Sequence[int]) -> set[tuple[bytes, bytes]]:
        """The pairs of messages that stand next to each other both in *host* and in *said*."""
        return set(pairwise(each.stands_for for each in host)) & set(
            pairwise(self._digests[seq] for seq in said)
        )

    def shared(self, host: Sequence[Seen], said: Sequence[int]) -> tuple[int, int]:
        """The length of the beginning of *host* that *said* has in a row, and its end in *said*.

        A list that was shortened at its front begins later in *said*. Two messages in a row prove that.
        """
        begins = self.common(host, said)
        if begins:
            return begins, begins
        best = 0, 0
        wanted = [each.stands_for for each in host]
        later = [self._digests[seq] for seq in said[1:]]
        for start, run in enumerate(_runs(wanted, later), 1):
            if run > 1 and run >= best[0]:
                best = run, start + run
        return best

    def kept(self, host: Sequence[Seen], told: Iterable[Seen] = (), last: LastList | None = None) -> HostList:
        """The value with *host* as the last list. Messages that the host has dropped are not kept.

        *told* are forgotten messages in *host* of which hooks are told now.
        """
        known = self._reported | set(_counted(told))
        by_id = {id(each.raw): each for each in host}
        return replace(self, _before=host, _seen=by_id, _reported=known, last=last)

    def continued(self, last: LastList) -> HostList:
        """The value with *last*, which continues the last list."""
        return replace(self, _before=(), _seen={}, last=last)

    def recognised(self) -> HostList:
        """The value that recognises the objects of the last list."""
        if self._seen or self.last is None:
            return self
        before = self.last.with_its_objects()
        return replace(self, _before=before, _seen={id(each.raw): each for each in before})

    def listed(
        self, raws: Sequence[RawMessage], fresh: int, seen: list[Seen], head: int | None, end: int
    ) -> LastList:
        """*raws* as the last list. Messages from the place *fresh* on were logged just now."""
        if self.last is None and any(id(raw) in self._seen for raw in raws[:fresh]):
            return LastList(list(raws), None, seen, head, end)  # their text at the time of logging is unknown
        return LastList.of(raws, fresh, self.last, seen, head, end)

    def is_plain(self, raw: RawMessage) -> bool:
        """Whether *raw* is no summary. Call :meth:`unknown` with it before."""
        if isinstance(raw, chat.SummaryMessage) or self._covers_of_forgotten(raw) is not None:
            return False
        return self._covers_of(_summary_text(raw)) is None

    def returned(self, host: Iterable[Seen]) -> list[Seen]:
        """The messages of *host* with a forgotten text, which is in no message of the log any more."""
        return [each for each in host if each.was and each.digest not in self._known]

    def placed(self, host: Sequence[Seen], said: Sequence[int]) -> list[Seen]:
        """*host* without messages with a forgotten text that have no place in *said*.

        Messages with ties stay, such as a call that has a result.
        """
        returned = {each.place for each in self.returned(host) if not each.is_tied}
        if not returned:
            return list(host)
        found, at = list[Seen](), 0  # the next message of host can only be in said[at:]
        for number, each in enumerate(host):
            if each.place in returned:
                places = [place for seq in each.was if (place := _index(said, seq, at)) is not None]
            else:
                same = (place for place in range(at, len(said)) if self.stands_at(each, said[place]))
                places = list(islice(same, 1))
                if not places:  # from here on it is new
                    return found + list(host[number:])
            if places:
                found.append(each)
                at = min(places) + 1
        return found

    def untold(self, returned: Sequence[Seen]) -> list[Seen]:
        """The messages of *returned* of which hooks were not told yet. Repeated texts count one by one."""
        counted = _counted(returned)
        return [each for each, key in zip(returned, counted, strict=True) if key not in self._reported]

    def stands_at(self, each: Seen, seq: int) -> bool:
        """Whether *each* is message *seq* of the log, in its current text or in its forgotten one."""
        return each.stands_for == self._digests[seq] or seq in each.was

    def _sighted(self, place: int, raw: RawMessage) -> Seen:
        known = self._seen.get(id(raw))
        if known is not None:  # the same object is the same message, even if it was changed in place
            return known._replace(place=place)
        return self._looked_at(place, raw)

    def logged(self, seen: Iterable[Seen]) -> list[Seen]:
        """*seen* with digests of their current texts, under which they were just logged.

        An object that was changed in place had another text before.
        """
        return [
            self._looked_at(each.place, each.raw) if id(each.raw) in self._seen else each for each in seen
        ]

    def _looked_at(self, place: int, raw: RawMessage) -> Seen:
        logged = raw if self.clean is None else self.clean(raw)
        text = self._texts.pop(id(raw), None) or chat.encode(logged)
        own = message_digest(text)
        was = self._former.get(chat.canonical_digest(logged, self._salt), ()) if self._former else ()
        seq = self._substitutes.get(own)
        if seq is None and was and own not in self._known:
            seq = was[0]
        stands_for = own if seq is None else self._digests[seq]
        is_tied = bool(was) and any(chat.identifiers(chat.tombstone(chat.decode(chat.encode(raw)))))
        is_request = _kind(_role(raw), text) == "request"
        return Seen(place, raw, own, stands_for, is_request, was, is_tied)

    def _derived_texts(self, raw: RawMessage) -> Sequence[str]:
        """The texts by which to look for *raw* among the derived texts of the log; none if it can be none."""
        logged = raw if self.clean is None else self.clean(raw)
        text = self._texts[id(raw)] = chat.encode(logged)
        summary, text = _summary_text(raw), unmarked_text(text)
        if summary.startswith(_SUMMARY_MARK):
            return (summary,)
        return () if message_digest(text) in self._known else (summary, text)


def _index(said: Sequence[int], seq: int, start: int) -> int | None:
    """The place of *seq* in the sorted *said*, from *start* on; None if it is not there."""
    place = bisect_left(said, seq, start)
    return place if place < len(said) and said[place] == seq else None


def _counted(seen: Iterable[Seen]) -> list[tuple[bytes, int]]:
    """The digest of each message, and the number of equal digests before it."""
    times = Counter[bytes]()
    keys = list[tuple[bytes, int]]()
    for each in seen:
        keys.append((each.digest, times[each.digest]))
        times[each.digest] += 1
    return keys


def _runs(wanted: Sequence[bytes], text: Sequence[bytes]) -> list[int]:
    """For each place of *text*: the length of the longest beginning of *wanted* that is found there.

    The Z algorithm (Gusfield 1997, 1.4), in linear time in both lengths.
    """
    joined: list[bytes | None] = [*wanted, None, *text]
    runs = [0] * len(joined)
    start = end = 0
    for place in range(1, len(joined)):
        run = min(end - place, runs[place - start]) if place < end else 0
        while place + run < len(joined) and joined[run] == joined[place + run]:
            run += 1
        runs[place] = run
        if place + run > end:
            start, end = place, place + run
    return runs[len(wanted) + 1 :]


def _summary_text(raw: RawMessage) -> str:
    """The text of a message that may be a summary of siltstone; empty for any other."""
    if type(raw) is not dict and not isinstance(raw, Mapping):  # a dict is told at once
        return ""
    content, role = raw.get("content"), raw.get("role")
    return content if isinstance(content, str) and role in chat.SUMMARY_ROLES else ""


def is_rule(raw: RawMessage) -> bool:
    """Whether *raw* is a system message."""
    return _role(raw) in RULE_ROLES


def leading(raws: Sequence[RawMessage]) -> int:
    """The number of system messages at the beginning of *raws*."""
    return sum(1 for _ in takewhile(is_rule, raws))


def _role(raw: RawMessage) -> Any:
    if type(raw) is dict or isinstance(raw, Mapping):  # a dict is told at once
        return raw.get("role")
    return getattr(raw, "role", None)


def _kind(role: Any, text: str) -> str:
    """Whether a message with *role* and the JSON *text* is a ``rule``, a ``request``, or neither."""
    if role in RULE_ROLES:
        return "rule"
    return "request" if role == "user" and '"tool_result"' not in text else ""


def has_cache_marks(block: Mapping[str, Any]) -> bool:
    """Whether a message or block, or a block in it, has a mark of a provider's cache."""
    if _CACHE_MARK in block:
        return True
    blocks = block.get("content")
    return isinstance(blocks, list) and any(
        has_cache_marks(each) for each in blocks if isinstance(each, dict)
    )


def without_cache_marks(block: Mapping[str, Any]) -> dict[str, Any]:
    """The same message or block without its cache marks."""
    kept = {key: value for key, value in block.items() if key != _CACHE_MARK}
    if isinstance(blocks := kept.get("content"), list):
        kept["content"] = [without_cache_marks(each) if isinstance(each, dict) else each for each in blocks]
    return kept


def _digests_of(raws: list[RawMessage], fresh: int, before: LastList | None) -> bytes | None:
    """The digests of *raws* at the time of logging; None if they are not known."""
    now = chat.text_digests(raws)
    if now is None or before is None:
        return now
    if before.digests is None:
        return None
    first = dict(zip(map(id, before.raws), _cut(before.digests), strict=True))
    logged = [first.get(id(raw), each) for raw, each in zip(raws[:fresh], _cut(now), strict=False)]
    return b"".join(logged) + now[fresh * chat.DIGEST :]


def _cut(digests: bytes) -> list[bytes]:
    return [digests[at : at + chat.DIGEST] for at in range(0, len(digests), chat.DIGEST)]
