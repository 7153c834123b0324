"""Compares a host's own message list with the session: which messages are new, and where the past differs.

A host that owns its list passes the whole list each time. A message is recognised by the identity of its
object if that was seen before, else by a digest of its content. The session's **line** is every message that
the current view shows, or that its summaries replace. A list continues the line in one of three forms: the
whole line, with new messages at the end; a view that the session gave, with new messages at the end; or one
of these with messages left out before the last known one. Any other list has rewritten the past.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import islice, takewhile
from typing import Any

from siltstone.memory.log import Derived, LogRow
from siltstone.messages import (
    RawMessage,
    SummaryMessage,
    canonical_digest,
    decode,
    encode,
    identifiers,
    read_mark,
    tombstone,
    without_own_key,
)
from siltstone.messages.message import RULE_ROLES
from siltstone.session.last_list import LastList, Seen
from siltstone.session.range_set import RangeSet, numbers, union

__all__ = ["HostList"]

_SUMMARY_MARK = "[Context compacted]"  # the first words of the summaries of most policies, whoever wrote them
_CACHE_MARK = "cache_control"  # a field of messages, of blocks, and of blocks in a tool result


def digest(text: str) -> bytes:
    """A digest of *text*, 16 bytes."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def message_digest(text: str) -> bytes:
    """A digest of the JSON text of a message, without its cache marks.

    A host that uses a provider's cache moves these marks from turn to turn, and has not changed the message.
    """
    text = without_own_key(text)
    return digest(encode(_without_cache_marks(decode(text))) if f'"{_CACHE_MARK}"' in text else text)


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
    _known: set[bytes] = field(default_factory=set)  # the same as a set
    _injected: set[bytes] = field(default_factory=set)  # messages from hooks: a list may lack them
    _substitutes: dict[bytes, int] = field(default_factory=dict)  # shorter texts, to the message they replace
    _former: dict[bytes, tuple[int, ...]] = field(
        default_factory=dict
    )  # forgotten messages, by salted digest of the former text
    _forgotten: dict[bytes, RangeSet] = field(default_factory=dict)  # forgotten summaries, to their messages
    _salt: bytes = b""
    _reported: frozenset[tuple[bytes, int]] = frozenset()  # forgotten messages that hooks were told of
    _summaries: dict[str, RangeSet] = field(default_factory=dict)  # known summary texts, to their messages
    _asked: set[bytes] = field(default_factory=set)  # digests of texts that were looked up in the log already
    _seen: dict[int, Seen] = field(default_factory=dict)  # by id() of the object, which Seen keeps alive

    def learned(self, rows: Iterable[LogRow]) -> HostList:
        """The value with the next messages of the log."""
        log = self._digests if len(self._digests) == self.length else self._digests[: self.length]
        for row in rows:
            log.append(message_digest(row.raw))
            self._known.add(log[-1])
            if row.provenance == "injected_context":
                self._injected.add(log[-1])
        return replace(self, length=len(log), _digests=log)

    def unknown(self, raws: Sequence[RawMessage]) -> list[str]:
        """The texts in *raws* that may be a summary or a substitute, and were not looked up yet.

        A message of the log is looked up only if it begins like a summary, since a user may quote one.
        """
        texts = dict.fromkeys(self._derived_text(raw) for raw in raws if id(raw) not in self._seen)
        return [text for text in texts if text and digest(text) not in self._asked]

    def looked_up(self, texts: Sequence[str], found: Sequence[Sequence[Derived]]) -> HostList:
        """The value after *texts* were looked up: *found* has the derived rows of each text, newest first.

        Of several rows with equal text, the row that the text's mark names counts, else the newest.
        """
        for text, rows in zip(texts, found, strict=True):
            self._asked.add(digest(text))
            mark = read_mark(text)
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
        for place, raw in enumerate(raws):
            text = _summary_text(raw)
            covers = self._summaries.get(text, self._covers_of_forgotten(raw)) if text else None
            if covers is not None:
                if covers not in found.values() and not self._is_behind(raws[:place], covers):
                    found[place] = covers
            elif isinstance(raw, SummaryMessage):
                found[place] = ()
        return found

    def gone(self, raws: Sequence[RawMessage], summaries: Iterable[int]) -> list[Seen]:
        """The summaries in *raws*, at the places *summaries*, that still have a forgotten text."""
        found = [self._sighted(place, raws[place]) for place in summaries]
        return [each for each in found if self._covers_of_forgotten(each.raw) is not None]

    def _covers_of_forgotten(self, raw: RawMessage) -> RangeSet | None:
        """The messages that *raw* replaces, if it is a summary whose text was forgotten since; else None."""
        if not self._forgotten or read_mark(_summary_text(raw)) is None:
            return None
        return self._forgotten.get(canonical_digest(raw, self._salt))

    def _is_behind(self, before: Sequence[RawMessage], covers: RangeSet) -> bool:
        """Whether *before* has a message of the log that is the first of *covers*, or later."""
        first = covers[0][0] if covers else 0
        earlier = set(self._digests[:first])
        digests = (self._sighted(0, raw).stands_for for raw in before if not _is_rule(raw))
        return any(each in self._known and each not in earlier for each in digests)

    def originals(self, raws: Sequence[RawMessage], summaries: Container[int]) -> list[Seen]:
        """The messages of *raws*, without messages that hooks added and without the places *summaries*."""
        seen = (self._sighted(place, raw) for place, raw in enumerate(raws) if place not in summaries)
        return [each for each in seen if each.digest not in self._injected]

    def said(self, line: RangeSet) -> list[int]:
        """The sequence numbers of *line*, without messages that hooks have added."""
        return [seq for seq in numbers(line) if self._digests[seq] not in self._injected]

    def common(self, host: Sequence[Seen], said: Sequence[int]) -> int:
        """The number of equal messages at the beginning of *host* and *said*."""
        pairs = zip(host, said, strict=False)
        return sum(1 for _ in takewhile(lambda pair: self._stands_at(*pair), pairs))

    def new(self, host: Sequence[Seen], *lines: Sequence[int]) -> int | None:
        """The place in *host* of the first new message; None if *host* continues none of *lines*.

        The first line has the most messages, and only of it may the host leave some out. After a gap in the
        middle at least two known messages must follow: a single one may be a new message with an old text.
        """
        for said in lines:
            if self.common(host, said) == len(said):
                return len(said)
        begins = self.common(host, lines[-1])
        least = 1 if all(_is_rule(each.raw) for each in host[:begins]) else 2
        for end in range(self._in_order(host, lines[0]), begins + least - 1, -1):
            if lines[0] and self._stands_at(host[end - 1], lines[0][-1]):
                return end
        return None

    def shared(self, host: Sequence[Seen], said: Sequence[int]) -> tuple[int, int]:
        """The length of the beginning of *host* that *said* has in a row, and its end in *said*.

        A list that was shortened at its front begins later in *said*. Two messages in a row prove that.
        """
        begins = self.common(host, said)
        if begins == len(host) or not all(_is_rule(each.raw) for each in host[:begins]):
            return begins, begins
        best = begins, begins
        wanted = [each.stands_for for each in host[begins:]]
        later = [self._digests[seq] for seq in said[begins + 1 :]]
        for start, run in enumerate(_runs(wanted, later), begins + 1):
            if run > 1 and run >= best[0] - begins:
                best = begins + run, start + run
        return best

    def kept(self, host: Sequence[Seen], told: Iterable[Seen] = (), last: LastList | None = None) -> HostList:
        """The value with *host* as the last list. Messages that the host has dropped are not kept.

        *told* are forgotten messages in *host* of which hooks are told now.
        """
        known = self._reported | set(_counted(told))
        return replace(self, _seen={id(each.raw): each for each in host}, _reported=known, last=last)

    def continued(self, last: LastList) -> HostList:
        """The value with *last*, which continues the last list."""
        return replace(self, _seen={}, last=last)

    def recognised(self) -> HostList:
        """The value that recognises the objects of the last list."""
        return self if self._seen or self.last is None else replace(self, _seen=self.last.by_id())

    def listed(
        self, raws: Sequence[RawMessage], fresh: int, seen: list[Seen], head: int | None, end: int
    ) -> LastList:
        """*raws* as the last list. Messages from the place *fresh* on were logged just now."""
        if self.last is None and any(id(raw) in self._seen for raw in raws[:fresh]):
            return LastList(list(raws), None, seen, head, end)  # their text at the time of logging is unknown
        return LastList.of(raws, fresh, self.last, seen, head, end)

    def is_plain(self, raw: RawMessage) -> bool:
        """Whether *raw* is no summary. Call :meth:`unknown` with it before."""
        if isinstance(raw, SummaryMessage) or self._covers_of_forgotten(raw) is not None:
            return False
        return _summary_text(raw) not in self._summaries

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
                same = (place for place in range(at, len(said)) if self._stands_at(each, said[place]))
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

    def _stands_at(self, each: Seen, seq: int) -> bool:
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
        own = message_digest(encode(logged))
        was = self._former.get(canonical_digest(logged, self._salt), ()) if self._former else ()
        seq = self._substitutes.get(own)
        if seq is None and was and own not in self._known:
            seq = was[0]
        stands_for = own if seq is None else self._digests[seq]
        is_tied = bool(was) and any(identifiers(tombstone(decode(encode(raw)))))
        return Seen(place, raw, own, stands_for, was, is_tied)

    def _derived_text(self, raw: RawMessage) -> str:
        """The text by which to look for *raw* among the derived texts of the log; empty if it can be none."""
        logged = raw if self.clean is None else self.clean(raw)
        summary, text = _summary_text(raw), encode(logged)
        if summary.startswith(_SUMMARY_MARK):
            return summary
        return "" if message_digest(text) in self._known else summary or text

    def _in_order(self, host: Sequence[Seen], said: Sequence[int]) -> int:
        """The number of messages at the beginning of *host* that are in *said*, in the order of *said*."""
        rest = iter(said)
        return sum(1 for _ in takewhile(lambda each: any(self._stands_at(each, seq) for seq in rest), host))


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
    fields = raw if isinstance(raw, Mapping) else {}
    content = fields.get("content")
    return content if fields.get("role") == "user" and isinstance(content, str) else ""


def _is_rule(raw: RawMessage) -> bool:
    return isinstance(raw, Mapping) and raw.get("role") in RULE_ROLES


def _without_cache_marks(block: dict[str, Any]) -> dict[str, Any]:
    """The same message or block without its cache marks."""
    kept = {key: value for key, value in block.items() if key != _CACHE_MARK}
    if isinstance(blocks := kept.get("content"), list):
        kept["content"] = [_without_cache_marks(each) if isinstance(each, dict) else each for each in blocks]
    return kept
