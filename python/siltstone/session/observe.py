"""Where does a host's own list go on from what the session has, or where does it leave it?

A host that owns its list hands in all of it. Its messages are told apart by identity, as far as the same
objects were seen before, else by their content. The session's **line** is what was said on the way to its
current view: every message that the view has, or that its summary stands for. A list goes on from the line
in one of three shapes: the whole of it with more at the end; a view that the session gave, with more at the
end; either with messages left out before its last one. Any other list has rewritten the past.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

from siltstone.messages import RawMessage, SummaryMessage, decode, encode
from siltstone.session.range_set import RangeSet, numbers, union

__all__ = ["HostList", "Seen", "Summaries"]

_RULES = frozenset({"system", "developer"})
_MARK = "cache_control"  # of a message, of a block, and of a block in a tool's result


class Seen(NamedTuple):
    """A message of a host's list: where it stands in it, and its digest when it was first seen."""

    place: int
    raw: RawMessage
    digest: bytes


def digest(text: str) -> bytes:
    """What tells one text from another."""
    return blake2b(text.encode(), digest_size=16).digest()


def message_digest(text: str) -> bytes:
    """What tells the JSON text of one message from that of another, wherever a provider's cache is marked.

    A host that caches moves its marks from turn to turn, and has rewritten nothing.
    """
    return digest(encode(_unmarked(decode(text))) if f'"{_MARK}"' in text else text)


class Sightings:
    """The digests of objects that were seen before: an object that was changed in place is still itself."""

    def __init__(self) -> None:
        self._seen: dict[int, Seen] = {}  # the object is held, so its id stays its own

    def digest(self, raw: RawMessage) -> bytes:
        """The digest of *raw* when it was first seen."""
        known = self._seen.get(id(raw))
        return known.digest if known is not None else message_digest(encode(raw))

    def keep(self, seen: Iterable[Seen]) -> None:
        """Holds *seen* alone: what a host has dropped is not held for it."""
        self._seen = {id(each.raw): each for each in seen}


class HostList:
    """What a session knows of the log and of its host's own list, by digest."""

    def __init__(self) -> None:
        self._log: list[bytes] = []
        self._injected: set[bytes] = set()  # what hooks have added: a host's list may have it, or not
        self._former: list[bytes] = []  # of messages that were forgotten since: the host may have them still
        self._sightings = Sightings()

    def __len__(self) -> int:
        return len(self._log)

    def learn(self, raw: str, *, injected: bool) -> None:
        """Takes in the JSON text of the log's next message."""
        self._log.append(message_digest(raw))
        if injected:
            self._injected.add(self._log[-1])

    def reread(self) -> None:
        """The log is to be taken in anew: something of it was forgotten."""
        self._former += self._log[len(self._former) :]
        self._log, self._sightings = [], Sightings()

    def originals(self, raws: Sequence[RawMessage], summaries: Container[int]) -> list[Seen]:
        """Those of *raws* that no hook has added, without those in the places of *summaries*."""
        seen = (
            Seen(place, raw, self._sightings.digest(raw))
            for place, raw in enumerate(raws)
            if place not in summaries
        )
        return [each for each in seen if each.digest not in self._injected]

    def said(self, line: RangeSet) -> list[int]:
        """The sequence numbers of *line*, without what hooks have added."""
        return [seq for seq in numbers(line) if self._log[seq] not in self._injected]

    def common(self, host: Sequence[Seen], said: Sequence[int]) -> int:
        """How many messages *host* and *said* begin with alike."""
        known = [self._log[seq] for seq in said]
        if [each.digest for each in host[: len(known)]] == known:
            return len(known)
        pairs = enumerate(zip(host, said, strict=False))
        alike = (place for place, (each, seq) in pairs if not self._is(each.digest, seq))
        return next(alike, min(len(host), len(said)))

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
        for end in range(len(host), begins + least - 1, -1):
            if self._is(host[end - 1].digest, lines[0][-1]) and self._is_part(host[:end], lines[0]):
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
        for start in range(begins + 1, len(said)):
            if self._is(host[begins].digest, said[start]):
                run = self.common(host[begins:], said[start:])
                if run > 1 and run >= best[0] - begins:
                    best = begins + run, start + run
        return best

    def keep(self, host: Sequence[Seen], start: int) -> None:
        """Holds *host* alone, each as it was when first seen; those from *start* were appended."""
        self._log += [each.digest for each in host[start:]]
        self._sightings.keep(host)

    def _is(self, found: bytes, seq: int) -> bool:
        """Whether that is message *seq*, as it is or as it was before it was forgotten."""
        return found == self._log[seq] or (seq < len(self._former) and found == self._former[seq])

    def _is_part(self, host: Sequence[Seen], said: Sequence[int]) -> bool:
        rest = iter(said)
        return all(any(self._is(each.digest, seq) for seq in rest) for each in host)


class Summaries:
    """Every summary that there was in a session, by the digest of its text, and what each stands for."""

    def __init__(self) -> None:
        self._covers: dict[bytes, RangeSet] = {}
        self._sizes: set[int] = set()

    def learn(self, text: str, covers: RangeSet) -> None:
        """Takes in the text of a summary. Of two that say the same, the later one counts."""
        self._covers[digest(text)] = union(covers)
        self._sizes.add(len(text))

    def find(self, raw: RawMessage) -> RangeSet | None:
        """What *raw* stands for; None where it is no summary of ours, not even after a round through JSON.

        A summary that another session made stands for nothing here.
        """
        fields = raw if isinstance(raw, Mapping) else {}
        content = fields.get("content")
        known = None
        if fields.get("role") == "user" and isinstance(content, str) and len(content) in self._sizes:
            known = self._covers.get(digest(content))
        return () if known is None and isinstance(raw, SummaryMessage) else known


def _is_rule(raw: RawMessage) -> bool:
    return isinstance(raw, Mapping) and raw.get("role") in _RULES


def _unmarked(block: dict[str, Any]) -> dict[str, Any]:
    """The same message or block without the marks of a cache."""
    kept = {key: value for key, value in block.items() if key != _MARK}
    if isinstance(blocks := kept.get("content"), list):
        kept["content"] = [_unmarked(each) if isinstance(each, dict) else each for each in blocks]
    return kept
