"""Where does a host's own list go on from what the session has, or where does it leave it?

A host that owns its list hands in all of it. Its messages are told apart by identity, as far as the same
objects were seen before, else by their content. The session's **line** is what was said on the way to its
current view: every message that the view has, or that its summaries stand for. A list goes on from the line
in one of three shapes: the whole of it with more at the end; a view that the session gave, with more at the
end; either with messages left out before its last one. Any other list has rewritten the past.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import takewhile
from typing import Any, NamedTuple

from siltstone.memory.log import Derived, LogRow
from siltstone.messages import RawMessage, SummaryMessage, decode, encode, without_own_key
from siltstone.session.range_set import RangeSet, numbers, union

__all__ = ["HostList", "Seen"]

_RULES = frozenset({"system", "developer"})
_FRAME = "[Context compacted]"  # how the summaries of most policies begin
_MARK = "cache_control"  # of a message, of a block, and of a block in a tool's result


class Seen(NamedTuple):
    """A message of a host's list.

    Attributes:
        place: Its place in the list.
        raw: The host's own object.
        digest: Its digest when it was first seen.
        stands_for: The digest of the message of the log that it stands for; most stand for themselves.
    """

    place: int
    raw: RawMessage
    digest: bytes
    stands_for: bytes


def digest(text: str) -> bytes:
    """What tells one text from another."""
    return blake2b(text.encode(), digest_size=16).digest()


def message_digest(text: str) -> bytes:
    """What tells the JSON text of one message from that of another, wherever a provider's cache is marked.

    A host that caches moves its marks from turn to turn, and has rewritten nothing.
    """
    text = without_own_key(text)
    return digest(encode(_unmarked(decode(text))) if f'"{_MARK}"' in text else text)


@dataclass(frozen=True, slots=True)
class HostList:
    """What a session knows of its log and of its host's list, by digest. A value: learning gives another.

    The lists and dicts inside are shared by the values that grew out of one another, and only grow; each
    value knows how much of them is its own.

    Attributes:
        length: How many messages of the log are known.
        is_outdated: Something of the log was forgotten since it was read.
    """

    length: int = 0
    is_outdated: bool = False
    _log: list[bytes] = field(default_factory=list)
    _known: set[bytes] = field(default_factory=set)  # the digests in _log
    _injected: set[bytes] = field(default_factory=set)  # what hooks have added: a list may have it, or not
    _substitutes: dict[bytes, int] = field(default_factory=dict)  # what was handed out for a message
    _former: dict[bytes, int] = field(default_factory=dict)  # what a message was before it was forgotten
    _summaries: dict[str, RangeSet] = field(default_factory=dict)  # by their texts, those that were asked for
    _asked: set[bytes] = field(default_factory=set)  # digests of messages that are known to stand for none
    _seen: dict[int, Seen] = field(default_factory=dict)  # by the object's id; the object is held with it

    def learned(self, rows: Iterable[LogRow]) -> HostList:
        """With the next messages of the log."""
        log = self._log if len(self._log) == self.length else self._log[: self.length]
        for row in rows:
            log.append(message_digest(row.raw))
            self._known.add(log[-1])
            if row.provenance == "injected_context":
                self._injected.add(log[-1])
        return replace(self, length=len(log), _log=log)

    def unknown(self, raws: Sequence[RawMessage]) -> list[str]:
        """The texts of those of *raws* that may be a summary or a substitute, and were not asked for yet.

        A message that the log has is looked up only where it begins like a summary: a user may quote one.
        """
        texts = dict.fromkeys(self._derived_text(raw) for raw in raws if id(raw) not in self._seen)
        return [text for text in texts if text and digest(text) not in self._asked]

    def told(self, texts: Sequence[str], found: Sequence[Sequence[Derived]]) -> HostList:
        """With what the log has of *texts*: of two derived texts that say the same, the newest counts."""
        for text, rows in zip(texts, found, strict=True):
            self._asked.add(digest(text))
            if not rows:
                continue
            newest = rows[0]
            if newest.kind == "summary":
                self._summaries[text] = union(newest.covers)
            elif newest.seq is not None:
                self._substitutes[message_digest(text)] = newest.seq
        return self

    def outdated(self) -> HostList:
        """The same, to be read anew before it is next used: something of the log was forgotten."""
        return replace(self, is_outdated=True)

    def relearned(self, rows: Iterable[LogRow]) -> HostList:
        """The whole log read anew. The former digests of messages that have changed stay known."""
        anew = HostList().learned(rows)
        before = self._log[: min(self.length, anew.length)]
        changed = {each: seq for seq, each in enumerate(before) if each != anew._log[seq]}
        return replace(anew, _former=self._former | changed)

    def forgotten(self, former: Iterable[tuple[int, bytes]]) -> HostList:
        """With digests of messages as they were before they were forgotten."""
        return replace(self, _former=self._former | {each: seq for seq, each in former})

    def summaries(self, raws: Sequence[RawMessage]) -> dict[int, RangeSet]:
        """The places of summaries that this session has handed out, and what each stands for.

        A summary stands before everything that was said after the first message it stands for. So one that
        stands behind such a message is a message that quotes it, and so is the second of two that say the
        same. One of our type that another session made stands for nothing here.
        """
        found: dict[int, RangeSet] = {}
        for place, raw in enumerate(raws):
            text = _summary_text(raw)
            covers = self._summaries.get(text) if text else None
            if covers is not None:
                if covers not in found.values() and not self._is_behind(raws[:place], covers):
                    found[place] = covers
            elif isinstance(raw, SummaryMessage):
                found[place] = ()
        return found

    def _is_behind(self, before: Sequence[RawMessage], covers: RangeSet) -> bool:
        """Whether *before* has a message that was said after the first of those that *covers* has."""
        first = covers[0][0] if covers else 0
        earlier = set(self._log[:first])
        digests = (self._sighted(0, raw).stands_for for raw in before if not _is_rule(raw))
        return any(each in self._known and each not in earlier for each in digests)

    def originals(self, raws: Sequence[RawMessage], summaries: Container[int]) -> list[Seen]:
        """Those of *raws* that no hook has added, without those in the places of *summaries*."""
        seen = (self._sighted(place, raw) for place, raw in enumerate(raws) if place not in summaries)
        return [each for each in seen if each.digest not in self._injected]

    def said(self, line: RangeSet) -> list[int]:
        """The sequence numbers of *line*, without what hooks have added."""
        return [seq for seq in numbers(line) if self._log[seq] not in self._injected]

    def common(self, host: Sequence[Seen], said: Sequence[int]) -> int:
        """How many messages *host* and *said* begin with alike."""
        pairs = zip(host, said, strict=False)
        return sum(1 for _ in takewhile(lambda pair: pair[0].stands_for == self._log[pair[1]], pairs))

    def new(self, host: Sequence[Seen], *lines: Sequence[int]) -> int | None:
        """The place in *host* of the first message that is new; None where it goes on from none of *lines*.

        With messages left out it goes on from the first alone. Behind a gap in its middle there must be two
        that were said: one may as well be said again.
        """
        for said in lines:
            if self.common(host, said) == len(said):
                return len(said)
        begins = self.common(host, lines[-1])
        least = 1 if all(_is_rule(each.raw) for each in host[:begins]) else 2
        last = self._log[lines[0][-1]] if lines[0] else None
        for end in range(self._part(host, lines[0]), begins + least - 1, -1):
            if host[end - 1].stands_for == last:
                return end
        return None

    def shared(self, host: Sequence[Seen], said: Sequence[int]) -> tuple[int, int]:
        """How many messages of *host* are the beginning of *said*, and where in *said* they end.

        A list that was shortened from its front begins later in *said*; two messages in a row say so.
        """
        begins = self.common(host, said)
        if begins == len(host) or not all(_is_rule(each.raw) for each in host[:begins]):
            return begins, begins
        best = begins, begins
        wanted = [each.stands_for for each in host[begins:]]
        later = [self._log[seq] for seq in said[begins + 1 :]]
        for start, run in enumerate(_runs(wanted, later), begins + 1):
            if run > 1 and run >= best[0] - begins:
                best = begins + run, start + run
        return best

    def kept(self, host: Sequence[Seen]) -> HostList:
        """With *host* as the list that was seen last: what a host has dropped is not held for it."""
        return replace(self, _seen={id(each.raw): each for each in host})

    def returned(self, host: Iterable[Seen]) -> list[Seen]:
        """Those of *host* that are messages as they were before they were forgotten."""
        return [each for each in host if each.digest in self._former]

    def _sighted(self, place: int, raw: RawMessage) -> Seen:
        known = self._seen.get(id(raw))
        if known is not None:  # an object that was changed in place is still itself
            return known._replace(place=place)
        own = message_digest(encode(raw))
        seq = self._substitutes.get(own)
        if seq is None:
            seq = self._former.get(own)
        known_log = seq is not None and seq < self.length
        return Seen(place, raw, own, self._log[seq] if known_log and seq is not None else own)

    def _derived_text(self, raw: RawMessage) -> str:
        """The text under which the log would have *raw* as a derived text; empty where it can be none."""
        summary, text = _summary_text(raw), encode(raw)
        if summary.startswith(_FRAME):
            return summary
        return "" if message_digest(text) in self._known else summary or text

    def _part(self, host: Sequence[Seen], said: Sequence[int]) -> int:
        """How many of the first messages of *host* are in *said*, in its order."""
        rest = (self._log[seq] for seq in said)
        return sum(1 for _ in takewhile(lambda each: each.stands_for in rest, host))


def _runs(wanted: Sequence[bytes], text: Sequence[bytes]) -> list[int]:
    """For each place of *text*: how many of its messages from there on are the beginning of *wanted*.

    The Z algorithm (Gusfield 1997, 1.4), in time linear in both lengths.
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
    """The text of a message that may be a summary of ours; empty for any other."""
    fields = raw if isinstance(raw, Mapping) else {}
    content = fields.get("content")
    return content if fields.get("role") == "user" and isinstance(content, str) else ""


def _is_rule(raw: RawMessage) -> bool:
    return isinstance(raw, Mapping) and raw.get("role") in _RULES


def _unmarked(block: dict[str, Any]) -> dict[str, Any]:
    """The same message or block without the marks of a cache."""
    kept = {key: value for key, value in block.items() if key != _MARK}
    if isinstance(blocks := kept.get("content"), list):
        kept["content"] = [_unmarked(each) if isinstance(each, dict) else each for each in blocks]
    return kept
